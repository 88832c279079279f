"""Sites that refuse or forbid: the crawl stops, leaves the host alone and says what is needed."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from resources.errors import CrawlNotAllowed, ServiceNotConfigured
from tests.integration.economy_news.crawling import (
    crawl,
    listed,
    page_statuses,
    requested,
    right_articles,
    stored_articles,
)
from tests.integration.economy_news.factories import DAY, rows
from tests.integration.recorded_alerts import RecordedAlerts
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]

FINANCE_LIST = "/breakingnews/section/101/259"
ARTICLES = "/mnews/article/"


def site_alarm(site: StandIn) -> str:
    return f"Granary: economy_news:site:{site.url.removeprefix('http://')}"


@pytest.mark.parametrize(("path", "status"), [(FINANCE_LIST, 403), (ARTICLES, 429), ("/robots.txt", 403)])
def test_a_refusal_pauses_the_whole_host_and_raises_an_alarm(
    path: str, status: int, now: psycopg.Connection, news: StandIn
) -> None:
    alerts = RecordedAlerts()
    news.fault(path=path, status=status)
    run = crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert [partition.section for partition in run.failures] == ["FINANCE"]
    assert str(status) in run.explain_failures()
    assert alerts.sent == [site_alarm(news)]
    asked = len(news.get("requests"))
    news.clear_faults()
    for _ in range(2):
        assert len(crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts).failures) == 1
    assert len(news.get("requests")) == asked
    assert alerts.sent == [site_alarm(news)]
    (pace,) = rows(now, "SELECT paused_until - clock_timestamp() AS left FROM granary.host_pace")
    assert timedelta(hours=11, minutes=59) < pace["left"] <= timedelta(hours=12)


def test_a_host_that_is_asked_again_after_its_pause_loses_no_article_and_clears_the_alarm(
    now: psycopg.Connection, news: StandIn
) -> None:
    alerts = RecordedAlerts()
    news.fault(path=ARTICLES, status=429, skip=3)
    crawl(now, news, "FINANCE", alerts=alerts)
    assert len(stored_articles(now)) == 3
    news.clear_faults()
    now.execute("UPDATE granary.host_pace SET paused_until = clock_timestamp()")
    crawl(now, news, "FINANCE", alerts=alerts)
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE"))
    assert alerts.sent == [site_alarm(news), f"{site_alarm(news)} is over"]


@pytest.mark.parametrize(
    ("robots", "says"),
    [
        ({"text": "User-agent: *\nDisallow: /\n"}, "CRAWL_PERMISSION"),
        ({"text": "User-agent: GranaryBot\nDisallow: /breakingnews/\n"}, "CRAWL_PERMISSION"),
        ({"text": "", "status": 503}, "robots.txt"),
        ({"text": "", "status": 500}, "robots.txt"),
    ],
)
def test_robots_that_forbid_or_cannot_be_read_stop_the_crawl_and_say_what_is_needed(
    robots: dict[str, Any], says: str, now: psycopg.Connection, news: StandIn
) -> None:
    alerts = RecordedAlerts()
    news.post("robots", **robots)
    run = crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert says in run.explain_failures()
    assert [seen["path"] for seen in news.get("requests")] == ["/robots.txt"]
    assert alerts.sent == [site_alarm(news)]
    assert rows(now, "SELECT * FROM news.listed_page") == []


def test_robots_that_forbid_the_articles_leave_them_listed(now: psycopg.Connection, news: StandIn) -> None:
    news.post("robots", text="User-agent: *\nDisallow: /mnews/\n")
    run = crawl(now, news, "FINANCE")
    assert "CRAWL_PERMISSION" in run.explain_failures()
    assert requested(news, ARTICLES) == []
    assert page_statuses(now) == {"LISTED": len(listed(news, "FINANCE"))}


def test_a_missing_robots_file_allows_the_crawl(now: psycopg.Connection, news: StandIn) -> None:
    news.post("robots", text="", status=404)
    assert crawl(now, news, "FINANCE").failures == {}


def test_an_expired_permission_stops_before_anything_is_asked(now: psycopg.Connection, news: StandIn) -> None:
    yesterday = (DAY - timedelta(days=1)).isoformat()
    with pytest.raises(CrawlNotAllowed, match=f"expired on {yesterday}"):
        crawl(now, news, "FINANCE", permission="계약 7; 가나신문", permission_expires=yesterday)
    assert news.get("requests") == []


def test_without_an_address_nothing_is_crawled(now: psycopg.Connection) -> None:
    with pytest.raises(ServiceNotConfigured, match="NAVER_BASE_URL"):
        crawl(now, StandIn(""), "FINANCE")
