"""Counts what a MongoDB client asks, by command."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent


class RoundTrips(CommandListener):
    """Every command counts once, however many documents it speaks of."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """What is sent until the end of the block, filled in there."""
        before, found = Counter(self._sent), Counter[str]()
        yield found
        found.update(self._sent - before)

    def started(self, event: CommandStartedEvent) -> None:
        self._sent[event.command_name] += 1

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...
