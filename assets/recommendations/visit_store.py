"""Statements on visits and on who refused profiling, on a given connection. Triggers: `trigger_store.py`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from assets.recommendations.member_store import lock_member
from assets.recommendations.schedule import MOST_AHEAD, OFFSETS
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "visits.sql")
SESSION_TIMEOUT = timedelta(hours=1)
"""A visit so soon after the last one belongs to it."""


class VisitTooFarAhead(ValueError):
    """The visit is said to be in the future; taken, it would freeze its member until then."""


@dataclass(frozen=True)
class Consumed:
    """Visits taken out of the table; those that changed a trigger, and those that were refused."""

    taken: int = 0
    changed: int = 0
    refused: int = 0


def visit(
    connection: psycopg.Connection,
    member_id: int,
    occurred_at: datetime | None = None,
    session_timeout: timedelta = SESSION_TIMEOUT,
) -> bool:
    """Whether the visit (None: now) has set the member's trigger anew.

    False for one within the session of the last visit, one older than that, and one before 1970. Raises
    VisitTooFarAhead for one more than five minutes ahead of the database's clock.
    """
    parameters = _parameters(member_id, occurred_at, session_timeout)
    changed, is_too_far_ahead = connection.execute(SQL["visit"], parameters).fetchone() or (False, False)
    if is_too_far_ahead:
        raise VisitTooFarAhead(f"a visit may be at most {MOST_AHEAD.seconds // 60} minutes in the future")
    return bool(changed)


def consume(
    connection: psycopg.Connection, limit: int, session_timeout: timedelta = SESSION_TIMEOUT
) -> Consumed:
    """Takes up to `limit` visits out of `rec.member_visit`, as if each had been posted, by time.

    One that is too far ahead is refused, and not looked at again. Nobody waits for a row of another run.
    """
    with connection.transaction(), connection.cursor() as cursor:
        visits = cursor.execute(SQL["take_visits"], {"limit": limit}).fetchall()
        if not visits:
            return Consumed()
        rows = [_parameters(member_id, moment, session_timeout) for member_id, moment in visits]
        cursor.executemany(SQL["visit"], rows, returning=True)
        effects = [result.fetchone() or (False, False) for result in cursor.results()]
    return Consumed(len(visits), sum(one for one, _ in effects), sum(refused for _, refused in effects))


def waiting(connection: psycopg.Connection, at_most: int = 1_000) -> int:
    """How many visits wait in the table, counted up to `at_most`."""
    row = connection.execute(SQL["visits_waiting"], {"at_most": at_most}).fetchone()
    assert row is not None
    return int(row[0])


def opt_out(connection: psycopg.Connection, member_id: int) -> bool:
    """True if the member had not refused profiling before; what it made of them is gone with this.

    Their open item asks for what everybody gets, and a run that is ranking them stores nothing. Waits for
    one that is storing.
    """
    with connection.transaction():
        lock_member(connection, member_id)
        is_new = connection.execute(SQL["opt_out"], {"member_id": member_id}).fetchone() is not None
        connection.execute(SQL["ask_for_everybodys"], {"member_id": member_id})
        connection.execute(SQL["forget_profiled"], {"member_id": member_id})
    return is_new


def opt_in(connection: psycopg.Connection, member_id: int) -> bool:
    """True if the member had refused profiling until now."""
    return connection.execute(SQL["opt_in"], {"member_id": member_id}).fetchone() is not None


def _parameters(
    member_id: int, occurred_at: datetime | str | None, session_timeout: timedelta
) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "occurred_at": occurred_at,
        "session": session_timeout.total_seconds(),
        "first_offset": OFFSETS[0].total_seconds(),
        "most_ahead": MOST_AHEAD.total_seconds(),
    }
