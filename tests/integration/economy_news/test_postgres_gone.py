"""Postgres restarted in the middle of a run: the step's next try in the same run finishes the work."""

import threading
from collections.abc import Callable
from datetime import date
from types import SimpleNamespace
from typing import cast

import dagster as dg
import psycopg
import pytest

from assets.economy_news import assets
from assets.economy_news.models import Partition
from local_stack.postgres import EmbeddedPostgres
from orchestration.failures import failures_by_owner
from resources.chat import ChatResource
from resources.errors import CrawlNotAllowed, ModelHasNoPrice, ServiceUnavailable
from tests.integration.economy_news.runs import CONCURRENCY, crawl, enrich
from tests.integration.stand_ins import StandIn

FINANCE = Partition(date(2026, 11, 25), "FINANCE")


def test_a_step_that_is_tried_again_takes_back_what_it_had_claimed(
    postgres_server: EmbeddedPostgres,
    connect: Callable[..., psycopg.Connection],
    site: StandIn,
    openai_api: StandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = connect()
    crawl(connection, [FINANCE], site.url, run_id="crawl")
    ask, asked, restarted = ChatResource.ask, [], threading.Event()

    def ask_and_restart_once(self: ChatResource, *args: object) -> object:
        asked.append(1)
        if len(asked) == 3:
            postgres_server.stop()
            postgres_server.start()  # not with this thread, which ends with the run
            restarted.set()
        return ask(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ChatResource, "ask", ask_and_restart_once)
    with pytest.raises(psycopg.OperationalError):
        enrich(connection, [FINANCE], openai_api.url, run_id="enrich")

    assert restarted.wait(60)
    again = connect()
    assert again.execute("SELECT count(*) FROM news.ai_job WHERE status = 'RUNNING'").fetchone() != (0,)
    enrich(again, [FINANCE], openai_api.url, run_id="enrich")
    jobs, results = again.execute(
        "SELECT (SELECT count(*) FROM news.ai_job WHERE job_type = 'SUMMARY' AND status = 'SUCCESS'), "
        "(SELECT count(DISTINCT article_id) FROM news.ai_result)"
    ).fetchone() or (0, 0)
    assert jobs == results > 0
    assert openai_api.get("ledger/totals")["calls"] - results <= CONCURRENCY


@pytest.mark.parametrize("error", [psycopg.OperationalError("gone"), ServiceUnavailable("away")])
def test_a_step_asks_for_three_later_tries_where_our_own_infrastructure_is_away(error: Exception) -> None:
    context = cast(dg.AssetExecutionContext, SimpleNamespace(retry_number=0))
    with pytest.raises(dg.RetryRequested) as asked, failures_by_owner(context):
        raise error
    assert asked.value.max_retries == 3
    assert 0 < (asked.value.seconds_to_wait or 0) <= 20


@pytest.mark.parametrize("error", [CrawlNotAllowed("no"), ModelHasNoPrice("none")])
def test_a_step_is_not_tried_again_where_a_person_must_act(error: Exception) -> None:
    context = cast(dg.AssetExecutionContext, SimpleNamespace(retry_number=0))
    with pytest.raises(dg.Failure) as failed, failures_by_owner(context):
        raise error
    assert failed.value.allow_retries is False


def test_a_canceled_step_is_not_tried_again() -> None:
    context = cast(dg.AssetExecutionContext, SimpleNamespace(retry_number=0))
    with pytest.raises(KeyboardInterrupt), failures_by_owner(context):
        raise KeyboardInterrupt
    steps = (assets.economy_articles, assets.article_summaries, assets.article_completeness)
    assert [asset.op.retry_policy for asset in steps] == [None, None, None]
