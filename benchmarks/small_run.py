"""A small run by the default launcher: one article's five results, by a model that answers at once."""

import contextlib
import resource
import subprocess
import sys
import time
from datetime import date, timedelta
from statistics import median

import psutil
import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench, shipped_environment
from benchmarks.economy_news_rows import add_articles, add_due_jobs
from benchmarks.row import Peer, Row, row
from orchestration.partitions import news_range_tags

FIRST_DAY = date(2026, 9, 1)
JOB = "economy_news_enrich"


def measure(bench: Bench) -> list[Row]:
    """Each run has a day of its own; the first one warms the servers up and does not count."""
    database_url = bench.stack.environment()["DATABASE_URL"]
    dagster = bench.dagster
    seconds, cpu_seconds, imports = [], [], []
    rounds = bench.size(5, 2)
    bench.say(f"launching {rounds + 1} runs, one after the other")
    for number in range(rounds + 1):
        day = FIRST_DAY + timedelta(days=number)
        with psycopg.connect(database_url, autocommit=True) as connection:
            add_articles(connection, day, 1, ["FINANCE"])
            add_due_jobs(connection, day, JobType.SUMMARY, 1)
        before = dagster.finished_runs_cpu_seconds()
        requested = time.time()
        run_id = dagster.launch(JOB, news_range_tags(day, ["FINANCE"]))
        ended = dagster.wait(run_id, seconds=60)
        with contextlib.suppress(psutil.NoSuchProcess):
            dagster.process_of(run_id).wait(20)
        used = _growth_since(bench, before)
        if ended.status != "SUCCESS":
            raise RuntimeError(f"the run of {day} ended {ended.status}")
        expect_five_results(database_url, day)
        if number:
            seconds.append(ended.ended_at - requested)
            cpu_seconds.append(used)
            imports.append(_cpu_seconds_of_importing_dagster())
    peer = Peer("import dagster", median(imports))
    return [
        row("small_run: CPU of its process", median(cpu_seconds), "CPU-s", peer, at_most=4),
        row("small_run: request to end", median(seconds), "s", at_most=5),
    ]


def _growth_since(bench: Bench, before: float) -> float:
    """Counted once the code server has seen its child end, which it looks for every half second."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        used = bench.dagster.finished_runs_cpu_seconds() - before
        if used > 0.1:
            return used
        time.sleep(0.1)
    raise RuntimeError("no code server has counted the run's CPU time")


def expect_five_results(database_url: str, day: date) -> None:
    """Raises RuntimeError where the day's one article has not all that it should have."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT state FROM news.article_ai WHERE day = %s", [day]).fetchall()
    if found != [("DONE",)]:
        raise RuntimeError(f"the run of {day} left {found}")


def _cpu_seconds_of_importing_dagster() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import dagster"], env=shipped_environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
