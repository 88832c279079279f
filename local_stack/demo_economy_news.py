"""economy_news in the demo: one day of the stand-in site, all eight sections, five AI results an article.

Five articles meet a fault each, so that the demo shows where they end. What is right is judged in
`demo_economy_news_judge.py`, from outside the pipeline.
"""

import os
import time
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Protocol

from local_stack.demo_economy_news_books import Books, read_books
from local_stack.demo_economy_news_faults import Faults
from local_stack.demo_economy_news_judge import Judge
from local_stack.demo_report import PipelineReport
from local_stack.demo_runs import materialised_partitions, run_job

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PIPELINE = "economy_news"
# One fixed day, so that every demo shows the same; `make dev` shows the running one.
DEMO_DAY = date(2026, 11, 27)
ASSETS = (
    "economy_articles",
    "article_summaries",
    "article_term_cards",
    "article_insights",
    "article_content_quizzes",
    "article_term_quizzes",
    "article_completeness",
)
MOST_ENRICHMENTS = 4


class Steps(Protocol):
    """Shows what is being done."""

    def step(self, what: str) -> "AbstractContextManager[None]": ...


class EconomyNewsDemo:
    """Runs both jobs over the demo's day until nothing waits, and has what they left judged."""

    def __init__(self, external: Mapping[str, str]) -> None:
        self._database_url = os.environ["DATABASE_URL"]
        site = None if "naver_site" in external else os.environ["NAVER_BASE_URL"]
        api = os.environ.get("OPENAI_BASE_URL", "").removesuffix("/v1")
        ledger = None if "openai_stand_in" in external else api
        self._faults = Faults(site, ledger, DEMO_DAY)
        self._judge = Judge(self._database_url, DEMO_DAY, self._faults)
        self._ledger = ledger

    def run(self, steps: Steps) -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before = self._books()
        claims = {}
        with steps.step(f"economy_news_crawl, {DEMO_DAY}, 8 sections"):
            claims["the crawl succeeded"] = run_job("economy_news_crawl", tags=_range())
        with steps.step(f"economy_news_enrich, {DEMO_DAY}, 8 sections"), self._faults:
            claims["the enrichment succeeded"] = self._enrich()
        after = self._books()
        claims |= self._judge.claims(before, after)
        partitions = _materialised_partitions()
        claims[f"8 partitions of each of the {len(ASSETS)} assets are materialised"] = partitions == 8
        return PipelineReport(
            PIPELINE,
            partitions,
            after.rows(),
            after.tokens,
            after.cost_usd,
            time.monotonic() - started,
            _news(before, after),
            claims,
        )

    def _books(self) -> Books:
        return read_books(self._database_url, self._ledger, DEMO_DAY)

    def _enrich(self) -> bool:
        """Runs until no job waits: one meets a fault and is due again a second later.

        Jobs that a killed demo had leased come back when their short leases have run out.
        """
        for _ in range(MOST_ENRICHMENTS):
            while self._books().not_due:
                time.sleep(0.2)
            if not run_job("economy_news_enrich", tags=_range()):
                return False
            if not self._books().waiting:
                return True
        return False


def _range() -> Mapping[str, str]:
    from orchestration.partitions import SECTIONS, news_range_tags

    return news_range_tags(DEMO_DAY, SECTIONS)


def _materialised_partitions() -> int:
    """How many of the day's partitions every asset has."""
    from orchestration.partitions import SECTIONS, news_key

    keys = {news_key(DEMO_DAY, section) for section in SECTIONS}
    for asset in ASSETS:
        keys &= materialised_partitions(asset)
    return len(keys)


def _news(before: Books, after: Books) -> str:
    rows = sum(after.rows().values()) - sum(before.rows().values())
    calls = None if after.calls is None or before.calls is None else after.calls - before.calls
    if rows == 0 and not calls:
        return "nothing was new: no row added, no call made, nothing paid"
    asked = "" if calls is None else f", {calls} calls made"
    return f"this run added {rows} rows{asked} and cost {after.spent_usd - before.spent_usd:.4f} USD"
