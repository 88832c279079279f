"""Starts and failures of stages: the whole table of statuses, tokens, expiry, and two workers at once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import psycopg
import pytest

from assets.context_tags import state_store
from assets.context_tags.models import ContextState, Stage, Status
from tests.integration.context_tags.store_rows import (
    Waiting,
    held,
    put_all_states,
    put_state,
    states_of,
    tokens_of,
)

Connection = psycopg.Connection
EXPIRY = 600.0


def startable(stage: Stage, state: tuple[str, str], expired: bool) -> bool:
    embedding, keyword = state
    if stage is Stage.KEYWORD and embedding != "COMPLETED":
        return False
    own = embedding if stage is Stage.EMBEDDING else keyword
    return own == "PENDING" or (own == "PROCESSING" and expired)


def changed(stage: Stage, state: tuple[str, str], status: str) -> tuple[str, str]:
    return (status, state[1]) if stage is Stage.EMBEDDING else (state[0], status)


def now(connection: Connection) -> datetime:
    row = connection.execute("SELECT granary.now()").fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("minutes_ago", [9.9, 10.1])
def test_a_start_takes_what_is_pending_or_has_expired_and_nothing_else(
    connection: Connection, stage: Stage, minutes_ago: float
) -> None:
    before = put_all_states(connection, minutes_ago)
    expired = minutes_ago > 10
    starts = state_store.start(connection, stage, list(before), EXPIRY)
    expected = {id_ for id_, state in before.items() if startable(stage, state, expired)}
    assert starts.keys() == expected
    assert states_of(connection) == {
        id_: changed(stage, state, "PROCESSING") if id_ in expected else state
        for id_, state in before.items()
    }
    own = 0 if stage is Stage.EMBEDDING else 1
    assert {id_ for id_, start in starts.items() if start.was_expired} == {
        id_ for id_ in expected if before[id_][own] == "PROCESSING"
    }


@pytest.mark.parametrize("stage", Stage)
def test_a_start_gives_the_time_of_the_row_as_its_token(connection: Connection, stage: Stage) -> None:
    put_state(connection, 1, embedding="PENDING" if stage is Stage.EMBEDDING else "COMPLETED", minutes_ago=3)
    (start,) = state_store.start(connection, stage, [1], EXPIRY).values()
    row = connection.execute("SELECT updated_at FROM ai.context_ai_state").fetchone()
    assert row == (start.token,)
    assert now(connection) - start.token < timedelta(minutes=1)


def test_a_context_without_a_row_or_not_asked_for_is_no_start_and_no_error(connection: Connection) -> None:
    put_state(connection, 1, 2)
    assert state_store.start(connection, Stage.EMBEDDING, [2, 3], EXPIRY).keys() == {2}
    assert state_store.start(connection, Stage.EMBEDDING, [], EXPIRY) == {}
    assert states_of(connection) == {1: ("PENDING", "PENDING"), 2: ("PROCESSING", "PENDING")}


def test_the_clock_of_the_expiry_is_the_databases(connect: Callable[..., Connection]) -> None:
    early, late = connect("2026-03-01 12:00:00+00"), connect("2026-03-01 12:10:00.000001+00")
    put_state(early, 1)
    (first,) = state_store.start(early, Stage.EMBEDDING, [1], EXPIRY).values()
    assert state_store.start(connect("2026-03-01 12:10:00+00"), Stage.EMBEDDING, [1], EXPIRY) == {}
    (second,) = state_store.start(late, Stage.EMBEDDING, [1], EXPIRY).values()
    assert (first.was_expired, second.was_expired) == (False, True)
    assert second.token - first.token == timedelta(minutes=10, microseconds=1)


@pytest.mark.parametrize("minutes_ago", [0, 11], ids=["pending", "expired"])
def test_of_two_starts_that_saw_the_same_row_one_gets_it(
    connect: Callable[..., Connection], minutes_ago: float
) -> None:
    """Both look while a third holds the row, and go on when it lets go."""
    third, first, second, witness = connect(), connect(), connect(), connect()
    status = "PROCESSING" if minutes_ago else "PENDING"
    put_state(third, 1, embedding=status, minutes_ago=minutes_ago)
    with held(third, "ai.context_ai_state", [1]):
        both = [
            Waiting(one, partial(state_store.start, one, Stage.EMBEDDING, [1], EXPIRY))
            for one in (first, second)
        ]
        for one in both:
            one.waits_for_a_lock(witness)
    started = [bool(one.result()) for one in both]
    assert sorted(started) == [False, True]


@pytest.mark.parametrize("stage", Stage)
def test_a_cancellation_that_a_start_waited_for_wins(
    connect: Callable[..., Connection], stage: Stage
) -> None:
    core, worker, witness = connect(), connect(), connect()
    put_state(core, 1, embedding="PENDING" if stage is Stage.EMBEDDING else "COMPLETED")
    with core.transaction():
        put_state(core, 1, embedding="CANCELLED", keyword="CANCELLED")
        start = Waiting(worker, lambda: state_store.start(worker, stage, [1], EXPIRY))
        start.waits_for_a_lock(witness)
    assert start.result() == {}
    assert states_of(core) == {1: ("CANCELLED", "CANCELLED")}


def test_a_start_takes_the_row_as_it_is_when_the_lock_is_free(connect: Callable[..., Connection]) -> None:
    """What it waited for changed the row, but left it startable."""
    core, worker, witness = connect(), connect(), connect()
    put_state(core, 1, 2)
    with core.transaction():
        core.execute("UPDATE ai.context_ai_state SET retry_count = 2 WHERE context_id = 1")
        start = Waiting(worker, lambda: state_store.start(worker, Stage.EMBEDDING, [2, 1], EXPIRY))
        start.waits_for_a_lock(witness)
    assert start.result().keys() == {1, 2}
    rows = core.execute("SELECT embedding_status, retry_count FROM ai.context_ai_state ORDER BY context_id")
    assert rows.fetchall() == [("PROCESSING", 2), ("PROCESSING", 0)]


@pytest.mark.parametrize("stage", Stage)
def test_a_failure_ends_the_stage_that_is_processing_with_its_token_and_no_other(
    connection: Connection, stage: Stage
) -> None:
    before = put_all_states(connection)
    tokens = tokens_of(connection)
    own = 0 if stage is Stage.EMBEDDING else 1
    expected = {id_ for id_, state in before.items() if state[own] == "PROCESSING"}
    assert state_store.fail(connection, stage, tokens) == expected
    assert states_of(connection) == {
        id_: changed(stage, state, "FAILED") if id_ in expected else state for id_, state in before.items()
    }
    assert state_store.fail(connection, stage, tokens) == set()


def test_a_failure_with_an_old_token_changes_nothing(connection: Connection) -> None:
    tokens = put_state(connection, 1, 2, embedding="PROCESSING")
    tokens[1] -= timedelta(microseconds=1)
    assert state_store.fail(connection, Stage.EMBEDDING, tokens) == {2}
    assert states_of(connection)[1] == ("PROCESSING", "PENDING")


def test_states_are_told_for_the_contexts_that_have_a_row(connection: Connection) -> None:
    put_state(connection, 1, embedding="COMPLETED", keyword="FAILED")
    put_state(connection, 2)
    found = state_store.states(connection, [1, 3])
    assert found == {1: ContextState(Status.COMPLETED, Status.FAILED)}


def test_nothing_is_missing_after_the_migration(connection: Connection) -> None:
    assert state_store.missing_columns(connection) == []
    assert state_store.missing_columns(connection, own_state=True) == []


def test_what_is_missing_of_the_tables_is_named(connection: Connection) -> None:
    connection.execute("ALTER TABLE ai.context_embedding DROP COLUMN is_deleted")
    connection.execute("DROP TABLE ai.context_keyword_analysis")
    assert state_store.missing_columns(connection) == [
        "ai.context_embedding.is_deleted: no such column",
        "ai.context_keyword_analysis: no such table",
    ]
    connection.execute("DROP SCHEMA ai CASCADE")
    assert len(state_store.missing_columns(connection)) == 5
