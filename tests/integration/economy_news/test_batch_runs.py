"""A backfill in batch mode as Dagster runs it: its runs, the sensors between them, what partitions tell."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import dagster as dg
import psycopg
import pytest

from orchestration.definitions import build_definitions
from orchestration.partitions import RANGE_END_TAG, RANGE_START_TAG
from resources.batches import BatchResource
from resources.chat import ChatResource
from resources.postgres import PostgresResource
from tests.integration.economy_news.batching import (
    KEY,
    batches,
    created,
    end_batches,
    files,
    lines_paid,
    money,
)
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.economy_news.enriching import paid
from tests.integration.economy_news.factories import MODEL, rows
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 23)
THREE = ["FINANCE", "STOCK", "INDUSTRY"]
ALL_AI = (
    "article_summaries",
    "article_term_cards",
    "article_insights",
    "article_content_quizzes",
    "article_term_quizzes",
)
IN_BATCHES = {asset: {"mode": "batch"} for asset in ALL_AI}


class BatchRuns(DagsterRuns):
    """With batches at the stand-in too."""

    def __init__(self, database_url: str, site: StandIn, api: StandIn, **settings: Any) -> None:
        self._provider: dict[str, Any] = {"model": MODEL, "base_url": f"{api.url}/v1", "api_key": KEY}
        super().__init__(database_url, site, api, **settings)

    def definitions(self, chat: ChatResource) -> dg.Definitions:
        postgres = PostgresResource(database_url=self._database_url)
        batches = BatchResource(**self._provider)
        return build_definitions(self.settings, {"postgres": postgres, "chat": chat, "news_batches": batches})

    def tick(self, sensor: str) -> list[tuple[str | None, str | None]]:
        """The spans of partitions that the sensor asks runs for."""
        resources = dict(self.defs.resources or {})
        with dg.build_sensor_context(instance=self.instance, resources=resources) as context:
            said: Any = list(self.defs.resolve_sensor_def(sensor)(context) or ())
        return [
            (one.tags.get(RANGE_START_TAG), one.tags.get(RANGE_END_TAG))
            for one in said
            if isinstance(one, dg.RunRequest)
        ]


@pytest.fixture
def provider(openai_api: StandIn) -> Iterator[StandIn]:
    """The stand-in, where a batch ends only on command."""
    openai_api.post("batches/pace")
    yield openai_api
    openai_api.post("reset", batches=True)


@pytest.fixture
def runs(database_url: str, site: StandIn, provider: StandIn) -> BatchRuns:
    """Three sections, crawled for a backfill in batches."""
    made = BatchRuns(database_url, site, provider)
    crawled = made.run("economy_news_crawl", DAY, THREE, {"economy_articles": {"mode": "batch"}})
    assert crawled.success
    return made


def test_a_backfill_of_three_partitions_goes_through_all_five_kinds_in_batches(
    runs: BatchRuns, connection: psycopg.Connection, provider: StandIn
) -> None:
    span = (f"{DAY}|FINANCE", f"{DAY}|INDUSTRY")
    articles = rows(connection, "SELECT count(*) FROM news.ai_job")[0]["count"]
    assert runs.tick("news_batches_over") == []
    assert runs.run("economy_news_enrich", DAY, THREE, IN_BATCHES).success
    submitted = [runs.metadata("article_summaries", DAY, section) for section in THREE]
    assert sum(one["items_submitted"] for one in submitted) == articles
    assert [one["items_waiting"] for one in submitted] == [one["items_submitted"] for one in submitted]
    assert runs.tick("article_jobs_due") == runs.tick("news_batches_over") == []

    for _ in ("the summaries", "what is made of them", "the questions about terms"):
        end_batches(provider.url)
        assert runs.tick("news_batches_over") == [span]
        assert runs.run("economy_news_enrich", DAY, THREE).success
        assert runs.tick("article_jobs_due") == []

    assert runs.tick("news_batches_over") == []
    assert rows(connection, "SELECT DISTINCT status, mode FROM news.ai_job") == [
        {"status": "SUCCESS", "mode": "batch"}
    ]
    for asset in ALL_AI:
        told = [runs.metadata(asset, DAY, section) for section in THREE]
        assert sum(one["items_done"] for one in told) == articles
        assert {one["items_submitted"] for one in told} == {0}
    assert len(created(provider)) == len(batches(connection)) == 5
    ids = [line["custom_id"] for line in lines_paid(provider)]
    assert len(ids) == len(set(ids)) == 5 * articles
    assert provider.get("ledger/totals")["by_endpoint"]["chat/completions"] == 5 * articles
    assert float(money(connection)["spent"]) == pytest.approx(float(paid(provider)), abs=1e-6)
    assert money(connection)["reserved"] == 0
    assert files(provider.url) == []


def test_jobs_that_wait_for_room_start_no_run(
    runs: BatchRuns, connection: psycopg.Connection, provider: StandIn
) -> None:
    assert runs.tick("article_jobs_due") == [(f"{DAY}|FINANCE", f"{DAY}|INDUSTRY")]
    connection.execute(
        "INSERT INTO granary.spending_day (day, reserved_usd) VALUES (granary.today(), 4.9999)"
    )
    assert runs.tick("article_jobs_due") == []
    connection.execute("UPDATE news.ai_job SET mode = 'live' WHERE section = 'STOCK'")
    assert runs.tick("article_jobs_due") == [(f"{DAY}|STOCK", f"{DAY}|STOCK")]


def test_live_in_the_run_config_asks_at_once(
    runs: BatchRuns, connection: psycopg.Connection, provider: StandIn
) -> None:
    at_once = {asset: {"mode": "live"} for asset in ALL_AI}
    assert runs.run("economy_news_enrich", DAY, ["FINANCE"], at_once).success
    done = rows(connection, "SELECT DISTINCT status, mode FROM news.ai_job WHERE section = 'FINANCE'")
    assert done == [{"status": "SUCCESS", "mode": "live"}]
    assert created(provider) == []


def test_redo_in_batches_asks_again_and_takes_children_along_once(
    runs: BatchRuns, connection: psycopg.Connection, provider: StandIn
) -> None:
    at_once = {asset: {"mode": "live"} for asset in ALL_AI}
    assert runs.run("economy_news_enrich", DAY, ["FINANCE"], at_once).success
    before = rows(connection, "SELECT id FROM news.ai_result")
    again = {asset: {"mode": "batch", "redo": "all"} for asset in ALL_AI}
    assert runs.run("economy_news_enrich", DAY, ["FINANCE"], again).success
    waiting = rows(connection, "SELECT job_type FROM news.ai_job WHERE status = 'SUBMITTED'")
    assert {one["job_type"] for one in waiting} == {"SUMMARY"}
    end_batches(provider.url)
    assert runs.run("economy_news_enrich", DAY, ["FINANCE"]).success
    made = rows(connection, "SELECT job_type FROM news.ai_result")
    # The stand-in says the same again, so what is made from it asks what was asked before.
    assert len(made) == len(before) + len(waiting)
