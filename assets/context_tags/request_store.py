"""Statements on the inbox (`granary.context_request`), on a given connection.

The user's text lives here and nowhere else, until both stages of its context are final and for a day at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from assets.context_tags.models import ContextRequest
from assets.context_tags.unstorable import without_texts
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "requests.sql")

_ACCEPT = {False: SQL["accept"], True: SQL["with_new_state"] + b"\n" + SQL["accept"]}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a POST met. `replaced_hmac`: of another text that was known, which breaks the contract."""

    replaced_hmac: str | None
    text_was_taken: bool


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The requests of a day, and where their contexts stand.

    with_text: whose text is still kept. without_state: whose context the application has not made, or not
    any more: these were left alone.
    """

    requests: int = 0
    waiting: int = 0
    embedded: int = 0
    tagged: int = 0
    failed: int = 0
    cancelled: int = 0
    with_text: int = 0
    without_state: int = 0


def accept(
    connection: psycopg.Connection,
    request: ContextRequest,
    place_meta: Mapping[str, Any] | None,
    text_hmac: str,
    own_state: bool,
) -> Accepted:
    """Stores one attempt; the context waits from now on. `own_state` also makes its state row.

    Another text for a known context is taken only where a stage is PENDING or no state is known; the same
    text is always stored again. Raises Unstorable.
    """
    row = {
        "context_id": request.context_id,
        "user_id": request.user_id,
        "record_id": request.record_id,
        "text": request.text,
        "text_hmac": text_hmac,
        "place_meta": None if place_meta is None else Jsonb(place_meta),
    }
    with without_texts():
        found = connection.execute(_ACCEPT[own_state], row).fetchone()
    assert found is not None
    kept, before = found
    taken = kept == text_hmac
    known = before if taken else kept
    return Accepted(None if known == text_hmac else known, taken)


def waiting(connection: psycopg.Connection, days: Sequence[date] | None, limit: int) -> list[ContextRequest]:
    """Requests with a text that no run has handled, oldest first; of these days (UTC), or of all."""
    parameters = {"days": None if days is None else list(days), "limit": limit}
    return [ContextRequest(*row) for row in connection.execute(SQL["waiting"], parameters)]


def today(connection: psycopg.Connection) -> date:
    """The running day, UTC, by the database's clock."""
    row = connection.execute("SELECT (granary.now() AT TIME ZONE 'UTC')::date").fetchone()
    assert row is not None
    day: date = row[0]
    return day


def days_waiting(connection: psycopg.Connection) -> list[tuple[date, int]]:
    """The days (UTC) with requests that wait with their text, and how many; oldest first."""
    return [(day, count) for day, count in connection.execute(SQL["days_waiting"])]


def handled(connection: psycopg.Connection, requests: Sequence[ContextRequest]) -> int:
    """How many attempts are over now; one that was posted again since is none of them.

    The texts of those whose stages are both final are forgotten at once.
    """
    attempts = {one.context_id: one.requested_at for one in requests if one.requested_at is not None}
    parameters = {"ids": list(attempts), "requested_at": list(attempts.values())}
    return len(connection.execute(SQL["handled"], parameters).fetchall())


def handle_without_text(connection: psycopg.Connection) -> int:
    """How many waited although their text is forgotten: nothing can be made of them, so they are over."""
    return len(connection.execute(SQL["handle_without_text"]).fetchall())


def forget(connection: psycopg.Connection) -> int:
    """How many texts were forgotten: both stages are final, or they were taken more than 24 hours ago."""
    with connection.transaction():
        ids = [id_ for (id_,) in connection.execute(SQL["lock_forgettable"])]
        return len(connection.execute(SQL["forget"], {"ids": ids}).fetchall()) if ids else 0


def overdue_texts(connection: psycopg.Connection) -> int:
    """Texts that should have been forgotten by now; 0 right after `forget`."""
    row = connection.execute(SQL["overdue_texts"]).fetchone()
    assert row is not None
    return int(row[0])


def counts_by_day(connection: psycopg.Connection, days: Sequence[date]) -> dict[date, DayCounts]:
    """Each of these days (UTC), also one without a request."""
    rows = connection.execute(SQL["counts_by_day"], {"days": list(days)})
    return {day: DayCounts(*counts) for day, *counts in rows}
