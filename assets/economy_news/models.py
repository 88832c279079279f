"""What passes between the modules of economy_news."""

from datetime import date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict


class JobType(StrEnum):
    """The AI results of an article."""

    SUMMARY = "SUMMARY"
    TERM_CARDS = "TERM_CARDS"
    INSIGHT = "INSIGHT"
    QUIZ_CONTENT = "QUIZ_CONTENT"
    QUIZ_TERM = "QUIZ_TERM"


class JobMode(StrEnum):
    """How a job is asked: by a call at once, or in a batch within a day, at half the price."""

    live = "live"
    batch = "batch"


class Lists(Enum):
    """Which section lists a run reads. Lower case: Dagster's config knows enums by their names."""

    needed = "needed"
    again = "again"
    none = "none"


class Partition(NamedTuple):
    """A day (Asia/Seoul, the date of the list page) and a section."""

    day: date
    section: str


class ListedPage(NamedTuple):
    """A link seen on a list and not settled yet; `passes` counts the tries so far."""

    oid: str
    aid: str
    passes: int


class Claim(NamedTuple):
    """A job leased by this run. `job_id`, `run_id` and `attempt` are the token that a finish must show."""

    job_id: int
    run_id: str
    attempt: int
    article_id: int
    day: date
    section: str
    title: str
    text: str
    """What the job's kind reads: the body, the full summary, or the cards as text."""
    lease_was_lost: bool
    """The job had been RUNNING under a lease that ran out."""
    batch_plan: str | None = None
    """The batch that asks for it: then this and `attempt` are the token, whichever run finishes it."""


class Success(BaseModel):
    """A claim that brought a result: what its calls cost, what it was made from, what is made from it."""

    model_config = ConfigDict(frozen=True)

    claim: Claim
    input_hash: str
    output_hash: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: Decimal


class JobFailure(BaseModel):
    """How a claim ended without a result."""

    model_config = ConfigDict(frozen=True)

    claim: Claim
    status: str
    """RETRY_WAIT, SUSPENDED or FAILED."""
    error_code: str
    error_message: str
    delay_seconds: float | None = None
    suspend_reason: str | None = None


class PartitionJobs(BaseModel):
    """The jobs of one type in one partition, now."""

    model_config = ConfigDict(frozen=True)

    day: date
    section: str
    done: int = 0
    waiting: int = 0
    submitted: int = 0
    """Of the waiting ones, those in a batch."""
    failed: int = 0
    suspended: int = 0
    outdated: int = 0
    cost_usd: float = 0.0
    """Of all results that are stored, earlier ones included."""


class DueJobs(NamedTuple):
    """A day and section with jobs that a run could take now."""

    day: date
    section: str
    jobs: int


class UnsettledItem(NamedTuple):
    """A job that waits for a retry, is suspended or failed, and why. Never any text of the article."""

    day: date
    section: str
    article_id: int
    job_type: str
    status: str
    reason: str
    next_run_at: datetime | None


class ArticleCounts(BaseModel):
    """The stored articles of one partition."""

    model_config = ConfigDict(frozen=True)

    day: date
    section: str
    articles: int
    duplicates: int
    without_date: int


class PageCounts(BaseModel):
    """The links of one partition that are not stored: to be fetched (again), or unreadable."""

    model_config = ConfigDict(frozen=True)

    day: date
    section: str
    waiting: int
    unreadable: int


class PartitionState(BaseModel):
    """How the articles of one partition stand, by their worst job; `articles` counts the others too."""

    model_config = ConfigDict(frozen=True)

    day: date
    section: str
    articles: int
    done: int
    waiting: int
    failed: int
    suspended: int


class OpenBatch(NamedTuple):
    """A batch that is planned or at the provider. `plan` is our id, `batch_id` the provider's."""

    plan: str
    job_type: JobType
    day: date
    """Of all its jobs."""
    prompt_version: str
    model: str
    status: str
    """PLANNED or SUBMITTED."""
    input_file_id: str | None
    batch_id: str | None
    planned_at: datetime
    is_free: bool
    """No run holds it."""


class BatchLine(NamedTuple):
    """A job's line in a batch file, without its bytes. `asked_hash`: of the text that it asks about."""

    job_id: int
    asked_hash: str
    bytes: int
    most_input_tokens: int

    @property
    def queued_tokens(self) -> int:
        """What it takes of the provider's queue: a token for a syllable or for three letters."""
        return -(-self.bytes // 3)


class SubmittedJob(NamedTuple):
    """A job in a batch whose answer is here. The claim's text is as it is now."""

    claim: Claim
    asked_hash: str | None
    error_code: str | None
    """Of the try before, if any."""
    has_lost_its_text: bool
    is_superseded: bool
    """A later job of its kind counts for the article."""
