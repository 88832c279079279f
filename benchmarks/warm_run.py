"""Small runs in Celery workers that have worked before, as deploy/celery has it, with a local Valkey."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from statistics import median

import dagster as dg
import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_articles, add_due_jobs
from benchmarks.row import Row, row
from benchmarks.small_run import expect_five_results
from orchestration.partitions import news_range_tags
from tests.end_to_end.celery_workers import CeleryDagster, celery_dagster
from tests.end_to_end.project import project_in

FIRST_DAY = date(2026, 9, 1)
ONE_STEP = ("raw_files_report", {"dagster/partition": str(FIRST_DAY)})
ENRICH = "economy_news_enrich"


def measure(bench: Bench) -> list[Row]:
    """From the request to the run's end, the queue included; the first run of each kind does not count."""
    rounds = bench.size(9, 2)
    with project_in(bench.folder / "warm") as project:
        up = project.make("up")
        if up.returncode:
            raise RuntimeError(up.stderr)
        with celery_dagster(project) as dagster:
            bench.say(f"{2 * (rounds + 1)} runs in two Celery workers, one after the other")
            steps = [_seconds(dagster, *ONE_STEP) for _ in range(rounds + 1)][1:]
            results = [_five_results(dagster, number) for number in range(rounds + 1)][1:]
    return [*_rows("one step", steps, at_most=1.3), *_rows("five results of an article", results)]


def _rows(name: str, runs: Sequence[tuple[float, float]], at_most: float | None = None) -> list[Row]:
    total, itself = (median(seconds) for seconds in zip(*runs, strict=True))
    return [
        row(f"warm_run: {name}, request to end", total, "s", at_most=at_most),
        row(f"warm_run: {name}, the run itself", itself, "s"),
    ]


def _five_results(dagster: CeleryDagster, number: int) -> tuple[float, float]:
    """As `small_run` has it: an article on a day of its own, a model that answers at once."""
    day = FIRST_DAY + timedelta(days=number)
    database_url = dagster.variables["DATABASE_URL"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        add_articles(connection, day, 1, ["FINANCE"])
        add_due_jobs(connection, day, JobType.SUMMARY, 1)
    found = _seconds(dagster, ENRICH, news_range_tags(day, ["FINANCE"]))
    expect_five_results(database_url, day)
    return found


def _seconds(dagster: CeleryDagster, job: str, tags: Mapping[str, str]) -> tuple[float, float]:
    """Of the whole, and of the run itself."""
    run_id = dagster.submit(job, tags)
    if dagster.ended(run_id) is not dg.DagsterRunStatus.SUCCESS:
        raise RuntimeError(f"{job} has failed: {dagster.said(run_id)[-1]}")
    return dagster.seconds(run_id)
