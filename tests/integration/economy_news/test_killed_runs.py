"""A run killed at any point loses nothing and stores nothing twice; only a call may be repeated."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date

import psycopg
import pytest

from assets.economy_news import job_store
from assets.economy_news.models import Partition
from tests.integration.economy_news.killed_run import POINTS
from tests.integration.economy_news.runs import CONCURRENCY, crawl, enrich_all
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 25)
FINANCE = Partition(DAY, "FINANCE")

# Where the provider may have been asked already, so that asking again is what there is to do.
ASKED_ALREADY = {
    "instead of the call",
    "after the call",
    "before the finish",
    "before the commit of the finish",
}


def run_and_be_killed(point: str, database_url: str, site: StandIn, api: StandIn) -> int:
    """The exit code of a run in a process of its own."""
    environ = {
        **os.environ,
        "DATABASE_URL": database_url,
        "NAVER_BASE_URL": site.url,
        "OPENAI_BASE_URL": api.url,
    }
    command = [sys.executable, "-m", "tests.integration.economy_news.killed_run", point, DAY.isoformat()]
    return subprocess.run(command, env=environ, timeout=60, check=False).returncode


def published(site: StandIn) -> set[tuple[str, str]]:
    """What a right crawl of the section stores."""
    manifest = site.get("manifest", date=DAY.isoformat())
    listed = set(manifest["lists"]["FINANCE"])
    return {
        (one["oid"], one["aid"])
        for one in manifest["articles"]
        if one["expected"] == "stored" and f"{one['oid']}/{one['aid']}" in listed
    }


@pytest.mark.parametrize("point", list(POINTS))
def test_a_killed_run_loses_nothing_and_stores_nothing_twice(
    point: str,
    database_url: str,
    connect: Callable[..., psycopg.Connection],
    site: StandIn,
    openai_api: StandIn,
) -> None:
    assert run_and_be_killed(point, database_url, site, openai_api) == -signal.SIGKILL
    asked_before = openai_api.get("ledger/totals")["calls"]

    connection = connect()
    job_store.free_jobs_of_run(connection, "killed", delay_seconds=0)
    crawl(connection, [FINANCE], site.url, run_id="next")
    enrich_all(connection, [FINANCE], openai_api.url, run_id="next")

    stored = connection.execute("SELECT oid, aid FROM news.article").fetchall()
    assert sorted(stored) == sorted(published(site))
    jobs = connection.execute("SELECT status, count(*) FROM news.ai_job GROUP BY status").fetchall()
    assert len(jobs) == 1
    assert jobs[0][0] == "SUCCESS"
    results, different = connection.execute(
        "SELECT count(*), count(DISTINCT (article_id, job_type)) FROM news.ai_result"
    ).fetchone() or (0, 0)
    assert results == different == jobs[0][1] > 0
    repeated = openai_api.get("ledger/totals")["calls"] - results
    assert 0 <= repeated <= (min(CONCURRENCY, asked_before) if point in ASKED_ALREADY else 0)


def test_a_run_killed_with_leases_gives_them_up_when_they_run_out(
    database_url: str, connect: Callable[..., psycopg.Connection], site: StandIn, openai_api: StandIn
) -> None:
    assert run_and_be_killed("before the finish", database_url, site, openai_api) == -signal.SIGKILL
    now = connect()
    leased = "SELECT count(*) FROM news.ai_job WHERE status = 'RUNNING'"
    assert now.execute(leased).fetchone() != (0,)

    enrich_all(now, [FINANCE], openai_api.url, run_id="too early")
    stolen = (
        "SELECT count(*) FROM news.ai_result JOIN news.ai_job AS job ON job.id = job_id "
        "WHERE job.status = 'RUNNING'"
    )
    assert now.execute(stolen).fetchone() == (0,)
    assert now.execute(leased).fetchone() != (0,)

    (later,) = now.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    then = connect(at=later)
    enrich_all(then, [FINANCE], openai_api.url, run_id="in time")
    late = "SELECT count(*) FROM news.ai_result WHERE run_id = 'in time' AND job_type = 'SUMMARY'"
    (taken_over,) = then.execute(late).fetchone() or (0,)
    assert taken_over > 0
    assert then.execute("SELECT DISTINCT status FROM news.ai_job").fetchall() == [("SUCCESS",)]
    lost = "SELECT value FROM granary.counter WHERE name = 'ai_leases_lost_total'"
    assert then.execute(lost).fetchone() == (float(taken_over),)
