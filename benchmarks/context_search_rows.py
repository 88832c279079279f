"""Embedded contexts of many users for the search, copied in binary as fast as Postgres takes them."""

from collections.abc import Iterator

import numpy as np
import psycopg
from numpy.typing import NDArray

from assets.context_tags.models import DEFAULT_PROFILE

DIMENSIONS = 1_536
TOPICS = 20
# The cosine of a text and its topic: two texts of one topic have its square, of two topics about none.
_NEARNESS = 0.7
_CHUNK = 2_000

# The copy's binary format: a header, tuples, a trailer; a tuple is the number of its fields, then each
# field behind its length in bytes; a vector is the number of its dimensions, two bytes of zero, its floats.
_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = b"\xff\xff"
_TUPLE = np.dtype(
    [
        ("fields", ">i2"),
        ("context_id_bytes", ">i4"),
        ("context_id", ">i8"),
        ("user_id_bytes", ">i4"),
        ("user_id", ">i8"),
        ("record_id_bytes", ">i4"),
        ("record_id", ">i8"),
        ("embedding_bytes", ">i4"),
        ("dimensions", ">i2"),
        ("unused", ">i2"),
        ("embedding", ">f4", (DIMENSIONS,)),
        ("profile_bytes", ">i4"),
        ("profile", f"S{len(DEFAULT_PROFILE)}"),
    ]
)
_COPY = """
COPY ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile)
FROM STDIN (FORMAT binary, FREEZE)
"""
# The rows are frozen already; a vacuum that reads all the gigabytes would only disturb the searches.
_NO_VACUUM = (
    "ALTER TABLE ai.context_embedding SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)"
)
_ADD_STATES = """
INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status)
SELECT id, 'COMPLETED', 'COMPLETED' FROM generate_series(1, %s) AS id
"""

Vectors = NDArray[np.float32]


class Texts:
    """Vectors of texts that each speak of one of twenty topics. The same seed gives the same texts."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._topics = _of_length_one(
            np.random.default_rng(1).standard_normal((TOPICS, DIMENSIONS), np.float32)
        )

    def vectors(self, count: int) -> Vectors:
        """Of length 1."""
        noise = _of_length_one(self._random.standard_normal((count, DIMENSIONS), np.float32))
        noise *= np.float32(np.sqrt(1 - _NEARNESS**2))
        noise += np.float32(_NEARNESS) * self._topics[self._random.integers(TOPICS, size=count)]
        return _of_length_one(noise)


def add_contexts(connection: psycopg.Connection, owners: NDArray[np.int64]) -> None:
    """One context for each of the owners' ids, in their order, with its state; ANALYZEd.

    The tables are made empty in the same transaction, which spares Postgres the log of all these rows.
    """
    with connection.transaction(), connection.cursor() as cursor:
        connection.execute("TRUNCATE ai.context_embedding, ai.context_ai_state")
        with cursor.copy(_COPY) as copy:
            for part in _as_copied(owners):
                copy.write(part)
        connection.execute(_ADD_STATES, [len(owners)])
        connection.execute(_NO_VACUUM)
    connection.execute("VACUUM (ANALYZE, PROCESS_TOAST false) ai.context_embedding, ai.context_ai_state")


def _as_copied(owners: NDArray[np.int64]) -> Iterator[bytes]:
    texts = Texts(seed=2)
    yield _HEADER
    for first in range(0, len(owners), _CHUNK):
        part = owners[first : first + _CHUNK]
        tuples = np.zeros(len(part), _TUPLE)
        tuples["fields"] = 5
        for name in ("context_id", "user_id", "record_id"):
            tuples[f"{name}_bytes"] = 8
        tuples["context_id"] = tuples["record_id"] = np.arange(first + 1, first + 1 + len(part))
        tuples["user_id"] = part
        tuples["embedding_bytes"] = 4 + 4 * DIMENSIONS
        tuples["dimensions"] = DIMENSIONS
        tuples["embedding"] = texts.vectors(len(part))
        tuples["profile_bytes"] = len(DEFAULT_PROFILE)
        tuples["profile"] = DEFAULT_PROFILE.encode()
        yield tuples.tobytes()
    yield _TRAILER


def _of_length_one(vectors: Vectors) -> Vectors:
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths
