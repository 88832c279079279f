"""The application's part, where CONTEXT_OWN_STATE gives it to us: send again three times, then give up."""

from collections.abc import Callable

import psycopg
import pytest

from assets.context_tags import request_store, rescan_store, state_store
from assets.context_tags.models import Stage, Status
from tests.integration.context_tags.store_rows import (
    Waiting,
    ask,
    put_all_states,
    put_state,
    states_of,
    tokens_of,
)

Connection = psycopg.Connection
Connect = Callable[..., Connection]


def put(
    connection: Connection,
    context_id: int,
    embedding: str,
    keyword: str,
    minutes_ago: float,
    retries: int = 0,
) -> None:
    """A state of that age with a request of the same, handled long ago."""
    put_state(
        connection,
        context_id,
        embedding=embedding,
        keyword=keyword,
        minutes_ago=minutes_ago,
        retries=retries,
    )
    request_store.accept(connection, ask(context_id), None, "hmac", True)
    connection.execute(
        "UPDATE granary.context_request SET requested_at = granary.now() - make_interval(secs => %(age)s),"
        " handled_at = granary.now() - make_interval(secs => %(age)s) WHERE context_id = %(id)s",
        {"age": minutes_ago * 60, "id": context_id},
    )


def retries(connection: Connection) -> dict[int, int]:
    return dict(connection.execute("SELECT context_id, retry_count FROM ai.context_ai_state").fetchall())


def waiting(connection: Connection) -> set[int]:
    return {one.context_id for one in request_store.waiting(connection, None, 1_000)}


def current(state: tuple[str, str]) -> str:
    """The stage that it is at: the keywords wait for the embedding."""
    return state[1] if state[0] == "COMPLETED" else state[0]


AGES = [4.9, 5.1, 9.9, 10.1]


@pytest.mark.parametrize("minutes_ago", AGES)
def test_what_is_stuck_is_sent_again_and_nothing_else(connection: Connection, minutes_ago: float) -> None:
    stuck = {"PENDING"} if 5 < minutes_ago < 10 else {"PENDING", "PROCESSING"} if minutes_ago > 10 else set()
    states = put_all_states(connection)
    for context_id, (embedding, keyword) in states.items():
        put(connection, context_id, embedding, keyword, minutes_ago)
    before = tokens_of(connection)
    expected = {id_ for id_, state in states.items() if current(state) in stuck}
    if expected:
        assert rescan_store.is_due(connection)
    assert rescan_store.resend(connection) == len(expected)
    assert retries(connection) == {id_: int(id_ in expected) for id_ in states}
    assert waiting(connection) == expected
    assert states_of(connection) == states
    after = tokens_of(connection)
    assert {id_ for id_ in states if after[id_] != before[id_]} == {
        id_ for id_ in expected if current(states[id_]) == "PENDING"
    }
    assert rescan_store.resend(connection) == 0


def test_what_was_sent_again_while_processing_is_started_as_expired(connection: Connection) -> None:
    put(connection, 1, "PROCESSING", "PENDING", 11)
    rescan_store.resend(connection)
    (start,) = state_store.start(connection, Stage.EMBEDDING, [1], 600).values()
    assert start.was_expired


def test_a_context_without_a_request_is_counted_too_so_that_it_ends(connection: Connection) -> None:
    put_state(connection, 1, minutes_ago=6)
    assert rescan_store.resend(connection) == 1
    assert (retries(connection), waiting(connection)) == ({1: 1}, set())


@pytest.mark.parametrize("minutes_ago", AGES)
def test_what_is_stuck_after_its_third_retry_fails_each_stage_for_itself(
    connection: Connection, minutes_ago: float
) -> None:
    stuck = {"PENDING"} if 5 < minutes_ago < 10 else {"PENDING", "PROCESSING"} if minutes_ago > 10 else set()
    states = put_all_states(connection)
    for context_id, (embedding, keyword) in states.items():
        put(connection, context_id, embedding, keyword, minutes_ago, retries=3)
    assert rescan_store.resend(connection) == 0
    expected = {}
    for id_, (embedding, keyword) in states.items():
        after = "FAILED" if embedding in stuck else embedding
        if (after == "FAILED" and keyword == "PENDING") or (after == "COMPLETED" and keyword in stuck):
            keyword = "FAILED"
        expected[id_] = (after, keyword)
    changed = sum(
        one != other for id_ in states for one, other in zip(states[id_], expected[id_], strict=True)
    )
    assert rescan_store.finalise(connection) == changed
    assert states_of(connection) == expected
    assert rescan_store.finalise(connection) == 0
    assert not rescan_store.is_due(connection)


def test_keywords_that_can_never_start_fail_without_a_retry(connection: Connection) -> None:
    put(connection, 1, "FAILED", "PENDING", 0)
    put(connection, 2, "FAILED", "COMPLETED", 0)
    assert rescan_store.is_due(connection)
    assert rescan_store.finalise(connection) == 1
    assert states_of(connection) == {1: ("FAILED", "FAILED"), 2: ("FAILED", "COMPLETED")}
    assert not rescan_store.is_due(connection)


@pytest.mark.parametrize("status", [Status.PENDING, Status.PROCESSING])
def test_the_third_retry_gets_its_time_before_it_is_given_up(connect: Connect, status: Status) -> None:
    """Ticks every five minutes and a second, each finalises and sends again; no run takes anything up."""
    start = connect("2026-03-01 12:00:00+00")
    put_state(start, 1, embedding=status)
    request_store.accept(start, ask(1), None, "hmac", True)
    seen = []
    for number in range(1, 9):
        tick = connect(f"2026-03-01 12:{5 * number:02}:{number:02}+00")
        is_due = rescan_store.is_due(tick)
        did = (rescan_store.finalise(tick), rescan_store.resend(tick))
        assert is_due is any(did)
        seen.append(did)
    first = 1 if status is Status.PENDING else 2
    sent, ended = (0, 1), (2, 0)
    quiet = [(0, 0)] * (first - 1)
    assert seen == [*quiet, sent, sent, sent, ended, *[(0, 0)] * (len(seen) - first - 3)]
    assert states_of(start) == {1: ("FAILED", "FAILED")}
    assert retries(start) == {1: 3}


def test_a_run_that_took_up_the_third_retry_may_end_it(connect: Connect) -> None:
    put(connect("2026-03-01 11:49:00+00"), 1, "PROCESSING", "PENDING", 0, retries=2)
    tick = connect("2026-03-01 12:00:00+00")
    assert (rescan_store.resend(tick), rescan_store.finalise(tick)) == (1, 0)
    assert state_store.start(connect("2026-03-01 12:00:05+00"), Stage.EMBEDDING, [1], 600)
    assert rescan_store.finalise(connect("2026-03-01 12:05:00+00")) == 0
    assert rescan_store.finalise(connect("2026-03-01 12:10:06+00")) == 2


def test_two_rescans_at_once_count_one_retry(connect: Connect) -> None:
    first, second, witness = connect(), connect(), connect()
    put(first, 1, "PENDING", "PENDING", 6)
    put(first, 2, "PROCESSING", "PENDING", 11)
    with first.transaction():
        assert rescan_store.resend(first) == 2
        other = Waiting(second, lambda: rescan_store.resend(second))
        other.waits_for_a_lock(witness)
    assert other.result() == 0
    assert retries(first) == {1: 1, 2: 1}


def test_a_rescan_that_waited_for_a_finish_leaves_what_is_done(connect: Connect) -> None:
    worker, rescan, witness = connect(), connect(), connect()
    put(worker, 1, "PROCESSING", "PENDING", 11)
    with worker.transaction():
        put_state(worker, 1, embedding="COMPLETED", keyword="COMPLETED")
        sent = Waiting(rescan, lambda: rescan_store.resend(rescan))
        sent.waits_for_a_lock(witness)
    assert sent.result() == 0
    assert retries(worker) == {1: 0}
