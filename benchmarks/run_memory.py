"""The memory of an enrichment run over 1,000 and over 100,000 due rows."""

import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_due_jobs
from benchmarks.history import LAST_DAY, database_with_history
from benchmarks.row import Peer, Row, row

MEGABYTE = 1_000_000


def measure(bench: Bench) -> list[Row]:
    """The long run is ended after 5,000 calls: by then it has claimed a hundred batches of fifty."""
    few, many, asked = bench.size(1_000, 200), bench.size(100_000, 2_000), bench.size(5_000, 400)
    short, long = _run(bench, few, None), _run(bench, many, asked)
    peer = Peer(f"{few:,} due rows", short["peak_bytes"] / MEGABYTE)
    jobs_a_second = long["settled"] / long["wall_seconds"]
    return [
        row(f"memory: {many:,} due rows", long["peak_bytes"] / MEGABYTE, "MB peak", peer, ratio_at_most=1.1),
        row("memory: whole pipeline but the call", jobs_a_second, "jobs/s"),
    ]


def _run(bench: Bench, due: int, most_calls: int | None) -> dict[str, float]:
    address = database_with_history(bench, f"bench_memory_{due}")
    bench.say(f"running over {due:,} due rows")
    with psycopg.connect(address, autocommit=True) as connection:
        add_due_jobs(connection, LAST_DAY, JobType.INSIGHT, due)
    return bench.child(
        "benchmarks.enrichment_process",
        database_url=address,
        day=LAST_DAY.isoformat(),
        kind=JobType.INSIGHT,
        concurrency=16,
        most_calls=most_calls,
    )
