"""Statements on the triggers that visits leave: leased while due, then queued and moved on.

On a given connection; each function is one transaction of its own, or a part of the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from assets.recommendations.models import DueTrigger, Finalised
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "triggers.sql")


@dataclass(frozen=True)
class FinaliseCounts:
    """What became of due triggers.

    already_queued: of this due time, or of a member whose item is still open. overtaken: not changed,
    since a visit, another run or an erasure had changed the trigger meanwhile.
    """

    queued: int = 0
    already_queued: int = 0
    moved: int = 0
    deleted: int = 0
    overtaken: int = 0


def now(connection: psycopg.Connection) -> datetime:
    """The database's clock, which a session may have moved."""
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


def due(connection: psycopg.Connection, at_most: int = 1_000) -> int:
    """How many triggers could be leased now, counted up to `at_most`."""
    row = connection.execute(SQL["due"], {"at_most": at_most}).fetchone()
    assert row is not None
    return int(row[0])


def lease_due(connection: psycopg.Connection, limit: int, lease_seconds: int) -> list[DueTrigger]:
    """Up to `limit` due triggers that nobody else may have until the lease ends."""
    parameters = {"limit": limit, "lease_seconds": lease_seconds, "lease_token": uuid4()}
    with connection.transaction():
        return [DueTrigger(*row) for row in connection.execute(SQL["lease_due"], parameters)]


def finalise(connection: psycopg.Connection, items: Sequence[Finalised]) -> FinaliseCounts:
    """Queues the items and moves or deletes their triggers, all in one transaction.

    A trigger whose lease is not the caller's any more queues nothing and stays as it is. One that a visit
    has set anew is queued, since it was due, and keeps its new times.
    """
    if not items:
        return FinaliseCounts()
    rows = Jsonb([_as_row(item) for item in items])
    with connection.transaction():
        held = [member_id for (member_id,) in connection.execute(SQL["hold"], {"items": rows})]
        queued = connection.execute(SQL["queue"], {"items": rows, "held": held}).rowcount
        moved = connection.execute(SQL["move"], {"items": rows}).rowcount
        deleted = connection.execute(SQL["delete"], {"items": rows}).rowcount
        if moved + deleted < len(held):
            connection.execute(SQL["free"], {"items": rows})
    return FinaliseCounts(queued, len(held) - queued, moved, deleted, len(items) - moved - deleted)


def _as_row(item: Finalised) -> dict[str, object]:
    return {
        "member_id": item.trigger.member_id,
        "last_visited_at": item.trigger.last_visited_at.isoformat(),
        "trigger_at": item.trigger.trigger_at.isoformat(),
        "lease_token": item.trigger.lease_token,
        "due_offset": item.due_offset.total_seconds(),
        "generation_type": item.generation_type,
        "next_trigger_at": item.next_trigger_at and item.next_trigger_at.isoformat(),
    }
