"""One article, one row, one job: two sections, two crawls at once, near-duplicates, short articles."""

from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from assets.economy_news.article_page import Article
from assets.economy_news.result_kinds import SUMMARY
from tests.integration.economy_news.crawling import (
    EVENING,
    LIVE,
    a_crawler,
    articles_with_jobs,
    counted,
    crawl,
    page_statuses,
    requested,
    right_articles,
    stored_articles,
)
from tests.integration.economy_news.factories import HERE, MODEL, rows
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]
LONG_ENOUGH = 1_000


def test_an_article_in_two_sections_is_one_row_and_one_job_that_both_sections_list(
    now: psycopg.Connection, news: StandIn
) -> None:
    (key,) = [one for one, right in right_articles(news, "FINANCE").items() if len(right["sections"]) == 2]
    crawl(now, news, "FINANCE", "STOCK", max_pages=2)
    row = stored_articles(now)[key]
    assert row["section"] == "FINANCE"
    sections = rows(
        now, "SELECT section FROM news.article_section WHERE article_id = %s ORDER BY section", row["id"]
    )
    assert [one["section"] for one in sections] == ["FINANCE", "STOCK"]
    assert articles_with_jobs(now).count(row["id"]) == 1
    assert rows(now, "SELECT section FROM news.ai_job WHERE article_id = %s", row["id"]) == [
        {"section": "FINANCE"}
    ]
    assert len(requested(news, key)) == 1


@pytest.mark.parametrize(("skip_duplicates", "paid"), [(True, 1), (False, 3)])
def test_near_duplicates_share_one_job_unless_each_is_wanted(
    skip_duplicates: bool, paid: int, now: psycopg.Connection, news: StandIn
) -> None:
    crawl(now, news, "FINANCE", "GENERAL", skip_duplicates=skip_duplicates)
    stored = stored_articles(now)
    wire = [
        stored[key]
        for key, right in right_articles(news, "FINANCE", "GENERAL").items()
        if right["duplicate_group"]
    ]
    original = min(wire, key=lambda row: row["id"])
    assert len(wire) == 3 and original["duplicate_of"] is None
    assert {row["duplicate_of"] for row in wire if row is not original} == {original["id"]}
    assert len([one for one in stored.values() if one["duplicate_of"] is not None]) == 2
    with_job = set(articles_with_jobs(now)) & {row["id"] for row in wire}
    assert len(with_job) == paid and original["id"] in with_job


def test_near_duplicates_are_found_in_what_another_crawl_stores_at_the_same_time(
    connect: Connect, now: psycopg.Connection, news: StandIn
) -> None:
    wire = {
        key for key, right in right_articles(news, "FINANCE", "GENERAL").items() if right["duplicate_group"]
    }
    other, overtaken = connect(at=EVENING), list[str]()

    def overtake(article: Article) -> None:
        if f"{article.oid}/{article.aid}" in wire and not overtaken:
            overtaken.append(article.aid)
            crawl(other, news, "GENERAL", run_id="run-2")

    with a_crawler(now, news, overtake) as crawler:
        crawler.crawl(HERE, LIVE)
    rows_of_wire = [row for key, row in stored_articles(now).items() if key in wire]
    assert len(rows_of_wire) == 3
    assert [row["run_id"] for row in rows_of_wire if row["duplicate_of"] is None] == ["run-2"]
    assert len(set(articles_with_jobs(now)) & {row["id"] for row in rows_of_wire}) == 1


def test_an_article_gets_a_job_of_now_if_it_is_long_enough(now: psycopg.Connection, news: StandIn) -> None:
    run = crawl(now, news, "STOCK", max_pages=2)
    stored = stored_articles(now)
    long = {row["id"] for row in stored.values() if row["body_characters"] >= LONG_ENOUGH}
    assert 0 < len(long) < len(stored)
    assert articles_with_jobs(now) == sorted(long)
    assert run.counts()["ai_skipped_short_content"] == len(stored) - len(long)
    by_id = {row["id"]: row for row in stored.values()}
    for job in rows(now, "SELECT * FROM news.ai_job"):
        article = by_id[job["article_id"]]
        assert (job["status"], job["attempt"], job["job_type"]) == ("PENDING", 0, "SUMMARY")
        assert (job["prompt_version"], job["model"]) == (SUMMARY.prompt.version, MODEL)
        assert (job["day"], job["section"]) == (article["day"], article["section"])
        assert job["input_hash"] == article["input_hash"]


def test_with_a_least_length_of_zero_no_article_gets_a_job(now: psycopg.Connection, news: StandIn) -> None:
    run = crawl(now, news, "FINANCE", min_content_length_for_ai=0)
    assert articles_with_jobs(now) == []
    assert run.counts()["ai_skipped_short_content"] == run.counts()["saved"] > 0


def test_two_crawls_at_once_store_each_article_once_and_the_loser_counts_the_race(
    connect: Connect, now: psycopg.Connection, news: StandIn
) -> None:
    other, overtaken = connect(at=EVENING), list[str]()

    def overtake(article: Article) -> None:
        if not overtaken:
            overtaken.append(f"{article.oid}/{article.aid}")
            assert crawl(other, news, "FINANCE", run_id="run-2").failures == {}

    with a_crawler(now, news, overtake) as crawler:
        loser = crawler.crawl(HERE, LIVE)
    stored = stored_articles(now)
    assert set(stored) == set(right_articles(news, "FINANCE"))
    assert {row["run_id"] for row in stored.values()} == {"run-2"}
    assert (loser.counts["duplicate_race"], loser.counts["saved"]) == (1, 0)
    assert counted(now, "FINANCE")["duplicate_race"] == 1
    assert counted(now, "FINANCE")["saved"] == len(stored)
    assert len(articles_with_jobs(now)) == len(set(articles_with_jobs(now)))
    assert page_statuses(now) == Counter(STORED=len(stored))
