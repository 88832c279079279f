"""Runs killed at random statements: afterwards everything is there once, and repeated calls are counted."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date

import psycopg

from assets.economy_news import job_store
from assets.economy_news.models import Partition
from tests.integration.economy_news.runs import CONCURRENCY, crawl, enrich_all
from tests.integration.stand_ins import StandIn

KILLS = int(os.environ.get("GRANARY_KILLS", "20"))
STOCK = Partition(date(2026, 11, 25), "STOCK")


def test_after_random_kills_nothing_is_lost_or_stored_twice(
    database_url: str, connect: Callable[..., psycopg.Connection], site: StandIn, openai_api: StandIn
) -> None:
    environ = {
        **os.environ,
        "DATABASE_URL": database_url,
        "NAVER_BASE_URL": site.url,
        "OPENAI_BASE_URL": openai_api.url,
    }
    seeds = [str(seed) for seed in range(KILLS)]
    command = ["-m", "tests.integration.economy_news.random_kills", STOCK.day.isoformat(), "STOCK", *seeds]
    done = subprocess.run(
        [sys.executable, *command], env=environ, timeout=300, check=True, capture_output=True, text=True
    )
    killed = sum(line.endswith(str(-signal.SIGKILL)) for line in done.stdout.splitlines())
    assert killed >= KILLS // 2  # a run that finds little left to do may end before its statement comes

    connection = connect()
    job_store.free_jobs_of_run(connection, f"killed {KILLS - 1}", delay_seconds=0)
    crawl(connection, [STOCK], site.url, run_id="last")
    enrich_all(connection, [STOCK], openai_api.url, run_id="last")

    manifest = site.get("manifest", date=STOCK.day.isoformat())
    listed = set(manifest["lists"]["STOCK"])
    published = sorted(
        (one["oid"], one["aid"])
        for one in manifest["articles"]
        if one["expected"] == "stored" and f"{one['oid']}/{one['aid']}" in listed
    )
    assert connection.execute("SELECT oid, aid FROM news.article ORDER BY 1, 2").fetchall() == published
    by_type = connection.execute(
        "SELECT job_type, count(*), count(DISTINCT article_id) FROM news.ai_result GROUP BY 1"
    ).fetchall()
    jobs = "SELECT count(*) FROM news.ai_job WHERE job_type = 'SUMMARY'"
    (wanted,) = connection.execute(jobs).fetchone() or (0,)
    assert {(count, articles) for _, count, articles in by_type} == {(wanted, wanted)}
    assert len(by_type) == 5
    assert connection.execute("SELECT DISTINCT status FROM news.ai_job").fetchall() == [("SUCCESS",)]
    complete = "SELECT count(*) FROM news.article WHERE completed_at IS NOT NULL"
    assert connection.execute(complete).fetchone() == (wanted,)

    repeated = openai_api.get("ledger/totals")["calls"] - 5 * wanted
    assert 0 <= repeated <= killed * CONCURRENCY
