"""One pass over one section: read its list, remember every new link, fetch what waits, store it.

Usable without Dagster. What was seen on a list is remembered before the first page is fetched, so a
pass may end anywhere (killed, out of time, the host gone) and the next one loses nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from assets.economy_news import store
from assets.economy_news.article_page import Article, ArticleGone, ArticleMoved, ArticleUnreadable
from assets.economy_news.article_source import ArticleSource
from assets.economy_news.article_storing import ArticleStore
from assets.economy_news.models import ListedPage, Partition
from resources.counters import Counts
from resources.errors import FetchFailed

FETCH_FAILURES_IN_A_ROW = 3

_STATUS_OF = {
    ArticleGone: ("GONE", "gone"),
    ArticleMoved: ("MOVED", "moved"),
    ArticleUnreadable: ("PARSE_FAILED", "parse_fail"),
    FetchFailed: ("FETCH_FAILED", "fetch_fail"),
}


@dataclass(frozen=True)
class ListRules:
    """How a pass reads a list. `is_live` False: a past day, all its pages, no early stop."""

    is_live: bool
    max_pages: int
    stop_after_seen_streak: int


@dataclass
class SectionPass:
    """What one pass over a section did: counted by the statuses of crawler_articles_total, and jobs made."""

    partition: Partition
    counts: Counter[str] = field(default_factory=Counter)
    list_is_unfinished: bool = False


class SectionCrawler:
    """Carries out passes with one source and one connection (in autocommit mode)."""

    def __init__(
        self,
        source: ArticleSource,
        connection: psycopg.Connection,
        articles: ArticleStore,
        out_of_time: Callable[[], bool],
        recheck_days: int = 0,
    ) -> None:
        self._source = source
        self._connection = connection
        self._articles = articles
        self._out_of_time = out_of_time
        self._recheck_days = recheck_days
        self._seconds = Counts()

    def crawl(self, partition: Partition, list_rules: ListRules | None) -> SectionPass:
        """One pass; without `list_rules` only what waits from earlier ones is fetched.

        Raises ListLayoutChanged or FetchFailed where the list cannot be read, CrawlNotAllowed or
        HostPaused where the host must be left alone. One article's failure raises nothing.
        """
        done = SectionPass(partition)
        started = time.monotonic()
        try:
            if list_rules is not None:
                new, counts, to_its_end = self._read_list(partition, list_rules)
                with self._connection.transaction():
                    store.list_pages(self._connection, partition, new)
                    if to_its_end and not list_rules.is_live:
                        store.note_read_list(self._connection, partition)
                    self._count(done, counts)
                done.list_is_unfinished = not to_its_end
            self._fetch_waiting(done)
            if self._recheck_days:
                self._look_again(done)
        finally:
            self._seconds.observe(
                "crawler_run_seconds", time.monotonic() - started, section=partition.section
            )
            if not self._connection.broken:
                self._seconds.write(self._connection)
        return done

    def _read_list(
        self, partition: Partition, rules: ListRules
    ) -> tuple[list[tuple[str, str]], Counter[str], bool]:
        """The links that the section's lists had not shown before, in list order, what to count, and whether
        the lists were read as far as they should be."""
        counts: Counter[str] = Counter()
        new: dict[tuple[str, str], None] = {}
        streak, cursor = 0, None
        for number in range(1, rules.max_pages + 1):
            if number > 1 and self._out_of_time():
                return list(new), counts, False
            with self._timed("list", partition.section):
                page = self._source.list_page(partition.day, partition.section, number, cursor)
            known = store.known_pages(self._connection, partition.section, page.article_ids)
            for ids in page.article_ids:
                counts["scanned"] += 1
                if ids not in known:
                    new[ids] = None
                    streak = 0
                    continue
                counts["duplicate_seen"] += 1
                streak += 1
                if rules.is_live and streak >= rules.stop_after_seen_streak:
                    counts["stop_after_seen_streak"] += 1
                    return list(new), counts, True
            # A cursor that does not move would show the same page for ever.
            if not page.has_next or page.next_cursor in (None, cursor):
                break
            cursor = page.next_cursor
        return list(new), counts, True

    def _fetch_waiting(self, done: SectionPass) -> None:
        failures_in_a_row = 0
        for page in store.pages_to_fetch(self._connection, done.partition):
            if self._out_of_time():
                return
            failed = self._fetch(page, done)
            failures_in_a_row = failures_in_a_row + 1 if failed else 0
            if failures_in_a_row == FETCH_FAILURES_IN_A_ROW:
                return  # the host has trouble; what is left waits for the next pass

    def _fetch(self, page: ListedPage, done: SectionPass) -> bool:
        """True if the page could not be fetched."""
        section = done.partition.section
        known = store.stored_article(self._connection, page.oid, page.aid)
        if known is not None:  # another section has stored it
            with self._connection.transaction():
                store.add_section(self._connection, known, section)
                store.settle_page(self._connection, page, section, "STORED")
                self._count(done, Counter(duplicate_seen=1))
            return False
        try:
            with self._timed("article", section):
                article = self._source.article(page.oid, page.aid)
        except tuple(_STATUS_OF) as error:
            status, counted_as = _STATUS_OF[type(error)]
            with self._connection.transaction():
                store.settle_page(self._connection, page, section, status, str(error)[:300])
                self._count(done, Counter({counted_as: 1}))
            return isinstance(error, FetchFailed)
        self._store(article, page, done)
        return False

    def _look_again(self, done: SectionPass) -> None:
        """Takes over what changed on the pages of young articles; a page that fails now is left alone."""
        section = done.partition.section
        for page in store.pages_to_recheck(self._connection, done.partition, self._recheck_days):
            if self._out_of_time():
                return
            try:
                with self._timed("article", section):
                    article = self._source.article(page.oid, page.aid)
            except tuple(_STATUS_OF):
                store.look_again(self._connection, page, section)
                continue
            with self._connection.transaction():
                self._count(done, self._articles.change(article, page, done.partition))

    def _store(self, article: Article, page: ListedPage, done: SectionPass) -> None:
        with self._connection.transaction():
            self._count(done, self._articles.add(article, page, done.partition))

    def _count(self, done: SectionPass, counts: Counter[str]) -> None:
        """Adds to the pass and, in the running transaction, to the counters."""
        done.counts.update(counts)
        metrics = Counts()
        for name, amount in counts.items():
            if name in ("summary_job", "summary_shared"):
                result = "created" if name == "summary_job" else "shared"
                metrics.add("ai_jobs_enqueued_total", amount, type="SUMMARY", result=result)
            else:
                metrics.add("crawler_articles_total", amount, section=done.partition.section, status=name)
        metrics.write(self._connection)

    @contextmanager
    def _timed(self, kind: str, section: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds.observe(
                "crawler_fetch_seconds", time.monotonic() - started, kind=kind, section=section
            )
