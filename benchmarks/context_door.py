"""200 contexts a second posted to the door, with the local stack's Postgres behind it."""

from statistics import median

from benchmarks.bench import Bench
from benchmarks.row import Row, row
from benchmarks.running_door import running_door

RATE = 200
WARM_UP = 200


def measure(bench: Bench) -> list[Row]:
    """Open loop, by a process of its own on the same cores; every request stores another context.

    Raises RuntimeError where one was not answered with 202.
    """
    rounds, seconds = bench.size(3, 1), bench.size(20, 2)
    environ = {**bench.stack.process_environment(), "DATABASE_URL": bench.database("bench_door")}
    found = []
    with running_door(environ, bench.folder / "door.log") as door:
        for number in range(rounds):
            bench.say(f"posting {RATE} contexts a second for {seconds} s")
            load = {
                "port": door.port,
                "token": door.token,
                "rate": RATE,
                "seconds": seconds,
                "warm_up": WARM_UP,
                "first_context": 1 + number * (WARM_UP + RATE * seconds),
            }
            found.append(bench.child("benchmarks.door_load", **load))
            if found[-1]["statuses"] != {"202": RATE * seconds}:
                raise RuntimeError(f"the door answered {found[-1]['statuses']}")
    p50, p99 = (median(one[name] for one in found) for name in ("p50_ms", "p99_ms"))
    return [
        row(f"context_door: {RATE} requests/s, p99", p99, "ms", at_most=20),
        row(f"context_door: {RATE} requests/s, median", p50, "ms"),
    ]
