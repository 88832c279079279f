"""What one pass leaves to the next: pages to try again, passes that die or run out of time."""

from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg
import pytest

from assets.economy_news import store
from assets.economy_news.article_page import Article
from tests.integration.economy_news.crawling import (
    EVENING,
    LIVE,
    a_crawler,
    after_evening,
    crawl,
    listed,
    page_statuses,
    requested,
    right_articles,
    stored_articles,
)
from tests.integration.economy_news.factories import DAY, HERE, rows
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]


def the_one(site: StandIn, section: str, expected: str) -> str:
    """`oid/aid` of the section's article of that kind."""
    manifest = site.get("manifest", date=DAY.isoformat())["articles"]
    (key,) = [
        f"{one['oid']}/{one['aid']}"
        for one in manifest
        if one["expected"] == expected and section == one["sections"][0]
    ]
    return key


def page_of(connection: psycopg.Connection, key: str) -> tuple[str, int]:
    """Status and passes of a listed link."""
    oid, aid = key.split("/")
    (row,) = rows(connection, "SELECT * FROM news.listed_page WHERE oid = %s AND aid = %s", oid, aid)
    return row["status"], row["passes"]


@pytest.mark.parametrize(
    ("section", "expected", "status"),
    [("INDUSTRY", "gone", "GONE"), ("VENTURE", "gone", "GONE"), ("LIVING", "moved", "MOVED")],
)
def test_what_is_gone_or_moved_is_remembered_and_not_fetched_again(
    section: str, expected: str, status: str, now: psycopg.Connection, news: StandIn
) -> None:
    key = the_one(news, section, expected)
    run = crawl(now, news, section)
    assert run.counts()[expected] == 1
    crawl(now, news, section)
    assert page_of(now, key) == (status, 1)
    assert len(requested(news, key)) == 1
    assert key not in stored_articles(now)


def test_an_unreadable_page_is_tried_again_on_three_later_passes_exactly(
    now: psycopg.Connection, news: StandIn
) -> None:
    key = the_one(news, "WORLD", "unreadable")
    tries = []
    for _ in range(6):
        crawl(now, news, "WORLD")
        tries.append(len(requested(news, key)))
    assert tries == [1, 2, 3, 4, 4, 4]
    assert page_of(now, key) == ("PARSE_FAILED", 4)
    assert store.page_counts(now, [HERE._replace(section="WORLD")])[DAY, "WORLD"].unreadable == 1  # type: ignore[index]


def test_an_unreadable_page_that_can_be_read_later_is_stored(now: psycopg.Connection, news: StandIn) -> None:
    key = the_one(news, "WORLD", "unreadable")
    crawl(now, news, "WORLD")
    oid, aid = key.split("/")
    news.post("articles", date=DAY.isoformat(), oid=oid, aid=aid, kind="current")
    crawl(now, news, "WORLD")
    assert page_of(now, key) == ("STORED", 2)
    assert key in stored_articles(now)


def test_a_failed_fetch_is_tried_again_ever_more_seldom_and_twelve_times(
    connect: Connect, news: StandIn
) -> None:
    """After n² minutes by the database's clock, not an instant sooner."""
    key = listed(news, "FINANCE")[3]
    news.fault(path=key, status=503)
    crawl(connect(at=EVENING), news, "FINANCE")

    def tries(moment: datetime) -> int:
        crawl(connect(at=moment.isoformat()), news, "FINANCE", read_lists=False)
        return len(requested(news, key))

    moment = datetime.fromisoformat(EVENING)
    for passes in range(1, 12):
        moment += timedelta(minutes=passes**2)
        assert tries(moment - timedelta(milliseconds=1)) == passes
        assert tries(moment) == passes + 1
    assert tries(moment + timedelta(days=9)) == 12
    assert page_of(connect(), key) == ("FETCH_FAILED", 12)


def test_a_failed_fetch_that_works_later_is_stored(connect: Connect, news: StandIn) -> None:
    news.fault(path="/mnews/article/", status=503, times=1)
    crawl(connect(at=EVENING), news, "FINANCE")
    assert page_statuses(connect())["FETCH_FAILED"] == 1
    news.clear_faults()
    later = connect(at=after_evening(seconds=60))
    run = crawl(later, news, "FINANCE", read_lists=False)
    assert run.counts()["saved"] == 1
    assert set(stored_articles(later)) == set(right_articles(news, "FINANCE"))


def test_three_failures_in_a_row_end_the_pass_and_leave_the_rest_for_the_next(
    connect: Connect, news: StandIn
) -> None:
    news.fault(path="/mnews/article/", status=503)
    run = crawl(connect(at=EVENING), news, "FINANCE")
    assert run.counts()["fetch_fail"] == 3
    assert len(requested(news, "/mnews/article/")) == 3
    count = len(listed(news, "FINANCE"))
    assert page_statuses(connect()) == {"FETCH_FAILED": 3, "LISTED": count - 3}
    news.clear_faults()
    crawl(connect(at=after_evening(minutes=1)), news, "FINANCE")
    assert set(stored_articles(connect())) == set(right_articles(news, "FINANCE"))


def test_pages_that_always_fail_do_not_hold_up_those_that_were_never_tried(
    connect: Connect, news: StandIn
) -> None:
    broken = listed(news, "FINANCE")[:3]
    for key in broken:
        news.fault(path=key, status=500)
    crawl(connect(at=EVENING), news, "FINANCE")
    assert stored_articles(connect()) == {}
    crawl(connect(at=after_evening(minutes=5)), news, "FINANCE")
    assert set(stored_articles(connect())) == set(right_articles(news, "FINANCE")) - set(broken)


@pytest.mark.parametrize("stored_before", [0, 2])
def test_a_pass_that_dies_half_way_loses_nothing(stored_before: int, connect: Connect, news: StandIn) -> None:
    """Its links are remembered, so the next pass sees eight known ones at the top and still stores all."""
    dying, seen = connect(at=EVENING), list[Article]()

    def die(article: Article) -> None:
        seen.append(article)
        if len(seen) > stored_before:
            raise RuntimeError("the machine is gone")

    with a_crawler(dying, news, die) as crawler, pytest.raises(RuntimeError):
        crawler.crawl(HERE, LIVE)
    assert len(stored_articles(connect())) == stored_before
    run = crawl(connect(at=EVENING), news, "FINANCE", run_id="run-2")
    assert run.counts()["stop_after_seen_streak"] == 1
    assert set(stored_articles(connect())) == set(right_articles(news, "FINANCE"))


def test_a_pass_that_dies_before_its_list_is_remembered_has_remembered_nothing(
    connect: Connect, news: StandIn
) -> None:
    """Half a list would hide its other half behind eight known links."""
    past = after_evening(days=1)
    news.fault(path="/section/template/", status=500)
    run = crawl(connect(at=past), news, "STOCK")
    assert len(run.failures) == 1
    assert rows(connect(), "SELECT * FROM news.listed_page") == []
    news.clear_faults()
    crawl(connect(at=past), news, "STOCK")
    assert set(stored_articles(connect())) == set(right_articles(news, "STOCK"))


def test_a_slice_that_is_over_leaves_the_rest_listed_for_the_next(
    now: psycopg.Connection, news: StandIn
) -> None:
    fetched: list[Article] = []
    with a_crawler(now, news, fetched.append, out_of_time=lambda: len(fetched) == 4) as crawler:
        crawler.crawl(HERE, LIVE)
    count = len(listed(news, "FINANCE"))
    assert page_statuses(now) == {"STORED": 4, "LISTED": count - 4}
    assert store.page_counts(now, [HERE])[HERE].waiting == count - 4
    crawl(now, news, "FINANCE", read_lists=False)
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE"))
    assert len(requested(news, "/breakingnews/")) == 1


def test_a_run_without_time_still_remembers_every_list(now: psycopg.Connection, news: StandIn) -> None:
    run = crawl(now, news, "FINANCE", "INDUSTRY", slice_seconds=-1)
    assert run.failures == {}
    assert requested(news, "/mnews/article/") == []
    links = len(listed(news, "FINANCE")) + len(listed(news, "INDUSTRY"))
    assert page_statuses(now) == {"LISTED": links}


def test_a_past_day_that_there_was_no_time_for_fails_with_what_to_do(connect: Connect, news: StandIn) -> None:
    run = crawl(connect(at=after_evening(days=1)), news, "FINANCE", slice_seconds=-1)
    assert "launch it again" in run.explain_failures()
    assert rows(connect(), "SELECT * FROM news.listed_page") == []


def test_a_past_days_lists_are_read_to_their_end_once(connect: Connect, news: StandIn) -> None:
    past = after_evening(days=1)
    for _ in range(2):
        crawl(connect(at=past), news, "STOCK")
    assert len(requested(news, "/breakingnews/")) == 1
    assert set(stored_articles(connect())) == set(right_articles(news, "STOCK"))


def test_past_days_with_pages_to_fetch_are_named(connect: Connect, news: StandIn) -> None:
    crawl(connect(at=EVENING), news, "FINANCE", "LIVING", slice_seconds=-1)
    crawl(connect(at=EVENING), news, "WORLD")
    assert store.days_with_pages_waiting(connect(at=EVENING), limit=10) == []
    tomorrow = connect(at=after_evening(days=1))
    assert store.days_with_pages_waiting(tomorrow, limit=10) == [(DAY, ["FINANCE", "LIVING", "WORLD"])]
    crawl(tomorrow, news, "FINANCE", "LIVING", read_lists=False)
    assert store.days_with_pages_waiting(tomorrow, limit=10) == [(DAY, ["WORLD"])]
    for _ in range(3):
        crawl(tomorrow, news, "WORLD", read_lists=False)
    assert store.days_with_pages_waiting(tomorrow, limit=10) == []
