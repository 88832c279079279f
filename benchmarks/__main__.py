"""`make bench`: measures what the README claims, prints the table and writes `.local/bench.json`.

The exit code is 0 also where a target is missed: the table says so. 1 where something could not be
measured, 130 after Ctrl-C.
"""

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.row import Row
from benchmarks.table import as_text, write_json
from local_stack.processes import PROJECT

# What `--only` takes, and the module whose `measure` gives the rows.
MEASUREMENTS = {
    "claims": "benchmarks.job_claims",
    "ai_calls": "benchmarks.ai_calls",
    "parsing": "benchmarks.article_parsing",
    "idle_tick": "benchmarks.idle_tick",
    "memory": "benchmarks.run_memory",
    "raw_listing": "benchmarks.raw_listing",
    "raw_streaming": "benchmarks.raw_streaming",
    "recipe_batches": "benchmarks.recipe_batches",
    "small_run": "benchmarks.small_run",
    "warm_run": "benchmarks.warm_run",
    "freshness": "benchmarks.freshness",
    "killed_runs": "benchmarks.killed_runs",
    "context_door": "benchmarks.context_door",
    "door_metrics": "benchmarks.door_metrics",
    "context_search": "benchmarks.context_search",
    "context_vectors": "benchmarks.context_vectors",
    "context_latency": "benchmarks.context_latency",
    "recommendation_rates": "benchmarks.recommendation_rates",
    "storage_growth": "benchmarks.storage_growth",
    "demo": "benchmarks.demo_time",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=MEASUREMENTS,
        default=list(MEASUREMENTS),
        metavar="NAME",
        help=", ".join(MEASUREMENTS),
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to try it out; the numbers mean little"
    )
    chosen = parser.parse_args(arguments)
    started = time.monotonic()
    before = os.getloadavg()[0]
    rows: list[Row] = []
    failed: list[str] = []
    try:
        with Bench(chosen.quick) as bench:
            for name in chosen.only:
                bench.say(f"{name}:")
                try:
                    rows += importlib.import_module(MEASUREMENTS[name]).measure(bench)
                except Exception:  # the others are worth their minutes
                    failed.append(name)
                    traceback.print_exc()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    file = PROJECT / ".local" / ("bench.quick.json" if chosen.quick else "bench.json")
    write_json(rows, file)
    print(as_text(rows))
    missed = sum(row.met is False for row in rows)
    load = f"load of the machine before and after: {before:.1f}, {os.getloadavg()[0]:.1f}"
    print(f"\n{missed} targets missed; {time.monotonic() - started:.0f} s on {os.cpu_count()} cores; {load}")
    print(f"written to {file.relative_to(PROJECT)}")
    if chosen.quick:
        print("QUICK: small sizes; these numbers are for trying out and mean nothing")
    if failed:
        print(f"NOT MEASURED: {', '.join(failed)}; stderr says why")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
