"""Crawl runs over the stand-in site, with a hook between fetch and store where their order must be fixed."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

import psycopg

from assets.economy_news.article_page import Article
from assets.economy_news.article_source import ArticleSource, NaverPages
from assets.economy_news.article_storing import ArticleStore, StoringRules
from assets.economy_news.crawl import ListRules, SectionCrawler
from assets.economy_news.crawl_run import CrawlRun
from assets.economy_news.list_page import ListPage
from assets.economy_news.models import Lists, Partition
from assets.economy_news.rules import CrawlRules
from resources.alerts import AlertResource
from resources.polite_site import SiteResource
from tests.integration.economy_news.factories import DAY, MODEL, rows
from tests.integration.stand_ins import StandIn

EVENING = "2026-03-02T23:59:30+09:00"
"""When all articles of DAY are out; the site and the database are set to it."""

LIVE = ListRules(is_live=True, max_pages=1, stop_after_seen_streak=8)


def after_evening(**time: float) -> str:
    """A later moment, for a session's clock."""
    return (datetime.fromisoformat(EVENING) + timedelta(**time)).isoformat()


def a_site(site: StandIn, timeout_ms: int = 5_000) -> SiteResource:
    """The site without pauses between requests."""
    return SiteResource(
        base_url=site.url,
        contact="tests",
        timeout_ms=timeout_ms,
        min_interval_ms=0,
        sleep_min_ms=0,
        sleep_max_ms=0,
    )


def crawl(
    connection: psycopg.Connection,
    site: StandIn,
    *sections: str,
    day: date = DAY,
    run_id: str = "run-1",
    alerts: AlertResource | None = None,
    read_lists: bool = True,
    slice_seconds: float = 60,
    timeout_ms: int = 5_000,
    **rules: Any,
) -> CrawlRun:
    """A run over sections of a day; live where the connection's clock stands on that day."""
    run = CrawlRun(
        connection, CrawlRules(**rules), alerts or AlertResource(), run_id, MODEL, slice_seconds=slice_seconds
    )
    lists = Lists.needed if read_lists else Lists.none
    run.crawl(a_site(site, timeout_ms), [Partition(day, section) for section in sections], lists)
    return run


class HookedSource:
    """A source that calls `before_storing` with each article between its fetch and its store."""

    def __init__(self, source: ArticleSource, before_storing: Callable[[Article], object]) -> None:
        self._source = source
        self._before_storing = before_storing

    def list_page(self, day: date, section: str, number: int, cursor: str | None) -> ListPage:
        return self._source.list_page(day, section, number, cursor)

    def article(self, oid: str, aid: str) -> Article:
        article = self._source.article(oid, aid)
        self._before_storing(article)
        return article


@contextmanager
def a_crawler(
    connection: psycopg.Connection,
    site: StandIn,
    before_storing: Callable[[Article], object] = lambda _: None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Iterator[SectionCrawler]:
    """A crawler of single sections, with a hook."""
    rules = StoringRules(
        min_characters_for_ai=1_000,
        skip_duplicates=True,
        summary_prompt_version="a-version",
        model=MODEL,
        crawl_permission=None,
        run_id="hooked",
    )
    with a_site(site).open(connection, None) as pages:
        source = HookedSource(NaverPages(pages), before_storing)
        yield SectionCrawler(source, connection, ArticleStore(connection, rules), out_of_time)


def listed(site: StandIn, section: str, day: date = DAY) -> list[str]:
    """`oid/aid` of a section's list, newest first, by the site's own account."""
    lists: dict[str, list[str]] = site.get("manifest", date=day.isoformat())["lists"]
    return lists[section]


def right_articles(site: StandIn, *sections: str, day: date = DAY) -> dict[str, dict[str, Any]]:
    """What a right crawl of the sections stores, by `oid/aid`, by the site's own account."""
    return {
        f"{one['oid']}/{one['aid']}": one
        for one in site.get("manifest", date=day.isoformat())["articles"]
        if one["expected"] == "stored" and set(sections) & set(one["sections"])
    }


def stored_articles(connection: psycopg.Connection) -> dict[str, dict[str, Any]]:
    """What is stored, by `oid/aid`."""
    return {f"{one['oid']}/{one['aid']}": one for one in rows(connection, "SELECT * FROM news.article")}


def page_statuses(connection: psycopg.Connection) -> Counter[str]:
    """How many of the listed links stand where."""
    return Counter(row["status"] for row in rows(connection, "SELECT status FROM news.listed_page"))


def requested(site: StandIn, path: str) -> list[str]:
    """The requests the site has seen whose path holds the text, oldest first."""
    return [seen["path"] for seen in site.get("requests") if path in seen["path"]]


def articles_with_jobs(connection: psycopg.Connection) -> list[int]:
    """The articles with a job, each as often as it has one."""
    return [row["article_id"] for row in rows(connection, "SELECT article_id FROM news.ai_job ORDER BY 1")]


def counted(connection: psycopg.Connection, section: str) -> dict[str, float]:
    """What the counters say of a section's articles, by status."""
    found = rows(
        connection,
        "SELECT labels->>'status' AS status, value FROM granary.counter "
        "WHERE name = 'crawler_articles_total' AND labels->>'section' = %s",
        section,
    )
    return {row["status"]: row["value"] for row in found}
