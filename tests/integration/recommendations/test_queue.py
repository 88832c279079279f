"""The queue: picked once, finished by who holds it, given back once, and a set replaced as a whole."""

from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest

from assets.recommendations import queue_store
from assets.recommendations.models import GenerationType, QueueItem
from assets.recommendations.queue_store import QueueCount, Returned, pick, succeed
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    Connect,
    a_set,
    an_item,
    at,
    count,
    items,
    recommended,
    rows,
)
from tests.integration.recommendations.races import waiting_for

TODAY = date(2026, 12, 10)


def ids(picked: list[QueueItem]) -> list[int]:
    return [one.id for one in picked]


def test_the_oldest_are_picked_first_and_once(noon: psycopg.Connection) -> None:
    young = an_item(noon, 1, queued_at=NOON - MINUTE)
    old = an_item(noon, 2, queued_at=NOON - HOUR, wanted="G1")
    middle = an_item(noon, 3, queued_at=NOON - 2 * MINUTE)
    assert pick(noon, "run-1", 2, 300) == [
        QueueItem(old, 2, GenerationType.G1),
        QueueItem(middle, 3, GenerationType.G2),
    ]
    assert ids(pick(noon, "run-2", 2, 300)) == [young]
    row = items(noon)[1]
    assert (row["claimed_by"], row["picked_at"], row["lease_until"]) == ("run-1", NOON, NOON + 5 * MINUTE)


def test_two_runs_at_once_pick_different_items_and_do_not_wait(connect: Connect) -> None:
    one, other = connect(at=at(NOON)), connect(at=at(NOON))
    for member_id in range(1, 6):
        an_item(one, member_id)
    with one.transaction():
        first = ids(pick(one, "run-1", 3, 300))
        other.execute("SET lock_timeout = '2s'")
        second = ids(pick(other, "run-2", 3, 300))
    assert (len(first), len(second)) == (3, 2)
    assert not set(first) & set(second)


def test_only_items_queued_on_the_days_in_utc_are_picked(connect: Connect) -> None:
    noon = connect(at=at(NOON))
    noon.execute("SET TimeZone = 'Asia/Seoul'")
    midnight = datetime(2026, 12, 10, tzinfo=UTC)
    moments = [midnight - timedelta(microseconds=1), midnight, midnight + 24 * HOUR - MINUTE]
    before, first, last = (an_item(noon, id_, queued_at=moment) for id_, moment in enumerate(moments, 1))
    after = an_item(noon, 4, queued_at=midnight + 24 * HOUR)
    assert queue_store.days_waiting(noon) == [
        (date(2026, 12, 9), 1),
        (TODAY, 2),
        (date(2026, 12, 11), 1),
    ]
    assert ids(pick(noon, "run-1", 9, 300, [TODAY])) == [first, last]
    assert ids(pick(noon, "run-1", 9, 300, [date(2026, 12, 9), date(2026, 12, 11)])) == [before, after]
    assert pick(noon, "run-1", 9, 300, []) == []


def test_a_success_replaces_the_members_set_as_a_whole(noon: psycopg.Connection) -> None:
    an_item(noon, 1, visited_at=NOON - 9 * HOUR)
    an_item(noon, 2)
    for one in pick(noon, "run-1", 2, 300):
        assert succeed(noon, one, "run-1", a_set([1, 2, 3], GenerationType.G2))
    again = an_item(noon, 1)
    (item,) = pick(noon, "run-1", 2, 300)
    assert succeed(noon, item, "run-1", a_set([3, 4], GenerationType.G1))
    assert rows(noon, "SELECT * FROM rec.recommended_product WHERE member_id = 1 ORDER BY rank") == [
        {
            "member_id": 1,
            "product_id": product_id,
            "rank": rank,
            "score": 1 / rank,
            "candidate_generation_type": "G1",
            "queue_item_id": again,
            "created_at": NOON,
        }
        for rank, product_id in ((1, 3), (2, 4))
    ]
    assert recommended(noon, 2) == [1, 2, 3]
    assert {row["status"] for row in items(noon)} == {"SUCCEEDED"}


def test_an_empty_set_is_a_set_too(noon: psycopg.Connection) -> None:
    an_item(noon, 1, visited_at=NOON - 9 * HOUR)
    (item,) = pick(noon, "run-1", 1, 300)
    succeed(noon, item, "run-1", a_set([1]))
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    assert succeed(noon, item, "run-1", [])
    assert recommended(noon, 1) == []


def test_a_set_that_cannot_be_stored_leaves_the_one_before_and_the_item(noon: psycopg.Connection) -> None:
    an_item(noon, 1, visited_at=NOON - 9 * HOUR)
    (item,) = pick(noon, "run-1", 1, 300)
    succeed(noon, item, "run-1", a_set([1, 2]))
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    with pytest.raises(psycopg.errors.UniqueViolation):
        succeed(noon, item, "run-1", a_set([7, 8, 7]))
    assert recommended(noon, 1) == [1, 2]
    assert items(noon)[1]["status"] == "RUNNING"


def test_a_run_that_was_given_up_stores_nothing(connect: Connect) -> None:
    noon, later = connect(at=at(NOON)), connect(at=at(NOON + 6 * MINUTE))
    an_item(noon, 1)
    (slow,) = pick(noon, "run-1", 1, 300)
    assert queue_store.return_dead(later) == Returned(returned=1)
    assert not succeed(noon, slow, "run-1", a_set([1]))
    (fast,) = pick(later, "run-2", 1, 300)
    assert not succeed(noon, slow, "run-1", a_set([1]))
    assert not queue_store.fail(noon, slow, "run-1", "ValueError")
    assert succeed(later, fast, "run-2", a_set([2]))
    assert not succeed(noon, slow, "run-1", a_set([1]))
    assert recommended(noon, 1) == [2]


def test_a_dead_runs_item_returns_once_and_then_fails(connect: Connect) -> None:
    item = an_item(connect(at=at(NOON)), 1)
    for number, outcome in enumerate((Returned(returned=1), Returned(failed=1))):
        now = connect(at=at(NOON + number * HOUR))
        assert ids(pick(now, f"run-{number}", 1, 300)) == [item]
        assert queue_store.return_dead(now) == Returned()
        assert queue_store.return_dead(connect(at=at(NOON + number * HOUR + 6 * MINUTE))) == outcome
    (row,) = items(now)
    assert (row["status"], row["error"], row["claimed_by"]) == ("FAILED", "lease_lost", None)


def test_what_a_run_held_is_freed_when_it_is_known_to_have_ended(noon: psycopg.Connection) -> None:
    mine, other = an_item(noon, 1, "RUNNING"), an_item(noon, 2, "RUNNING", claimed_by="run-2")
    spent = an_item(noon, 3, "RUNNING", returns=1)
    assert queue_store.free_of_run(noon, "run-1") == Returned(returned=1, failed=1)
    found = {row["id"]: (row["status"], row["error"]) for row in items(noon)}
    assert found == {mine: ("PENDING", None), other: ("RUNNING", None), spent: ("FAILED", "run_ended")}


def test_a_renewed_lease_is_not_given_up(connect: Connect) -> None:
    noon, later = connect(at=at(NOON)), connect(at=at(NOON + 4 * MINUTE))
    item, other = an_item(noon, 1, "RUNNING"), an_item(noon, 2, "RUNNING", claimed_by="run-2")
    assert queue_store.renew(later, "run-1", [item, other], 300) == {item}
    assert queue_store.return_dead(connect(at=at(NOON + 8 * MINUTE))) == Returned(returned=1)
    assert {row["id"]: row["status"] for row in items(noon)} == {item: "RUNNING", other: "PENDING"}


def test_failed_items_wait_again_but_never_two_of_a_member(noon: psycopg.Connection) -> None:
    alone = an_item(noon, 1, "FAILED", returns=1)
    older = an_item(noon, 2, "FAILED", visited_at=NOON - 9 * HOUR, queued_at=NOON - 8 * HOUR)
    newer = an_item(noon, 2, "FAILED")
    beside = an_item(noon, 3, "FAILED", visited_at=NOON - 9 * HOUR)
    an_item(noon, 3, "RUNNING")
    done = an_item(noon, 4, "SUCCEEDED")
    assert queue_store.requeue_failed(noon, [alone, done]) == 1
    assert queue_store.requeue_failed(noon) == 1
    assert queue_store.requeue_failed(noon) == 0
    found = {row["id"]: row["status"] for row in items(noon)}
    assert [found[id_] for id_ in (alone, older, newer, beside, done)] == [
        "PENDING",
        "FAILED",
        "PENDING",
        "FAILED",
        "SUCCEEDED",
    ]
    row = items(noon)[0]
    assert (row["returns"], row["finished_at"], row["error"]) == (0, None, None)


def test_an_item_that_is_queued_while_a_failed_one_is_requeued_stands_alone(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    an_item(noon, 1, "FAILED", visited_at=NOON - 9 * HOUR)
    an_item(noon, 2, "FAILED", visited_at=NOON - 9 * HOUR)
    noon.execute("BEGIN")
    an_item(noon, 1)
    with waiting_for(noon, connect(), lambda: queue_store.requeue_failed(other)) as result:
        noon.execute("COMMIT")
    assert result == [1]
    assert [(row["member_id"], row["status"]) for row in items(noon)] == [
        (1, "FAILED"),
        (2, "PENDING"),
        (1, "PENDING"),
    ]


def test_the_days_of_what_waits_and_of_what_was_lost_are_told(noon: psycopg.Connection) -> None:
    an_item(noon, 1, queued_at=NOON - 24 * HOUR)
    an_item(noon, 2, "RUNNING", lease_until=NOON - MINUTE)
    an_item(noon, 3, "RUNNING")
    an_item(noon, 4, "FAILED")
    an_item(noon, 5, "SUCCEEDED")
    yesterday = date(2026, 12, 9)
    assert queue_store.days_waiting(noon) == [(yesterday, 1), (TODAY, 1)]
    assert queue_store.counts_by_day(noon, [TODAY]) == [
        QueueCount(TODAY, GenerationType.G2, "FAILED", 1),
        QueueCount(TODAY, GenerationType.G2, "RUNNING", 2),
        QueueCount(TODAY, GenerationType.G2, "SUCCEEDED", 1),
    ]
    assert len(queue_store.counts_by_day(noon, [yesterday, TODAY])) == 4


def test_the_table_refuses_an_item_that_contradicts_itself(noon: psycopg.Connection) -> None:
    an_item(noon, 1)
    for change in (
        "status = 'RUNNING'",
        "status = 'SUCCEEDED'",
        "finished_at = granary.now()",
        "claimed_by = 'run-1', lease_until = granary.now()",
        "returns = 2",
        "status = 'LOST'",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            noon.execute(f"UPDATE rec.queue_item SET {change}".encode())  # noqa: S608
    with pytest.raises(psycopg.errors.UniqueViolation, match="queue_item_one_open_per_member"):
        an_item(noon, 1, visited_at=NOON)
    assert count(noon, "queue_item") == 1
