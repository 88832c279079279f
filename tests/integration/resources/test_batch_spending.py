"""Money of batches: reserved once for a plan, settled once, whichever run comes to it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import psycopg
import pytest

from resources import spending
from resources.batch_spending import give_back, reserve, settle
from resources.errors import SpendingCapReached
from resources.model_table import Model, ModelPrice
from resources.spending import Reservation, Usage
from tests.integration.resources.test_counters import wait_until_blocked

Connect = Callable[..., psycopg.Connection]

# Half a USD per million tokens in a batch: 20,000 tokens cost a cent.
MODEL = Model("one-dollar", ModelPrice(input=Decimal(1), output=Decimal(1)))
CENT = Decimal("0.01")
DAY, NEXT_DAY = date(2026, 11, 30), date(2026, 12, 1)
NOON, NEXT_NOON = "2026-11-30 12:00+09:00", "2026-12-01 12:00+09:00"
PIPELINE = "recipes"


def a_cent(connection: psycopg.Connection, intent: str = "a", cap: Decimal | None = None) -> Reservation:
    return reserve(connection, intent, PIPELINE, MODEL.in_batch(), 12_000, 8_000, cap)


def used(cost: str) -> Usage:
    return Usage(calls=3, input_tokens=500, cached_tokens=100, output_tokens=50, cost_usd=Decimal(cost))


def days(connection: psycopg.Connection) -> dict[date, tuple[Decimal | int, Decimal | int]]:
    """USD reserved and spent by day."""
    rows = connection.execute("SELECT day, reserved_usd, spent_usd FROM granary.spending_day").fetchall()
    return {day: (reserved, spent) for day, reserved, spent in rows}


def test_a_batch_reserves_the_most_that_it_can_cost_at_its_prices(connect: Connect) -> None:
    connection = connect(NOON)
    assert a_cent(connection) == Reservation(DAY, CENT)
    assert days(connection) == {DAY: (CENT, 0)}
    row = connection.execute(
        "SELECT intent, pipeline, model, day, usd, settled_at FROM granary.batch_reservation"
    )
    assert row.fetchall() == [("a", PIPELINE, "one-dollar", DAY, CENT, None)]


def test_asked_again_it_is_the_same_reservation_also_on_another_day(connect: Connect) -> None:
    connection = connect(NOON)
    assert a_cent(connection) == a_cent(connection) == a_cent(connect(NEXT_NOON)) == Reservation(DAY, CENT)
    assert days(connection) == {DAY: (CENT, 0)}


def test_a_reservation_asked_again_needs_no_room(connect: Connect) -> None:
    connection = connect(NOON)
    a_cent(connection, cap=CENT)
    assert a_cent(connection, cap=CENT) == a_cent(connection, cap=Decimal(0)) == Reservation(DAY, CENT)


def test_a_batch_reserved_from_two_connections_at_once_is_reserved_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, watcher = connect(NOON), connect(NOON), connect(NOON)
    real, reserved = spending.reserve, threading.Event()

    def reserve_and_let_the_other_come(connection: psycopg.Connection, *arguments: object) -> Reservation:
        reservation: Reservation = real(connection, *arguments)  # type: ignore[arg-type]
        if connection is first:
            reserved.set()
            wait_until_blocked(watcher, second.info.backend_pid)
        return reservation

    monkeypatch.setattr(spending, "reserve", reserve_and_let_the_other_come)
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(a_cent, first)
        assert reserved.wait(30)
        other = threads.submit(a_cent, second)
        assert one.result(30) == other.result(30) == Reservation(DAY, CENT)
    assert days(watcher) == {DAY: (CENT, 0)}


def test_each_batch_has_a_reservation_of_its_own_under_one_cap(connect: Connect) -> None:
    connection = connect(NOON)
    cap = Decimal("0.025")
    a_cent(connection, "a", cap)
    a_cent(connection, "b", cap)
    with pytest.raises(SpendingCapReached, match=r"DAILY_SPENDING_CAP_USD=0\.025"):
        a_cent(connection, "c", cap)
    assert days(connection) == {DAY: (2 * CENT, 0)}
    assert connection.execute("SELECT intent FROM granary.batch_reservation ORDER BY 1").fetchall() == [
        ("a",),
        ("b",),
    ]
    a_cent(connect(NEXT_NOON), "c", cap)


def test_direct_calls_and_batches_share_the_cap(connect: Connect) -> None:
    connection = connect(NOON)
    spending.reserve(connection, MODEL, 6_000, 4_000, CENT)
    with pytest.raises(SpendingCapReached):
        a_cent(connection, cap=Decimal("0.015"))
    a_cent(connection, cap=2 * CENT)


def test_a_settlement_books_the_real_cost_on_the_day_of_the_plan(connect: Connect) -> None:
    a_cent(connect(NOON))
    connection = connect(NEXT_NOON)
    assert settle(connection, "a", used("0.004"))
    assert days(connection) == {DAY: (0, Decimal("0.004"))}
    rows = connection.execute("SELECT * FROM granary.spending").fetchall()
    assert rows == [(DAY, PIPELINE, "one-dollar", 3, 500, 100, 50, Decimal("0.004"))]


def test_a_second_settlement_books_nothing(connect: Connect) -> None:
    connection = connect(NOON)
    a_cent(connection)
    a_cent(connection, "b")
    assert settle(connection, "a", used("0.004"))
    assert not settle(connection, "a", used("0.004"))
    assert not give_back(connection, "a")
    assert days(connection) == {DAY: (CENT, Decimal("0.004"))}


def test_of_two_settlements_at_once_one_books(connect: Connect) -> None:
    first, second, watcher = connect(NOON), connect(NOON), connect(NOON)
    a_cent(watcher)
    with ThreadPoolExecutor(1) as threads:
        with first.transaction():
            assert settle(first, "a", used("0.004"))
            other = threads.submit(settle, second, "a", used("0.004"))
            wait_until_blocked(watcher, second.info.backend_pid)
        assert other.result(30) is False
    assert days(watcher) == {DAY: (0, Decimal("0.004"))}


def test_a_settlement_that_was_rolled_back_is_done_by_the_next(connect: Connect) -> None:
    first, second, watcher = connect(NOON), connect(NOON), connect(NOON)
    a_cent(watcher)
    with ThreadPoolExecutor(1) as threads:
        with first.transaction(force_rollback=True):
            assert settle(first, "a", used("0.004"))
            other = threads.submit(settle, second, "a", used("0.003"))
            wait_until_blocked(watcher, second.info.backend_pid)
        assert other.result(30) is True
    assert days(watcher) == {DAY: (0, Decimal("0.003"))}


def test_a_batch_that_never_came_to_be_costs_nothing(connect: Connect) -> None:
    connection = connect(NOON)
    a_cent(connection, cap=CENT)
    assert give_back(connection, "a")
    assert days(connection) == {DAY: (0, 0)}
    assert connection.execute("SELECT count(*) FROM granary.spending").fetchone() == (0,)
    assert not give_back(connection, "a")
    assert not settle(connection, "a", used("0.004"))
    a_cent(connection, "b", CENT)
    assert days(connection) == {DAY: (CENT, 0)}


def test_an_unknown_batch_is_nobodys_money(connect: Connect) -> None:
    connection = connect(NOON)
    assert not settle(connection, "unknown", used("0.004"))
    assert not give_back(connection, "unknown")
    assert days(connection) == {}


def test_a_reservation_that_breaks_off_leaves_no_money_behind(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(NOON)
    real = spending.reserve

    def broken(*arguments: object) -> Reservation:
        real(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(spending, "reserve", broken)
        with pytest.raises(KeyboardInterrupt):
            a_cent(connection)
    assert days(connection) == {}
    assert a_cent(connection, cap=CENT) == Reservation(DAY, CENT)
