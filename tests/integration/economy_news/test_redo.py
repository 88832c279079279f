"""Outdated results are shown, kept, and made again only when asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

import psycopg
import pytest

from assets.economy_news import result_kinds, store
from assets.economy_news.prompts import Prompt
from resources.chat import ChatResource
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 24)
FINANCE = ["FINANCE"]
ALL_AI = (
    "article_summaries",
    "article_term_cards",
    "article_insights",
    "article_content_quizzes",
    "article_term_quizzes",
)


@pytest.fixture
def runs(database_url: str, site: StandIn, openai_api: StandIn) -> DagsterRuns:
    """A section that is crawled and enriched."""
    made = DagsterRuns(database_url, site, openai_api)
    assert made.run("economy_news_crawl", DAY, FINANCE).success
    assert made.run("economy_news_enrich", DAY, FINANCE).success
    return made


@contextmanager
def changed_prompt(kind: result_kinds.ResultKind) -> Iterator[None]:
    """The kind with a sentence more in its prompt, as after a deployment."""
    old = kind.prompt
    new = Prompt(f"{old.instructions}\n- 새 규칙.", old.schema_name, old.schema, "changed")
    object.__setattr__(kind, "prompt", new)
    try:
        yield
    finally:
        object.__setattr__(kind, "prompt", old)


def redo(how: str) -> dict[str, dict[str, str]]:
    return {asset: {"redo": how} for asset in ALL_AI}


def results(connection: psycopg.Connection) -> dict[str, int]:
    """How many results of each kind are stored, older ones included."""
    return dict(connection.execute("SELECT job_type, count(*) FROM news.ai_result GROUP BY 1").fetchall())


def test_a_changed_prompt_shows_as_outdated_and_does_nothing_by_itself(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    before = results(connection)
    with changed_prompt(result_kinds.INSIGHT):
        assert runs.run("economy_news_enrich", DAY, FINANCE).success
        metadata = runs.metadata("article_insights", DAY, "FINANCE")
        assert metadata["items_outdated"] == metadata["items_done"] == before["INSIGHT"]
        assert runs.metadata("article_summaries", DAY, "FINANCE")["items_outdated"] == 0
    assert results(connection) == before


def test_redo_outdated_makes_only_what_is_outdated_again_and_keeps_the_old(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    before, asked = results(connection), openai_api.get("ledger/totals")["calls"]
    with changed_prompt(result_kinds.INSIGHT):
        assert runs.run("economy_news_enrich", DAY, FINANCE, redo("outdated")).success
        assert runs.metadata("article_insights", DAY, "FINANCE")["items_outdated"] == 0
        assert openai_api.get("ledger/totals")["calls"] == asked + before["INSIGHT"]
        assert runs.run("economy_news_enrich", DAY, FINANCE, redo("outdated")).success
    assert results(connection) == {**before, "INSIGHT": 2 * before["INSIGHT"]}
    newest = connection.execute(
        "SELECT DISTINCT prompt_version FROM news.newest_result WHERE job_type = 'INSIGHT'"
    ).fetchall()
    assert newest == [("changed",)]


def test_redo_all_makes_everything_again_once_in_a_run(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    before = results(connection)
    assert runs.run("economy_news_enrich", DAY, FINANCE, redo("all")).success
    assert results(connection) == {kind: 2 * count for kind, count in before.items()}
    assert connection.execute("SELECT count(*) FROM news.ai_job WHERE status <> 'SUCCESS'").fetchone() == (0,)
    articles = "SELECT count(*) FROM news.article_ai WHERE state = 'DONE' AND summary_id IS NOT NULL"
    assert connection.execute(articles).fetchone() != (0,)


def test_a_changed_article_outdates_its_summary_and_a_redone_summary_takes_its_children_along(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    before = results(connection)
    article_id, title, body = connection.execute(
        "SELECT id, title, body FROM news.article WHERE id = (SELECT min(article_id) FROM news.summary)"
    ).fetchone() or (0, "", "")
    changed = body.replace("다.", "다고 한다.")
    connection.execute(
        "UPDATE news.article SET body = %s, input_hash = %s WHERE id = %s",
        (changed, store.input_hash(title, changed), article_id),
    )
    runs.run("economy_news_enrich", DAY, FINANCE)
    assert runs.metadata("article_summaries", DAY, "FINANCE")["items_outdated"] == 1
    assert results(connection) == before

    only_summaries = {"article_summaries": {"redo": "outdated"}}
    assert runs.run("economy_news_enrich", DAY, FINANCE, only_summaries).success
    # The new cards say what the old ones said, so the question about them is the old one: not asked again.
    once_more = {kind: count + (kind != "QUIZ_TERM") for kind, count in before.items()}
    assert results(connection) == once_more
    made = connection.execute(
        "SELECT DISTINCT article_id FROM news.ai_result WHERE id > %s", (sum(before.values()),)
    ).fetchall()
    assert made == [(article_id,)]
    for asset in ALL_AI:
        assert runs.metadata(asset, DAY, "FINANCE")["items_outdated"] == 0


def test_a_terms_first_definition_stays(runs: DagsterRuns, connection: psycopg.Connection) -> None:
    dictionary = connection.execute("SELECT term_key, definition FROM news.term ORDER BY 1").fetchall()
    connection.execute("UPDATE news.term SET definition = '먼저 적힌 뜻이에요.'")
    assert runs.run("economy_news_enrich", DAY, FINANCE, redo("all")).success
    after = connection.execute("SELECT term_key, definition FROM news.term ORDER BY 1").fetchall()
    assert after == [(key, "먼저 적힌 뜻이에요.") for key, _ in dictionary]


def test_a_model_that_is_changed_back_blocks_no_claim(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    """What was to be made by the other model is made by this one, beside the result it had made before."""
    first = runs.defs
    other = ChatResource(model="gpt-4.1-mini", base_url=f"{openai_api.url}/v1", api_key="sk-tests")
    runs.defs = runs.definitions(other)
    openai_api.fault(model="gpt-4.1-mini", status=500)
    runs.run("economy_news_enrich", DAY, FINANCE, {"article_insights": {"redo": "outdated"}})
    assert connection.execute("SELECT count(*) FROM news.ai_job WHERE status = 'RETRY_WAIT'").fetchone() != (
        0,
    )

    connection.execute("UPDATE news.ai_job SET next_run_at = now() WHERE status = 'RETRY_WAIT'")
    runs.defs = first
    assert runs.run("economy_news_enrich", DAY, FINANCE, redo("outdated")).success
    assert connection.execute("SELECT DISTINCT status FROM news.ai_job").fetchall() == [("SUCCESS",)]
    assert connection.execute("SELECT DISTINCT model FROM news.ai_result").fetchall() == [("gpt-4o-mini",)]
