"""Forgets a user: whatever is kept of their contexts, on a given connection."""

from dataclasses import dataclass
from pathlib import Path

import psycopg

from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "erasure.sql")


@dataclass(frozen=True, slots=True)
class Erased:
    """Rows that were deleted; `cancelled`: contexts of which a stage was PENDING or PROCESSING."""

    requests: int
    embeddings: int
    keywords: int
    analyses: int
    cancelled: int


def erase_user(connection: psycopg.Connection, user_id: int) -> Erased:
    """What was cleared, in one transaction. A run that holds a vector or a judgement of them discards it.

    Locks as all do: requests, then states, each in the order of ids, then results.
    """
    with connection.transaction():
        requests = connection.execute(SQL["delete_requests"], {"user_id": user_id}).fetchall()
        embedded = connection.execute(SQL["embedded"], {"user_id": user_id}).fetchall()
        of_user = {"ids": sorted({id_ for (id_,) in requests + embedded}), "user_id": user_id}
        connection.execute(SQL["lock_states"], of_user)
        stopped = [
            id_
            for statement in ("cancel_embedding", "cancel_keyword")
            for (id_,) in connection.execute(SQL[statement], of_user)
        ]
        return Erased(
            requests=len(requests),
            embeddings=connection.execute(SQL["delete_embeddings"], of_user).rowcount,
            keywords=connection.execute(SQL["delete_keywords"], of_user).rowcount,
            analyses=connection.execute(SQL["delete_analyses"], of_user).rowcount,
            cancelled=len(set(stopped)),
        )
