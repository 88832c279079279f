"""One crawl run over the sections of its partitions: no section hides the others, alarms go out.

Usable without Dagster.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import date

import psycopg

from assets.economy_news import store, summary
from assets.economy_news.article_source import NaverPages
from assets.economy_news.article_storing import ArticleStore, StoringRules
from assets.economy_news.crawl import ListRules, SectionCrawler, SectionPass
from assets.economy_news.list_page import ListLayoutChanged
from assets.economy_news.models import JobMode, Lists, Partition
from assets.economy_news.rules import CrawlRules
from resources.alerts import AlertResource
from resources.errors import CrawlNotAllowed, FetchFailed, HostPaused
from resources.polite_site import PoliteSite, SiteResource

OUT_OF_TIME = (
    "out of time: launch it again, it goes on where this run stopped (what was listed already is fetched by "
    "the sensor pages_left_over)"
)
LIST_LAYOUT_ALARM = "economy_news:list_layout"
SITE_ALARM = "economy_news:site"
PAGE_LAYOUT_ALARM = "economy_news:article_layout"
# A changed layout shows as pages without a body; a few odd pages do not.
LEAST_SHARE_WITH_BODY = 0.2
LEAST_PAGES_TO_JUDGE = 5


class CrawlRun:
    """Carries out one run on a connection in autocommit mode and keeps what it did."""

    def __init__(
        self,
        connection: psycopg.Connection,
        rules: CrawlRules,
        alerts: AlertResource,
        run_id: str,
        model: str,
        slice_seconds: float,
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._alerts = alerts
        self._run_id = run_id
        self._model = model
        self._slice_seconds = slice_seconds
        self._started = time.monotonic()
        self.layout_changed = False
        self.passes: dict[Partition, SectionPass] = {}
        self.seconds: dict[Partition, float] = {}
        self.failures: dict[Partition, str] = {}

    def crawl(
        self,
        site: SiteResource,
        partitions: Sequence[Partition],
        lists: Lists = Lists.needed,
        mode: JobMode = JobMode.live,
    ) -> None:
        """Passes over every partition; `failures` says which could not be read and why.

        `mode`: how the jobs of new articles are asked.

        Raises CrawlNotAllowed for an expired permission and ServiceNotConfigured without a site.
        """
        today, first_live_day = store.today_and_first_live_day(self._connection)
        try:
            permission = self._rules.permission_on(today)
        except CrawlNotAllowed as error:
            self._alerts.raise_(self._connection, f"{SITE_ALARM}:permission", str(error))
            raise
        articles = ArticleStore(self._connection, self._storing_rules(permission, mode))
        with site.open(self._connection, permission) as pages:
            crawler = SectionCrawler(
                NaverPages(pages),
                self._connection,
                articles,
                self._out_of_time,
                self._rules.recheck_days,
            )
            for partition in partitions:
                # A live list is read in any case: what scrolls off it is not seen again.
                if self._out_of_time() and partition.day < first_live_day:
                    self.failures[partition] = OUT_OF_TIME
                elif not self._crawl_section(
                    crawler, partition, self._list_rules(partition, first_live_day, lists), pages
                ):
                    break
            else:
                if self.counts()["scanned"] or self.counts()["saved"]:
                    self._alerts.clear(self._connection, f"{SITE_ALARM}:{pages.host}")
        self._alarm_about_layouts()

    def counts(self) -> Counter[str]:
        """What all passes of the run counted together."""
        return sum((done.counts for done in self.passes.values()), Counter())

    def share_with_body(self) -> float:
        """Of the pages that could be fetched, the share with a body; 1.0 where too few were to judge."""
        counts = self.counts()
        with_body = counts["saved"] + counts["duplicate_race"]
        fetched = with_body + counts["parse_fail"]
        return with_body / fetched if fetched >= LEAST_PAGES_TO_JUDGE else 1.0

    def _layout_has_changed(self) -> bool:
        """Whether under a fifth of the pages had a body: of this run's, or of the last hour's, where a run
        that finds one new article at a time would never have enough to judge."""
        stored, without_body = store.bodies_lately(self._connection)
        lately = stored / (stored + without_body) if stored + without_body >= LEAST_PAGES_TO_JUDGE else 1.0
        return min(self.share_with_body(), lately) < LEAST_SHARE_WITH_BODY

    def explain_failures(self) -> str:
        """Each section that failed and why; several with one reason together."""
        sections: dict[str, list[str]] = {}
        for partition, reason in self.failures.items():
            sections.setdefault(reason, []).append(partition.section)
        return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in sections.items())

    def _crawl_section(
        self, crawler: SectionCrawler, partition: Partition, lists: ListRules | None, pages: PoliteSite
    ) -> bool:
        """False where the whole site must be left alone."""
        started = time.monotonic()
        try:
            self.passes[partition] = crawler.crawl(partition, lists)
            if self.passes[partition].list_is_unfinished:
                self.failures[partition] = OUT_OF_TIME
        except (ListLayoutChanged, FetchFailed) as error:
            self.failures[partition] = f"{type(error).__name__}: {error}"
        except (CrawlNotAllowed, HostPaused) as error:
            self.failures[partition] = str(error)
            self._alerts.raise_(self._connection, f"{SITE_ALARM}:{pages.host}", str(error))
            return False
        finally:
            self.seconds[partition] = time.monotonic() - started
        return True

    def _out_of_time(self) -> bool:
        return time.monotonic() - self._started > self._slice_seconds

    def _list_rules(self, partition: Partition, first_live_day: date, lists: Lists) -> ListRules | None:
        """None where no list is to be read: only what waits, or a past day that was read to its end."""
        is_live = partition.day >= first_live_day
        if lists is Lists.none:
            return None
        if lists is Lists.needed and not is_live and store.list_was_read(self._connection, partition):
            return None
        return ListRules(
            is_live=is_live,
            max_pages=self._rules.max_pages if is_live else self._rules.backfill_max_pages,
            stop_after_seen_streak=self._rules.stop_after_seen_streak,
        )

    def _storing_rules(self, permission: str | None, mode: JobMode) -> StoringRules:
        return StoringRules(
            min_characters_for_ai=self._rules.min_content_length_for_ai,
            skip_duplicates=self._rules.skip_duplicates,
            summary_prompt_version=summary.PROMPT.version,
            model=self._model,
            crawl_permission=permission,
            run_id=self._run_id,
            mode=mode,
        )

    def _alarm_about_layouts(self) -> None:
        self.layout_changed = self._layout_has_changed()
        unreadable = [one for one in self.failures.values() if one.startswith("ListLayoutChanged")]
        self._alarm_if(
            bool(unreadable),
            LIST_LAYOUT_ALARM,
            f"section lists cannot be read ({self.explain_failures()}): look at the page in a browser, then "
            "mend assets/economy_news/list_page.py",
        )
        self._alarm_if(
            self.layout_changed,
            PAGE_LAYOUT_ALARM,
            "under a fifth of the article pages had a body: look at one in a browser, then mend "
            "assets/economy_news/article_page.py; the pages are tried again on three later passes",
        )

    def _alarm_if(self, is_wrong: bool, cause: str, message: str) -> None:
        if is_wrong:
            self._alerts.raise_(self._connection, cause, message)
        elif self.counts()["scanned"] and self.counts()["saved"]:
            self._alerts.clear(self._connection, cause)
