"""No secret and no article's text is told: not in events, metadata, logs, alarms or job rows."""

import logging
from datetime import date

import psycopg
import pytest

from resources.chat import ChatResource
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 24)
KEY = "sk-canary-0f8a6b1c"


def everything_told(runs: DagsterRuns, run_ids: list[str], connection: psycopg.Connection) -> str:
    """All that a reader of the UI, the log and the tables for operators can see."""
    events = "\n".join(repr(entry) for run_id in run_ids for entry in runs.instance.all_logs(run_id))
    tables = [
        connection.execute(f"SELECT string_agg(row::text, ' ') FROM {table} AS row").fetchone()  # noqa: S608
        for table in ("granary.alert", "granary.api_gate", "granary.counter", "news.ai_job")
    ]
    return f"{events}\n{tables}"


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_no_secret_and_no_text_is_told(
    status: int,
    database_url: str,
    site: StandIn,
    openai_api: StandIn,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = DagsterRuns(database_url, site, openai_api)
    runs.defs = runs.definitions(
        chat=ChatResource(model="gpt-4o-mini", base_url=f"{openai_api.url}/v1", api_key=KEY)
    )
    with caplog.at_level(logging.DEBUG):
        crawled = runs.run("economy_news_crawl", DAY, ["FINANCE"])
        title, body = connection.execute("SELECT title, body FROM news.article LIMIT 1").fetchone() or (
            "",
            "",
        )
        if status != 200:
            openai_api.fault(status=status, message=f"wrong key {KEY} for: {title} {body[:80]}")
        enriched = runs.run("economy_news_enrich", DAY, ["FINANCE"])
    told = everything_told(runs, [crawled.run_id, enriched.run_id], connection) + caplog.text
    password = database_url.split(":")[2].split("@")[0]
    assert len(told) > 10_000
    assert KEY not in told
    assert password not in told
    assert body[:80] not in told
    if status != 200:
        assert f"wrong key {KEY}" not in told
        assert title not in told
