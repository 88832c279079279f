"""Storing vectors: only into a stage that is ours still, all of it or nothing."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from assets.context_tags import embedding_store, state_store
from assets.context_tags.models import DEFAULT_PROFILE, Stage, StoredVector
from assets.context_tags.unstorable import Unstorable
from tests.integration.context_tags.store_rows import (
    OTHER_PROFILE,
    Waiting,
    all_rows,
    ask,
    made_vector,
    put_all_states,
    put_embedding,
    put_state,
    states_of,
    tokens_of,
    vector,
)

Connection = psycopg.Connection


def store(connection: Connection, *vectors: StoredVector) -> set[int]:
    return embedding_store.store(connection, vectors, DEFAULT_PROFILE)


def test_a_vector_is_stored_only_where_its_stage_is_processing(connection: Connection) -> None:
    before = put_all_states(connection)
    tokens = tokens_of(connection)
    expected = {id_ for id_, state in before.items() if state[0] == "PROCESSING"}
    assert store(connection, *(made_vector(id_, token) for id_, token in tokens.items())) == expected
    assert {row[0] for row in all_rows(connection, "ai.context_embedding")} == expected
    assert states_of(connection) == {
        id_: ("COMPLETED", state[1]) if id_ in expected else state for id_, state in before.items()
    }


def test_a_stored_vector_has_all_that_a_search_needs(connection: Connection) -> None:
    tokens = put_state(connection, 7, embedding="PROCESSING", minutes_ago=2)
    values = [0.5, -0.25, 1e-3]
    made = StoredVector(ask(7, user_id=8, record_id=9), tokens[7], vector(*values))
    assert store(connection, made) == {7}
    (row,) = connection.execute(
        "SELECT user_id, record_id, embedding_profile, is_deleted, (embedding::real[])[1:3],"
        " vector_dims(embedding), embedding.updated_at = state.updated_at, state.updated_at > %s"
        " FROM ai.context_embedding AS embedding JOIN ai.context_ai_state AS state USING (context_id)",
        (tokens[7],),
    )
    assert row == (8, 9, DEFAULT_PROFILE, False, pytest.approx(values), 1_536, True, True)


def test_a_worker_that_was_replaced_stores_nothing(connect: Callable[..., Connection]) -> None:
    slow, quick = connect("2026-03-01 12:00:00+00"), connect("2026-03-01 12:20:00+00")
    put_state(slow, 1)
    first = state_store.start(slow, Stage.EMBEDDING, [1], 600)[1]
    second = state_store.start(quick, Stage.EMBEDDING, [1], 600)[1]
    assert second.was_expired
    assert store(slow, made_vector(1, first.token)) == set()
    assert all_rows(slow, "ai.context_embedding") == []
    assert store(quick, made_vector(1, second.token)) == {1}
    assert store(slow, made_vector(1, first.token, (0.0, 1.0))) == set()
    stored = embedding_store.vectors(slow, [1])[1][1]
    assert stored is not None and stored[:2] == [1.0, 0.0]


def test_a_token_that_is_off_by_a_microsecond_is_none(connection: Connection) -> None:
    token = put_state(connection, 1, embedding="PROCESSING")[1]
    assert store(connection, made_vector(1, token + timedelta(microseconds=1))) == set()
    assert store(connection, made_vector(1, token)) == {1}


@pytest.mark.parametrize("has_row", [True, False], ids=["with a row", "without a row"])
def test_a_context_cancelled_while_its_store_waits_never_gets_a_vector(
    connect: Callable[..., Connection], has_row: bool
) -> None:
    core, worker, witness = connect(), connect(), connect()
    tokens = put_state(core, 1, 2, embedding="PROCESSING")
    if has_row:
        put_embedding(core, 1, vector(0.0, 1.0))
    before = all_rows(core, "ai.context_embedding")
    with core.transaction():
        core.execute("UPDATE ai.context_ai_state SET embedding_status = 'CANCELLED' WHERE context_id = 1")
        core.execute("UPDATE ai.context_embedding SET is_deleted = true WHERE context_id = 1")
        stored = Waiting(worker, lambda: store(worker, *(made_vector(id_, tokens[id_]) for id_ in (1, 2))))
        stored.waits_for_a_lock(witness)
    assert stored.result() == {2}
    rows = all_rows(core, "ai.context_embedding")
    assert [row[0] for row in rows] == ([1, 2] if has_row else [2])
    if has_row:
        assert (rows[0][3], rows[0][5]) == (before[0][3], True)
    assert states_of(core)[1] == ("CANCELLED", "PENDING")


def test_a_new_vector_of_a_deleted_context_leaves_it_deleted(connection: Connection) -> None:
    """The application set COMPLETED back to PENDING, which is its right; is_deleted is its own too."""
    token = put_state(connection, 1, embedding="PROCESSING")[1]
    put_embedding(connection, 1, vector(0.0, 1.0), user_id=5, profile=OTHER_PROFILE, is_deleted=True)
    assert store(connection, made_vector(1, token)) == {1}
    (row,) = all_rows(connection, "ai.context_embedding")
    assert (row[1], row[4], row[5]) == (1, DEFAULT_PROFILE, True)
    assert embedding_store.vectors(connection, [1]) == {1: (DEFAULT_PROFILE, vector(1.0))}


def test_one_vector_that_cannot_be_stored_keeps_the_batch_out_and_quotes_nothing(
    connection: Connection,
) -> None:
    tokens = put_state(connection, 1, 2, embedding="PROCESSING")
    short = StoredVector(ask(2), tokens[2], [0.125, 0.5])
    with pytest.raises(Unstorable) as refused:
        store(connection, made_vector(1, tokens[1]), short)
    assert (refused.value.sqlstate, refused.value.__cause__) == ("22000", None)
    assert "0.125" not in str(refused.value)
    assert all_rows(connection, "ai.context_embedding") == []
    assert set(states_of(connection).values()) == {("PROCESSING", "PENDING")}
    assert store(connection, made_vector(1, tokens[1])) == {1}


def test_nothing_at_hand_is_nothing_stored(connection: Connection) -> None:
    assert store(connection) == set()
    assert embedding_store.vectors(connection, []) == {}


def test_vectors_are_read_back_as_they_were_stored(connection: Connection) -> None:
    tokens = put_state(connection, *range(1, 40), embedding="PROCESSING")
    made = [made_vector(id_, token, (id_ / 64, 0.5)) for id_, token in tokens.items()]
    assert store(connection, *made) == set(tokens)
    found = embedding_store.vectors(connection, [3, 39, 99])
    assert found == {id_: (DEFAULT_PROFILE, vector(id_ / 64, 0.5)) for id_ in (3, 39)}


def test_a_state_that_changed_in_other_ways_while_the_store_waits_is_still_ours(
    connect: Callable[..., Connection],
) -> None:
    core, worker, witness = connect(), connect(), connect()
    tokens = put_state(core, 1, 2, embedding="PROCESSING")
    with core.transaction():
        core.execute("UPDATE ai.context_ai_state SET retry_count = 2 WHERE context_id = 1")
        stored = Waiting(worker, lambda: store(worker, *(made_vector(id_, tokens[id_]) for id_ in (2, 1))))
        stored.waits_for_a_lock(witness)
    assert stored.result() == {1, 2}
    rows = core.execute("SELECT embedding_status, retry_count FROM ai.context_ai_state ORDER BY context_id")
    assert rows.fetchall() == [("COMPLETED", 2), ("COMPLETED", 0)]
    assert len(all_rows(core, "ai.context_embedding")) == 2


def test_a_store_in_a_transaction_that_is_taken_back_is_none(connection: Connection) -> None:
    tokens = put_state(connection, 1, embedding="PROCESSING")
    with connection.transaction(force_rollback=True):
        assert store(connection, made_vector(1, tokens[1])) == {1}
    assert states_of(connection) == {1: ("PROCESSING", "PENDING")}
    assert all_rows(connection, "ai.context_embedding") == []


def test_what_fits_no_four_byte_float_is_not_stored(connection: Connection) -> None:
    tokens = put_state(connection, 1, embedding="PROCESSING")
    for value in (1e39, float("nan"), float("inf")):
        with pytest.raises(Unstorable):
            store(connection, made_vector(1, tokens[1], (value,)))
    assert all_rows(connection, "ai.context_embedding") == []


def test_vectors_are_registered_once_a_connection(connection: Connection) -> None:
    tokens = put_state(connection, 1, 2, embedding="PROCESSING")
    store(connection, made_vector(1, tokens[1]))
    known = connection.adapters.types.get("vector")
    assert known is not None
    store(connection, made_vector(2, tokens[2]))
    assert connection.adapters.types.get("vector") is known
