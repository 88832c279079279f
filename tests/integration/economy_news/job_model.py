"""What articles, summaries and insights should be stored: the rules of the contract over plain data."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from assets.economy_news.models import Claim, JobType
from assets.economy_news.retry_times import RetryTimes

RETRIES = RetryTimes(most=2)
"""Few, so that histories come to the last."""
LEASE = timedelta(minutes=10)
WAITING = ("PENDING", "RETRY_WAIT", "SUSPENDED")
UNDER_WAY = ("PENDING", "RUNNING", "RETRY_WAIT")


@dataclass
class StoredArticle:
    """An article; `duplicate_of` and the keys of all are the `aid`."""

    id: int
    body: str
    duplicate_of: str | None
    is_empty: bool = False


@dataclass
class Job:
    """A job with the results of each time that it was asked for: when, and the text."""

    id: int
    aid: str
    kind: JobType
    input_hash: str
    asked_at: datetime
    status: str = "PENDING"
    attempt: int = 0
    holder: str | None = None
    lease_until: datetime | None = None
    due_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    redo: int = 0
    results: dict[int, tuple[datetime, str]] = field(default_factory=dict)

    def become(self, status: str, error: str | None = None, due_at: datetime | None = None) -> None:
        """The status with what belongs to it; a suspension is for QUOTA."""
        self.status, self.error, self.due_at, self.lease_until = status, error, due_at, None
        self.reason = "QUOTA" if status == "SUSPENDED" else None

    def start_again(self) -> None:
        """As if it had never been tried."""
        self.become("PENDING")
        self.attempt = 0

    def is_lost(self, now: datetime) -> bool:
        """Whether a run died in its attempt, as far as is known."""
        if self.lease_until is not None:
            return self.lease_until < now
        return (self.status, self.error) == ("RETRY_WAIT", "run_ended")


@dataclass
class News:
    """All articles and jobs; `jobs` by id, in the order of the ids."""

    articles: dict[str, StoredArticle] = field(default_factory=dict)
    taken_down: set[str] = field(default_factory=set)
    jobs: dict[int, Job] = field(default_factory=dict)

    def of_kind(self, kind: JobType, aid: str | None = None) -> list[Job]:
        """The jobs of a kind, of one article or of all."""
        return [job for job in self.jobs.values() if job.kind is kind and aid in (None, job.aid)]

    def original(self, body: str) -> str | None:
        """The article that a new print of the story is a near-duplicate of."""
        prints = {aid: one for aid, one in self.articles.items() if one.body == body}
        originals = [aid for aid, one in prints.items() if one.duplicate_of is None]
        return min(originals, key=lambda aid: self.articles[aid].id, default=None)

    def take_down(self, aid: str) -> str | None:
        """The article and all that was made of it are gone for ever; the one that takes its place."""
        self.taken_down.add(aid)
        self.articles.pop(aid, None)
        self.jobs = {id_: job for id_, job in self.jobs.items() if job.aid != aid}
        heirs = [heir for heir, one in self.articles.items() if one.duplicate_of == aid]
        first = min(heirs, key=lambda heir: self.articles[heir].id, default=None)
        for heir in heirs:
            self.articles[heir].duplicate_of = None if heir == first else first
        return first

    def held_by(self, claim: Claim) -> Job | None:
        """The job, if the claim's token is the one of now."""
        job = self.jobs.get(claim.job_id)
        token = ("RUNNING", claim.run_id, claim.attempt)
        return job if job and (job.status, job.holder, job.attempt) == token else None

    def is_nearly_held_by(self, claim: Claim) -> bool:
        """Whether another run has the job, in an attempt of the same number: it began again since."""
        job = self.jobs.get(claim.job_id)
        ours = ("RUNNING", claim.attempt)
        return job is not None and (job.status, job.attempt) == ours and job.holder != claim.run_id

    def has_text(self, job: Job) -> bool:
        """Whether there is something to make it of: a summary needs the body."""
        return job.kind is not JobType.SUMMARY or not self.articles[job.aid].is_empty

    def is_claimable(self, job: Job, now: datetime) -> bool:
        """Whether a run may have it."""
        is_due = job.due_at is not None and job.due_at <= now
        is_lost = job.status == "RUNNING" and job.is_lost(now)
        return (job.status == "PENDING" or is_due or is_lost) and self.has_text(job)

    def counts(self, job: Job) -> bool:
        """Whether no later job of its kind has taken its place."""
        return job is max(self.of_kind(job.kind, job.aid), key=lambda one: (one.asked_at, one.id))

    def that_count(self, status: str) -> list[Job]:
        """The jobs of the status that no later one has replaced."""
        return [job for job in self.jobs.values() if job.status == status and self.counts(job)]

    def may_be_redone(self, job: Job, run_id: str) -> bool:
        """Whether the run may have it made again: it did not make it, and no new input is under way."""
        if job.status != "SUCCESS" or job.holder == run_id or not self.counts(job) or not self.has_text(job):
            return False
        sources = [] if job.kind is JobType.SUMMARY else self.of_kind(JobType.SUMMARY, job.aid)
        return not any(self.counts(one) and one.status in UNDER_WAY for one in sources)

    def drop_superseded(self, aid: str) -> None:
        """A new summary drops what waits to be made of the one before; what has a result keeps that."""
        for job in self.of_kind(JobType.INSIGHT, aid):
            if job.status in WAITING and job.results:
                job.become("SUCCESS")
            elif job.status in WAITING:
                del self.jobs[job.id]
