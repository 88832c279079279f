"""How far a batch may have come by now: by the clock, by how often it was looked at, or on command.

A tenth of its way is validating, eight tenths are in progress (the lines spread over it), the rest is
finalizing.
"""

import asyncio
from dataclasses import dataclass, field

VALIDATED, CARRIED_OUT, ENDED = 0.1, 0.9, 1.0
# Where a batch comes to rest that is moved on command: shares of its way.
STOPS = {"in_progress": 0.4, "finalizing": 0.95, "end": ENDED}


@dataclass(frozen=True)
class Pace:
    """How batches come to their end: `seconds` after their creation, with the nth look, or on command.

    `looks` counts what `GET /v1/batches/<id>` is asked; without either it takes a command.
    """

    seconds: float | None = None
    looks: int | None = None


@dataclass
class Way:
    """How far one batch may go: `allowed` is the share of its way that was opened by looks and commands."""

    allowed: float = 0.0
    looks: int = 0
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _rests: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, share: float) -> None:
        """Lets the batch go this far at once; it is never sent back."""
        self.allowed = max(self.allowed, share)
        self.look_around()

    def look_around(self) -> None:
        """Has a waiting batch see whether it may go on."""
        self._rests.clear()
        self._moved.set()

    def look(self, pace: Pace) -> None:
        """Counts a look, which opens its part of the way where looks are the pace."""
        self.looks += 1
        if pace.looks is not None:
            self.open(self.looks / pace.looks)

    async def wait(self, seconds: float | None) -> None:
        """Returns when the batch may have become free to go on, or after so many seconds."""
        self._moved.clear()
        self._rests.set()
        try:
            await asyncio.wait_for(self._moved.wait(), seconds)
        except TimeoutError:
            self._rests.clear()

    async def at_rest(self, task: "asyncio.Task[None] | None") -> None:
        """Returns when the batch waits again or its task has ended."""
        if task is None:
            return
        rests = asyncio.ensure_future(self._rests.wait())
        await asyncio.wait({rests, task}, return_when=asyncio.FIRST_COMPLETED)
        rests.cancel()
        if task.done() and not task.cancelled():
            task.result()  # a fault of ours must not look like a batch that takes long
