"""The calls of context_tags with their money and their gate: reserved, asked, settled, whoever asks.

`PaidEmbeddings` and `PaidJudge` are what `process_contexts` takes. Both are thread-safe; their connection
must be in autocommit mode and is used for single statements and short transactions only.
"""

import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

import psycopg

from assets.context_tags import prompt
from assets.context_tags.judgement import UnusableAnswer, read_judgement
from assets.context_tags.models import Candidate, Judgement
from resources import spending
from resources.api_failure import FAIL, SUSPEND, ApiFailure, Verdict
from resources.chat import ChatAnswer, ChatResource, JsonSchema
from resources.counters import Counts
from resources.embeddings import EmbeddingResource
from resources.errors import SpendingCapReached
from resources.model_gate import ModelGate
from resources.openai_api import safe_code
from resources.spending import Reservation, Usage

PIPELINE = "context_tags"
BUDGET = "BUDGET"

Answer = TypeVar("Answer")


class PaidCalls:
    """Calls of one model. Raises ModelHasNoPrice before the first."""

    def __init__(
        self,
        connection: psycopg.Connection,
        resource: EmbeddingResource | ChatResource,
        gate: ModelGate,
        cap_usd: Decimal | None,
    ) -> None:
        self._model = resource.priced_model
        self._name = resource.model
        self._connection = connection
        self._gate = gate
        self._cap_usd = cap_usd
        self._turn = threading.Condition()
        self._under_way = 0
        self.usage = Usage()
        """Of all calls that were answered."""

    @property
    def is_probe(self) -> bool:
        """Whether the gate is shut and this run holds its probe: it may make one call."""
        return self._gate.is_probe

    def _paid(
        self,
        schema: str,
        most_tokens: tuple[int, int],
        call: Callable[[], tuple[Answer, Usage]],
        has_parts: bool = False,
    ) -> Answer:
        """What the call gives; `most_tokens` of input and output. Raises ApiFailure.

        `has_parts`: it can be asked in halves, so where it alone costs more than the cap, it is refused.
        What was not answered and may have been charged stays reserved until the day ends.
        """
        reservation = self._reserve(*most_tokens, has_parts)
        self._gate.asks()
        try:
            answer, usage = call()
        except ApiFailure as failure:
            self._end(schema, reservation, None if failure.may_have_been_charged else Usage(), failure)
            raise
        except BaseException:
            self._give_up()
            raise
        self._end(schema, reservation, usage)
        return answer

    def _reserve(self, input_tokens: int, output_tokens: int, has_parts: bool) -> Reservation:
        """Where the day's cap has no room, calls of ours that are under way may still give some back."""
        with self._turn:
            while True:
                try:
                    reservation = spending.reserve(
                        self._connection, self._model, input_tokens, output_tokens, self._cap_usd
                    )
                except SpendingCapReached as reached:
                    if reached.by_this_call_alone and has_parts:
                        verdict = Verdict(FAIL)
                        raise ApiFailure(verdict, "costs_more_than_the_cap", str(reached)) from None
                    if reached.by_this_call_alone or not self._under_way:
                        self._gate.shut(BUDGET, str(reached))
                        raise ApiFailure(Verdict(SUSPEND, BUDGET), BUDGET, str(reached)) from None
                    self._turn.wait()
                else:
                    self._under_way += 1
                    return reservation

    def _end(
        self, schema: str, reservation: Reservation, usage: Usage | None, failure: ApiFailure | None = None
    ) -> None:
        """Writes down what the call cost, where that is known, and what it says of the gate."""
        counts = Counts()
        status, code = (str(failure.status or "none"), safe_code(failure.code)) if failure else ("ok", "none")
        counts.add(
            "openai_api_requests_total", model=self._name, schema=schema, status=status, error_code=code
        )
        with self._turn:
            try:
                with self._connection.transaction():
                    if usage is not None:
                        spending.settle(self._connection, PIPELINE, self._name, reservation, usage)
                        self.usage += usage
                        cost = float(usage.cost_usd)
                        counts.add("ai_cost_usd_total", cost, pipeline=PIPELINE, model=self._name)
                    counts.write(self._connection)
                self._tell_gate(failure)
            finally:
                self._under_way -= 1
                self._turn.notify_all()

    def _give_up(self) -> None:
        """A call that was interrupted: what it cost is not known."""
        with self._turn:
            self._under_way -= 1
            self._turn.notify_all()

    def _tell_gate(self, failure: ApiFailure | None) -> None:
        """A refusal of what was asked is an answer too: the provider is there and lets us in."""
        if failure is None or (failure.verdict.effect == FAIL and failure.status is not None):
            self._gate.answered()
        else:
            self._gate.shut_for(failure)


class PaidEmbeddings(PaidCalls):
    """Vectors by the API; each `embed` is one request."""

    def __init__(
        self,
        connection: psycopg.Connection,
        resource: EmbeddingResource,
        gate: ModelGate,
        cap_usd: Decimal | None,
    ) -> None:
        super().__init__(connection, resource, gate, cap_usd)
        self._embeddings = resource

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector a text as the API gave it, unchecked. Raises ApiFailure."""
        most_tokens = (self._embeddings.most_input_tokens(texts), 0)
        return self._paid(
            "embedding",
            most_tokens,
            lambda: self._embeddings.embed_unchecked(texts),
            has_parts=len(texts) > 1,
        )


class PaidJudge(PaidCalls):
    """Judgements by the API; each `select` is one request."""

    def __init__(
        self, connection: psycopg.Connection, chat: ChatResource, gate: ModelGate, cap_usd: Decimal | None
    ) -> None:
        super().__init__(connection, chat, gate, cap_usd)
        self._chat = chat

    def select(self, text: str, candidates: Sequence[Candidate]) -> Judgement:
        """The model's judgement, not yet `checked`. Raises ApiFailure and UnusableAnswer."""
        messages = prompt.messages(text, candidates)
        schema = JsonSchema(prompt.SCHEMA_NAME, prompt.schema(candidates))
        most_tokens = (self._chat.most_input_tokens(messages, schema), self._chat.max_output_tokens)

        def ask() -> tuple[ChatAnswer, Usage]:
            answer = self._chat.ask(messages, schema)
            return answer, answer.usage

        answer = self._paid(schema.name, most_tokens, ask)
        if answer.refusal:
            raise ApiFailure(Verdict(FAIL), "refused", "the model would not answer")
        if answer.was_cut:
            raise UnusableAnswer("the answer was cut off")
        return read_judgement(answer.content, answer.model)
