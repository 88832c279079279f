"""Due triggers: leased by one checker, queued and moved in one transaction, whatever comes between."""

from dataclasses import replace
from datetime import datetime, timedelta

import psycopg
import pytest

from assets.recommendations import trigger_store
from assets.recommendations.models import DueTrigger, GenerationType
from assets.recommendations.schedule import OFFSETS
from assets.recommendations.trigger_check import check_triggers, finalised
from assets.recommendations.trigger_store import FinaliseCounts, finalise, lease_due
from assets.recommendations.visit_store import visit
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    Connect,
    a_trigger,
    an_item,
    at,
    count,
    items,
    rows,
    trigger,
)
from tests.integration.recommendations.races import waiting_for


def finish(connection: psycopg.Connection, *due: DueTrigger, now: datetime = NOON) -> FinaliseCounts:
    return finalise(connection, [finalised(one, now) for one in due])


def queued(connection: psycopg.Connection) -> list[tuple[int, datetime, timedelta, str]]:
    return [
        (row["member_id"], row["last_visited_at"], row["due_offset"], row["candidate_generation_type"])
        for row in items(connection)
    ]


def test_only_what_is_due_and_free_is_leased(noon: psycopg.Connection) -> None:
    a_trigger(noon, 1, NOON - HOUR)
    a_trigger(noon, 2, NOON - HOUR + timedelta(microseconds=1))
    a_trigger(noon, 3, NOON - HOUR, lease_until=NOON + MINUTE)
    a_trigger(noon, 4, NOON - HOUR, lease_until=NOON)  # until then, and no longer
    a_trigger(noon, 5, NOON - HOUR, lease_until=NOON - MINUTE)
    assert trigger_store.due(noon) == 2
    leased = lease_due(noon, 100, 300)
    assert sorted(one.member_id for one in leased) == [1, 5]
    assert len({one.lease_token for one in leased}) == 1
    row = trigger(noon)
    assert row is not None
    assert (row["lease_until"], row["trigger_at"]) == (NOON + 5 * MINUTE, NOON)
    assert (lease_due(noon, 100, 300), trigger_store.due(noon)) == ([], 0)


def test_what_is_due_longest_is_leased_first(noon: psycopg.Connection) -> None:
    for member_id, hours in ((1, 2), (2, 5), (3, 3)):
        a_trigger(noon, member_id, NOON - hours * HOUR)
    assert sorted(one.member_id for one in lease_due(noon, 2, 300)) == [2, 3]


def test_two_checkers_at_once_share_and_do_not_wait(connect: Connect) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    for member_id in range(1, 6):
        a_trigger(one, member_id, NOON - 2 * HOUR + member_id * MINUTE)
    with one.transaction():
        assert {due.member_id for due in lease_due(one, 3, 300)} == {1, 2, 3}
        other.execute("SET lock_timeout = '2s'")
        assert {due.member_id for due in lease_due(other, 5, 300)} == {4, 5}
    assert lease_due(other, 5, 300) == []


def test_two_checkers_one_after_the_other_queue_each_member_once(connect: Connect) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    for member_id in range(1, 8):
        a_trigger(one, member_id)
    first = lease_due(one, 4, 300)
    assert check_triggers(other).queued == 3
    assert finish(one, *first).queued == 4
    assert sorted(row["member_id"] for row in items(one)) == list(range(1, 8))


@pytest.mark.parametrize("number", range(len(OFFSETS)))
def test_each_offset_is_queued_with_its_type_and_leads_to_the_next(
    noon: psycopg.Connection, number: int
) -> None:
    offset = OFFSETS[number]
    a_trigger(noon, 1, NOON - offset, NOON)
    assert check_triggers(noon).queued == 1
    kind = GenerationType.G2 if offset <= timedelta(hours=72) else GenerationType.G1
    assert queued(noon) == [(1, NOON - offset, offset, kind)]
    row = trigger(noon)
    if number + 1 == len(OFFSETS):
        assert row is None
    else:
        assert row is not None
        assert row["trigger_at"] == NOON - offset + OFFSETS[number + 1]
        assert (row["lease_until"], row["lease_token"]) == (None, None)


def test_a_late_check_keeps_the_type_of_the_due_time_and_catches_up_at_once(
    noon: psycopg.Connection,
) -> None:
    a_trigger(noon, 1, NOON - 100 * HOUR, NOON - 28 * HOUR)
    a_trigger(noon, 2, NOON - 500 * HOUR)
    found = check_triggers(noon)
    assert (found.queued, found.moved, found.deleted) == (2, 1, 1)
    assert sorted(queued(noon)) == [
        (1, NOON - 100 * HOUR, 72 * HOUR, "G2"),
        (2, NOON - 500 * HOUR, HOUR, "G2"),
    ]
    row = trigger(noon)
    assert row is not None and row["trigger_at"] == NOON + 20 * HOUR
    assert trigger(noon, 2) is None


def test_a_visit_between_lease_and_finish_is_not_overwritten_and_what_was_due_is_queued(
    connect: Connect,
) -> None:
    noon = connect(at=at(NOON))
    a_trigger(noon, 1, NOON - 2 * HOUR)
    (due,) = lease_due(noon, 100, 300)
    assert visit(connect(at=at(NOON)), 1, NOON)
    assert finish(noon, due) == FinaliseCounts(queued=1, overtaken=1)
    assert queued(noon) == [(1, NOON - 2 * HOUR, HOUR, "G2")]
    row = trigger(noon)
    assert row is not None
    assert (row["last_visited_at"], row["trigger_at"]) == (NOON, NOON + HOUR)
    assert (row["lease_until"], row["lease_token"]) == (None, None)


def test_a_visit_while_a_finish_is_at_work_waits_and_then_counts(connect: Connect) -> None:
    noon, visitor = connect(at=at(NOON)), connect(at=at(NOON))
    a_trigger(noon, 1, NOON - 2 * HOUR)
    (due,) = lease_due(noon, 100, 300)
    noon.execute("BEGIN")
    assert finish(noon, due).moved == 1
    with waiting_for(noon, connect(), lambda: visit(visitor, 1, NOON)) as result:
        noon.execute("COMMIT")
    assert result == [True]
    row = trigger(noon)
    assert row is not None
    assert (row["last_visited_at"], row["trigger_at"]) == (NOON, NOON + HOUR)
    assert len(items(noon)) == 1


def test_a_visit_before_the_last_due_time_is_finished_is_not_deleted_with_it(connect: Connect) -> None:
    noon = connect(at=at(NOON))
    a_trigger(noon, 1, NOON - 168 * HOUR, NOON)
    (due,) = lease_due(noon, 100, 300)
    visit(connect(at=at(NOON)), 1, NOON)
    assert finish(noon, due) == FinaliseCounts(queued=1, overtaken=1)
    row = trigger(noon)
    assert row is not None and row["trigger_at"] == NOON + HOUR


def test_a_checker_whose_lease_another_has_taken_over_stores_nothing(connect: Connect) -> None:
    noon, later = connect(at=at(NOON)), connect(at=at(NOON + 6 * MINUTE))
    a_trigger(noon, 1)
    (slow,) = lease_due(noon, 100, 300)
    (fast,) = lease_due(later, 100, 300)
    before = trigger(noon)
    assert finish(noon, slow) == FinaliseCounts(overtaken=1)
    assert (trigger(noon), items(noon)) == (before, [])
    assert finish(later, fast, now=NOON + 6 * MINUTE) == FinaliseCounts(queued=1, moved=1)
    assert finish(noon, slow) == FinaliseCounts(overtaken=1)
    assert len(items(noon)) == 1


def test_a_lease_that_ran_out_and_nobody_took_still_finishes(connect: Connect) -> None:
    a_trigger(connect(at=at(NOON)), 1)
    (due,) = lease_due(connect(at=at(NOON)), 100, 300)
    late = connect(at=at(NOON + HOUR))
    assert finish(late, due, now=NOON + HOUR) == FinaliseCounts(queued=1, moved=1)


def test_a_due_time_is_queued_once_and_no_member_waits_twice(noon: psycopg.Connection) -> None:
    an_item(noon, 1, "SUCCEEDED", visited_at=NOON - HOUR)  # this very due time
    an_item(noon, 2, "PENDING", visited_at=NOON - 9 * HOUR)
    an_item(noon, 3, "RUNNING", visited_at=NOON - 9 * HOUR)
    an_item(noon, 4, "FAILED", visited_at=NOON - 9 * HOUR)
    for member_id in (1, 2, 3, 4):
        a_trigger(noon, member_id)
    found = check_triggers(noon)
    assert (found.queued, found.already_queued, found.moved) == (1, 3, 4)
    assert [row["member_id"] for row in items(noon)] == [1, 2, 3, 4, 4]


def test_an_item_that_cannot_be_queued_leaves_the_trigger_as_it_was(noon: psycopg.Connection) -> None:
    a_trigger(noon, 1)
    a_trigger(noon, 2)
    due = lease_due(noon, 100, 300)
    before = [trigger(noon, 1), trigger(noon, 2)]
    wrong = [finalised(one, NOON) for one in due]
    wrong[1] = replace(wrong[1], generation_type="G9")  # type: ignore[arg-type]
    with pytest.raises(psycopg.errors.CheckViolation):
        finalise(noon, wrong)
    assert ([trigger(noon, 1), trigger(noon, 2)], items(noon)) == (before, [])


def test_a_check_goes_on_batch_by_batch_until_nothing_is_due(noon: psycopg.Connection) -> None:
    noon.execute(
        "INSERT INTO rec.visit_trigger SELECT id, %(at)s - interval '2 hours', %(at)s - interval '1 hour',"
        " NULL, NULL, %(at)s, %(at)s FROM generate_series(1, 1000) AS id",
        {"at": NOON},
    )
    found = check_triggers(noon)
    assert (found.queued, found.moved, count(noon, "queue_item")) == (1_000, 1_000, 1_000)
    assert trigger_store.due(noon) == 0


def test_a_check_takes_visits_out_of_the_table_first(noon: psycopg.Connection) -> None:
    a_trigger(noon, 1, NOON - 3 * HOUR)
    noon.execute(
        "INSERT INTO rec.member_visit (member_id, occurred_at)"
        " VALUES (1, %(at)s), (2, %(late)s), (3, %(far)s)",
        {"at": NOON, "late": NOON - 2 * HOUR, "far": NOON + HOUR},
    )
    found = check_triggers(noon)
    assert (found.visits, found.visits_refused, found.queued) == (3, 1, 1)
    # The first was back before anyone had looked; the visit of the second was told late and is due at once.
    assert [row["member_id"] for row in items(noon)] == [2]


def test_a_check_stops_when_its_time_is_up_and_leaves_nothing_leased(noon: psycopg.Connection) -> None:
    for member_id in range(1, 6):
        a_trigger(noon, member_id)
    ticks = iter(range(100))
    found = check_triggers(noon, limit=2, clock=lambda: next(ticks), until=2)
    assert found.queued == 4
    assert rows(noon, "SELECT member_id FROM rec.visit_trigger WHERE lease_token IS NOT NULL") == []
    assert trigger_store.due(noon) == 1
