"""A run over the inbox: takes what waits, has it processed, and lingers for what arrives meanwhile."""

import time
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from assets.context_tags import request_store
from assets.context_tags.models import ContextRequest, ContextSettings, Outcome, PresetSnapshot
from assets.context_tags.process import Embeddings, Judge, process_contexts

if TYPE_CHECKING:
    from assets.context_tags.stage_rows import Pool


class InboxRun:
    """Settles the requests of some UTC days; `days` None: of all. Interrupted, it leaves the rest waiting.

    It ends when nothing came for `linger_seconds` (0: when nothing waits), after `most_seconds`, or when
    the calls are stopped by an error that hits everyone.
    """

    def __init__(
        self,
        pool: "Pool",
        embeddings: Embeddings,
        judge: Judge,
        presets: PresetSnapshot,
        settings: ContextSettings,
        days: Sequence[date] | None,
        linger_seconds: float,
        most_seconds: float = 600,
        poll_seconds: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._pool = pool
        self._embeddings = embeddings
        self._judge = judge
        self._presets = presets
        self._settings = settings
        self._days = days
        self._linger_seconds = linger_seconds
        self._most_seconds = most_seconds
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._wait = wait

    def run(self) -> Outcome:
        """What became of all requests; one that came twice counts as it ended. Raises as process_contexts."""
        total = Outcome()
        with self._pool.connection() as connection:
            request_store.handle_without_text(connection)
        ends_at = self._clock() + self._most_seconds
        idle_since = self._clock()
        while True:
            requests = self._waiting()
            if requests:
                outcome = self._process(requests)
                add(total, outcome)
                if outcome.stopped_by is not None or (self._holds_probe() and outcome.put_off):
                    break
                idle_since = self._clock()
            elif self._clock() - idle_since >= self._linger_seconds:
                break
            else:
                self._wait(self._poll_seconds)
            if self._clock() >= ends_at:
                break
        return total

    def _waiting(self) -> list[ContextRequest]:
        most = 1 if self._holds_probe() else self._settings.claimed_at_once
        with self._pool.connection() as connection:
            return request_store.waiting(connection, self._days, most)

    def _process(self, requests: Sequence[ContextRequest]) -> Outcome:
        outcome = process_contexts(
            requests,
            pool=self._pool,
            embeddings=self._embeddings,
            judge=self._judge,
            presets=self._presets,
            settings=self._settings,
            wait=self._wait,
            clock=self._clock,
        )
        done = [request for request in requests if request.context_id not in outcome.left]
        with self._pool.connection() as connection:
            request_store.handled(connection, done)
        return outcome

    def _holds_probe(self) -> bool:
        """Whether a gate is shut and only one call may be made to find out whether it opens."""
        return any(getattr(caller, "is_probe", False) for caller in (self._embeddings, self._judge))


def add(total: Outcome, more: Outcome) -> None:
    """Adds what came later: an id stays in the set of its latest fate."""
    for id_ in more.embedded | more.tagged | more.discarded | more.failed.keys() | more.left:
        total.discarded.discard(id_)
        total.failed.pop(id_, None)
        total.put_off.pop(id_, None)
        total.not_started.discard(id_)
    total.embedded |= more.embedded
    total.tagged |= more.tagged
    total.without_keywords = (total.without_keywords - more.tagged) | more.without_keywords
    total.discarded |= more.discarded
    total.failed |= more.failed
    total.put_off |= more.put_off
    total.not_started |= more.not_started - total.embedded - total.tagged
    total.retaken |= more.retaken
    total.left |= more.left
    total.dropped += more.dropped
    total.started += more.started
    total.embedding_requests += more.embedding_requests
    total.stopped_by = more.stopped_by or total.stopped_by
