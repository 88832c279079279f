"""The pace of a host over all runs and machines, on the real database and its real clock."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from resources.host_pace import PAUSE_HOURS, pause, paused_until, seconds_until_slot

Connect = Callable[..., psycopg.Connection]

HOST = "news.example"


def slot(connection: psycopg.Connection, interval: float, host: str = HOST) -> float:
    """When the granted request may be made, in seconds of the database's clock since 1970."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    wait = seconds_until_slot(connection, host, interval)
    assert wait is not None
    return float(row[0]) + wait


def test_a_host_that_was_never_asked_may_be_asked_at_once(connection: psycopg.Connection) -> None:
    assert seconds_until_slot(connection, HOST, 60) == 0


def test_slots_that_two_connections_take_in_turn_are_an_interval_apart(connect: Connect) -> None:
    connections = (connect(), connect())
    slots = [slot(connections[number % 2], 60) for number in range(10)]
    # Reading the clock before asking costs a moment, by which a slot may seem early.
    assert all(59.5 < later - earlier < 60.5 for earlier, later in pairwise(slots))


def test_slots_that_many_connections_take_at_once_never_overlap(connect: Connect) -> None:
    connections = [connect() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        taken = [threads.submit(slot, connection, 60) for connection in connections for _ in range(5)]
        slots = sorted(one.result() for one in taken)
    assert len(slots) == 40
    assert all(later - earlier > 59 for earlier, later in pairwise(slots))


def test_a_host_that_was_left_alone_for_longer_is_asked_at_once_and_not_in_a_burst(
    connection: psycopg.Connection,
) -> None:
    seconds_until_slot(connection, HOST, 60)
    connection.execute("UPDATE granary.host_pace SET next_request_at = clock_timestamp() - interval '1 hour'")
    assert seconds_until_slot(connection, HOST, 60) == 0
    wait = seconds_until_slot(connection, HOST, 60)
    assert wait is not None and 59 < wait <= 60


def test_each_host_has_a_pace_of_its_own(connection: psycopg.Connection) -> None:
    seconds_until_slot(connection, HOST, 60)
    assert seconds_until_slot(connection, "another.example", 60) == 0


def test_without_an_interval_nobody_waits(connection: psycopg.Connection) -> None:
    assert [seconds_until_slot(connection, HOST, 0) for _ in range(5)] == [0] * 5


def test_the_pace_keeps_to_the_real_clock_where_a_simulation_moves_the_databases(connect: Connect) -> None:
    seconds_until_slot(connect("2026-11-30 12:00+09:00"), HOST, 60)
    wait = seconds_until_slot(connect("2036-11-30 12:00+09:00"), HOST, 60)
    assert wait is not None and 59 < wait <= 60


@pytest.mark.parametrize("was_asked_before", [False, True])
def test_a_paused_host_grants_nobody_a_slot_for_twelve_hours(
    connect: Connect, was_asked_before: bool
) -> None:
    first, second = connect(), connect()
    if was_asked_before:
        seconds_until_slot(first, HOST, 60)
    pause(first, HOST, "it answered 429")
    assert seconds_until_slot(second, HOST, 0) is None
    paused = paused_until(second, HOST)
    assert paused is not None
    until, reason = paused
    assert reason == "it answered 429"
    assert abs(until - datetime.now(UTC) - timedelta(hours=PAUSE_HOURS)) < timedelta(minutes=1)
    assert PAUSE_HOURS == 12


def test_a_pause_is_of_one_host(connection: psycopg.Connection) -> None:
    pause(connection, HOST, "it answered 403")
    assert seconds_until_slot(connection, "another.example", 0) == 0
    assert paused_until(connection, "another.example") is None


def test_a_second_refusal_pauses_anew(connection: psycopg.Connection) -> None:
    pause(connection, HOST, "it answered 429")
    connection.execute("UPDATE granary.host_pace SET paused_until = clock_timestamp() + interval '1 minute'")
    pause(connection, HOST, "it answered 403")
    paused = paused_until(connection, HOST)
    assert paused is not None
    assert paused[0] > datetime.now(UTC) + timedelta(hours=11)
    assert paused[1] == "it answered 403"


def test_a_pause_that_is_over_grants_slots_again(connection: psycopg.Connection) -> None:
    pause(connection, HOST, "it answered 429")
    connection.execute("UPDATE granary.host_pace SET paused_until = clock_timestamp()")
    assert paused_until(connection, HOST) is None
    assert seconds_until_slot(connection, HOST, 60) == 0
