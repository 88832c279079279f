"""`GET /metrics` as Prometheus asks for it, of 100,000 settled jobs and the local Mongo server."""

import time

import httpx

from benchmarks.bench import Bench
from benchmarks.history import database_with_history
from benchmarks.rounds import percentile
from benchmarks.row import Row, row
from benchmarks.running_door import running_door


def measure(bench: Bench) -> list[Row]:
    """One scrape after the other. Raises where one is not answered, or where a figure could not be read."""
    address = database_with_history(bench, "bench_metrics")
    environ = {**bench.stack.process_environment(), "DATABASE_URL": address}
    milliseconds = []
    with (
        running_door(environ, bench.folder / "metrics_door.log") as door,
        httpx.Client(base_url=door.address, trust_env=False) as client,
    ):
        for _ in range(bench.size(300, 20)):
            started = time.perf_counter()
            answer = client.get("/metrics", headers={"Authorization": f"Bearer {door.token}"})
            milliseconds.append((time.perf_counter() - started) * 1_000)
            _expect_every_figure(answer.raise_for_status().text)
    return [row("door_metrics: 100,000 settled jobs, p99", percentile(milliseconds, 99), "ms", at_most=100)]


def _expect_every_figure(told: str) -> None:
    lines = told.splitlines()
    unread = [one for one in lines if one.startswith("granary_scrape_failed") and not one.endswith(" 0.0")]
    if unread or 'granary_queue_size{pipeline="recipes"' not in told:
        raise RuntimeError(f"not all was read: {unread}")
