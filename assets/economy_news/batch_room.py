"""How many lines a batch may have now: what the day's cap and the provider's queue have room for."""

from dataclasses import dataclass, field
from decimal import Decimal

import psycopg

from assets.economy_news import batch_store
from assets.economy_news.models import BatchLine
from assets.economy_news.rules import EnrichmentRules
from resources.model_table import Model

BUDGET = "BUDGET"
QUEUE_LIMIT = "MAX_ENQUEUED_TOKENS"
LARGE_LINE_BYTES = 20_000
"""More than almost every line has: where there is no room for one, nothing is planned."""


@dataclass
class Room:
    """What is left for one more batch: USD (None: any), tokens of the queue (None: nothing of ours is in it).

    `model` at batch prices.
    """

    model: Model
    max_output_tokens: int
    usd: Decimal | None
    queued_tokens: int | None
    limit_tokens: int
    _input: int = field(default=0, init=False)
    _output: int = field(default=0, init=False)
    _queued: int = field(default=0, init=False)

    def waits_for(self) -> str | None:
        """BUDGET or MAX_ENQUEUED_TOKENS where not even one large line may go."""
        queued = self.queued_tokens
        if queued is not None and self.limit_tokens - queued < LARGE_LINE_BYTES // 3:
            return QUEUE_LIMIT
        most = self.model.most_it_can_cost_usd(LARGE_LINE_BYTES, self.max_output_tokens)
        return BUDGET if self.usd is not None and self.usd < most else None

    def refuses(self, line: BatchLine) -> str | None:
        """Why the line cannot go with those before it; None, and it is counted, where it can."""
        input_ = self._input + line.most_input_tokens
        output = self._output + self.max_output_tokens
        if self.usd is not None and self.model.most_it_can_cost_usd(input_, output) > self.usd:
            return BUDGET
        queued = self._queued + line.queued_tokens
        # One that is larger than the whole limit goes alone: nothing would ever make room for it.
        is_alone = self.queued_tokens is None and not self._queued
        if queued > self.limit_tokens - (self.queued_tokens or 0) and not is_alone:
            return QUEUE_LIMIT
        self._input, self._output, self._queued = input_, output, queued
        return None

    def most_of_one_usd(self, line: BatchLine) -> Decimal:
        """What the line alone can cost at most."""
        return self.model.most_it_can_cost_usd(line.most_input_tokens, self.max_output_tokens)


def room_now(
    connection: psycopg.Connection, model: Model, max_output_tokens: int, rules: EnrichmentRules
) -> Room:
    """The room that there is now. `model` at batch prices. A sensor asks the same before it starts a run."""
    queued, batches = batch_store.queued(connection, model.name)
    usd = batch_store.room_today(connection, rules.cap_usd)
    return Room(model, max_output_tokens, usd, queued if batches else None, rules.max_enqueued_tokens)
