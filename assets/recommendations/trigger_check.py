"""Turns due triggers into queue items, batch by batch until nothing is due. Usable without Dagster."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from assets.recommendations import trigger_store, visit_store
from assets.recommendations.models import DueTrigger, Finalised
from assets.recommendations.schedule import due_offset, generation_type, next_trigger_at
from assets.recommendations.trigger_store import FinaliseCounts
from assets.recommendations.visit_store import SESSION_TIMEOUT, Consumed

VISITS_AT_ONCE = 1_000


@dataclass
class TriggerCounts:
    """What one check has done: visits taken out of the table, and what became of the due triggers."""

    visits: int = 0
    visits_refused: int = 0
    queued: int = 0
    already_queued: int = 0
    moved: int = 0
    deleted: int = 0
    overtaken: int = 0

    def add(self, consumed: Consumed, finalised: FinaliseCounts) -> None:
        """Counts one more batch of both."""
        self.visits += consumed.taken
        self.visits_refused += consumed.refused
        self.queued += finalised.queued
        self.already_queued += finalised.already_queued
        self.moved += finalised.moved
        self.deleted += finalised.deleted
        self.overtaken += finalised.overtaken


def check_triggers(
    connection: psycopg.Connection,
    *,
    limit: int = 100,
    lease_seconds: int = 300,
    session_timeout: timedelta = SESSION_TIMEOUT,
    clock: Callable[[], float] = time.monotonic,
    until: float = math.inf,
) -> TriggerCounts:
    """Takes visits out of the table and queues what is due, until neither is left or `clock` says `until`.

    What is leased when the process dies falls due again with its lease, by its own due time.
    """
    counts = TriggerCounts()
    while clock() < until:
        consumed = visit_store.consume(connection, VISITS_AT_ONCE, session_timeout)
        triggers = trigger_store.lease_due(connection, limit, lease_seconds)
        if not consumed.taken and not triggers:
            break
        now = trigger_store.now(connection)
        counts.add(consumed, trigger_store.finalise(connection, [finalised(one, now) for one in triggers]))
    return counts


def finalised(trigger: DueTrigger, now: datetime) -> Finalised:
    """What becomes of the trigger: its item is of the time it was due at, however late it is looked at."""
    visited, due_at = trigger.last_visited_at, trigger.trigger_at
    return Finalised(
        trigger, due_offset(visited, due_at), generation_type(visited, due_at), next_trigger_at(visited, now)
    )
