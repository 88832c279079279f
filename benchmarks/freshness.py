"""From an article on a section's list to its five results, at default settings with a model of one second.

The crawl is asked for here, where the schedule asks every five minutes; everything after that is the
running system's: queue, crawl at a request a second, sensor every 30 seconds, enrichment. An article that
is listed just after a tick has waited five minutes: they are added to every article.
"""

import time
from datetime import datetime, timedelta
from datetime import time as time_of_day
from statistics import median

import psycopg

from benchmarks.bench import Bench
from benchmarks.rounds import percentile
from benchmarks.row import Row, row
from orchestration.partitions import SECTIONS, news_range_tags
from orchestration.policies import automatic_run_tags
from orchestration.schedules import CRAWL_INTERVAL, SEOUL

CRAWL_JOB = "economy_news_crawl"
SENSORS = ("article_jobs_due", "pages_left_over", "failed_runs_free_their_work")
WAVE_SECONDS = 240
# So that the waves meet the sensor's 30 seconds at different moments.
BETWEEN_WAVES_SECONDS = 11


def measure(bench: Bench) -> list[Row]:
    """Waves of one new article in each of the eight sections."""
    today = datetime.now(SEOUL).date()
    # Early in the day, so that the site has little of its own to show.
    early = datetime.combine(today, time_of_day(0, 10), SEOUL)
    bench.control("NAVER_BASE_URL", "clock", now=early.isoformat())
    bench.control("OPENAI_BASE_URL", "latency", seconds=1)
    dagster = bench.dagster
    dagster.turn_on(*SENSORS)
    waits: list[tuple[float, float]] = []
    try:
        for wave in range(bench.size(2, 1)):
            time.sleep(wave * BETWEEN_WAVES_SECONDS)
            for number, section in enumerate(SECTIONS):
                listed_at = early - timedelta(seconds=number)
                bench.control(
                    "NAVER_BASE_URL",
                    "articles",
                    date=today.isoformat(),
                    section=section,
                    listed_at=listed_at.isoformat(),
                )
            bench.say(f"wave {wave + 1}: crawling, then waiting until all is there")
            requested = time.time()
            tags = {**news_range_tags(today, SECTIONS), **automatic_run_tags(CRAWL_JOB, today)}
            dagster.wait(dagster.launch(CRAWL_JOB, tags), WAVE_SECONDS)
            waits += _seconds_to_results(bench, requested)
    finally:
        dagster.turn_off(*SENSORS)
        bench.control("OPENAI_BASE_URL", "reset")
    stored, complete = (median(seconds) for seconds in zip(*waits, strict=True))
    bench.say(
        f"{len(waits)} articles: stored after {stored:.0f} s, complete after {complete:.0f} s, the medians"
    )
    measured = percentile([complete for _, complete in waits], 95)
    return [
        row(
            "freshness: listed to five results, p95",
            CRAWL_INTERVAL.total_seconds() + measured,
            "s",
            at_most=360,
        ),
        row("freshness: crawl asked for to five results, p95", measured, "s"),
    ]


def _seconds_to_results(bench: Bench, requested: float) -> list[tuple[float, float]]:
    """Until each article was stored and had its results, once all have them. Raises TimeoutError."""
    deadline = time.monotonic() + WAVE_SECONDS
    with psycopg.connect(bench.stack.environment()["DATABASE_URL"], autocommit=True) as connection:
        while time.monotonic() < deadline:
            rows = connection.execute(_WAITS, {"requested": requested}).fetchall()
            if rows and all(complete is not None for _, complete in rows):
                return [(float(stored), float(complete)) for stored, complete in rows]
            time.sleep(0.5)
    raise TimeoutError(f"{rows} after {WAVE_SECONDS} s")


_WAITS = """
SELECT extract(epoch FROM stored_at) - %(requested)s, extract(epoch FROM completed_at) - %(requested)s
FROM news.article AS article
WHERE article.stored_at >= to_timestamp(%(requested)s)
  AND EXISTS (SELECT FROM news.ai_job WHERE article_id = article.id)
"""
