"""The erasure of a user: everything of theirs, nothing of others, and nothing comes back afterwards."""

from collections.abc import Callable
from datetime import datetime

import psycopg
import pytest

from assets.context_tags import embedding_store, erasure_store, keyword_store, request_store, state_store
from assets.context_tags.erasure_store import Erased
from assets.context_tags.models import DEFAULT_PROFILE, Stage
from tests.integration.context_tags.store_rows import (
    Waiting,
    all_rows,
    ask,
    judged,
    made_vector,
    put_all_states,
    put_embedding,
    put_preset,
    put_state,
    states_of,
    tokens_of,
    vector,
)

Connection = psycopg.Connection
Connect = Callable[..., Connection]
NOTHING = Erased(requests=0, embeddings=0, keywords=0, analyses=0, cancelled=0)
TABLES = (
    "granary.context_request",
    "ai.context_embedding",
    "ai.context_keyword",
    "ai.context_keyword_analysis",
)


def post(connection: Connection, context_id: int, user_id: int) -> None:
    request_store.accept(connection, ask(context_id, user_id=user_id), {"place": "집"}, "hmac", False)


def tagged(connection: Connection, context_id: int, user_id: int) -> None:
    """A context that is done, with two keywords."""
    post(connection, context_id, user_id)
    token = put_state(connection, context_id, embedding="COMPLETED", keyword="PROCESSING")[context_id]
    put_embedding(connection, context_id, vector(1.0), user_id=user_id)
    assert keyword_store.store(connection, [judged(context_id, token, 101, 102)], 1) == {context_id}


def contexts_in(connection: Connection, table: str) -> set[int]:
    return {row[0] for row in all_rows(connection, table)}


def test_all_of_the_user_is_cleared_and_counted_and_others_keep_theirs(connection: Connection) -> None:
    put_preset(connection, 101, 102)
    for context_id in (1, 2):
        tagged(connection, context_id, user_id=7)
    tagged(connection, 3, user_id=8)
    put_state(connection, 4, embedding="COMPLETED")
    put_embedding(connection, 4, vector(1.0), user_id=7, is_deleted=True)
    assert erasure_store.erase_user(connection, 7) == Erased(
        requests=2, embeddings=3, keywords=4, analyses=2, cancelled=1
    )
    assert {table: contexts_in(connection, table) for table in TABLES} == {table: {3} for table in TABLES}
    assert states_of(connection)[4] == ("COMPLETED", "CANCELLED")
    assert erasure_store.erase_user(connection, 7) == NOTHING
    assert erasure_store.erase_user(connection, 99) == NOTHING


def test_every_table_with_users_or_what_is_made_of_their_texts_is_cleared(
    connection: Connection,
) -> None:
    """The state is the application's own, and says nothing of a text."""
    found = connection.execute(
        "SELECT DISTINCT table_schema || '.' || table_name FROM information_schema.columns"
        " WHERE table_schema IN ('ai', 'granary') AND column_name IN ('context_id', 'user_id')"
    ).fetchall()
    assert {name for (name,) in found} == {*TABLES, "ai.context_ai_state"}


def test_what_is_not_final_is_cancelled_each_stage_for_itself(connection: Connection) -> None:
    states = put_all_states(connection)
    for context_id in states:
        post(connection, context_id, user_id=7)
    put_state(connection, 99)
    post(connection, 99, user_id=8)
    before = tokens_of(connection)
    erased = erasure_store.erase_user(connection, 7)
    running = {"PENDING", "PROCESSING"}
    expected = {
        id_: tuple("CANCELLED" if status in running else status for status in state)
        for id_, state in states.items()
    }
    assert states_of(connection) == {**expected, 99: ("PENDING", "PENDING")}
    touched = {id_ for id_, state in states.items() if running & set(state)}
    assert erased.cancelled == len(touched) == 16
    after = tokens_of(connection)
    assert {id_ for id_ in after if after[id_] != before[id_]} == touched


def started(connection: Connection, context_id: int, stage: Stage) -> datetime:
    return state_store.start(connection, stage, [context_id], 600)[context_id].token


@pytest.mark.parametrize("has_row", [True, False], ids=["with a row", "without a row"])
def test_a_vector_that_was_under_way_is_discarded(connection: Connection, has_row: bool) -> None:
    put_state(connection, 1)
    post(connection, 1, user_id=7)
    if has_row:
        put_embedding(connection, 1, vector(0.0, 1.0), user_id=7)
    token = started(connection, 1, Stage.EMBEDDING)
    erasure_store.erase_user(connection, 7)
    assert embedding_store.store(connection, [made_vector(1, token)], DEFAULT_PROFILE) == set()
    assert contexts_in(connection, "ai.context_embedding") == set()


def test_a_judgement_that_was_under_way_is_discarded(connection: Connection) -> None:
    put_preset(connection, 101)
    put_state(connection, 1, embedding="COMPLETED")
    post(connection, 1, user_id=7)
    put_embedding(connection, 1, vector(1.0), user_id=7)
    token = started(connection, 1, Stage.KEYWORD)
    erasure_store.erase_user(connection, 7)
    assert keyword_store.store(connection, [judged(1, token, 101, concepts=["병원"])], 1) == set()
    assert all(contexts_in(connection, table) == set() for table in TABLES)


def test_a_vector_stored_while_the_erasure_waits_is_erased_too(connect: Connect) -> None:
    worker, eraser, witness = connect(), connect(), connect()
    put_state(worker, 1)
    post(worker, 1, user_id=1)
    token = started(worker, 1, Stage.EMBEDDING)
    with worker.transaction():
        embedding_store.store(worker, [made_vector(1, token)], DEFAULT_PROFILE)
        erasing = Waiting(eraser, lambda: erasure_store.erase_user(eraser, 1))
        erasing.waits_for_a_lock(witness)
    assert erasing.result() == Erased(requests=1, embeddings=1, keywords=0, analyses=0, cancelled=1)
    assert contexts_in(witness, "ai.context_embedding") == set()
    assert states_of(witness) == {1: ("COMPLETED", "CANCELLED")}


def test_a_request_that_comes_while_the_erasure_waits_is_erased_or_is_one_after_it(connect: Connect) -> None:
    """Context 2 is posted and started when the erasure has cleared its requests and waits for a state."""
    door, eraser, witness = connect(), connect(), connect()
    put_state(door, 1, 2)
    post(door, 1, user_id=7)
    with witness.transaction():
        witness.execute("SELECT FROM ai.context_ai_state WHERE context_id = 1 FOR UPDATE")
        erasing = Waiting(eraser, lambda: erasure_store.erase_user(eraser, 7))
        erasing.waits_for_a_lock(door)
        post(door, 2, user_id=7)
        started(door, 2, Stage.EMBEDDING)
    assert erasing.result().requests == 1
    assert contexts_in(door, "granary.context_request") == {2}
    assert states_of(door) == {1: ("CANCELLED", "CANCELLED"), 2: ("PROCESSING", "PENDING")}


def test_an_erasure_that_is_cut_off_clears_nothing(connect: Connect) -> None:
    connection = connect()
    put_preset(connection, 101, 102)
    tagged(connection, 1, user_id=7)
    connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'the disk is full'; END$$;"
        "CREATE TRIGGER refuse BEFORE DELETE ON ai.context_keyword_analysis"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(psycopg.errors.RaiseException):
        erasure_store.erase_user(connection, 7)
    assert all(contexts_in(connection, table) == {1} for table in TABLES)
