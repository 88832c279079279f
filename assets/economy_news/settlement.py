"""What becomes of calls that came back: money settled, results stored, failures written down.

Runs inside the caller's transaction, a batch of calls at a time.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg

from assets.economy_news import job_store, result_store
from assets.economy_news.answers import InvalidOutput
from assets.economy_news.models import Claim, JobFailure, JobType, Partition, Success
from assets.economy_news.plain_text import storable
from assets.economy_news.prompts import asked_again
from assets.economy_news.result_kinds import KINDS, ResultKind
from assets.economy_news.rules import EnrichmentRules
from assets.economy_news.store import input_hash
from resources import gate, spending
from resources.api_failure import RETRY, SUSPEND, ApiFailure, Verdict
from resources.chat import ChatAnswer, ChatResource
from resources.counters import Counts
from resources.spending import Reservation, Usage

PIPELINE = "economy_news"
NOTHING_SPENT = Usage()
MAX_ASKINGS = 2  # an invalid answer is complained about once


@dataclass(frozen=True)
class Question:
    """What to ask for a claim; `spent` is what earlier calls for it cost, `number` counts them."""

    claim: Claim
    messages: list[dict[str, str]]
    spent: Usage = NOTHING_SPENT
    number: int = 1


@dataclass(frozen=True)
class Asking:
    """A question under way."""

    question: Question
    reservation: Reservation
    is_probe: bool = False


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


class Settlement:
    """Settles calls of one kind on one connection and counts what it does.

    `answered` and `failed` decide; `write` stores what they decided, each sort in one statement.
    """

    def __init__(
        self,
        kind: ResultKind,
        run_id: str,
        connection: psycopg.Connection,
        chat: ChatResource,
        rules: EnrichmentRules,
    ) -> None:
        self._kind = kind
        self._run_id = run_id
        self._connection = connection
        self._chat = chat
        self._rules = rules
        self._counts = Counts()
        self._alarms: list[tuple[str, str | None]] = []
        self._successes: list[tuple[Success, Any, float]] = []
        self._failures: list[JobFailure] = []
        self._to_settle: list[tuple[Reservation, Usage]] = []
        self.outcome = Outcome()

    def count_claims(self, claims: Iterable[Claim]) -> None:
        """Counts claims, and those whose lease had run out, in the running transaction."""
        for claim in claims:
            event = "lease_lost" if claim.lease_was_lost else "claimed"
            self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event=event)
            if claim.lease_was_lost:
                self._counts.add("ai_leases_lost_total", pipeline=PIPELINE)
        self._counts.write(self._connection)

    def answered(self, asking: Asking, answer: ChatAnswer) -> Question | None:
        """Takes the result, or gives back the question with the complaint added, or fails the job."""
        question = asking.question
        self._pay(asking, answer.usage)
        self._count_call("ok", "none", answer.seconds)
        if asking.is_probe:
            self._open_gate()
        if answer.refusal:
            self._fail(question.claim, answer.refusal, "the model would not answer")
            return None
        try:
            if answer.was_cut:
                complaint = "답이 길이 제한에 걸려 끊겼습니다. 더 짧게 써 주세요."
                raise InvalidOutput(complaint, code="output_cut")
            result = self._kind.read(answer.content, question.claim)
        except InvalidOutput as invalid:
            if question.number == MAX_ASKINGS:
                # The complaint may quote the article, and job rows outlive its body.
                self._fail(question.claim, invalid.code, "the answer broke a rule twice")
                return None
            self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event="asked_again")
            return Question(
                question.claim,
                asked_again(question.messages, answer.content, str(invalid)),
                question.spent + answer.usage,
                question.number + 1,
            )
        self._succeed(question.claim, result, question.spent + answer.usage, answer.seconds)
        return None

    def failed(self, asking: Asking, failure: ApiFailure) -> None:
        """Takes the failure, and shuts the gate where it hits everyone."""
        code, message = storable(failure.code), storable(failure.message)  # the provider's words
        if not failure.may_have_been_charged:
            self._pay(asking, NOTHING_SPENT)
        self._count_call(str(failure.status or "none"), code)
        verdict, claim = failure.verdict, asking.question.claim
        if verdict.effect == SUSPEND and verdict.reason is not None:
            self.shut_gate(verdict.reason, message)
            self._failures.append(
                JobFailure(
                    claim=claim,
                    status="SUSPENDED",
                    error_code=code,
                    error_message=message,
                    suspend_reason=verdict.reason,
                )
            )
            return
        delay = self._delay(verdict, claim, failure.retry_after_seconds)
        if delay is None:
            self._fail(claim, code, message)
        else:
            self.put_off(claim, code, delay, message)

    def refuse(self, claim: Claim, code: str, message: str) -> None:
        """Fails a job that can never be asked."""
        self._fail(claim, code, message)

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

    def shut_gate(self, reason: str, message: str) -> None:
        """Shuts the gate; one alarm, by whoever shuts it first."""
        key = self._chat.gate_key
        newly = gate.shut(self._connection, key, reason, message, self._rules.gate_probe_minutes)
        self.outcome.shut = gate.read(self._connection, key)
        if newly and self.outcome.shut is not None:
            self._alarms.append((f"gate:{key.model}", self.outcome.shut.explain()))

    def write(self) -> None:
        """Stores everything that was decided since the last time, in the running transaction.

        The rows that all runs write (money, counters) come last, so that they are held for a moment only.
        """
        self._write_successes()
        self._write_failures()
        for day, (reserved, usage) in self._by_day().items():
            spending.settle(self._connection, PIPELINE, self._chat.model, Reservation(day, reserved), usage)
        self._successes, self._failures, self._to_settle = [], [], []
        self._counts.write(self._connection)

    def take_alarms(self) -> list[tuple[str, str | None]]:
        """Causes with their message, or None for one that is over; each is handed out once."""
        alarms, self._alarms = self._alarms, []
        return alarms

    def _pay(self, asking: Asking, usage: Usage) -> None:
        self._to_settle.append((asking.reservation, usage))
        self.outcome.add_usage(asking.question.claim, usage)
        self._counts.add(
            "ai_cost_usd_total", float(usage.cost_usd), pipeline=PIPELINE, model=self._chat.model
        )

    def _by_day(self) -> dict[date, tuple[Decimal, Usage]]:
        """Reservations and usage together, by the day that pays."""
        days: dict[date, tuple[Decimal, Usage]] = defaultdict(lambda: (Decimal(0), NOTHING_SPENT))
        for reservation, usage in self._to_settle:
            reserved, used = days[reservation.day]
            days[reservation.day] = (reserved + reservation.usd, used + usage)
        return days

    def _open_gate(self) -> None:
        """Only the probe opens it: other calls that are answered may have been asked before it was shut."""
        if gate.open_(self._connection, self._chat.gate_key):
            self._alarms.append((f"gate:{self._chat.model}", None))
        self.outcome.shut = None

    def _delay(self, verdict: Verdict, claim: Claim, retry_after: float | None) -> float | None:
        if verdict.effect != RETRY:
            return None
        return self._rules.retry_times.delay_seconds(claim.attempt, retry_after)

    def _fail(self, claim: Claim, code: str, message: str) -> None:
        self._failures.append(
            JobFailure(claim=claim, status="FAILED", error_code=code, error_message=message)
        )

    def _succeed(self, claim: Claim, result: Any, usage: Usage, seconds: float) -> None:
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
                    self._fail(success[0].claim, "cannot_be_stored", type(error).__name__)

    def _store(self, successes: Sequence[tuple[Success, Any, float]]) -> None:
        """Results, the jobs that they make possible, and articles that are complete; then the counts."""
        stored = job_store.finish_successes(
            self._connection,
            self._run_id,
            [success for success, _, _ in successes],
            prompt_version=self._kind.prompt.version,
            model=self._chat.model,
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
        successes: Sequence[tuple[Success, Any, float]],
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
            self._counts.observe("ai_job_duration_seconds", seconds, type=self._kind.job_type)
        for job_type in added:
            self._counts.add("ai_jobs_enqueued_total", type=job_type, result="created")
        self._counts.add("ai_articles_completed_total", completed)

    def _add_following_jobs(self, output_hashes: dict[int, str]) -> list[JobType]:
        if not output_hashes or not self._kind.followed_by:
            return []
        versions = {job_type: KINDS[job_type].prompt.version for job_type in self._kind.followed_by}
        return job_store.add_following_jobs(self._connection, output_hashes, versions, self._chat.model)

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
        self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event="late_finish")

    def _count_job(self, result: str, error_code: str) -> None:
        self._counts.add(
            "ai_jobs_processed_total", type=self._kind.job_type, result=result, error_code=error_code
        )

    def _count_call(self, status: str, error_code: str, seconds: float | None = None) -> None:
        labels = {"model": self._chat.model, "schema": self._kind.prompt.schema_name, "status": status}
        self._counts.add("openai_api_requests_total", error_code=error_code, **labels)
        if seconds is not None:
            self._counts.observe("openai_api_latency_seconds", seconds, **labels)
