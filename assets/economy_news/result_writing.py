"""How jobs end: results stored with what they make possible, failures written down, both counted.

Runs inside the caller's transaction. Whoever asks, call by call or in a batch, ends jobs here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from assets.economy_news import job_store, result_store
from assets.economy_news.models import Claim, JobFailure, JobMode, JobType, Partition, Success
from assets.economy_news.result_kinds import KINDS, ResultKind
from assets.economy_news.retry_times import RetryTimes
from assets.economy_news.store import input_hash
from resources import gate
from resources.counters import Counts
from resources.spending import Usage

NOTHING_SPENT = Usage()
BROKE_A_RULE_TWICE = "the answer broke a rule twice"
"""Not which: the complaint may quote the article, and job rows outlive its body."""


class Asked(NamedTuple):
    """What answers were asked for, and what is made of them: by which model and how."""

    prompt_version: str
    model: str
    following_model: str
    mode: JobMode = JobMode.live


@dataclass
class Outcome:
    """What a run did for one kind of result; usage by partition. `shut`: the gate, if it is shut."""

    usage: dict[Partition, Usage] = field(default_factory=dict)
    succeeded: int = 0
    failed: int = 0
    put_off: int = 0
    leases_lost: int = 0
    shut: gate.ShutGate | None = None

    def add_usage(self, claim: Claim, usage: Usage) -> None:
        """Adds to the usage of the claim's partition."""
        partition = Partition(claim.day, claim.section)
        self.usage[partition] = self.usage_of(partition) + usage

    def usage_of(self, partition: Partition) -> Usage:
        """What this run used for the partition; nothing where it asked nothing."""
        return self.usage.get(partition, NOTHING_SPENT)

    def summed_up(self) -> str:
        """For the run's log."""
        return (
            f"{self.succeeded} stored, {self.failed} failed, {self.put_off} put off, "
            f"{self.leases_lost} leases lost"
        )


class ResultWriter:
    """Ends jobs of one kind on one connection; `write` stores what was decided, each sort in one statement.

    A finish shows its claim's token; what is no longer ours is dropped and counted as a lease lost. `counts`
    are the caller's to write, last in the transaction.
    """

    def __init__(
        self,
        kind: ResultKind,
        run_id: str,
        connection: psycopg.Connection,
        retry_times: RetryTimes,
        asked: Asked,
        outcome: Outcome | None = None,
    ) -> None:
        self._kind = kind
        self._run_id = run_id
        self._connection = connection
        self._retry_times = retry_times
        self._asked = asked
        self._successes: list[tuple[Success, Any, float | None]] = []
        self._failures: list[JobFailure] = []
        self.counts = Counts()
        self.outcome = outcome or Outcome()

    def succeed(self, claim: Claim, result: Any, usage: Usage, seconds: float | None = None) -> None:
        """Takes a result and what its calls used; `seconds`: how long the call took, where it was one."""
        success = Success(
            claim=claim,
            input_hash=input_hash(claim.title, claim.text),
            output_hash=input_hash(claim.title, self._kind.output(result)),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
        )
        self._successes.append((success, result, seconds))

    def fail(self, claim: Claim, code: str, message: str) -> None:
        """The job will not succeed."""
        self._failures.append(
            JobFailure(claim=claim, status="FAILED", error_code=code, error_message=message)
        )

    def suspend(self, claim: Claim, code: str, message: str, reason: str) -> None:
        """The job waits for a person."""
        self._failures.append(
            JobFailure(
                claim=claim,
                status="SUSPENDED",
                error_code=code,
                error_message=message,
                suspend_reason=reason,
            )
        )

    def put_off(self, claim: Claim, code: str, seconds: float, message: str = "") -> None:
        """Has the job tried again after so many seconds; the attempt counts."""
        self._failures.append(
            JobFailure(
                claim=claim,
                status="RETRY_WAIT",
                error_code=code,
                error_message=message,
                delay_seconds=seconds,
            )
        )

    def try_again(self, claim: Claim, code: str, message: str, retry_after: float | None = None) -> None:
        """Puts the job off by its attempt, or fails it where its retries are spent."""
        delay = self._retry_times.delay_seconds(claim.attempt, retry_after)
        if delay is None:
            self.fail(claim, code, message)
        else:
            self.put_off(claim, code, delay, message)

    def write(self) -> None:
        """Stores everything that was decided since the last time, in the running transaction."""
        self._write_successes()
        self._write_failures()
        self._successes, self._failures = [], []

    def _write_successes(self) -> None:
        """Stores all in one go; where one of them cannot be stored, each by itself, and fails that one."""
        if not self._successes:
            return
        try:
            with self._connection.transaction():
                self._store(self._successes)
        except (psycopg.DataError, psycopg.IntegrityError):
            for success in self._successes:
                try:
                    with self._connection.transaction():
                        self._store([success])
                except (psycopg.DataError, psycopg.IntegrityError) as error:
                    self.fail(success[0].claim, "cannot_be_stored", type(error).__name__)

    def _store(self, successes: Sequence[tuple[Success, Any, float | None]]) -> None:
        """Results, the jobs that they make possible, and articles that are complete; then the counts."""
        stored = job_store.finish_successes(
            self._connection,
            self._run_id,
            [success for success, _, _ in successes],
            prompt_version=self._asked.prompt_version,
            model=self._asked.model,
        )
        ours = [(success, result) for success, result, _ in successes if success.claim.job_id in stored]
        rows: list[dict[str, object]] = []
        for success, result in ours:
            claim = success.claim
            ids = {"result_id": stored[claim.job_id], "article_id": claim.article_id}
            rows += [{**ids, **row} for row in self._kind.rows(result, claim)]
        result_store.add_rows(self._connection, self._kind.statement, rows)
        output_hashes = {success.claim.article_id: success.output_hash for success, _ in ours}
        added = self._add_following_jobs(output_hashes)
        completed = result_store.complete_articles(self._connection, list(output_hashes))
        self._count_stored(successes, stored, added, completed)

    def _count_stored(
        self,
        successes: Sequence[tuple[Success, Any, float | None]],
        stored: Mapping[int, int],
        added: Sequence[JobType],
        completed: int,
    ) -> None:
        for success, _, seconds in successes:
            if success.claim.job_id not in stored:
                self._lose_lease()
                continue
            self.outcome.succeeded += 1
            self._count_job("success", "none")
            if seconds is not None:
                self.counts.observe("ai_job_duration_seconds", seconds, type=self._kind.job_type)
        for job_type in added:
            self.counts.add("ai_jobs_enqueued_total", type=job_type, result="created")
        self.counts.add("ai_articles_completed_total", completed)

    def _add_following_jobs(self, output_hashes: dict[int, str]) -> list[JobType]:
        if not output_hashes or not self._kind.followed_by:
            return []
        versions = {job_type: KINDS[job_type].prompt.version for job_type in self._kind.followed_by}
        return job_store.add_following_jobs(
            self._connection, output_hashes, versions, self._asked.following_model, self._asked.mode
        )

    def _write_failures(self) -> None:
        if not self._failures:
            return
        written = job_store.finish_failures(self._connection, self._run_id, self._failures)
        for failure in self._failures:
            if failure.claim.job_id not in written:
                self._lose_lease()
                continue
            if failure.status == "FAILED":
                self.outcome.failed += 1
            else:
                self.outcome.put_off += 1
            self._count_job(failure.status.lower(), failure.error_code)

    def _lose_lease(self) -> None:
        """The job was given to another run meanwhile; what came back here is dropped."""
        self.outcome.leases_lost += 1
        self.counts.add("ai_jobs_events_total", type=self._kind.job_type, event="late_finish")

    def _count_job(self, result: str, error_code: str) -> None:
        self.counts.add(
            "ai_jobs_processed_total", type=self._kind.job_type, result=result, error_code=error_code
        )
