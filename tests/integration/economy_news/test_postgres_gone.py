"""Postgres restarted in the middle of a run: the step's next try in the same run finishes the work."""

import threading
from collections.abc import Callable
from datetime import date

import dagster as dg
import psycopg
import pytest

from assets.economy_news import assets
from assets.economy_news.models import Partition
from local_stack.postgres import EmbeddedPostgres
from resources.chat import ChatResource
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


@pytest.mark.parametrize(
    "asset", [assets.economy_articles, assets.article_summaries, assets.article_completeness]
)
def test_a_step_has_three_short_retries_for_our_own_infrastructure(asset: dg.AssetsDefinition) -> None:
    policy = asset.op.retry_policy
    assert policy is not None
    assert (policy.max_retries, policy.delay, policy.backoff) == (3, 10, dg.Backoff.EXPONENTIAL)
