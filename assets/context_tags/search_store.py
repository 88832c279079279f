"""The search in a user's contexts, on a given connection."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from assets.context_tags.embedding_store import as_vectors
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "search.sql")

SHARE_OF_BEST = 0.60
"""What is less similar than this share of the best is no result."""


@dataclass(frozen=True, slots=True)
class Found:
    """A record with its best context. `similarity`: cosine."""

    record_id: int
    context_id: int
    similarity: float


def nearest(
    connection: psycopg.Connection,
    user_id: int,
    vector: Sequence[float],
    profile: str,
    limit: int,
    floor: float,
) -> list[Found]:
    """The user's records nearest to the vector, best first, ties by context id; at most `limit` records.

    Only embeddings that are COMPLETED, not deleted and of the profile, at least as similar as `floor` and as
    0.60 of the best.
    """
    (as_sent,) = as_vectors(connection, [vector])
    parameters = {
        "user_id": user_id,
        "vector": as_sent,
        "profile": profile,
        "limit": limit,
        "floor": floor,
        "share_of_best": SHARE_OF_BEST,
    }
    return [Found(*row) for row in connection.execute(SQL["nearest"], parameters)]
