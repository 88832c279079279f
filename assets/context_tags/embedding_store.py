"""Statements on the vectors of contexts (`ai.context_embedding`), on a given connection."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import psycopg

from assets.context_tags import state_store
from assets.context_tags.models import StoredVector
from assets.context_tags.unstorable import without_texts
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "embeddings.sql")


def store(connection: psycopg.Connection, vectors: Sequence[StoredVector], profile: str) -> set[int]:
    """Those that were still ours: stored and COMPLETED in one transaction, the others discarded (rule 6).

    Raises Unstorable, with nothing of the batch stored.
    """
    made = {one.request.context_id: one for one in vectors}
    as_sent = {id_: as_vector(connection, one.vector) for id_, one in made.items()}
    claims = state_store.claims({id_: one.token for id_, one in made.items()})
    with without_texts(), connection.transaction():
        ours = [id_ for (id_,) in connection.execute(state_store.SQL["lock_embedding"], claims)]
        if not ours:
            return set()
        rows = {
            "ids": ours,
            "user_ids": [made[id_].request.user_id for id_ in ours],
            "record_ids": [made[id_].request.record_id for id_ in ours],
            "vectors": [as_sent[id_] for id_ in ours],
            "profile": profile,
        }
        connection.execute(SQL["store"], rows)
        return {id_ for (id_,) in connection.execute(state_store.SQL["complete_embedding"], {"ids": ours})}


def vectors(
    connection: psycopg.Connection, context_ids: Collection[int]
) -> dict[int, tuple[str, list[float]]]:
    """The stored profile and vector of each that has one."""
    register(connection)
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(SQL["vectors"], {"ids": list(context_ids)}).fetchall()
    return {id_: (profile, vector.to_list()) for id_, profile, vector in rows}


def register(connection: psycopg.Connection) -> None:
    """Makes the connection send and read vectors in binary; asks the database once a connection."""
    from pgvector.psycopg import register_vector

    if connection.adapters.types.get("vector") is None:
        register_vector(connection)


def as_vector(connection: psycopg.Connection, vector: Sequence[float]) -> Any:
    """The vector as pgvector sends it in binary."""
    import numpy as np

    register(connection)
    return np.asarray(vector, dtype=np.float32)
