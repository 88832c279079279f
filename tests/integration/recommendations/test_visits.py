"""Visits, posted or put into the table: what they do to the member's trigger, in any order and at once."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from assets.recommendations import visit_store
from assets.recommendations.visit_store import Consumed, VisitTooFarAhead, consume, visit
from tests.integration.recommendations.factories import HOUR, MINUTE, NOON, Connect, at, count, rows, trigger
from tests.integration.recommendations.races import waiting_for

MICROSECOND = timedelta(microseconds=1)


def put(connection: psycopg.Connection, *visits: tuple[int, datetime | str]) -> None:
    for member_id, moment in visits:
        connection.execute(
            "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)", (member_id, moment)
        )


def times(connection: psycopg.Connection, member_id: int = 1) -> tuple[datetime, datetime]:
    found = trigger(connection, member_id)
    assert found is not None
    return found["last_visited_at"], found["trigger_at"]


def test_a_first_visit_is_due_an_hour_after_it(noon: psycopg.Connection) -> None:
    assert visit(noon, 1, NOON - 10 * MINUTE)
    assert times(noon) == (NOON - 10 * MINUTE, NOON + 50 * MINUTE)


def test_a_visit_without_a_time_is_now_by_the_databases_clock(noon: psycopg.Connection) -> None:
    assert visit(noon, 1)
    assert times(noon) == (NOON, NOON + HOUR)


@pytest.mark.parametrize(
    ("later", "is_new"), [(HOUR - MICROSECOND, False), (HOUR, False), (HOUR + MICROSECOND, True)]
)
def test_a_visit_within_the_session_of_the_last_changes_nothing(
    noon: psycopg.Connection, later: timedelta, is_new: bool
) -> None:
    first = NOON - 10 * HOUR
    visit(noon, 1, first)
    before = trigger(noon)
    assert visit(noon, 1, first + later) is is_new
    if is_new:
        assert times(noon) == (first + later, first + later + HOUR)
    else:
        assert trigger(noon) == before


def test_a_late_visit_changes_nothing(noon: psycopg.Connection) -> None:
    visit(noon, 1, NOON - 2 * HOUR)
    before = trigger(noon)
    for late in (NOON - 2 * HOUR - MICROSECOND, NOON - 5 * HOUR, NOON - 400 * HOUR):
        assert not visit(noon, 1, late)
    assert trigger(noon) == before


def test_a_visit_far_in_the_future_is_refused_by_the_databases_clock(connect: Connect) -> None:
    noon = connect(at=at(NOON))
    assert visit(noon, 1, NOON + 5 * MINUTE)
    before = trigger(noon)
    for member_id in (1, 2):
        with pytest.raises(VisitTooFarAhead):
            visit(noon, member_id, NOON + 5 * MINUTE + MICROSECOND)
    assert trigger(noon) == before
    assert count(noon, "visit_trigger") == 1
    assert visit(connect(at=at(NOON + MICROSECOND)), 2, NOON + 5 * MINUTE + MICROSECOND)


def test_a_visit_before_there_were_any_is_none(noon: psycopg.Connection) -> None:
    assert not visit(noon, 1, datetime(1, 1, 1, tzinfo=UTC))
    assert count(noon, "visit_trigger") == 0


@pytest.mark.parametrize("hours", [(4, 2), (2, 4)])
def test_of_two_visits_at_once_the_newer_one_stays(connect: Connect, hours: tuple[int, int]) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    one.execute("BEGIN")
    assert visit(one, 1, NOON - hours[0] * HOUR)
    with waiting_for(one, connect(), lambda: visit(other, 1, NOON - hours[1] * HOUR)) as result:
        one.execute("COMMIT")
    assert result == [hours[1] < hours[0]]
    assert times(one) == (NOON - 2 * HOUR, NOON - HOUR)
    assert count(one, "visit_trigger") == 1


def test_two_visits_of_one_session_at_once_set_the_trigger_once(connect: Connect) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    one.execute("BEGIN")
    visit(one, 1, NOON - 50 * MINUTE)
    with waiting_for(one, connect(), lambda: visit(other, 1, NOON)) as result:
        one.execute("COMMIT")
    assert result == [False]
    assert times(one) == (NOON - 50 * MINUTE, NOON + 10 * MINUTE)


def test_a_visit_leaves_the_lease_of_a_trigger_to_its_holder(noon: psycopg.Connection) -> None:
    visit(noon, 1, NOON - 5 * HOUR)
    noon.execute("UPDATE rec.visit_trigger SET lease_until = granary.now(), lease_token = gen_random_uuid()")
    before = trigger(noon)
    visit(noon, 1, NOON)
    after = trigger(noon)
    assert before is not None and after is not None
    assert (after["lease_token"], after["lease_until"]) == (before["lease_token"], before["lease_until"])
    assert after["last_visited_at"] == NOON


def test_visits_in_the_table_have_the_effect_of_posted_ones(connect: Connect) -> None:
    noon = connect(at=at(NOON))
    minutes = {1: [600, 540, 480, 300], 2: [30], 3: [90, 40, 20, 0], 4: [7 * 24 * 60 + 5, 5]}
    visits = [(id_, NOON - ago * MINUTE) for id_, agos in minutes.items() for ago in agos]
    for member_id, moment in visits:
        visit(noon, 100 + member_id, moment)
    put(noon, *reversed(visits))  # written in another order than they happened
    assert consume(noon, 100).taken == len(visits)
    for member_id in minutes:
        assert times(noon, member_id) == times(noon, 100 + member_id), member_id
    assert (
        rows(noon, "SELECT id FROM rec.member_visit WHERE consumed_at IS DISTINCT FROM granary.now()") == []
    )


def test_a_refused_visit_in_the_table_is_counted_and_not_looked_at_again(noon: psycopg.Connection) -> None:
    put(noon, (1, NOON + HOUR), (2, "infinity"), (3, "-infinity"), (4, "4000-01-01 BC"), (5, NOON))
    assert consume(noon, 100) == Consumed(taken=5, changed=1, refused=2)
    assert consume(noon, 100) == Consumed()
    assert [row["member_id"] for row in rows(noon, "SELECT member_id FROM rec.visit_trigger")] == [5]


def test_visits_are_taken_in_parts_and_counted(noon: psycopg.Connection) -> None:
    put(noon, *((id_, NOON) for id_ in range(1, 6)))
    assert (visit_store.waiting(noon), visit_store.waiting(noon, at_most=3)) == (5, 3)
    assert [consume(noon, 2).taken for _ in range(4)] == [2, 2, 1, 0]
    assert visit_store.waiting(noon) == 0


def test_nobody_waits_for_a_visit_that_another_run_takes(connect: Connect) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    put(one, (1, NOON), (2, NOON), (3, NOON))
    with one.transaction():
        assert consume(one, 2).taken == 2
        assert consume(other, 10).taken == 1
    assert count(one, "visit_trigger") == 3
