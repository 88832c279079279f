"""Pages that cannot be read: one section or article fails, nothing is invented, someone is told."""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import psycopg

from tests.integration.economy_news.crawling import (
    after_evening,
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
LIST_LAYOUT = "Granary: economy_news:list_layout"
PAGE_LAYOUT = "Granary: economy_news:article_layout"
IN_CIRCLES = "here"
NO_BODY = "<html><body><h2 id='title_area'>제목</h2><main>본문이 다른 곳에 있다</main></body></html>"


def page_text(site: StandIn, path: str) -> str:
    """A page as the site serves it."""
    return httpx.get(site.url + path, trust_env=False).raise_for_status().text


BAD_LISTS: dict[str, dict[str, Any]] = {
    "no list on the page": {"body": "<html><body><div class='section_headline'>…</div></body></html>"},
    "nothing at all": {"body": ""},
    "ten megabytes": {"pad_to_bytes": 10_000_000},
    "a gzip bomb": {"gzip_bomb_bytes": 50_000_000},
    "cut off on the way": {"truncate_bytes": 5_000},
    "hanging": {"hang": True},
    "no such page": {"status": 404},
    "out of order": {"status": 503},
    "sent elsewhere": {"redirect": "https://nid.example.com/login"},
    "sent nowhere": {"redirect": "http://[::1/login"},
    "sent in circles": {"redirect": FINANCE_LIST},
}


def test_a_list_that_cannot_be_read_fails_its_section_alone_and_is_never_empty(
    now: psycopg.Connection, news: StandIn
) -> None:
    for name, fault in BAD_LISTS.items():
        news.clear_faults()
        news.fault(path=FINANCE_LIST, **fault)
        run = crawl(now, news, "FINANCE", "INDUSTRY", timeout_ms=1_000)
        assert [partition.section for partition in run.failures] == ["FINANCE"], name
        assert "FINANCE" in run.explain_failures()
        assert [partition.section for partition in run.passes] == ["INDUSTRY"], name
    assert set(stored_articles(now)) == set(right_articles(news, "INDUSTRY"))
    assert rows(now, "SELECT * FROM news.listed_page WHERE section = 'FINANCE'") == []


def test_a_changed_list_layout_raises_one_alarm_that_clears_when_lists_are_read_again(
    now: psycopg.Connection, news: StandIn
) -> None:
    alerts = RecordedAlerts()
    news.fault(path=FINANCE_LIST, body="<html><body>다른 화면</body></html>")
    for _ in range(2):
        crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert alerts.sent == [LIST_LAYOUT]
    assert "list_page.py" in rows(now, "SELECT message FROM granary.alert")[0]["message"]
    news.clear_faults()
    crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert alerts.sent == [LIST_LAYOUT, f"{LIST_LAYOUT} is over"]


def test_a_list_that_ends_in_the_middle_gives_what_arrived_and_the_next_pass_the_rest(
    now: psycopg.Connection, news: StandIn
) -> None:
    whole = page_text(news, f"{FINANCE_LIST}?date={DAY:%Y%m%d}")
    seventh = listed(news, "FINANCE")[6]
    cut = whole.index(seventh, whole.index('class="section_latest"'))
    news.fault(path=FINANCE_LIST, body=whole[:cut], times=1)
    run = crawl(now, news, "FINANCE")
    assert run.failures == {}
    assert run.counts()["scanned"] == 6
    crawl(now, news, "FINANCE")
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE"))


def test_a_further_page_that_cannot_be_read_fails_its_section(connect: Connect, news: StandIn) -> None:
    connection = connect(at=after_evening(days=1))
    for body in ("", "[]", "{}", '{"renderedComponent": {}}', "[" * 100_000, "<html></html>"):
        news.clear_faults()
        news.fault(path="/section/template/", body=body)
        run = crawl(connection, news, "STOCK", "LIVING")
        assert [partition.section for partition in run.failures] == ["STOCK"]
        assert run.explain_failures().startswith("STOCK: ListLayoutChanged")
    assert set(stored_articles(connection)) == set(right_articles(news, "LIVING"))


def test_a_list_without_end_is_read_no_further_than_allowed(connect: Connect, news: StandIn) -> None:
    """Every page repeats the last one and promises another."""
    more = '<div class="section_latest_article" data-has-next="true" data-cursor="same"></div>'
    news.fault(path="/section/template/", body=json.dumps({"renderedComponent": more}))
    past = connect(at=after_evening(days=1))
    run = crawl(past, news, "STOCK", backfill_max_pages=50)
    assert run.failures == {}
    assert len(requested(news, "/section/template/")) == 2


BAD_ARTICLES: dict[str, dict[str, Any]] = {
    "ten megabytes": {"pad_to_bytes": 10_000_000},
    "a gzip bomb": {"gzip_bomb_bytes": 50_000_000},
    "cut off on the way": {"truncate_bytes": 3_000},
    "hanging": {"hang": True},
    "out of order": {"status": 503},
    "no status of ours": {"status": 418},
    "sent elsewhere": {"redirect": "https://nid.example.com/login"},
    "sent nowhere": {"redirect": "http://[::1/login"},
    "sent in circles": {"redirect": IN_CIRCLES},
}


def test_articles_that_cannot_be_fetched_wait_and_the_others_are_stored(
    connect: Connect, now: psycopg.Connection, news: StandIn
) -> None:
    # Every second article of the list, since three failures in a row end a pass.
    bad = dict(zip(listed(news, "STOCK")[1::2], BAD_ARTICLES.values(), strict=False))
    for key, fault in bad.items():
        is_circle = fault.get("redirect") == IN_CIRCLES
        news.fault(path=f"{ARTICLES}{key}", **({"redirect": f"{ARTICLES}{key}"} if is_circle else fault))
    run = crawl(now, news, "STOCK", max_pages=2, timeout_ms=1_000)
    assert (run.failures, run.counts()["fetch_fail"]) == ({}, len(BAD_ARTICLES))
    right = set(right_articles(news, "STOCK"))
    assert set(stored_articles(now)) == right - set(bad)
    news.clear_faults()
    crawl(connect(at=after_evening(minutes=1)), news, "STOCK")
    assert set(stored_articles(now)) == right


def test_the_page_of_another_article_is_not_stored_under_this_ones_name(
    now: psycopg.Connection, news: StandIn
) -> None:
    first, second = listed(news, "FINANCE")[:2]
    assert {first, second} <= set(right_articles(news, "FINANCE"))
    news.fault(path=f"{ARTICLES}{first}", redirect=f"{ARTICLES}{second}")
    run = crawl(now, news, "FINANCE")
    assert run.counts()["fetch_fail"] == page_statuses(now)["FETCH_FAILED"] == 1
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE")) - {first}


def test_pages_without_bodies_raise_an_alarm_and_are_stored_once_they_have_them(
    now: psycopg.Connection, news: StandIn
) -> None:
    alerts = RecordedAlerts()
    news.fault(path=ARTICLES, body=NO_BODY)
    run = crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert run.share_with_body() == 0.0
    assert run.failures == {}
    assert stored_articles(now) == {}
    assert alerts.sent == [PAGE_LAYOUT]
    news.clear_faults()
    run = crawl(now, news, "FINANCE", "INDUSTRY", alerts=alerts)
    assert run.share_with_body() == 1.0
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE", "INDUSTRY"))
    assert alerts.sent == [PAGE_LAYOUT, f"{PAGE_LAYOUT} is over"]


def test_a_few_odd_pages_are_no_changed_layout(now: psycopg.Connection, news: StandIn) -> None:
    alerts = RecordedAlerts()
    news.fault(path=ARTICLES, body=NO_BODY, times=4)
    run = crawl(now, news, "FINANCE", alerts=alerts)
    assert 0.2 <= run.share_with_body() < 1.0
    assert alerts.sent == []


def test_unstorable_characters_in_a_page_vanish_and_the_rest_is_stored(
    now: psycopg.Connection, news: StandIn
) -> None:
    key = listed(news, "FINANCE")[0]
    page = page_text(news, f"{ARTICLES}{key}")
    odd = "앞&#0;&#xD83D;\x00\x01뒤😀&#x2028;끝"
    page = re.sub(r'(id="dic_area"[^>]*>)', rf"\1{odd} ", page)
    page = re.sub(r'(id="title_area"[^>]*>(<span>)?)', rf"\1{odd} ", page)
    news.fault(path=f"{ARTICLES}{key}", body=page)
    run = crawl(now, news, "FINANCE")
    assert run.counts()["parse_fail"] == 0
    row = stored_articles(now)[key]
    for text in (row["title"], row["body"]):
        assert "앞" in text and "뒤😀" in text
        assert not re.search("[\x00\x01\ud800-\udfff\u2028]", text)
    assert set(stored_articles(now)) == set(right_articles(news, "FINANCE"))


def test_a_title_of_five_thousand_characters_is_stored_whole(now: psycopg.Connection, news: StandIn) -> None:
    crawl(now, news, "VENTURE")
    (right,) = [one for one in right_articles(news, "VENTURE").values() if one["kind"] == "long_title"]
    stored = stored_articles(now)[f"{right['oid']}/{right['aid']}"]
    assert len(stored["title"]) == 5_000
    assert stored["title"] == right["title"]
