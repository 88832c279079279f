"""Erases a member, on a given connection."""

from dataclasses import dataclass
from pathlib import Path

import psycopg

from assets.recommendations.member_store import lock_member
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "erasure.sql")


@dataclass(frozen=True)
class Erased:
    """How many rows of the member there were in each table."""

    visits: int
    triggers: int
    queue_items: int
    recommended: int
    events: int
    opt_outs: int


def erase_member(connection: psycopg.Connection, member_id: int) -> Erased:
    """Deletes every row of the member, in one transaction.

    A run that is checking or ranking the member stores nothing afterwards: its lease or claim is gone.
    """
    with connection.transaction():
        lock_member(connection, member_id)
        return Erased(
            **{
                name: connection.execute(statement, {"member_id": member_id}).rowcount
                for name, statement in SQL.items()
            }
        )
