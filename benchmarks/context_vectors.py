"""Vectors of 1,536 numbers on their way into `ai.context_embedding`, against psycopg and pgvector alone."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from assets.context_tags import embedding_store
from assets.context_tags.models import DEFAULT_PROFILE, ContextRequest, ContextSettings, StoredVector
from benchmarks.bench import Bench
from benchmarks.rounds import interleaved, medians
from benchmarks.row import Peer, Row, row

DIMENSIONS = 1_536
BATCH = ContextSettings().claimed_at_once
TOKEN = datetime(2026, 11, 30, 9, tzinfo=UTC)

_CLAIM = """
INSERT INTO ai.context_ai_state (context_id, embedding_status, updated_at)
SELECT id, 'PROCESSING', %(token)s FROM generate_series(1, %(contexts)s) AS id
"""
_COUNT = "SELECT count(*) FROM ai.context_embedding"
_UPSERT = """
INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile, updated_at)
VALUES (%s, %s, %s, {}, %s, now())
ON CONFLICT (context_id) DO UPDATE
SET user_id = excluded.user_id, record_id = excluded.record_id, embedding = excluded.embedding,
    embedding_profile = excluded.embedding_profile, updated_at = excluded.updated_at
"""
UPSERT_BINARY, UPSERT_TEXT = _UPSERT.format("%b"), _UPSERT.format("%s::vector")

Lists = Sequence[list[float]]


def measure(bench: Bench) -> list[Row]:
    """A turn stores into empty tables, fsync on, a transaction for each 200: as many as a run claims at once.

    All start from the lists of floats that the API's client gives. Ours also compares each token, locks and
    completes the state rows; the others only upsert.
    """
    many, few = bench.size(4_000, 400), bench.size(400, 200)
    arrays = np.random.default_rng(7).normal(size=(many, DIMENSIONS)).astype(np.float32)
    lists: Lists = arrays.tolist()
    with psycopg.connect(bench.database("bench_vectors"), autocommit=True) as connection:
        embedding_store.register(connection)
        turn = partial(_vectors_a_second, connection)
        bench.say(f"storing {many:,} vectors a turn, in turns")
        found = medians(
            interleaved(
                bench.size(7, 2),
                {
                    "ours": partial(turn, lists, _store),
                    "binary": partial(turn, lists, _upsert_binary),
                    "arrays": partial(turn, arrays, _upsert_arrays),
                    "text": partial(turn, lists[:few], _upsert_text),
                },
            )
        )
    driver = f"psycopg {version('psycopg')}, pgvector {version('pgvector')}, executemany"
    binary = Peer(f"{driver} in binary", found["binary"])
    arrays_given = Peer(f"{driver} in binary, from numpy arrays", found["arrays"])
    text = Peer(f"{driver} of texts", found["text"])
    return [
        row("context_vectors: stored", found["ours"], "vectors/s", binary, ratio_at_least=0.9),
        row("context_vectors: stored, the peer given arrays", found["ours"], "vectors/s", arrays_given),
        row("context_vectors: stored, the peer as text", found["ours"], "vectors/s", text),
    ]


def _vectors_a_second(
    connection: psycopg.Connection,
    vectors: Sequence[Any] | NDArray[np.float32],
    store: Callable[[psycopg.Connection, int, Any], None],
) -> float:
    connection.execute("TRUNCATE ai.context_ai_state, ai.context_embedding")
    connection.execute(_CLAIM, {"token": TOKEN, "contexts": len(vectors)})
    connection.execute("CHECKPOINT")  # what earlier turns left to be written is not this one's
    started = time.perf_counter()
    for first in range(0, len(vectors), BATCH):
        store(connection, first + 1, vectors[first : first + BATCH])
    seconds = time.perf_counter() - started
    if connection.execute(_COUNT).fetchone() != (len(vectors),):
        raise RuntimeError("not every vector was stored")
    return len(vectors) / seconds


def _store(connection: psycopg.Connection, first: int, vectors: Lists) -> None:
    embedding_store.store(
        connection,
        [
            StoredVector(ContextRequest(context_id, context_id, context_id, ""), TOKEN, vector)
            for context_id, vector in enumerate(vectors, first)
        ],
        DEFAULT_PROFILE,
    )


def _upsert_binary(connection: psycopg.Connection, first: int, vectors: Lists) -> None:
    from pgvector import Vector

    _upsert(connection, UPSERT_BINARY, first, map(Vector, vectors))


def _upsert_arrays(connection: psycopg.Connection, first: int, vectors: NDArray[np.float32]) -> None:
    _upsert(connection, UPSERT_BINARY, first, iter(vectors))


def _upsert_text(connection: psycopg.Connection, first: int, vectors: Lists) -> None:
    _upsert(connection, UPSERT_TEXT, first, map(str, vectors))


def _upsert(connection: psycopg.Connection, statement: str, first: int, vectors: Iterator[Any]) -> None:
    rows = [(id_, id_, id_, vector, DEFAULT_PROFILE) for id_, vector in enumerate(vectors, first)]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(statement, rows)
