"""What becomes of calls that came back: money settled, the gate shut or opened, their jobs ended.

Runs inside the caller's transaction, a batch of calls at a time.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import psycopg

from assets.economy_news.answers import InvalidOutput
from assets.economy_news.models import Claim
from assets.economy_news.plain_text import storable
from assets.economy_news.prompts import asked_again
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.result_writing import (
    BROKE_A_RULE_TWICE,
    NOTHING_SPENT,
    Asked,
    Outcome,
    ResultWriter,
)
from assets.economy_news.rules import EnrichmentRules
from resources import gate, spending
from resources.api_failure import RETRY, SUSPEND, ApiFailure
from resources.chat import ChatAnswer, ChatResource
from resources.spending import Reservation, Usage

PIPELINE = "economy_news"
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
        self._connection = connection
        self._chat = chat
        self._rules = rules
        asked = Asked(kind.prompt.version, chat.model, following_model=chat.model)
        self._writer = ResultWriter(kind, run_id, connection, rules.retry_times, asked)
        self._counts = self._writer.counts
        self._alarms: list[tuple[str, str | None]] = []
        self._to_settle: list[tuple[Reservation, Usage]] = []

    @property
    def outcome(self) -> Outcome:
        """What was done so far."""
        return self._writer.outcome

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
            self._writer.fail(question.claim, answer.refusal, "the model would not answer")
            return None
        try:
            if answer.was_cut:
                complaint = "답이 길이 제한에 걸려 끊겼습니다. 더 짧게 써 주세요."
                raise InvalidOutput(complaint, code="output_cut")
            result = self._kind.read(answer.content, question.claim)
        except InvalidOutput as invalid:
            if question.number == MAX_ASKINGS:
                self._writer.fail(question.claim, invalid.code, BROKE_A_RULE_TWICE)
                return None
            self._counts.add("ai_jobs_events_total", type=self._kind.job_type, event="asked_again")
            return Question(
                question.claim,
                asked_again(question.messages, answer.content, str(invalid)),
                question.spent + answer.usage,
                question.number + 1,
            )
        self._writer.succeed(question.claim, result, question.spent + answer.usage, answer.seconds)
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
            self._writer.suspend(claim, code, message, verdict.reason)
        elif verdict.effect == RETRY:
            self._writer.try_again(claim, code, message, failure.retry_after_seconds)
        else:
            self._writer.fail(claim, code, message)

    def refuse(self, claim: Claim, code: str, message: str) -> None:
        """Fails a job that can never be asked."""
        self._writer.fail(claim, code, message)

    def put_off(self, claim: Claim, code: str, seconds: float, message: str = "") -> None:
        """Has the job tried again after so many seconds; the attempt counts."""
        self._writer.put_off(claim, code, seconds, message)

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
        self._writer.write()
        for day, (reserved, usage) in self._by_day().items():
            spending.settle(self._connection, PIPELINE, self._chat.model, Reservation(day, reserved), usage)
        self._to_settle = []
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

    def _count_call(self, status: str, error_code: str, seconds: float | None = None) -> None:
        labels = {"model": self._chat.model, "schema": self._kind.prompt.schema_name, "status": status}
        self._counts.add("openai_api_requests_total", error_code=error_code, **labels)
        if seconds is not None:
            self._counts.observe("openai_api_latency_seconds", seconds, **labels)
