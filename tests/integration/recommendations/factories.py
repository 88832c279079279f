"""Rows of recommendations as a test wants them, at noon of one day unless it says otherwise."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.recommendations.models import DueTrigger, GenerationType, Ranked

Connect = Callable[..., psycopg.Connection]

NOON = datetime(2026, 12, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
PROFILE = "openai-text-embedding-3-small-1536-cosine-v1"
TOKEN = "00000000-0000-4000-8000-000000000001"
TABLES_OF_MEMBERS = (
    "member_visit",
    "visit_trigger",
    "queue_item",
    "recommended_product",
    "member_event",
    "member_opt_out",
)
"""Where anything of a member is kept."""


def at(moment: datetime) -> str:
    """As `connect(at=…)` takes it."""
    return moment.isoformat()


def rows(connection: psycopg.Connection, query: str, **parameters: Any) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), parameters).fetchall()


def count(connection: psycopg.Connection, table: str) -> int:
    (row,) = rows(connection, f"SELECT count(*) AS rows FROM rec.{table}")  # noqa: S608
    return int(row["rows"])


def trigger(connection: psycopg.Connection, member_id: int = 1) -> dict[str, Any] | None:
    found = rows(connection, "SELECT * FROM rec.visit_trigger WHERE member_id = %(id)s", id=member_id)
    return found[0] if found else None


def items(connection: psycopg.Connection) -> list[dict[str, Any]]:
    return rows(connection, "SELECT * FROM rec.queue_item ORDER BY id")


def recommended(connection: psycopg.Connection, member_id: int) -> list[int]:
    """The member's products, best first."""
    query = "SELECT product_id FROM rec.recommended_product WHERE member_id = %(id)s ORDER BY rank"
    return [row["product_id"] for row in rows(connection, query, id=member_id)]


def a_trigger(
    connection: psycopg.Connection,
    member_id: int = 1,
    visited_at: datetime = NOON - HOUR,
    due_at: datetime | None = None,
    lease_until: datetime | None = None,
) -> DueTrigger:
    """A trigger as if it had been leased by TOKEN, whether or not it is."""
    due_at = due_at or visited_at + HOUR
    connection.execute(
        "INSERT INTO rec.visit_trigger VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (member_id, visited_at, due_at, lease_until, TOKEN if lease_until else None, visited_at, visited_at),
    )
    return DueTrigger(member_id, visited_at, due_at, TOKEN)


def an_item(
    connection: psycopg.Connection,
    member_id: int = 1,
    status: str = "PENDING",
    *,
    queued_at: datetime = NOON,
    visited_at: datetime = NOON - HOUR,
    claimed_by: str | None = "run-1",
    lease_until: datetime | None = NOON + 5 * MINUTE,
    returns: int = 0,
    wanted: str = "G2",
) -> int:
    """The id of an item; the lease counts for RUNNING only, and a PENDING one is nobody's."""
    is_running = status == "RUNNING"
    row = connection.execute(
        "INSERT INTO rec.queue_item (member_id, last_visited_at, due_offset, candidate_generation_type,"
        " status, queued_at, finished_at, claimed_by, lease_until, returns)"
        " VALUES (%s, %s, '1 hour', %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        (
            member_id,
            visited_at,
            wanted,
            status,
            queued_at,
            queued_at if status in ("SUCCEEDED", "FAILED") else None,
            None if status == "PENDING" else claimed_by,
            lease_until if is_running else None,
            returns,
        ),
    ).fetchone()
    assert row is not None
    return int(row[0])


def a_product(connection: psycopg.Connection, id_: int, **columns: Any) -> None:
    given = {"name": f"두부 {id_}", "category": "식품", "text": "부드럽다", "is_active": True, **columns}
    connection.execute(
        "INSERT INTO rec.product (id, name, category, text, is_active)"
        " VALUES (%(id)s, %(name)s, %(category)s, %(text)s, %(is_active)s)",
        {"id": id_, **given},
    )


def an_event(
    connection: psycopg.Connection,
    member_id: int,
    product_id: int,
    kind: str = "view",
    weight: float = 1,
    occurred_at: datetime = NOON - HOUR,
) -> None:
    connection.execute(
        "INSERT INTO rec.member_event (member_id, product_id, kind, weight, occurred_at)"
        " VALUES (%s, %s, %s, %s, %s)",
        (member_id, product_id, kind, weight, occurred_at),
    )


def a_set(products: Sequence[int], kind: GenerationType = GenerationType.G0) -> list[Ranked]:
    """What a ranker gives for these products, best first."""
    return [Ranked(id_, 1 / place, kind) for place, id_ in enumerate(products, 1)]
