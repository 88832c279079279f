"""What an operator sets for this pipeline, handed to its assets; filled from the environment by
`orchestration/definitions.py`, shown under the code location's resources."""

from datetime import date
from decimal import Decimal

import dagster as dg
from pydantic import Field

from assets.economy_news.retry_times import RetryTimes
from orchestration.policies import ENRICH_SLICE_SECONDS
from resources.errors import CrawlNotAllowed


class CrawlRules(dg.ConfigurableResource):
    """How section lists are read and what is stored of them."""

    enabled: bool = Field(default=True, description="CRAWL_ENABLED; off: every crawl run fails at once.")
    max_pages: int = Field(default=1, description="Most pages of a section's list of the running day.")
    backfill_max_pages: int = Field(default=200, description="Most pages of a section's list of a past day.")
    stop_after_seen_streak: int = Field(
        default=8, description="So many known articles in a row end the reading of a list."
    )
    min_content_length_for_ai: int = Field(default=1_000, description="0: no article gets AI results.")
    skip_duplicates: bool = Field(default=True, description="Copies of a stored article get no AI results.")
    recheck_days: int = Field(
        default=0, description="Stored articles this young are looked at again, hourly; 0: never."
    )
    retention_days: int = Field(default=30, description="After these a body is emptied.")
    permission: str = Field(default="", description="The publisher's leave, recorded with every article.")
    permission_expires: str = Field(default="", description="The last day that it holds, YYYY-MM-DD.")

    def permission_on(self, today: date) -> str | None:
        """The leave that holds today (Asia/Seoul), or None. Raises CrawlNotAllowed where it has expired."""
        if self.permission and date.fromisoformat(self.permission_expires) < today:
            raise CrawlNotAllowed(
                f"CRAWL_PERMISSION expired on {self.permission_expires}: renew it with the holder, "
                "or empty it to stop crawling"
            )
        return self.permission or None


class EnrichmentRules(dg.ConfigurableResource):
    """How jobs are claimed, asked, paid and tried again."""

    enabled: bool = Field(default=True, description="AI_ENABLED; off: no job is claimed.")
    concurrency: int = Field(default=16, description="Model calls under way at once in a step.")
    batch_size: int = Field(default=50, description="Most jobs claimed by one statement.")
    lease_seconds: float = Field(
        default=600, description="A claimed job that is not settled by then is free for the next run."
    )
    slice_seconds: float = Field(
        default=ENRICH_SLICE_SECONDS, description="After these a step claims no more; the next run goes on."
    )
    max_retries: int = Field(default=5, description="A job that failed more often is FAILED.")
    retry_base_seconds: int = Field(default=30, description="Before the first retry; it doubles with each.")
    retry_max_seconds: int = Field(default=600, description="The longest wait before a retry.")
    gate_probe_minutes: int = Field(
        default=30, description="Between two tries whether a shut gate can be opened."
    )
    max_enqueued_tokens: int = Field(
        default=2_000_000, description="Most tokens that open batches of the model may hold together."
    )
    daily_spending_cap_usd: str = Field(default="5", description="USD per day in Seoul; empty: no cap.")

    @property
    def retry_times(self) -> RetryTimes:
        return RetryTimes(
            most=self.max_retries,
            base_seconds=self.retry_base_seconds,
            maximum_seconds=self.retry_max_seconds,
        )

    @property
    def cap_usd(self) -> Decimal | None:
        return Decimal(self.daily_spending_cap_usd) if self.daily_spending_cap_usd else None
