"""The search in one user's contexts: who is found, in which order, and what is cut off."""

import math
import random

import psycopg
import pytest

from assets.context_tags import search_store
from assets.context_tags.models import DEFAULT_PROFILE, Status
from assets.context_tags.search_store import Found
from tests.integration.context_tags.store_rows import OTHER_PROFILE, put_embedding, put_state, vector

Connection = psycopg.Connection
QUERY = vector(1.0)


def at(similarity: float) -> list[float]:
    """A vector whose cosine with the query is this."""
    return vector(similarity, math.sqrt(1 - similarity**2))


def put(connection: Connection, context_id: int, similarity: float, **fields: object) -> None:
    put_state(connection, context_id, embedding="COMPLETED")
    put_embedding(connection, context_id, at(similarity), **{"record_id": context_id, **fields})  # type: ignore[arg-type]


def nearest(connection: Connection, limit: int = 10, floor: float = 0.30, user_id: int = 1) -> list[Found]:
    return search_store.nearest(connection, user_id, QUERY, DEFAULT_PROFILE, limit, floor)


def contexts(found: list[Found]) -> list[int]:
    return [one.context_id for one in found]


def test_the_nearest_come_first_with_their_cosine(connection: Connection) -> None:
    put(connection, 1, 0.6, record_id=11)
    put(connection, 2, 0.9, record_id=12)
    put(connection, 3, 0.75, record_id=13)
    found = nearest(connection)
    assert [(one.record_id, one.context_id) for one in found] == [(12, 2), (13, 3), (11, 1)]
    assert [one.similarity for one in found] == pytest.approx([0.9, 0.75, 0.6])


def test_a_record_is_found_once_by_its_best_context_and_the_limit_counts_records(
    connection: Connection,
) -> None:
    for context_id, similarity in enumerate((0.91, 0.95, 0.93), 1):
        put(connection, context_id, similarity, record_id=10)
    put(connection, 4, 0.80, record_id=20)
    put(connection, 5, 0.70, record_id=30)
    assert [(one.record_id, one.context_id) for one in nearest(connection, limit=2)] == [(10, 2), (20, 4)]


def test_what_is_equally_near_is_ordered_by_context(connection: Connection) -> None:
    for context_id in (5, 3, 4):
        put(connection, context_id, 0.8, record_id=9 - context_id)
    put(connection, 2, 0.8, record_id=5)
    assert contexts(nearest(connection)) == [2, 3, 5]


def test_the_floor_and_the_share_of_the_best_both_cut(connection: Connection) -> None:
    for context_id, similarity in enumerate((0.90, 0.55, 0.53, 0.31, 0.29), 1):
        put(connection, context_id, similarity)
    assert contexts(nearest(connection)) == [1, 2]
    connection.execute("DELETE FROM ai.context_embedding WHERE context_id < 3")
    assert contexts(nearest(connection)) == [3]
    connection.execute("DELETE FROM ai.context_embedding WHERE context_id = 3")
    assert contexts(nearest(connection)) == [4]
    assert contexts(nearest(connection, floor=0.24)) == [4, 5]
    connection.execute("DELETE FROM ai.context_embedding WHERE context_id = 4")
    assert nearest(connection) == []


def test_nobody_elses_no_deleted_and_no_other_profiles_context_is_found(connection: Connection) -> None:
    put(connection, 1, 0.5)
    put(connection, 2, 0.9, user_id=2)
    put(connection, 3, 0.9, is_deleted=True)
    put(connection, 4, 0.9, profile=OTHER_PROFILE)
    put_embedding(connection, 5, at(0.9), record_id=5)
    assert contexts(nearest(connection)) == [1]
    assert contexts(nearest(connection, user_id=2)) == [2]
    assert nearest(connection, user_id=3) == []


@pytest.mark.parametrize("status", Status)
def test_only_a_completed_embedding_is_found_whatever_its_keywords(
    connection: Connection, status: Status
) -> None:
    put(connection, 1, 0.9)
    for keyword in Status:
        put_state(connection, 1, embedding=status, keyword=keyword)
        assert bool(nearest(connection)) is (status == Status.COMPLETED)


def test_a_vector_of_zeros_is_no_result_and_no_measure(connection: Connection) -> None:
    put(connection, 1, 0.5)
    put_state(connection, 2, embedding="COMPLETED")
    put_embedding(connection, 2, vector(0.0), record_id=2)
    assert contexts(nearest(connection)) == [1]
    assert search_store.nearest(connection, 1, vector(0.0), DEFAULT_PROFILE, 10, 0.3) == []


def test_many_contexts_are_ranked_exactly(connection: Connection) -> None:
    numbers = random.Random(11)
    records: dict[int, tuple[float, int]] = {}
    for context_id in range(1, 121):
        similarity, record_id = numbers.random(), numbers.randint(1, 40)
        put(connection, context_id, similarity, record_id=record_id)
        records[record_id] = max(records.get(record_id, (0.0, 0)), (similarity, context_id))
    best = max(records.values())[0]
    expected = sorted((one for one in records.values() if one[0] >= max(0.3, 0.6 * best)), reverse=True)
    assert contexts(nearest(connection, limit=25)) == [context_id for _, context_id in expected[:25]]
