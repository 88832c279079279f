"""A run over the queue: each member ranked once, a failure only its own, nothing stored by the dead."""

import threading
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from assets.recommendations import queue_store, trigger_store
from assets.recommendations.models import Catalogue, GenerationType, MemberHistory, Ranked
from assets.recommendations.recommend import CATALOGUE_SECONDS, Ranker, Recommender
from assets.recommendations.trigger_check import check_triggers
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    PROFILE,
    Connect,
    a_product,
    a_set,
    an_event,
    an_item,
    at,
    count,
    items,
    recommended,
    rows,
)
from tests.integration.recommendations.pools import pool_at

Pool = ConnectionPool[psycopg.Connection]


def recommender(pool: Pool, rank: Ranker | None = None, **changes: Any) -> Recommender:
    given = {"claimed_by": "run-1", "days": None, "profile": PROFILE, "rank": rank, **changes}
    return Recommender(pool, **given)


def always(*products: int) -> Ranker:
    return lambda catalogue, member, now, size: a_set(products)


def statuses(connection: psycopg.Connection) -> dict[int, str]:
    return {row["member_id"]: row["status"] for row in items(connection)}


def test_every_member_in_the_queue_gets_a_set(noon: psycopg.Connection, pool: Pool) -> None:
    for id_ in range(1, 31):
        a_product(noon, id_, category=f"분류 {id_ % 5}")
    for member_id in range(1, 36):
        an_item(noon, member_id)
        an_event(noon, member_id, 1 + member_id % 30, "purchase")
    found = recommender(pool).run()
    assert (found.succeeded, found.failed, found.lost) == (35, 0, 0)
    assert found.products.total() == 35 * 20 == count(noon, "recommended_product")
    assert set(statuses(noon).values()) == {"SUCCEEDED"}
    for member_id in range(1, 36):
        assert 1 + member_id % 30 not in recommended(noon, member_id)


def test_a_ranker_is_handed_catalogue_history_time_and_size(noon: psycopg.Connection, pool: Pool) -> None:
    a_product(noon, 7)
    an_event(noon, 1, 7, "like", 2.5)
    an_item(noon, 1, wanted="G1")
    seen: list[tuple[Catalogue, MemberHistory, datetime, int]] = []

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        seen.append((catalogue, member, now, size))
        return []

    recommender(pool, rank, size=3).run()
    ((catalogue, member, now, size),) = seen
    assert (catalogue.product_ids.tolist(), now, size) == ([7], NOON, 3)
    assert (member.member_id, member.wanted, member.opted_out) == (1, GenerationType.G1, False)
    assert [(one.product_id, one.weight) for one in member.events] == [(7, 2.5)]


def test_one_members_failure_is_its_own_and_says_no_more_than_its_kind(
    noon: psycopg.Connection, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    for member_id in range(1, 13):
        an_item(noon, member_id)

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        if member.member_id == 3:
            raise KeyError("what member 3 has bought")
        return a_set([5, 5] if member.member_id == 4 else [5])

    found = recommender(pool, rank).run()
    assert (found.succeeded, found.failed) == (10, 2)
    failed = {row["member_id"]: row["error"] for row in items(noon) if row["status"] == "FAILED"}
    assert failed == {3: "KeyError", 4: "UniqueViolation"}
    assert "has bought" not in caplog.text
    assert rows(noon, "SELECT count(DISTINCT member_id) AS n FROM rec.recommended_product") == [{"n": 10}]


def test_only_the_days_that_were_asked_for_are_worked_through(noon: psycopg.Connection, pool: Pool) -> None:
    an_item(noon, 1)
    an_item(noon, 2, queued_at=NOON - 24 * HOUR)
    assert recommender(pool, always(1), days=[date(2026, 12, 9)]).run().succeeded == 1
    assert statuses(noon) == {1: "PENDING", 2: "SUCCEEDED"}


def test_five_members_are_ranked_at_once_and_not_more(noon: psycopg.Connection, pool: Pool) -> None:
    for member_id in range(1, 11):
        an_item(noon, member_id)
    five = threading.Barrier(5, timeout=10)
    lock, busy, most = threading.Lock(), [0], [0]

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        five.wait()  # nobody goes on before five are here
        with lock:
            busy[0] -= 1
        return a_set([1])

    assert recommender(pool, rank).run().succeeded == 10
    assert most[0] == 5


def test_a_run_stops_when_its_time_is_up_and_holds_nothing(noon: psycopg.Connection, pool: Pool) -> None:
    for member_id in range(1, 31):
        an_item(noon, member_id)
    ticks = iter(range(1_000))
    found = recommender(pool, always(1), clock=lambda: next(ticks)).run(until=4)
    assert found.succeeded in (10, 20)
    assert set(statuses(noon).values()) == {"SUCCEEDED", "PENDING"}


def test_the_catalogue_is_read_once_and_again_when_it_is_old(noon: psycopg.Connection, pool: Pool) -> None:
    for member_id in range(1, 7):
        an_item(noon, member_id)
    clock, seen = [0.0], []

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        seen.append(len(catalogue.product_ids))
        a_product(noon, member.member_id)
        clock[0] += CATALOGUE_SECONDS / 2
        return []

    recommender(pool, rank, pick=1, at_once=1, clock=lambda: clock[0]).run()
    assert seen == [0, 0, 0, 3, 3, 3]


def test_items_of_a_dead_run_are_taken_back_by_the_next(noon: psycopg.Connection, pool: Pool) -> None:
    an_item(noon, 1, "RUNNING", claimed_by="dead", lease_until=NOON - MINUTE)
    an_item(noon, 2, "RUNNING", claimed_by="dead", lease_until=NOON - MINUTE, returns=1)
    an_item(noon, 3, "RUNNING", claimed_by="alive")
    found = recommender(pool, always(1)).run()
    assert (found.returned, found.spent, found.succeeded) == (1, 1, 1)
    assert statuses(noon) == {1: "SUCCEEDED", 2: "FAILED", 3: "RUNNING"}


def test_what_takes_long_keeps_its_lease(database_url: str, connect: Connect, pool: Pool) -> None:
    connection = connect()
    an_item(connection, 1)
    renewed = threading.Event()

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        assert renewed.wait(timeout=10)
        return a_set([1])

    real = queue_store.renew

    def renew(*arguments: Any) -> set[int]:
        kept = real(*arguments)
        renewed.set()
        return kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_store, "renew", renew)
        found = recommender(pool, rank, lease_seconds=1).run()
    assert (found.succeeded, found.lost) == (1, 0)


def test_a_run_that_was_given_up_meanwhile_stores_nothing(noon: psycopg.Connection, pool: Pool) -> None:
    an_item(noon, 1)
    an_item(noon, 2)

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        if member.member_id == 1:
            noon.execute("UPDATE rec.queue_item SET claimed_by = 'run-2' WHERE member_id = 1")
        return a_set([1])

    found = recommender(pool, rank, at_once=1).run()
    assert (found.succeeded, found.lost) == (1, 1)
    assert statuses(noon) == {1: "RUNNING", 2: "SUCCEEDED"}
    assert recommended(noon, 1) == []


def test_a_database_that_goes_away_ends_the_run_and_fails_no_item(
    noon: psycopg.Connection, pool: Pool, database_url: str
) -> None:
    for member_id in range(1, 11):
        an_item(noon, member_id)
    killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        noon.execute(f"{killed} AND datname = current_database()".encode())
        return a_set([1])

    with pytest.raises(psycopg.OperationalError):
        recommender(pool, rank, at_once=1).run()
    assert "FAILED" not in statuses(noon).values()
    assert queue_store.free_of_run(noon, "run-1").failed == 0
    with pool_at(database_url, NOON) as another:
        assert recommender(another, always(1), claimed_by="run-2").run().failed == 0
    assert set(statuses(noon).values()) == {"SUCCEEDED"}


def test_a_thousand_members_due_at_once_are_all_recommended_for(noon: psycopg.Connection, pool: Pool) -> None:
    noon.execute(
        "INSERT INTO rec.product (id, name, category, text)"
        " SELECT id, 'p' || id, 'c' || id % 7, 't' FROM generate_series(1, 50) AS id"
    )
    noon.execute(
        "INSERT INTO rec.visit_trigger SELECT id, %(at)s - interval '2 hours', %(at)s - interval '1 hour',"
        " NULL, NULL, %(at)s, %(at)s FROM generate_series(1, 1000) AS id",
        {"at": NOON},
    )
    assert trigger_store.due(noon) == 1_000
    assert check_triggers(noon).queued == 1_000
    assert recommender(pool).run().succeeded == 1_000
    sets = rows(noon, "SELECT count(*) AS n FROM rec.recommended_product GROUP BY member_id")
    assert [row["n"] for row in sets] == [20] * 1_000


def test_two_runs_at_once_rank_each_member_once(noon: psycopg.Connection, pool: Pool) -> None:
    for member_id in range(1, 61):
        an_item(noon, member_id)
    lock = threading.Lock()
    ranked: list[int] = []

    def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
        with lock:
            ranked.append(member.member_id)
        return a_set([1])

    runs: list[Callable[[], object]] = [
        recommender(pool, rank, claimed_by=f"run-{number}", at_once=2).run for number in (1, 2)
    ]
    threads = [threading.Thread(target=one) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(ranked) == list(range(1, 61))
    assert set(statuses(noon).values()) == {"SUCCEEDED"}
    assert rows(noon, "SELECT DISTINCT member_id FROM rec.queue_item WHERE returns > 0") == []


def test_an_empty_queue_reads_nothing_else(noon: psycopg.Connection, pool: Pool) -> None:
    def unasked(*_: Any) -> list[Ranked]:
        raise AssertionError("nobody is to be ranked")

    assert at(NOON)
    assert recommender(pool, unasked).run().succeeded == 0
