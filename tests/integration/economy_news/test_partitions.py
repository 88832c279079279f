"""The assets in Dagster: what each partition's materialisation tells, and what fails a run."""

from datetime import date

import psycopg
import pytest

from orchestration.partitions import SECTIONS
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 24)
SAME_EVERYWHERE = {
    "items_done",
    "items_waiting",
    "items_failed",
    "items_suspended",
    "items_outdated",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "seconds",
}
AI_ASSETS = (
    "article_summaries",
    "article_term_cards",
    "article_insights",
    "article_content_quizzes",
    "article_term_quizzes",
)


@pytest.fixture
def runs(database_url: str, site: StandIn, openai_api: StandIn) -> DagsterRuns:
    return DagsterRuns(database_url, site, openai_api)


def test_one_run_each_materialises_every_section_with_the_same_numbers(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    assert runs.run("economy_news_crawl", DAY).success
    assert runs.run("economy_news_enrich", DAY).success

    for asset in ("economy_articles", *AI_ASSETS, "article_completeness"):
        for section in SECTIONS:
            assert set(runs.metadata(asset, DAY, section)) >= SAME_EVERYWHERE
    for section in SECTIONS:
        stored, summaries = connection.execute(
            "SELECT count(*), count(summary.result_id) FROM news.article "
            "LEFT JOIN news.summary ON article_id = article.id WHERE section = %s",
            (section,),
        ).fetchone() or (0, 0)
        assert runs.metadata("economy_articles", DAY, section)["items_done"] == stored
        assert runs.metadata("article_summaries", DAY, section)["items_done"] == summaries
    totals = openai_api.get("ledger/totals")
    told = sum(runs.metadata(asset, DAY, section)["cost_usd"] for asset in AI_ASSETS for section in SECTIONS)
    assert told == pytest.approx(totals["cost_usd"])
    tokens = sum(
        runs.metadata(asset, DAY, section)["input_tokens"] for asset in AI_ASSETS for section in SECTIONS
    )
    assert tokens == totals["prompt_tokens"]


def test_a_second_run_adds_and_asks_nothing(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    for job in ("economy_news_crawl", "economy_news_enrich"):
        runs.run(job, DAY, ["FINANCE"])
    count = "SELECT (SELECT count(*) FROM news.article), (SELECT count(*) FROM news.ai_result)"
    before, asked = connection.execute(count).fetchone(), openai_api.get("ledger/totals")["calls"]
    for job in ("economy_news_crawl", "economy_news_enrich"):
        assert runs.run(job, DAY, ["FINANCE"]).success
    assert connection.execute(count).fetchone() == before
    assert openai_api.get("ledger/totals")["calls"] == asked > 0


def test_a_section_that_cannot_be_read_fails_the_run_and_hides_no_other(
    runs: DagsterRuns, site: StandIn
) -> None:
    site.fault(path="/section/101/258", body="<html><body>새 화면</body></html>")
    result = runs.run("economy_news_crawl", DAY)
    assert not result.success
    assert "STOCK: ListLayoutChanged" in str(result.failure_data_for_node("economy_articles"))
    assert runs.metadata("economy_articles", DAY, "FINANCE")["items_done"] > 0
    with pytest.raises(KeyError, match="STOCK"):
        runs.metadata("economy_articles", DAY, "STOCK")


def test_an_api_that_is_down_fails_no_step_but_the_last(runs: DagsterRuns, openai_api: StandIn) -> None:
    runs.run("economy_news_crawl", DAY, ["FINANCE"])
    openai_api.fault(status=500)
    result = runs.run("economy_news_enrich", DAY, ["FINANCE"])
    failed = {event.step_key for event in result.get_step_failure_events()}
    assert failed == {"article_completeness"}
    metadata = runs.metadata("article_summaries", DAY, "FINANCE")
    assert metadata["items_waiting"] > 0
    assert metadata["items_done"] == 0


def test_a_shut_gate_fails_the_run_with_what_to_do(runs: DagsterRuns, openai_api: StandIn) -> None:
    runs.run("economy_news_crawl", DAY, ["FINANCE"])
    openai_api.fault(status=429, code="insufficient_quota", times=1)
    result = runs.run("economy_news_enrich", DAY, ["FINANCE"])
    assert not result.success
    assert "resume_suspended" in str(result.failure_data_for_node("article_completeness"))
    assert runs.metadata("article_completeness", DAY, "FINANCE")["items_suspended"] > 0


def test_the_number_check_names_exactly_the_summaries_with_a_number_of_their_own(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    runs.run("economy_news_crawl", DAY, ["STOCK"])
    openai_api.fault(schema="article_summary", content="wrong_number", share=0.2, seed=7)
    check = runs.check(runs.run("economy_news_enrich", DAY, ["STOCK"]), "summary_numbers_are_in_the_article")
    planted = openai_api.get("faults")["faults"][0]["applied"]
    marked = {
        row[0] for row in connection.execute("SELECT article_id FROM news.summary WHERE NOT publishable")
    }
    assert not check.passed
    assert set(check.metadata["article_ids"].value) == marked  # type: ignore[arg-type]
    assert len(marked) == planted > 0


def test_the_number_check_passes_where_the_model_keeps_to_the_article(runs: DagsterRuns) -> None:
    runs.run("economy_news_crawl", DAY, ["FINANCE"])
    result = runs.run("economy_news_enrich", DAY, ["FINANCE"])
    for name in ("summary_numbers_are_in_the_article", "terms_are_in_the_summary", "jobs_settled"):
        assert runs.check(result, name).passed, name


@pytest.mark.parametrize("fault", ["broken_highlight", "foreign_term"])
def test_the_term_check_names_exactly_the_articles_whose_cards_are_not_of_their_summary(
    fault: str, runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    runs.run("economy_news_crawl", DAY, ["STOCK"])
    (title,) = connection.execute("SELECT title FROM news.article ORDER BY id LIMIT 1").fetchone() or ("",)
    (article_id,) = connection.execute("SELECT min(id) FROM news.article").fetchone() or (0,)
    openai_api.fault(schema="term_cards", content=fault, contains=title)
    result = runs.run("economy_news_enrich", DAY, ["STOCK"])
    check = runs.check(result, "terms_are_in_the_summary")
    assert not check.passed
    assert check.metadata["article_ids"].value == [article_id]
    assert not runs.check(result, "jobs_settled").passed


def test_the_body_check_fails_where_the_layout_has_changed(runs: DagsterRuns, site: StandIn) -> None:
    site.fault(path="/mnews/article/", body="<html><head></head><body><p>다른 화면</p></body></html>")
    result = runs.run("economy_news_crawl", DAY, ["FINANCE"])
    check = runs.check(result, "articles_have_bodies")
    assert not check.passed
    assert check.metadata["share_with_body"].value == 0.0


def test_the_failed_items_table_has_ids_and_reasons_and_no_text(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    runs.run("economy_news_crawl", DAY, ["FINANCE"])
    openai_api.fault(schema="article_summary", content="refusal", times=2)
    runs.run("economy_news_enrich", DAY, ["FINANCE"])
    table = runs.metadata("article_completeness", DAY, "FINANCE")["unsettled"]
    failed = connection.execute("SELECT article_id FROM news.ai_job WHERE status = 'FAILED'").fetchall()
    assert len(failed) == 2
    for (article_id,) in failed:
        assert f"| {article_id} | SUMMARY | FAILED | refusal |" in table
    for (title,) in connection.execute("SELECT title FROM news.article"):
        assert title not in table
