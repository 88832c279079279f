"""Vectors of 1,536 numbers on their way into `ai.context_embedding`, against psycopg and pgvector alone."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from assets.context_tags import embedding_store, state_store
from assets.context_tags.models import (
    DEFAULT_PROFILE,
    ContextRequest,
    ContextSettings,
    Stage,
    Start,
    StoredVector,
)
from benchmarks.bench import Bench
from benchmarks.rounds import interleaved, medians
from benchmarks.row import Peer, Row, row

DIMENSIONS = 1_536
SETTINGS = ContextSettings()
BATCH = SETTINGS.claimed_at_once
HISTORY = 20_000

_ADD_STATES = """
INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status)
SELECT id, status, status
FROM generate_series(1, %(contexts)s + %(history)s) AS id,
     LATERAL (SELECT CASE WHEN id <= %(contexts)s THEN 'PENDING' ELSE 'COMPLETED' END AS status)
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
Starts = Mapping[int, Start]


def measure(bench: Bench) -> list[Row]:
    """A turn stores into an empty table, fsync on, a transaction for each 200, as a run does.

    All begin with the lists of floats that the API's client gives. Ours also compares each token, locks and
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
    store: Callable[[psycopg.Connection, Starts, Any], None],
) -> float:
    """Of the storing alone: each batch is started before, as a run does before it asks the model."""
    connection.execute("TRUNCATE ai.context_ai_state, ai.context_embedding")
    connection.execute(_ADD_STATES, {"contexts": len(vectors), "history": HISTORY})
    connection.execute("ANALYZE ai.context_ai_state")
    connection.execute("CHECKPOINT")  # what earlier turns left to be written is not this one's
    seconds = 0.0
    for first in range(0, len(vectors), BATCH):
        batch = vectors[first : first + BATCH]
        ids = range(first + 1, first + 1 + len(batch))
        starts = state_store.start(connection, Stage.EMBEDDING, ids, SETTINGS.processing_expiry_seconds)
        started = time.perf_counter()
        store(connection, starts, batch)
        seconds += time.perf_counter() - started
    if connection.execute(_COUNT).fetchone() != (len(vectors),):
        raise RuntimeError("not every vector was stored")
    return len(vectors) / seconds


def _store(connection: psycopg.Connection, starts: Starts, vectors: Lists) -> None:
    made = [
        StoredVector(ContextRequest(id_, id_, id_, ""), starts[id_].token, vector)
        for id_, vector in zip(sorted(starts), vectors, strict=True)
    ]
    embedding_store.store(connection, made, DEFAULT_PROFILE)


def _upsert_binary(connection: psycopg.Connection, starts: Starts, vectors: Lists) -> None:
    from pgvector import Vector

    _upsert(connection, UPSERT_BINARY, starts, map(Vector, vectors))


def _upsert_arrays(connection: psycopg.Connection, starts: Starts, vectors: NDArray[np.float32]) -> None:
    _upsert(connection, UPSERT_BINARY, starts, iter(vectors))


def _upsert_text(connection: psycopg.Connection, starts: Starts, vectors: Lists) -> None:
    _upsert(connection, UPSERT_TEXT, starts, map(str, vectors))


def _upsert(connection: psycopg.Connection, statement: str, starts: Starts, vectors: Iterator[Any]) -> None:
    made = zip(sorted(starts), vectors, strict=True)
    rows = [(id_, id_, id_, vector, DEFAULT_PROFILE) for id_, vector in made]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(statement, rows)
