"""How many lines may be sent at once: what the day's cap and the provider's queue have room for."""

from collections.abc import Iterator
from decimal import Decimal

from assets.recipes.batch_kinds import Line
from resources.model_table import Model

BUDGET = "BUDGET"
QUEUE_LIMIT = "MAX_ENQUEUED_TOKENS"


class Peekable:
    """Lines of which the next can be looked at before it is taken."""

    def __init__(self, lines: Iterator[tuple[Line, bytes]]) -> None:
        self._lines = lines
        self._next: tuple[Line, bytes] | None = None

    def peek(self) -> tuple[Line, bytes] | None:
        """The next one, None at the end."""
        if self._next is None:
            self._next = next(self._lines, None)
        return self._next

    def take(self) -> None:
        """Goes on to the one behind."""
        self._next = None


class Room:
    """How much may be sent now, in USD (None: any) and in tokens of the provider's queue."""

    def __init__(self, model: Model, usd: Decimal | None, queued_tokens: int, is_empty: bool) -> None:
        self._model = model
        self._usd = usd
        self._queue = queued_tokens
        self._is_empty = is_empty
        self._input = self._output = self._queued = 0
        self.refused_the_first: str | None = None

    def fill(self, lines: Peekable, taken: dict[str, Line]) -> Iterator[tuple[str, bytes]]:
        """The lines that there is room for, by custom_id; `taken` gets them without their bytes."""
        while (following := lines.peek()) is not None:
            line, data = following
            if reason := self._refuses(line):
                if not self._queued:
                    self.refused_the_first = reason
                return
            taken[line.custom_id] = line
            lines.take()
            yield line.custom_id, data

    def _refuses(self, line: Line) -> str | None:
        input_, output = self._input + line.most_input_tokens, self._output + line.most_output_tokens
        if self._usd is not None and self._model.most_it_can_cost_usd(input_, output) > self._usd:
            return BUDGET
        queued = self._queued + line.queued_tokens
        # One that is larger than the whole limit goes alone: nothing would ever make room for it.
        if queued > self._queue and not (self._is_empty and not self._queued):
            return QUEUE_LIMIT
        self._input, self._output, self._queued = input_, output, queued
        return None
