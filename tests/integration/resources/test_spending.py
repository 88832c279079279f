"""Money under a cap, on the real database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import psycopg
import pytest

from resources.errors import SpendingCapReached
from resources.model_table import Model, ModelPrice
from resources.spending import Reservation, Usage, reserve, settle

Connect = Callable[..., psycopg.Connection]

# One USD per million tokens of either kind: 10,000 tokens cost a cent.
MODEL = Model("one-dollar", ModelPrice(input=Decimal(1), output=Decimal(1)))
FREE = Model("local", ModelPrice(input=Decimal(0), output=Decimal(0)))
CENT = Decimal("0.01")
NOON = "2026-11-30 12:00+09:00"
PIPELINE = "economy_news"


def a_cent(connection: psycopg.Connection, cap: Decimal | None, model: Model = MODEL) -> Reservation:
    return reserve(connection, model, 6_000, 4_000, cap)


def used(cost: Decimal) -> Usage:
    return Usage(calls=1, input_tokens=500, cached_tokens=100, output_tokens=50, cost_usd=cost)


def days(connection: psycopg.Connection) -> dict[date, tuple[Decimal | int, Decimal | int]]:
    """USD reserved and spent by day."""
    rows = connection.execute("SELECT day, reserved_usd, spent_usd FROM granary.spending_day").fetchall()
    return {day: (reserved, spent) for day, reserved, spent in rows}


def test_a_reservation_is_the_most_that_the_call_can_cost(connect: Connect) -> None:
    connection = connect(NOON)
    assert a_cent(connection, Decimal(5)) == Reservation(date(2026, 11, 30), CENT)
    assert days(connection) == {date(2026, 11, 30): (CENT, 0)}


def test_a_settlement_turns_it_into_the_real_cost(connect: Connect) -> None:
    connection = connect(NOON)
    for cost in ("0.002", "0.003"):
        settle(connection, PIPELINE, MODEL.name, a_cent(connection, Decimal(5)), used(Decimal(cost)))
    assert days(connection) == {date(2026, 11, 30): (0, Decimal("0.005"))}
    rows = connection.execute("SELECT * FROM granary.spending").fetchall()
    assert rows == [(date(2026, 11, 30), PIPELINE, "one-dollar", 2, 1_000, 200, 100, Decimal("0.005"))]


def test_each_pipeline_and_model_has_a_line_of_its_own_under_one_cap(connect: Connect) -> None:
    connection = connect(NOON)
    for pipeline, model in (("economy_news", "a"), ("economy_news", "b"), ("recipes", "a")):
        settle(connection, pipeline, model, a_cent(connection, Decimal("0.03")), used(CENT))
    rows = connection.execute("SELECT pipeline, model, cost_usd FROM granary.spending").fetchall()
    assert sorted(rows) == [("economy_news", "a", CENT), ("economy_news", "b", CENT), ("recipes", "a", CENT)]
    with pytest.raises(SpendingCapReached):
        a_cent(connection, Decimal("0.03"))


def test_a_reservation_that_was_not_used_is_given_back(connect: Connect) -> None:
    connection = connect(NOON)
    settle(connection, PIPELINE, MODEL.name, a_cent(connection, CENT), Usage())
    assert days(connection) == {date(2026, 11, 30): (0, 0)}
    assert connection.execute("SELECT count(*) FROM granary.spending").fetchone() == (0,)
    a_cent(connection, CENT)


def test_the_cap_itself_may_be_reached_and_nothing_beyond(connect: Connect) -> None:
    connection = connect(NOON)
    a_cent(connection, Decimal("0.02"))
    a_cent(connection, Decimal("0.02"))
    with pytest.raises(SpendingCapReached, match=r"DAILY_SPENDING_CAP_USD=0\.02 has no room .* 0\.0100 USD"):
        a_cent(connection, Decimal("0.02"))
    assert days(connection) == {date(2026, 11, 30): (Decimal("0.02"), 0)}


def test_what_was_spent_counts_like_what_is_reserved(connect: Connect) -> None:
    connection = connect(NOON)
    settle(connection, PIPELINE, MODEL.name, a_cent(connection, Decimal("0.015")), used(Decimal("0.006")))
    with pytest.raises(SpendingCapReached):
        a_cent(connection, Decimal("0.015"))
    a_cent(connection, Decimal("0.016"))


def test_a_first_call_above_the_cap_is_refused(connect: Connect) -> None:
    connection = connect(NOON)
    with pytest.raises(SpendingCapReached):
        a_cent(connection, Decimal("0.0099"))
    assert days(connection) == {}


@pytest.mark.parametrize("model", [MODEL, FREE])
def test_a_cap_of_nothing_allows_no_call_not_even_a_free_one(connect: Connect, model: Model) -> None:
    connection = connect(NOON)
    with pytest.raises(SpendingCapReached):
        a_cent(connection, Decimal(0), model)
    a_cent(connection, None, model)  # the day has a row now
    with pytest.raises(SpendingCapReached):
        a_cent(connection, Decimal(0), model)


def test_without_a_cap_everything_is_reserved_and_counted(connect: Connect) -> None:
    connection = connect(NOON)
    for _ in range(3):
        reserve(connection, MODEL, 900_000_000, 100_000_000, None)
    assert days(connection) == {date(2026, 11, 30): (3_000, 0)}


def test_a_model_whose_price_is_nothing_is_never_capped(connect: Connect) -> None:
    connection = connect(NOON)
    a_cent(connection, CENT)
    for _ in range(3):
        reservation = a_cent(connection, CENT, FREE)
        settle(connection, PIPELINE, FREE.name, reservation, used(Decimal(0)))
    assert connection.execute("SELECT model, calls, cost_usd FROM granary.spending").fetchall() == [
        ("local", 3, 0)
    ]


def test_a_reservation_of_yesterday_is_settled_on_yesterday(connect: Connect) -> None:
    before, after = connect("2026-11-30 23:59:59+09:00"), connect("2026-12-01 00:00+09:00")
    reservation = a_cent(before, CENT)
    settle(after, PIPELINE, MODEL.name, reservation, used(Decimal("0.004")))
    assert days(after) == {date(2026, 11, 30): (0, Decimal("0.004"))}
    assert after.execute("SELECT day FROM granary.spending").fetchall() == [(date(2026, 11, 30),)]


def test_a_new_day_in_seoul_has_the_whole_cap_again(connect: Connect) -> None:
    a_cent(connect("2026-11-30 14:59:59+00:00"), CENT)
    with pytest.raises(SpendingCapReached):
        a_cent(connect("2026-11-30 14:59:59+00:00"), CENT)
    assert a_cent(connect("2026-11-30 15:00+00:00"), CENT).day == date(2026, 12, 1)


def test_a_reservation_goes_with_the_transaction_that_made_it(connect: Connect) -> None:
    connection = connect(NOON)
    with connection.transaction(force_rollback=True):
        a_cent(connection, CENT)
    assert days(connection) == {}


def test_a_hundred_calls_at_once_never_pass_the_cap(connect: Connect) -> None:
    cap, calls = Decimal("0.37"), 100
    connections = [connect(NOON) for _ in range(calls)]
    together = threading.Barrier(calls)

    def call(connection: psycopg.Connection) -> Reservation | None:
        together.wait(timeout=60)
        try:
            return a_cent(connection, cap)
        except SpendingCapReached:
            return None

    with ThreadPoolExecutor(calls) as threads:
        granted = [one for one in threads.map(call, connections) if one is not None]
    assert len(granted) == 37
    assert days(connections[0]) == {date(2026, 11, 30): (cap, 0)}


def test_a_hundred_calls_reserved_and_settled_at_once_never_stand_above_the_cap(connect: Connect) -> None:
    cap, calls = Decimal("0.10"), 100
    connections = [connect(NOON) for _ in range(calls)]
    # The row itself tells: a sum above the cap would break this constraint and fail the call.
    connections[0].execute(
        "ALTER TABLE granary.spending_day ADD CONSTRAINT never_above CHECK (reserved_usd + spent_usd <= 0.10)"
    )
    together = threading.Barrier(calls)

    def call(connection: psycopg.Connection) -> Decimal:
        together.wait(timeout=60)
        spent = Decimal(0)
        for _ in range(3):
            try:
                reservation = a_cent(connection, cap)
            except SpendingCapReached:
                continue
            settle(connection, PIPELINE, MODEL.name, reservation, used(Decimal("0.003")))
            spent += Decimal("0.003")
        return spent

    with ThreadPoolExecutor(calls) as threads:
        spent = sum(threads.map(call, connections))
    assert days(connections[0]) == {date(2026, 11, 30): (0, spent)}
    assert 0 < spent <= cap
    assert connections[0].execute("SELECT sum(cost_usd) FROM granary.spending").fetchone() == (spent,)
