"""A member is erased, or refuses profiling, before, between and while others work on the member."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from assets.recommendations.erasure_store import Erased, erase_member
from assets.recommendations.member_store import lock_member
from assets.recommendations.models import Catalogue, GenerationType, MemberHistory, Ranked
from assets.recommendations.product_store import history
from assets.recommendations.queue_store import pick, requeue_failed, succeed
from assets.recommendations.recommend import Recommender
from assets.recommendations.trigger_check import check_triggers, finalised
from assets.recommendations.trigger_store import FinaliseCounts, finalise, lease_due
from assets.recommendations.visit_store import consume, opt_in, opt_out, visit
from tests.integration.recommendations.factories import (
    HOUR,
    NOON,
    PROFILE,
    TABLES_OF_MEMBERS,
    Connect,
    a_product,
    a_set,
    a_trigger,
    an_event,
    an_item,
    at,
    count,
    items,
    recommended,
    rows,
    trigger,
)
from tests.integration.recommendations.races import waiting_for

G2 = GenerationType.G2


def everything_of(connection: psycopg.Connection, member_id: int) -> None:
    connection.execute(
        "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)", (member_id, NOON)
    )
    a_trigger(connection, member_id)
    an_item(connection, member_id)
    for item in pick(connection, "run-1", 1, 300):
        succeed(connection, item, "run-1", a_set([1, 2, 3]))
    an_item(connection, member_id, "RUNNING", visited_at=NOON - 2 * HOUR, wanted="G0")
    an_event(connection, member_id, 1)
    opt_out(connection, member_id)


def rows_of(connection: psycopg.Connection, member_id: int) -> dict[str, list[dict[str, Any]]]:
    return {
        table: rows(connection, f"SELECT * FROM rec.{table} WHERE member_id = %(id)s", id=member_id)  # noqa: S608
        for table in TABLES_OF_MEMBERS
    }


def nothing_is_left(connection: psycopg.Connection, member_id: int = 1) -> bool:
    return not any(rows_of(connection, member_id).values())


def test_every_row_of_a_member_is_erased_and_no_other(noon: psycopg.Connection) -> None:
    everything_of(noon, 1)
    everything_of(noon, 2)
    others = rows_of(noon, 2)
    assert all(rows_of(noon, 1).values()) and all(others.values())
    assert erase_member(noon, 1) == Erased(
        visits=1, triggers=1, queue_items=2, recommended=3, events=1, opt_outs=1
    )
    assert nothing_is_left(noon)
    assert rows_of(noon, 2) == others
    assert erase_member(noon, 1) == Erased(0, 0, 0, 0, 0, 0)


def test_every_table_with_members_is_cleared(noon: psycopg.Connection) -> None:
    found = rows(
        noon,
        "SELECT table_name FROM information_schema.columns"
        " WHERE table_schema = 'rec' AND column_name = 'member_id'",
    )
    assert {row["table_name"] for row in found} == set(TABLES_OF_MEMBERS)


def test_a_run_that_ranks_an_erased_member_stores_nothing(
    noon: psycopg.Connection, pool: ConnectionPool[psycopg.Connection]
) -> None:
    an_item(noon, 1)
    an_item(noon, 2)

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        erase_member(noon, 1)
        return a_set([1])

    found = Recommender(pool, "run-1", None, PROFILE, rank=rank, at_once=1).run()
    assert (found.succeeded, found.lost, found.failed) == (1, 1, 0)
    assert nothing_is_left(noon)
    assert recommended(noon, 2) == [1]


def test_a_set_that_is_being_stored_is_erased_with_the_rest(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect()
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    noon.execute("BEGIN")
    assert succeed(noon, item, "run-1", a_set([1, 2]))
    with waiting_for(noon, connect(), lambda: erase_member(other, 1)) as result:
        noon.execute("COMMIT")
    assert (result[0].queue_items, result[0].recommended) == (1, 2)
    assert nothing_is_left(noon)


def test_a_checker_queues_nothing_for_a_member_erased_after_its_lease(noon: psycopg.Connection) -> None:
    a_trigger(noon, 1, NOON - 5 * HOUR)
    (due,) = lease_due(noon, 100, 300)
    erase_member(noon, 1)
    assert finalise(noon, [finalised(due, NOON)]) == FinaliseCounts(overtaken=1)
    assert nothing_is_left(noon)
    visit(noon, 1, NOON)  # is a new member by now: the visit of before is not told
    before = trigger(noon)
    assert finalise(noon, [finalised(due, NOON)]) == FinaliseCounts(overtaken=1)
    assert (trigger(noon), items(noon)) == (before, [])


def test_an_item_that_is_being_queued_is_erased_with_the_rest(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect()
    a_trigger(noon, 1)
    noon.execute("BEGIN")
    assert check_triggers(noon).queued == 1
    with waiting_for(noon, connect(), lambda: erase_member(other, 1)) as result:
        noon.execute("COMMIT")
    assert (result[0].triggers, result[0].queue_items) == (1, 1)
    assert nothing_is_left(noon)


def test_an_erasure_waits_for_a_checker_that_is_about_to_queue(connect: Connect) -> None:
    noon, checker, application = connect(at=at(NOON)), connect(at=at(NOON)), connect()
    a_trigger(noon, 1)
    due = [finalised(one, NOON) for one in lease_due(noon, 100, 300)]
    application.execute("BEGIN")
    an_item(application, 1, visited_at=NOON - 9 * HOUR)  # keeps the checker from queueing another
    with waiting_for(application, connect(), lambda: finalise(checker, due)) as result:
        noon.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            erase_member(noon, 1)
        application.execute("ROLLBACK")
    assert result == [FinaliseCounts(queued=1, moved=1)]
    assert erase_member(noon, 1).queue_items == 1


def test_a_visit_that_is_being_taken_out_of_the_table_is_erased_with_the_rest(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect()
    noon.execute("INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (1, granary.now())")
    noon.execute("BEGIN")
    assert consume(noon, 10).changed == 1
    with waiting_for(noon, connect(), lambda: erase_member(other, 1)) as result:
        noon.execute("COMMIT")
    assert (result[0].visits, result[0].triggers) == (1, 1)
    assert nothing_is_left(noon)


def test_a_member_who_refused_profiling_gets_what_everybody_gets(
    noon: psycopg.Connection, pool: ConnectionPool[psycopg.Connection]
) -> None:
    for id_ in range(1, 9):
        a_product(noon, id_, category="두부" if id_ > 4 else "콩")
        an_event(noon, 9, id_, weight=20 - id_)
    for member_id in (1, 2):
        an_event(noon, member_id, 8, weight=0.5)
        an_item(noon, member_id)
    assert opt_out(noon, 1)
    assert not opt_out(noon, 1)
    Recommender(pool, "run-1", None, PROFILE, size=3).run()
    found = rows(
        noon,
        "SELECT DISTINCT candidate_generation_type AS type FROM rec.recommended_product WHERE member_id = 1",
    )
    assert found == [{"type": "G0"}]
    assert recommended(noon, 1) == [1, 2, 3]
    assert recommended(noon, 2)[0] in (5, 6, 7, 8)
    assert opt_in(noon, 1)
    assert not opt_in(noon, 1)
    assert count(noon, "member_opt_out") == 0


def test_what_profiling_made_is_gone_when_it_is_refused(noon: psycopg.Connection) -> None:
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    succeed(noon, item, "run-1", a_set([1, 2], G2))
    an_item(noon, 2)
    (item,) = pick(noon, "run-1", 1, 300)
    succeed(noon, item, "run-1", a_set([1, 2]))
    for member_id in (1, 2):
        opt_out(noon, member_id)
    assert recommended(noon, 1) == []
    assert recommended(noon, 2) == [1, 2]


def test_a_run_that_ranks_while_profiling_is_refused_ranks_again_without_it(
    noon: psycopg.Connection, pool: ConnectionPool[psycopg.Connection]
) -> None:
    an_item(noon, 1)
    seen = []

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        seen.append((member.wanted, member.opted_out))
        opt_out(noon, 1)
        return a_set([1], GenerationType.G0 if member.opted_out else G2)

    found = Recommender(pool, "run-1", None, PROFILE, rank=rank).run()
    assert seen == [(G2, False), (GenerationType.G0, True)]
    assert (found.lost, found.succeeded) == (1, 1)
    (row,) = rows(noon, "SELECT candidate_generation_type AS type FROM rec.recommended_product")
    assert row["type"] == "G0"


def test_a_profiled_set_that_is_being_stored_is_gone_after_a_refusal(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect()
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    noon.execute("BEGIN")
    assert succeed(noon, item, "run-1", a_set([1, 2], G2))
    with waiting_for(noon, connect(), lambda: opt_out(other, 1)) as result:
        noon.execute("COMMIT")
    assert result == [True]
    assert recommended(noon, 1) == []


def test_an_item_picked_again_by_the_same_run_is_not_finished_by_what_was_read_before_a_refusal(
    noon: psycopg.Connection,
) -> None:
    an_item(noon, 1)
    (before,) = pick(noon, "run-1", 1, 300)
    opt_out(noon, 1)
    (after,) = pick(noon, "run-1", 1, 300)
    assert before.id == after.id
    assert not succeed(noon, before, "run-1", a_set([1], G2))
    assert succeed(noon, after, "run-1", a_set([1]))


def test_an_item_picked_while_profiling_is_refused_stores_nothing_profiled(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    noon.execute("BEGIN")
    assert opt_out(noon, 1)
    an_item(other, 1)
    (item,) = pick(other, "run-1", 1, 300)
    with waiting_for(noon, connect(), lambda: succeed(other, item, "run-1", a_set([1], G2))) as result:
        noon.execute("COMMIT")
    assert result == [False]
    assert (recommended(noon, 1), items(noon)[0]["status"]) == ([], "RUNNING")
    assert succeed(other, item, "run-1", a_set([1]))


@pytest.mark.parametrize("change", [opt_out, erase_member])
def test_what_a_member_did_is_read_before_a_change_or_after_it(
    connect: Connect, change: Callable[[psycopg.Connection, int], object]
) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    an_event(noon, 1, 5)
    noon.execute("BEGIN")
    change(noon, 1)
    an_item(other, 1)
    assert pick(other, "run-1", 1, 300)
    with waiting_for(noon, connect(), lambda: history(other, 1)) as result:
        noon.execute("COMMIT")
    assert result[0].opted_out or not result[0].events


@pytest.mark.parametrize("change", [opt_out, erase_member])
def test_a_change_that_waits_for_a_set_holds_nothing_that_the_set_needs(
    connect: Connect, change: Callable[[psycopg.Connection, int], object]
) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    everything_of(noon, 1)
    opt_in(noon, 1)
    noon.execute(
        "UPDATE rec.queue_item SET status = 'FAILED', claimed_by = NULL, lease_until = NULL,"
        " finished_at = granary.now() WHERE status = 'RUNNING'"
    )
    an_item(noon, 1, visited_at=NOON - 3 * HOUR)
    (item,) = pick(noon, "run-1", 1, 300)
    noon.execute("BEGIN")
    lock_member(noon, 1)
    with waiting_for(noon, connect(), lambda: change(other, 1)):
        assert succeed(noon, item, "run-1", a_set([1, 2], G2))
        noon.execute("COMMIT")
    assert recommended(noon, 1) == []


@pytest.mark.parametrize("change", [opt_out, erase_member])
def test_a_set_that_waits_for_a_change_holds_nothing_that_the_change_needs(
    connect: Connect, change: Callable[[psycopg.Connection, int], object]
) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    an_item(noon, 1)
    (item,) = pick(noon, "run-1", 1, 300)
    noon.execute("BEGIN")
    lock_member(noon, 1)
    with waiting_for(noon, connect(), lambda: succeed(other, item, "run-1", a_set([1, 2], G2))) as result:
        change(noon, 1)
        noon.execute("COMMIT")
    assert result == [False]
    assert recommended(noon, 1) == []


def test_one_member_does_not_wait_for_another(connect: Connect) -> None:
    noon, other = connect(at=at(NOON)), connect(at=at(NOON))
    noon.execute("BEGIN")
    opt_out(noon, 1)
    other.execute("SET lock_timeout = '100ms'")
    assert opt_out(other, 2)
    assert history(other, 2).opted_out


def test_a_failed_item_of_an_erased_member_cannot_be_requeued(noon: psycopg.Connection) -> None:
    id_ = an_item(noon, 1, "FAILED")
    erase_member(noon, 1)
    assert requeue_failed(noon, [id_]) == 0
    assert nothing_is_left(noon)
