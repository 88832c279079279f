"""1,000 AI calls of a second each through the Enricher and the real SDK, 32 at a time."""

from datetime import date

import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_articles, add_due_jobs
from benchmarks.row import Peer, Row, row

DAY = date(2026, 11, 25)
CONCURRENCY = 32
LATENCY_SECONDS = 1.0


def measure(bench: Bench) -> list[Row]:
    """SUMMARY jobs: the longest prompts, and three jobs follow each."""
    calls = bench.size(1_000, 96)
    address = bench.database("bench_calls")
    with psycopg.connect(address, autocommit=True) as connection:
        add_articles(connection, DAY, calls)
        add_due_jobs(connection, DAY, JobType.SUMMARY, calls)
    bench.control("OPENAI_BASE_URL", "latency", seconds=LATENCY_SECONDS)
    ideal = calls * LATENCY_SECONDS / CONCURRENCY
    bench.say(f"asking {calls:,} times, {CONCURRENCY} at a time: {ideal:.0f} s at best")
    measured = bench.child(
        "benchmarks.enrichment_process",
        database_url=address,
        day=DAY.isoformat(),
        kind=JobType.SUMMARY,
        concurrency=CONCURRENCY,
        api_url=bench.service("OPENAI_BASE_URL"),
    )
    bench.control("OPENAI_BASE_URL", "reset")
    if measured["settled"] != calls:
        raise RuntimeError(f"{measured['settled']} of {calls} calls brought a result")
    ideal_wall = Peer("N × latency ÷ concurrency", ideal)
    cpu_ms = measured["cpu_seconds"] / calls * 1_000
    return [
        row("ai_calls: wall", measured["wall_seconds"], "s", ideal_wall, ratio_at_most=1.15),
        row("ai_calls: CPU of our process", cpu_ms, "ms/call", at_most=5),
    ]
