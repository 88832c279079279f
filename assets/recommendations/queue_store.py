"""Statements on the queue and on the sets that were recommended, on a given connection.

The token of a claim is `claimed_by`, the run. Days are UTC days of queueing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import psycopg
from psycopg import errors

from assets.recommendations.member_store import lock_member
from assets.recommendations.models import GenerationType, QueueItem, Ranked
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "queue.sql")
REQUEUE_TRIES = 5


@dataclass(frozen=True)
class Returned:
    """Items of dead runs: back in the queue, or failed since they had been back before."""

    returned: int = 0
    failed: int = 0


@dataclass(frozen=True)
class QueueCount:
    """How many items of a day (UTC) there are of a type in a status."""

    day: date
    wanted: GenerationType
    status: str
    items: int


def pick(
    connection: psycopg.Connection,
    claimed_by: str,
    limit: int,
    lease_seconds: int,
    days: Sequence[date] | None = None,
) -> list[QueueItem]:
    """Up to `limit` waiting items of the days (None: of any), the oldest first, which are now the run's."""
    parameters = {
        "claimed_by": claimed_by,
        "limit": limit,
        "lease_seconds": lease_seconds,
        "days": None if days is None else list(days),
        "first": min(days) if days else None,
        "last": max(days) if days else None,
    }
    rows = connection.execute(SQL["pick"], parameters)
    return [QueueItem(id_, member_id, GenerationType(wanted)) for id_, member_id, wanted in rows]


def renew(
    connection: psycopg.Connection, claimed_by: str, item_ids: Sequence[int], lease_seconds: int
) -> set[int]:
    """Those of the items that are still the run's, for `lease_seconds` from now."""
    parameters = {"ids": list(item_ids), "claimed_by": claimed_by, "lease_seconds": lease_seconds}
    return {id_ for (id_,) in connection.execute(SQL["renew"], parameters)}


def succeed(connection: psycopg.Connection, item: QueueItem, claimed_by: str, rows: Sequence[Ranked]) -> bool:
    """Replaces the member's set by the rows, best first.

    False where the item is not the run's, or not of this type, any more, or where the rows are profiled and
    the member has opted out: then nothing is stored.
    """
    is_profiled = any(row.candidate_generation_type != GenerationType.G0 for row in rows)
    with connection.transaction():
        lock_member(connection, item.member_id)
        if not _finish(connection, item, claimed_by, "SUCCEEDED", None, is_profiled):
            return False
        connection.execute(SQL["delete_recommended"], {"member_id": item.member_id})
        added = {
            "member_id": item.member_id,
            "queue_item_id": item.id,
            "product_ids": [row.product_id for row in rows],
            "scores": [row.score for row in rows],
            "generation_types": [str(row.candidate_generation_type) for row in rows],
        }
        connection.execute(SQL["add_recommended"], added)
    return True


def fail(connection: psycopg.Connection, item: QueueItem, claimed_by: str, error: str) -> bool:
    """FAILED until somebody requeues it; the set of before stays. False where the item is not the run's."""
    return _finish(connection, item, claimed_by, "FAILED", error)


def return_dead(connection: psycopg.Connection) -> Returned:
    """Takes back the items whose lease has run out."""
    return _return_items(connection, None, "lease_lost")


def free_of_run(connection: psycopg.Connection, claimed_by: str) -> Returned:
    """Takes back what a run holds that has ended, whatever its leases say."""
    return _return_items(connection, claimed_by, "run_ended")


def requeue_failed(connection: psycopg.Connection, item_ids: Sequence[int] | None = None) -> int:
    """How many of the failed items (None: of all) wait again: one a member, and none beside an open one."""
    parameters = {"ids": None if item_ids is None else list(item_ids)}
    for tries_left in reversed(range(REQUEUE_TRIES)):
        try:
            with connection.transaction():
                return connection.execute(SQL["requeue_failed"], parameters).rowcount
        except errors.UniqueViolation:  # an item of one of the members was opened just now: look again
            if not tries_left:
                raise
    raise AssertionError("returned or raised before")


def days_waiting(connection: psycopg.Connection) -> list[tuple[date, int]]:
    """Days with items that a run could pick or take back, the oldest first, and how many."""
    return [(day, count) for day, count in connection.execute(SQL["days_waiting"])]


def counts_by_day(connection: psycopg.Connection, days: Sequence[date]) -> list[QueueCount]:
    """What is in the queue of the days; no entry for none."""
    rows = connection.execute(SQL["counts_by_day"], {"days": list(days)})
    return [QueueCount(day, GenerationType(wanted), status, items) for day, wanted, status, items in rows]


def _finish(
    connection: psycopg.Connection,
    item: QueueItem,
    claimed_by: str,
    status: str,
    error: str | None,
    is_profiled: bool = False,
) -> bool:
    parameters = {
        "id": item.id,
        "claimed_by": claimed_by,
        "wanted": item.wanted.value,
        "status": status,
        "error": error,
        "is_profiled": is_profiled,
    }
    return connection.execute(SQL["finish"], parameters).fetchone() is not None


def _return_items(connection: psycopg.Connection, claimed_by: str | None, error: str) -> Returned:
    found = connection.execute(SQL["return_items"], {"claimed_by": claimed_by, "error": error}).fetchall()
    returned = sum(status == "PENDING" for (status,) in found)
    return Returned(returned, len(found) - returned)
