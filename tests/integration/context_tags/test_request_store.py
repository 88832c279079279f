"""The inbox: what a POST stores, what waits, what is over, and how long a text is kept."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import psycopg
import pytest

from assets.context_tags import request_store
from assets.context_tags.models import ContextRequest, Status
from assets.context_tags.request_store import Accepted, DayCounts
from assets.context_tags.unstorable import Unstorable
from tests.integration.context_tags.store_rows import (
    Waiting,
    ask,
    held,
    put_all_states,
    put_state,
    states_of,
)

Connection = psycopg.Connection
Connect = Callable[..., Connection]
FINAL_STATUSES = ["COMPLETED", "FAILED", "CANCELLED"]
FINAL = set(FINAL_STATUSES)
NOON = "2026-03-01 12:00:00+00"


def post(connection: Connection, request: ContextRequest, own_state: bool = False, **meta: Any) -> Accepted:
    text_hmac = f"hmac of {request.text}"
    return request_store.accept(connection, request, meta or None, text_hmac, own_state)


def inbox(connection: Connection, column: str) -> dict[int, Any]:
    rows = connection.execute("SELECT to_jsonb(request) FROM granary.context_request AS request")
    return {row["context_id"]: row[column] for (row,) in rows}


def waiting_ids(connection: Connection) -> list[int]:
    return [one.context_id for one in request_store.waiting(connection, None, 100)]


def test_a_new_request_is_stored_with_all_it_said_and_waits(connect: Connect) -> None:
    connection = connect(NOON)
    accepted = post(connection, ask(5, user_id=6, record_id=7), place="한강", lat=37.5)
    assert accepted == Accepted(replaced_hmac=None, text_was_taken=True)
    (request,) = request_store.waiting(connection, None, 10)
    assert request == ContextRequest(5, 6, 7, "한강에서 치킨", datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert inbox(connection, "place_meta") == {5: {"place": "한강", "lat": 37.5}}
    assert inbox(connection, "text_hmac") == {5: "hmac of 한강에서 치킨"}
    assert states_of(connection) == {}


@pytest.mark.parametrize("status", FINAL_STATUSES)
def test_the_same_text_posted_again_is_stored_again_also_after_it_was_forgotten(
    connection: Connection, status: str
) -> None:
    put_state(connection, 1, embedding=status, keyword=status)
    post(connection, ask(1), place="집")
    request_store.handled(connection, request_store.waiting(connection, None, 10))
    assert (waiting_ids(connection), inbox(connection, "text")) == ([], {1: None})
    assert post(connection, ask(1, record_id=2), place="강") == Accepted(None, True)
    (request,) = request_store.waiting(connection, None, 10)
    assert (request.text, request.record_id) == ("한강에서 치킨", 2)
    assert inbox(connection, "place_meta") == {1: {"place": "강"}}


@pytest.mark.parametrize("embedding", Status)
@pytest.mark.parametrize("keyword", Status)
def test_another_text_is_taken_only_while_a_stage_is_pending(
    connection: Connection, embedding: Status, keyword: Status
) -> None:
    post(connection, ask(1, "첫째"), at="처음")
    put_state(connection, 1, embedding=embedding, keyword=keyword)
    (attempt,) = request_store.waiting(connection, None, 10)
    accepted = post(connection, ask(1, "둘째", user_id=2, record_id=3), at="나중")
    is_taken = "PENDING" in (embedding, keyword)
    assert accepted == Accepted("hmac of 첫째", is_taken)
    (again,) = request_store.waiting(connection, None, 10)
    assert (again.text, again.user_id, again.record_id) == (("둘째", 2, 3) if is_taken else ("첫째", 1, 1))
    assert inbox(connection, "place_meta") == {1: {"at": "나중" if is_taken else "처음"}}
    assert inbox(connection, "text_hmac") == {1: f"hmac of {again.text}"}
    assert attempt.requested_at is not None
    assert again.requested_at is not None
    assert again.requested_at > attempt.requested_at


def test_another_text_is_taken_where_no_state_is_known(connection: Connection) -> None:
    post(connection, ask(1, "첫째"))
    assert post(connection, ask(1, "둘째")) == Accepted("hmac of 첫째", True)
    assert inbox(connection, "text") == {1: "둘째"}


def test_another_text_for_what_is_over_and_forgotten_leaves_nothing_to_do(connection: Connection) -> None:
    put_state(connection, 1, embedding="COMPLETED", keyword="COMPLETED")
    post(connection, ask(1, "첫째"))
    request_store.handled(connection, request_store.waiting(connection, None, 10))
    assert post(connection, ask(1, "둘째")) == Accepted("hmac of 첫째", False)
    assert inbox(connection, "text") == {1: None}
    assert waiting_ids(connection) == []
    assert request_store.days_waiting(connection) == []
    assert request_store.handle_without_text(connection) == 1
    assert request_store.handle_without_text(connection) == 0


def test_only_with_own_state_does_a_request_make_a_state_and_never_changes_one(connect: Connect) -> None:
    connection = connect(NOON)
    put_state(connection, 2, embedding="FAILED", keyword="FAILED")
    for context_id in (1, 2, 1):
        post(connection, ask(context_id), own_state=True)
    assert states_of(connection) == {1: ("PENDING", "PENDING"), 2: ("FAILED", "FAILED")}
    (row,) = connection.execute(
        "SELECT updated_at, retry_count FROM ai.context_ai_state WHERE context_id = 1"
    ).fetchall()
    assert row == (datetime(2026, 3, 1, 12, tzinfo=UTC), 0)


def test_every_attempt_has_a_time_of_its_own_even_by_a_clock_that_stands_still(connect: Connect) -> None:
    connection = connect(NOON)
    post(connection, ask(1))
    (first,) = request_store.waiting(connection, None, 10)
    post(connection, ask(1))
    assert request_store.handled(connection, [first]) == 0
    (second,) = request_store.waiting(connection, None, 10)
    assert request_store.handled(connection, [second]) == 1
    post(connection, ask(1))
    assert waiting_ids(connection) == [1]


def test_a_request_that_came_while_its_forerunner_was_ended_is_not_lost(connect: Connect) -> None:
    """It waits for the row that `handled` holds; its own clock was read before that."""
    door, run, witness = connect(), connect(), connect()
    post(door, ask(1))
    attempts = request_store.waiting(run, None, 10)
    with held(run, "granary.context_request", [1]):
        posted = Waiting(door, lambda: post(door, ask(1)))
        posted.waits_for_a_lock(witness)
        run.execute("SELECT set_config('granary.now', (clock_timestamp() + interval '1 second')::text, true)")
        assert request_store.handled(run, attempts) == 1
    assert posted.result() == Accepted(None, True)
    assert waiting_ids(door) == [1]


def test_an_end_waits_for_the_request_that_replaces_it_and_then_ends_nothing(connect: Connect) -> None:
    door, run, witness = connect(), connect(), connect()
    post(door, ask(1))
    attempts = request_store.waiting(run, None, 10)
    with door.transaction():
        post(door, ask(1))
        ended = Waiting(run, lambda: request_store.handled(run, attempts))
        ended.waits_for_a_lock(witness)
    assert ended.result() == 0
    assert waiting_ids(door) == [1]


def test_requests_wait_oldest_first_and_by_the_day_of_utc(connect: Connect) -> None:
    for context_id, at in {
        1: "2026-03-02 00:00:00+00",
        2: "2026-03-01 23:59:59+00",
        3: "2026-03-02 08:59:00+09",
        4: "2026-03-03 00:00:00+09",
    }.items():
        post(connect(at), ask(context_id))
    connection = connect("2026-03-02 15:00:00+00")
    assert waiting_ids(connection) == [3, 2, 1, 4]
    first, second = date(2026, 3, 1), date(2026, 3, 2)
    connection.execute("SET timezone = 'Asia/Seoul'")
    assert request_store.days_waiting(connection) == [(first, 2), (second, 2)]

    def on(*days: date, limit: int = 10) -> list[int]:
        return [one.context_id for one in request_store.waiting(connection, days, limit)]

    assert (on(first), on(second), on(first, second, limit=3), on()) == ([3, 2], [1, 4], [3, 2, 1], [])


def test_a_text_is_forgotten_with_the_end_of_both_stages_and_not_before(connection: Connection) -> None:
    states = put_all_states(connection)
    for context_id in states:
        post(connection, ask(context_id), place="집")
    attempts = request_store.waiting(connection, None, 100)
    assert request_store.handled(connection, attempts) == len(states)
    over = {id_ for id_, state in states.items() if FINAL.issuperset(state)}
    assert {id_ for id_, text in inbox(connection, "text").items() if text is None} == over
    assert {id_ for id_, meta in inbox(connection, "place_meta").items() if meta is None} == over
    assert waiting_ids(connection) == []
    assert request_store.overdue_texts(connection) == 0


def test_texts_are_forgotten_when_their_stages_end_later_or_after_a_day(connect: Connect) -> None:
    connection = connect(NOON)
    for context_id in (1, 2, 3):
        post(connection, ask(context_id), place="집")
    put_state(connection, 1)
    put_state(connection, 2, embedding="FAILED")
    assert request_store.forget(connection) == 0
    request_store.handled(connection, request_store.waiting(connection, None, 10))
    put_state(connection, 2, embedding="FAILED", keyword="CANCELLED")
    assert request_store.overdue_texts(connection) == 1
    assert request_store.forget(connection) == 1
    assert inbox(connection, "text") == {1: "한강에서 치킨", 2: None, 3: "한강에서 치킨"}

    assert request_store.forget(connect("2026-03-02 12:00:00+00")) == 0
    a_day_later = connect("2026-03-02 12:00:00.000001+00")
    assert request_store.overdue_texts(a_day_later) == 2
    assert request_store.forget(a_day_later) == 2
    assert set(inbox(connection, "text").values()) == {None}
    assert set(inbox(connection, "place_meta").values()) == {None}
    assert set(inbox(connection, "text_hmac").values()) == {"hmac of 한강에서 치킨"}
    assert request_store.overdue_texts(a_day_later) == 0


def test_a_text_that_waits_for_a_day_is_forgotten_whatever_else_and_then_waits_no_more(
    connect: Connect,
) -> None:
    post(connect(NOON), ask(1))
    later = connect("2026-03-02 12:00:01+00")
    assert waiting_ids(later) == [1]
    request_store.forget(later)
    assert waiting_ids(later) == []
    assert request_store.handle_without_text(later) == 1
    handled_at = datetime.fromisoformat(inbox(later, "handled_at")[1])
    assert handled_at == datetime(2026, 3, 2, 12, 0, 1, tzinfo=UTC)


def test_a_request_ended_by_a_clock_that_lags_waits_no_more(connect: Connect) -> None:
    post(connect("2026-03-01 12:05:00+00"), ask(1))
    lagging = connect(NOON)
    assert request_store.handled(lagging, request_store.waiting(lagging, None, 10)) == 1
    assert waiting_ids(lagging) == []


def test_requests_that_came_from_elsewhere_end_nothing(connection: Connection) -> None:
    post(connection, ask(1))
    assert request_store.handled(connection, [ask(1)]) == 0
    assert request_store.handled(connection, []) == 0
    assert waiting_ids(connection) == [1]


def test_days_are_counted_as_they_stand(connect: Connect) -> None:
    connection = connect(NOON)
    states = {1: ("COMPLETED", "COMPLETED"), 2: ("COMPLETED", "FAILED"), 3: ("FAILED", "PENDING")}
    for context_id, (embedding, keyword) in states.items():
        put_state(connection, context_id, embedding=embedding, keyword=keyword)
    put_state(connection, 4, embedding="CANCELLED", keyword="CANCELLED")
    for context_id in range(1, 7):
        post(connection, ask(context_id))
    request_store.handled(connection, request_store.waiting(connection, None, 5))
    post(connect("2026-03-02 00:00:00+00"), ask(7))
    days = [date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 2)]
    assert request_store.counts_by_day(connection, days) == {
        days[0]: DayCounts(),
        days[1]: DayCounts(
            requests=6, waiting=1, embedded=2, tagged=1, failed=2, cancelled=1, with_text=3, without_state=2
        ),
        days[2]: DayCounts(requests=1, waiting=1, with_text=1, without_state=1),
    }


@pytest.mark.parametrize(
    "text", ["", "비밀의 편지\0", "비밀의 편지\ud800"], ids=["empty", "NUL", "surrogate"]
)
def test_a_text_that_cannot_be_stored_is_refused_without_being_quoted(
    connection: Connection, text: str
) -> None:
    with pytest.raises(Unstorable) as refused:
        post(connection, ask(1, text))
    assert "비밀" not in f"{refused.value!r} {refused.value} {vars(refused.value)}"
    assert refused.value.__suppress_context__
    assert inbox(connection, "text") == {}


def test_the_longest_text_in_four_byte_characters_is_stored_whole(connection: Connection) -> None:
    text = "🍜" * 20_000
    post(connection, ask(1, text))
    (request,) = request_store.waiting(connection, None, 1)
    assert request.text == text


def test_looking_for_requests_that_wait_uses_its_index(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO granary.context_request SELECT id, 1, 1, 'kept', 'h', NULL, now() - interval '1 day',"
        " now(), now() FROM generate_series(1, 5000) AS id"
    )
    connection.execute("ANALYZE granary.context_request")
    for statement in ("waiting", "days_waiting", "handle_without_text"):
        rows = connection.execute(
            b"EXPLAIN " + request_store.SQL[statement], {"days": None, "limit": 100}
        ).fetchall()
        assert "context_request_waiting" in str(rows), statement
