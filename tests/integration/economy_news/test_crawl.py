"""What a crawl stores of a site that behaves, pass after pass."""

import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg

from local_stack.naver_site.articles import SECTIONS
from tests.integration.economy_news.crawling import (
    EVENING,
    after_evening,
    articles_with_jobs,
    counted,
    crawl,
    listed,
    requested,
    right_articles,
    stored_articles,
)
from tests.integration.economy_news.factories import DAY, rows
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]


def publish(site: StandIn, section: str, minutes_before: float) -> str:
    """`oid/aid` of a new article that stands so far down the list."""
    moment = datetime.fromisoformat(EVENING) - timedelta(minutes=minutes_before)
    new = site.post("articles", date=DAY.isoformat(), section=section, listed_at=moment.isoformat())
    return f"{new['oid']}/{new['aid']}"


def test_a_whole_day_is_stored_exactly_as_it_was_published(now: psycopg.Connection, news: StandIn) -> None:
    run = crawl(now, news, *SECTIONS, max_pages=2)
    assert run.failures == {}
    expected, stored = right_articles(news, *SECTIONS), stored_articles(now)
    assert set(stored) == set(expected)
    for key, right in expected.items():
        row = stored[key]
        assert row["title"] == right["title"], key
        assert row["body"].split("\n") == [line for line in right["cleaned_body"].split("\n") if line], key
        assert row["press"] == right["press"], key
        assert row["reporter"] == (", ".join(right["reporters"]) or None), key
        assert row["thumbnail_url"] == right["thumbnail_url"], key
        for name in ("published_at", "modified_at"):
            moment = right[name] and datetime.fromisoformat(right[name])
            assert row[name] == moment, (key, name)
        assert row["url"] == right["url"], key
        assert row["section"] == right["sections"][0], key
        assert (row["day"], row["run_id"], row["crawl_permission"]) == (DAY, "run-1", None), key
        assert row["body_characters"] == len(row["body"]), key
        assert unicodedata.is_normalized("NFC", row["title"] + row["body"]), key
    assert max(len(row["title"]) for row in stored.values()) == 5_000


def test_what_is_not_in_the_lists_is_not_stored(now: psycopg.Connection, news: StandIn) -> None:
    crawl(now, news, "FINANCE")
    aside = news.get("manifest", date=DAY.isoformat())["not_listed"]
    assert aside and not set(aside) & set(stored_articles(now))
    assert requested(news, "comment") == []


def test_a_second_pass_fetches_nothing_again(now: psycopg.Connection, news: StandIn) -> None:
    crawl(now, news, "FINANCE")
    first = stored_articles(now)
    fetched = len(requested(news, "/article/"))
    run = crawl(now, news, "FINANCE", run_id="run-2")
    assert stored_articles(now) == first
    assert len(requested(news, "/article/")) == fetched
    assert run.counts()["saved"] == 0
    assert run.counts()["duplicate_seen"] == run.counts()["scanned"] == 8


def test_a_live_pass_stops_after_eight_known_links_and_a_new_one_starts_the_count_again(
    now: psycopg.Connection, news: StandIn
) -> None:
    crawl(now, news, "STOCK")
    # A link every half hour: the new ones stand behind five known ones, seven more, and eight more.
    first, second = publish(news, "STOCK", 5 * 32), publish(news, "STOCK", 12 * 32)
    too_deep = publish(news, "STOCK", 20.5 * 32)
    on_the_list = listed(news, "STOCK")
    between = on_the_list.index(second) - on_the_list.index(first) - 1
    assert on_the_list.index(first) < 8 and 0 < between < 8
    assert on_the_list.index(too_deep) > on_the_list.index(second) + 8

    run = crawl(now, news, "STOCK", run_id="run-2")
    new = {key for key, row in stored_articles(now).items() if row["run_id"] == "run-2"}
    assert new == {first, second}
    counts = run.counts()
    assert counts["scanned"] == on_the_list.index(second) + 1 + 8
    assert (counts["stop_after_seen_streak"], counts["saved"]) == (1, 2)
    assert counts["duplicate_seen"] == counts["scanned"] - 2


def test_a_live_pass_reads_one_page_and_a_past_day_all_of_them(connect: Connect, news: StandIn) -> None:
    live = crawl(connect(at=EVENING), news, "STOCK")
    assert live.counts()["scanned"] == 36
    assert requested(news, "/section/template/") == []

    past = connect(at=after_evening(days=1))
    run = crawl(past, news, "STOCK", run_id="run-2")
    assert run.counts()["scanned"] == len(listed(news, "STOCK")) > 36
    assert run.counts()["stop_after_seen_streak"] == 0
    (more,) = requested(news, "/section/template/")
    assert "pageNo=2" in more and "next=2026" in more
    assert set(stored_articles(past)) == set(right_articles(news, "STOCK"))


def test_yesterday_is_live_until_a_quarter_past_midnight(connect: Connect, news: StandIn) -> None:
    news.post("clock", now=after_evening(hours=1))
    pages = []
    for moment in ("2026-03-03T00:14:59+09:00", "2026-03-03T00:15:00+09:00"):
        crawl(connect(at=moment), news, "STOCK")
        pages.append(len(requested(news, "/section/template/")))
    assert pages == [0, 1]


def test_a_list_of_no_articles_yet_is_an_empty_list_and_no_failure(connect: Connect, site: StandIn) -> None:
    midnight = f"{DAY}T00:00:00+09:00"
    site.post("clock", now=midnight)
    connection = connect(at=midnight)
    run = crawl(connection, site, "FINANCE", "STOCK")
    assert run.failures == {} and run.counts()["scanned"] == 0
    assert rows(connection, "SELECT * FROM granary.alert") == []


def test_counters_equal_what_happened(now: psycopg.Connection, news: StandIn) -> None:
    run = crawl(now, news, *SECTIONS)
    run = crawl(now, news, *SECTIONS, run_id="run-2")
    stored, manifest = stored_articles(now), news.get("manifest", date=DAY.isoformat())["articles"]
    for section in SECTIONS:
        here = [row for row in stored.values() if row["section"] == section]
        ours = [one for one in manifest if one["sections"][0] == section]
        told = counted(now, section)
        assert told["saved"] == len(here)
        for status, expected in (("gone", "gone"), ("moved", "moved")):
            assert told.get(status, 0) == len([one for one in ours if one["expected"] == expected])
        # Twice: an unreadable page is looked at again by the next pass.
        assert told.get("parse_fail", 0) == 2 * len([one for one in ours if one["expected"] == "unreadable"])
        assert told.get("published_at_null", 0) == len([one for one in here if one["published_at"] is None])
        assert told.get("thumbnail_null", 0) == len([one for one in here if one["thumbnail_url"] is None])
        assert told["stop_after_seen_streak"] == 1
        assert "fetch_fail" not in told and "duplicate_race" not in told
    created = rows(now, "SELECT value, labels FROM granary.counter WHERE name = 'ai_jobs_enqueued_total'")
    assert {one["labels"]["result"]: one["value"] for one in created} == {
        "created": len(articles_with_jobs(now)),
        "shared": 2,
    }
    assert run.counts()["scanned"] == 8 * len(SECTIONS)


def test_the_permission_stands_on_every_article_and_goes_before_robots(
    now: psycopg.Connection, news: StandIn
) -> None:
    news.post("robots", text="User-agent: *\nDisallow: /\n")
    run = crawl(now, news, "FINANCE", permission="계약 7; 가나신문", permission_expires=DAY.isoformat())
    assert run.failures == {}
    assert {row["crawl_permission"] for row in stored_articles(now).values()} == {"계약 7; 가나신문"}


def test_the_same_day_crawled_late_is_stored_in_the_partition_of_its_list(
    connect: Connect, news: StandIn
) -> None:
    connection = connect(at=after_evening(days=40))
    news.post("clock", now=after_evening(days=40))
    crawl(connection, news, "REALESTATE")
    assert {row["day"] for row in stored_articles(connection).values()} == {DAY}
    assert None in {row["published_at"] for row in stored_articles(connection).values()}


def test_days_are_kept_apart(connect: Connect, news: StandIn) -> None:
    news.post("clock", now=after_evening(days=1))
    connection, tomorrow = connect(at=after_evening(days=1)), DAY + timedelta(days=1)
    crawl(connection, news, "LIVING", day=tomorrow)
    crawl(connection, news, "LIVING")
    days = Counter(row["day"] for row in stored_articles(connection).values())
    assert days == Counter({day: len(right_articles(news, "LIVING", day=day)) for day in (DAY, tomorrow)})
