"""What becomes of one call: its money settled, its result stored, or its failure written down.

Runs inside the caller's transaction. The rules are those of economy_news.md, "AI jobs".
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import psycopg

from assets.economy_news import job_store
from assets.economy_news.answers import InvalidOutput
from assets.economy_news.models import Claim, JobFailure, Lineage, Partition
from assets.economy_news.plain_text import storable
from assets.economy_news.prompts import asked_again
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.rules import EnrichmentRules
from resources import gate, spending
from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict
from resources.chat import ChatAnswer, ChatResource
from resources.counters import Counts
from resources.spending import Reservation, Usage

PIPELINE = "economy_news"
NOTHING_SPENT = Usage()
MAX_ASKINGS = 2  # an invalid answer is complained about once


@dataclass(frozen=True)
class Asking:
    """A call under way for a claim; `spent` is what earlier calls for it cost."""

    claim: Claim
    messages: list[dict[str, str]]
    reservation: Reservation
    spent: Usage = NOTHING_SPENT
    number: int = 1
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
        return self.usage.get(partition, Usage())


class Settlement:
    """Settles calls of one kind on one connection and counts what it does."""

    def __init__(
        self,
        kind: ResultKind,
        connection: psycopg.Connection,
        chat: ChatResource,
        rules: EnrichmentRules,
    ) -> None:
        self._kind = kind
        self._connection = connection
        self._chat = chat
        self._rules = rules
        self._counts = Counts()
        self._alarms: list[tuple[str, str | None]] = []
        self.outcome = Outcome()

    def count_claims(self, claims: Iterable[Claim]) -> None:
        """Counts claims, and those whose lease had run out, in the running transaction."""
        for claim in claims:
            event = "lease_lost" if claim.lease_was_lost else "claimed"
            self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event=event)
            if claim.lease_was_lost:
                self._counts.add("ai_leases_lost_total", pipeline=PIPELINE)
        self.write_counts()

    def answered(self, asking: Asking, answer: ChatAnswer) -> Asking | None:
        """Stores the result, or gives back the asking with the complaint added, or fails the job."""
        self._pay(asking, answer.usage)
        self._count_call("ok", "none", answer.seconds)
        if asking.is_probe:
            self._open_gate()
        if answer.refusal:
            self._finish(asking.claim, self._job_failure(Verdict(FAIL), answer.refusal, "", asking.claim))
            return None
        try:
            if answer.was_cut:
                raise InvalidOutput("답이 길이 제한에 걸려 끊겼습니다. 더 짧게 써 주세요.")
            result = self._kind.read(answer.content)
        except InvalidOutput as complaint:
            if asking.number < MAX_ASKINGS:
                self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event="asked_again")
                return replace(
                    asking,
                    messages=asked_again(asking.messages, answer.content, str(complaint)),
                    spent=asking.spent + answer.usage,
                    number=asking.number + 1,
                )
            code = "output_cut" if answer.was_cut else "invalid_output"
            self._finish(
                asking.claim, JobFailure(status="FAILED", error_code=code, error_message=str(complaint))
            )
            return None
        self._store(asking, result, asking.spent + answer.usage, answer.seconds)
        return None

    def failed(self, asking: Asking, failure: ApiFailure) -> None:
        """Writes the failure down, and shuts the gate where it hits everyone."""
        code, message = storable(failure.code), storable(failure.message)  # the provider's words
        if not failure.may_have_been_charged:
            self._pay(asking, Usage())
        self._count_call(str(failure.status or "none"), code)
        if failure.verdict.effect == SUSPEND and failure.verdict.reason is not None:
            self.shut_gate(failure.verdict.reason, message)
        self._finish(
            asking.claim,
            self._job_failure(failure.verdict, code, message, asking.claim, failure.retry_after_seconds),
        )

    def shut_gate(self, reason: str, message: str) -> None:
        """Shuts the gate; one alarm, by whoever shuts it first."""
        key = self._chat.gate_key
        newly = gate.shut(self._connection, key, reason, message, self._rules.gate_probe_minutes)
        self.outcome.shut = gate.read(self._connection, key)
        if newly and self.outcome.shut is not None:
            self._alarms.append((f"gate:{key.model}", self.outcome.shut.explain()))

    def write_counts(self) -> None:
        """Adds the counts so far in the running transaction; last, since counter rows are hot."""
        self._counts.write(self._connection)

    def take_alarms(self) -> list[tuple[str, str | None]]:
        """Causes with their message, or None for one that is over; each is handed out once."""
        alarms, self._alarms = self._alarms, []
        return alarms

    def _pay(self, asking: Asking, usage: Usage) -> None:
        spending.settle(self._connection, PIPELINE, self._chat.model, asking.reservation, usage)
        self.outcome.add_usage(asking.claim, usage)
        self._counts.add(
            "ai_cost_usd_total", float(usage.cost_usd), pipeline=PIPELINE, model=self._chat.model
        )

    def _open_gate(self) -> None:
        """Only the probe opens it: other calls that are answered may have been asked before it was shut."""
        if gate.open_(self._connection, self._chat.gate_key):
            self._alarms.append((f"gate:{self._chat.model}", None))
        self.outcome.shut = None

    def _job_failure(
        self, verdict: Verdict, code: str, message: str, claim: Claim, retry_after: float | None = None
    ) -> JobFailure:
        if verdict.effect == SUSPEND:
            return JobFailure(
                status="SUSPENDED", error_code=code, error_message=message, suspend_reason=verdict.reason
            )
        delay = None
        if verdict.effect == RETRY:
            delay = self._rules.retry_times.delay_seconds(claim.attempt, retry_after)
        return JobFailure(
            status="FAILED" if delay is None else "RETRY_WAIT",
            error_code=code,
            error_message=message,
            delay_seconds=delay,
        )

    def _store(self, asking: Asking, result: object, usage: Usage, seconds: float) -> None:
        lineage = Lineage(
            model=self._chat.model,
            prompt_version=self._kind.prompt.version,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
        )
        if self._kind.store(self._connection, asking.claim, result, lineage):
            self.outcome.succeeded += 1
            self._count_job("success", "none")
            self._counts.observe("ai_job_duration_seconds", seconds, type=self._kind.job_type)
        else:
            self._lose_lease()

    def _finish(self, claim: Claim, failure: JobFailure) -> None:
        if not job_store.finish_failure(self._connection, claim, failure):
            self._lose_lease()
            return
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
