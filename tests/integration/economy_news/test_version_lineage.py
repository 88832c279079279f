"""A changed prompt file, schema or model outdates the older results alone, and a redo makes only those again.

Half of a day is enriched by the old release, the other half by the new one: only the first half is outdated.
"""

from pathlib import Path

import psycopg
import pytest

from assets.economy_news.models import JobType, Partition
from resources.chat import ChatResource
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.economy_news.factories import DAY, jobs_waiting
from tests.integration.economy_news.new_release import (
    AI_ASSETS,
    Release,
    Run,
    RunReport,
    code_versions,
    release,
    report,
)
from tests.integration.stand_ins import StandIn

ARTICLES = 6
OLD, NEW = "FINANCE", "STOCK"
BOTH = (OLD, NEW)
# The new release enriches its half, looks at both, makes again what is outdated, and has nothing left to do.
RUNS = [Run([NEW]), Run(BOTH), Run(BOTH, "outdated"), Run(BOTH, "outdated")]
ASSET_OF = dict(
    zip(("SUMMARY", "TERM_CARDS", "INSIGHT", "QUIZ_CONTENT", "QUIZ_TERM"), AI_ASSETS, strict=True)
)
SCHEMA_OF = {
    "SUMMARY": "article_summary",
    "TERM_CARDS": "term_cards",
    "INSIGHT": "article_insights",
    "QUIZ_CONTENT": "content_quiz",
    "QUIZ_TERM": "term_quiz",
}


@pytest.fixture
def runs(
    database_url: str, connection: psycopg.Connection, site: StandIn, openai_api: StandIn
) -> DagsterRuns:
    """Articles in both halves, the first one enriched."""
    for section in BOTH:
        jobs_waiting(connection, ARTICLES, Partition(DAY, section))
    made = DagsterRuns(database_url, site, openai_api)
    assert made.run("economy_news_enrich", DAY, [OLD]).success
    return made


def results(connection: psycopg.Connection, section: str) -> dict[str, int]:
    """How many results of each kind the section has, older ones included."""
    statement = (
        "SELECT result.job_type, count(*) FROM news.ai_result AS result "
        "JOIN news.article AS article ON article.id = result.article_id WHERE article.section = %s GROUP BY 1"
    )
    return dict(connection.execute(statement, (section,)).fetchall())


def articles_with_new_text(connection: psycopg.Connection, job_type: str) -> int:
    """Articles of the first half whose results of the kind differ in what is made from them."""
    row = connection.execute(
        "SELECT count(*) FROM (SELECT result.article_id FROM news.ai_result AS result "
        "JOIN news.article AS article ON article.id = result.article_id "
        "WHERE result.job_type = %s AND article.section = %s "
        "GROUP BY 1 HAVING count(DISTINCT result.output_hash) > 1) AS changed",
        (job_type, OLD),
    ).fetchone()
    assert row is not None
    return int(row[0])


def outdated(**counts: int) -> dict[str, int]:
    """`items_outdated` by asset: these, and nothing of the others."""
    return {asset: counts.get(kind, 0) for kind, asset in ASSET_OF.items()}


def asked(counts: dict[str, int]) -> dict[str, int]:
    """The same as calls by schema."""
    return {SCHEMA_OF[kind]: count for kind, count in counts.items() if count}


def check_runs(made: list[RunReport], older: dict[str, int], redone: dict[str, int]) -> None:
    """Only the `older` results of the first half are outdated; the redo asks for `redone`, once."""
    enriched, looked, redo, again = made
    assert all(run.success for run in made)
    assert all(older.values())
    assert set(enriched.asked) == set(SCHEMA_OF.values())
    assert enriched.outdated == {NEW: outdated()}
    assert looked.asked == {}
    assert looked.outdated == {OLD: outdated(**older), NEW: outdated()}
    assert redo.asked == asked(redone)
    assert redo.outdated == {OLD: outdated(), NEW: outdated()}
    assert (again.asked, again.outdated) == ({}, redo.outdated)


def test_a_changed_prompt_file_outdates_its_older_results_and_takes_along_what_follows(
    runs: DagsterRuns,
    connection: psycopg.Connection,
    database_url: str,
    site: StandIn,
    openai_api: StandIn,
    tmp_path: Path,
) -> None:
    before = results(connection, OLD)
    # The new prompt gets other answers, so that what is made from them changes too.
    openai_api.fault(schema="article_summary", content="foreign_term")
    changes = {"prompts/summary.md": ("지킬 것:", "지킬 것:\n- 앞으로의 영향도 한 문장 덧붙입니다.")}
    made = _release(tmp_path, changes, database_url, site, openai_api)

    redone = {
        **dict.fromkeys(("SUMMARY", "TERM_CARDS", "INSIGHT", "QUIZ_CONTENT"), before["SUMMARY"]),
        "QUIZ_TERM": articles_with_new_text(connection, "TERM_CARDS"),
    }
    assert articles_with_new_text(connection, "SUMMARY") == before["SUMMARY"]
    check_runs(made.runs, {"SUMMARY": before["SUMMARY"]}, redone)
    assert results(connection, OLD) == {kind: before[kind] + redone[kind] for kind in before}
    assert results(connection, NEW) == dict.fromkeys(JobType, ARTICLES)
    assert changed_versions(runs, made) == {"article_summaries"}


def test_a_changed_schema_outdates_the_results_that_it_shapes(
    runs: DagsterRuns,
    connection: psycopg.Connection,
    database_url: str,
    site: StandIn,
    openai_api: StandIn,
    tmp_path: Path,
) -> None:
    before = results(connection, OLD)
    old = '"question": {"type": "string"}'
    new = '"question": {"type": "string", "description": "one sentence"}'
    made = _release(tmp_path, {"quiz.py": (old, new)}, database_url, site, openai_api)

    quizzes = {kind: before[kind] for kind in ("QUIZ_CONTENT", "QUIZ_TERM")}
    check_runs(made.runs, quizzes, quizzes)
    assert results(connection, OLD) == {**before, **{kind: 2 * count for kind, count in quizzes.items()}}
    assert changed_versions(runs, made) == {"article_content_quizzes", "article_term_quizzes"}


def test_a_changed_model_outdates_all_results_of_the_older_and_pays_each_once(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    before, versions = results(connection, OLD), code_versions(runs.defs)
    chat = ChatResource(model="gpt-4.1-mini", base_url=f"{openai_api.url}/v1", api_key="sk-tests")
    runs.defs = runs.definitions(chat)
    made = report(runs, openai_api, DAY, RUNS)

    assert before == dict.fromkeys(JobType, ARTICLES)
    check_runs(made, before, before)
    assert results(connection, OLD) == {kind: 2 * count for kind, count in before.items()}
    assert code_versions(runs.defs) == versions
    newest = connection.execute("SELECT DISTINCT model FROM news.newest_result").fetchall()
    assert newest == [("gpt-4.1-mini",)]


def changed_versions(runs: DagsterRuns, made: Release) -> set[str]:
    """The assets whose code version the release changed."""
    before = code_versions(runs.defs)
    return {asset for asset in AI_ASSETS if made.code_versions[asset] != before[asset]}


def _release(
    folder: Path, changes: dict[str, tuple[str, str]], database_url: str, site: StandIn, api: StandIn
) -> Release:
    return release(folder, changes, database_url, site.url, api.url, DAY, RUNS)
