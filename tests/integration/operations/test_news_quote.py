"""What a quote of economy_news says before a backfill, beside what the backfill then takes."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pytest

from assets.economy_news.result_kinds import INSIGHT, SUMMARY
from operations.quote import quote
from operations.quote_answer import Quote
from operations.quote_request import QuoteRequest
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.economy_news.test_redo import changed_prompt, redo
from tests.integration.stand_ins import StandIn

BEFORE, DAY = date(2026, 11, 23), date(2026, 11, 24)
PARTS = ("FINANCE", "STOCK")


@pytest.fixture
def runs(database_url: str, site: StandIn, openai_api: StandIn) -> DagsterRuns:
    """A code location over stand-ins, without pauses between requests."""
    return DagsterRuns(database_url, site, openai_api)


def quoted(runs: DagsterRuns, connection: psycopg.Connection, day: date = DAY, **more: Any) -> Quote:
    return quote(connection, None, runs.settings, QuoteRequest("economy_news", day, day, PARTS, **more))


def enrich(runs: DagsterRuns, day: date, ops: Mapping[str, Any] | None = None) -> None:
    assert runs.run("economy_news_enrich", day, PARTS, dict(ops or {})).success


class Spent(NamedTuple):
    """By the provider's own account."""

    calls: int
    input_tokens: int
    output_tokens: int
    usd: Decimal


def spent(api: StandIn, after: int = 0) -> Spent:
    """What the calls cost that were made after the first so many."""
    entries = api.get("ledger")["entries"][after:]
    return Spent(
        len(entries),
        sum(entry["prompt_tokens"] for entry in entries),
        sum(entry["completion_tokens"] for entry in entries),
        sum((Decimal(str(entry["cost_usd"])) for entry in entries), Decimal(0)),
    )


def is_near(said: float | Decimal, was: float | Decimal) -> bool:
    return abs(float(said) - float(was)) <= 0.25 * float(was)


def test_jobs_that_wait_take_the_calls_that_were_quoted_and_about_the_tokens_and_money(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    assert runs.run("economy_news_crawl", BEFORE, PARTS).success
    enrich(runs, BEFORE)
    assert runs.run("economy_news_crawl", DAY, PARTS).success
    said, before = quoted(runs, connection), spent(openai_api).calls
    enrich(runs, DAY)
    was = spent(openai_api, after=before)
    assert said.calls == was.calls > 50
    assert is_near(said.input_tokens, was.input_tokens)
    assert is_near(said.output_tokens, was.output_tokens)
    assert is_near(said.usd, was.usd)
    assert all("average of" in work.basis for work in said.works)
    assert quoted(runs, connection).calls == 0


def test_a_day_never_crawled_is_estimated_by_the_days_that_were(
    runs: DagsterRuns, connection: psycopg.Connection, site: StandIn
) -> None:
    guessed = quoted(runs, connection)
    assert "a built-in guess" in "\n".join(guessed.notes)
    assert runs.run("economy_news_crawl", BEFORE, PARTS).success
    said, seen = quoted(runs, connection), len(site.get("requests"))
    assert runs.run("economy_news_crawl", DAY, PARTS).success
    assert is_near(said.host_requests, len(site.get("requests")) - seen)
    (summaries,) = connection.execute(
        "SELECT count(*) FROM news.ai_job WHERE day = %s", (DAY,)
    ).fetchone() or (0,)
    assert is_near(said.works[0].items["of pages not crawled yet"], summaries)
    assert "the average of the days crawled" in "\n".join(said.notes)
    after = quoted(runs, connection)
    assert after.host_requests == 0
    assert after.works[0].items == {"waiting": summaries}


def test_a_redo_takes_what_is_outdated_with_what_is_made_from_it_and_no_other_call(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    assert runs.run("economy_news_crawl", DAY, PARTS).success
    enrich(runs, DAY)
    results: dict[str, int] = dict(
        connection.execute("SELECT job_type, count(*)::int FROM news.ai_result GROUP BY 1").fetchall()
    )
    with changed_prompt(INSIGHT):
        told = "\n".join(quoted(runs, connection).notes)
        assert f"{results['INSIGHT']:,} INSIGHT; they stay as they are" in told
        outdated = quoted(runs, connection, redo="outdated")
        assert {work.what: work.item_count for work in outdated.works if work.item_count} == {
            "INSIGHT": results["INSIGHT"]
        }
        asked = spent(openai_api).calls
        enrich(runs, DAY, redo("outdated"))
        assert spent(openai_api).calls - asked == outdated.calls
    with changed_prompt(SUMMARY):
        children = quoted(runs, connection, redo="outdated")
    assert {work.what: work.item_count for work in children.works} == results
    everything = quoted(runs, connection, redo="all")
    assert {work.what: work.item_count for work in everything.works} == results
    in_batches = quoted(runs, connection, redo="all", mode="batch")
    assert abs(in_batches.usd * 2 - everything.usd) < Decimal("0.00000001")
    assert in_batches.hours == 72
    assert "within 24 hours" in "\n".join(in_batches.notes)


def test_nothing_is_quoted_of_pages_where_nothing_is_crawled(
    connection: psycopg.Connection, runs: DagsterRuns
) -> None:
    settings = runs.settings.model_copy(update={"naver_base_url": ""})
    answer = quote(connection, None, settings, QuoteRequest("economy_news", DAY, DAY))
    assert (answer.calls, answer.host_requests) == (0, 0)
    assert "NAVER_BASE_URL is not set" in "\n".join(answer.notes)
