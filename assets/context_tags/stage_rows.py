"""One stage of contexts in the table: started, ended and counted, a batch in one transaction each.

A connection of the pool is held for statements only, never while a call is under way.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg

from assets.context_tags import state_store
from assets.context_tags.models import ContextSettings, Outcome, Stage
from resources.counters import Counts

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

    Pool = ConnectionPool[psycopg.Connection]

log = logging.getLogger("granary.context_tags")


class StageRows:
    """What a run changes of one stage, and what it says of it in `outcome`."""

    def __init__(self, stage: Stage, pool: "Pool", settings: ContextSettings, outcome: Outcome) -> None:
        self._stage = stage
        self._name = stage.name.lower()
        self._pool = pool
        self._expiry = settings.processing_expiry_seconds
        self._outcome = outcome

    def start(self, context_ids: Sequence[int]) -> dict[int, datetime]:
        """The tokens of those that are ours now; for the others this is a normal end (rule 3)."""
        with self._pool.connection() as connection:
            starts = state_store.start(connection, self._stage, context_ids, self._expiry)
        for context_id, start in starts.items():
            if start.was_expired:
                log.warning("context %d: %s had expired and is taken again", context_id, self._name)
                self._outcome.retaken.add(context_id)
        self._outcome.started += len(starts)
        self._outcome.not_started.update(id_ for id_ in context_ids if id_ not in starts)
        return {context_id: start.token for context_id, start in starts.items()}

    def finish(
        self,
        tokens: Mapping[int, datetime],
        store: Callable[[psycopg.Connection], set[int]],
        dropped: Mapping[str, int] | None = None,
    ) -> set[int]:
        """Has `store` store what was made for these; those that were still ours, which it must return."""
        counts = Counts()
        for reason, amount in (dropped or {}).items():
            counts.add("context_dropped_total", amount, reason=reason)
        with self._pool.connection() as connection, connection.transaction():
            stored = store(connection)
            self._count(counts, "completed", len(stored))
            self._count(counts, "discarded", len(tokens) - len(stored))
            counts.write(connection)
        self._outcome.discarded.update(tokens.keys() - stored)
        self._outcome.dropped.update(dropped or {})
        return stored

    def fail(self, tokens: Mapping[int, datetime], reasons: Mapping[int, str]) -> None:
        """PROCESSING → FAILED for those that are still ours; `reasons` hold no text."""
        if not tokens:
            return
        counts = Counts()
        with self._pool.connection() as connection, connection.transaction():
            failed = state_store.fail(connection, self._stage, tokens)
            self._count(counts, "failed", len(failed))
            self._count(counts, "discarded", len(tokens) - len(failed))
            counts.write(connection)
        self._outcome.discarded.update(tokens.keys() - failed)
        for context_id in failed:
            self._outcome.failed[context_id] = reasons[context_id]
            log.warning("context %d: %s failed (%s)", context_id, self._name, reasons[context_id])

    def put_off(self, context_ids: Iterable[int], reason: str) -> None:
        """They stay PROCESSING: expiry and the application's next request bring them back (rule 14)."""
        counts = Counts()
        for context_id in context_ids:
            self._outcome.put_off[context_id] = reason
            self._count(counts, "put_off", 1)
            log.warning("context %d: %s is put off (%s)", context_id, self._name, reason)
        with self._pool.connection() as connection:
            counts.write(connection)

    def _count(self, counts: Counts, outcome: str, amount: int) -> None:
        counts.add("context_stage_total", amount, stage=self._name, outcome=outcome)
