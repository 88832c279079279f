"""Statements on the vectors of contexts (`ai.context_embedding`), on a given connection."""

import struct
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from assets.context_tags import state_store
from assets.context_tags.models import StoredVector
from assets.context_tags.unstorable import without_texts
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from pgvector import Vector

SQL = read_statements(Path(__file__).parent / "sql" / "embeddings.sql")


def store(connection: psycopg.Connection, vectors: Sequence[StoredVector], profile: str) -> set[int]:
    """Those that were still ours: stored and COMPLETED in one transaction, the others discarded (rule 6).

    Raises Unstorable, with nothing of the batch stored.
    """
    if not vectors:
        return set()
    made = {one.request.context_id: one for one in vectors}
    with without_texts():
        rows = {
            **state_store.claims({id_: one.token for id_, one in made.items()}),
            "user_ids": [one.request.user_id for one in made.values()],
            "record_ids": [one.request.record_id for one in made.values()],
            "vectors": as_vectors(connection, [one.vector for one in made.values()]),
            "profile": profile,
        }
        return {id_ for (id_,) in connection.execute(SQL["store"], rows)}


def vectors(
    connection: psycopg.Connection, context_ids: Collection[int]
) -> dict[int, tuple[str | None, list[float] | None]]:
    """The stored profile and vector of each that has a row; either may be NULL in a table of another's."""
    register(connection)
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(SQL["vectors"], {"ids": list(context_ids)}).fetchall()
    return {id_: (profile, None if vector is None else vector.to_list()) for id_, profile, vector in rows}


def register(connection: psycopg.Connection) -> None:
    """Makes the connection send and read vectors in binary; asks the database once a connection."""
    from pgvector.psycopg import register_vector

    if connection.adapters.types.get("vector") is None:
        register_vector(connection)


def as_vectors(connection: psycopg.Connection, vectors: Iterable[Sequence[float]]) -> "list[Vector]":
    """The vectors as they are sent in binary. Raises OverflowError for what no 4-byte float holds."""
    from pgvector import Vector

    register(connection)
    # Half the time of numpy's or an array's conversion of a list, which is most of what a batch costs us.
    return [Vector.from_binary(struct.pack(f">HH{len(one)}f", len(one), 0, *one)) for one in vectors]
