"""How long a text is kept: a day from when it was taken, and never less than until it was looked at."""

from collections.abc import Callable

import psycopg
import pytest

from assets.context_tags import request_store
from tests.integration.context_tags.store_rows import Waiting, ask, held, put_state

Connection = psycopg.Connection
Connect = Callable[..., Connection]


def post(connection: Connection, context_id: int, text: str) -> bool:
    accepted = request_store.accept(connection, ask(context_id, text), {"place": "집"}, f"h {text}", False)
    return accepted.text_was_taken


def texts(connection: Connection) -> dict[int, str | None]:
    return dict(connection.execute("SELECT context_id, text FROM granary.context_request").fetchall())


def at(hours: float) -> str:
    return f"2026-03-0{1 + int(hours // 24)} {int(hours % 24):02}:{int(hours % 1 * 60):02}:00+00"


def test_a_text_is_forgotten_after_a_day_also_where_another_was_posted_and_not_taken(
    connect: Connect,
) -> None:
    post(connect(at(0)), 1, "처음 글")
    put_state(connect(), 1, embedding="PROCESSING", keyword="PROCESSING")
    assert not post(connect(at(23)), 1, "다른 글")
    later = connect(at(24.5))
    assert request_store.overdue_texts(later) == 1
    assert request_store.forget(later) == 1
    assert texts(later) == {1: None}
    assert later.execute("SELECT place_meta FROM granary.context_request").fetchone() == (None,)


@pytest.mark.parametrize("text", ["처음 글", "다른 글"])
def test_a_text_that_was_taken_anew_has_a_day_of_its_own(connect: Connect, text: str) -> None:
    for hours in (0, 23):
        assert post(connect(at(hours)), 1, text if hours else "처음 글")
    second_day = connect(at(46))
    assert (request_store.overdue_texts(second_day), request_store.forget(second_day)) == (0, 0)
    assert texts(second_day) == {1: text}
    assert request_store.forget(connect(at(47.5))) == 1


def test_a_text_without_a_time_cannot_be_stored(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(
            "INSERT INTO granary.context_request (context_id, user_id, record_id, text, text_hmac,"
            " requested_at) VALUES (1, 1, 1, 'a', 'h', granary.now())"
        )


def test_a_text_that_is_posted_for_a_redo_while_its_forerunner_is_forgotten_is_kept(
    connect: Connect,
) -> None:
    """The forgetting waits for the row of context 1 when it has seen that context 2 was over."""
    core, forgetter, holder = connect(), connect(), connect()
    put_state(core, 1, 2, embedding="COMPLETED", keyword="COMPLETED")
    for context_id in (1, 2):
        post(core, context_id, "처음 글")
    with held(holder, "granary.context_request", [1]):
        forgetting = Waiting(forgetter, lambda: request_store.forget(forgetter))
        forgetting.waits_for_a_lock(core)
        put_state(core, 2)
        assert post(core, 2, "고친 글")
    assert forgetting.result() == 1
    assert texts(core) == {1: None, 2: "고친 글"}


@pytest.mark.parametrize("first_is_posted", [False, True])
def test_a_text_that_is_posted_for_a_redo_while_its_forerunner_is_ended_is_kept(
    connect: Connect, first_is_posted: bool
) -> None:
    core, run, holder = connect(), connect(), connect()
    put_state(core, 1, 2, embedding="COMPLETED", keyword="COMPLETED")
    for context_id in (1, 2):
        post(core, context_id, "처음 글")
    attempts = request_store.waiting(run, None, 10)
    with held(holder, "granary.context_request", [1]):
        if first_is_posted:
            post(holder, 1, "처음 글")
        ending = Waiting(run, lambda: request_store.handled(run, attempts))
        ending.waits_for_a_lock(core)
        put_state(core, 2)
        assert post(core, 2, "고친 글")
    assert ending.result() == (0 if first_is_posted else 1)
    assert texts(core) == {1: "처음 글" if first_is_posted else None, 2: "고친 글"}
    assert 2 in {one.context_id for one in request_store.waiting(core, None, 10)}
