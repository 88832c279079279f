"""Counters' growth over ten minutes, out of a sensor's cursor."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.counter_window import CounterWindow, read_window

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def minutes(*values: float, name: str = "lost") -> CounterWindow:
    """A tick a minute up to noon, each through the cursor of the one before."""
    window = CounterWindow()
    for ago, value in zip(reversed(range(len(values))), values, strict=True):
        window = read_window(window.to_cursor()).with_sample(NOON - ago * MINUTE, {name: value})
    return window


def test_growth_is_what_was_added_in_the_window() -> None:
    assert minutes(5, 5, 6, 9).growth() == {"lost": 4}


def test_what_grew_before_the_window_no_longer_counts() -> None:
    assert minutes(0, *[7] * 14).growth() == {"lost": 0}
    assert minutes(0, *[7] * 10).growth() == {"lost": 7}


def test_the_first_tick_tells_no_growth_of_all_that_was_ever_counted() -> None:
    assert minutes(10_000).growth() == {"lost": 0}
    assert CounterWindow().growth() == {}


def test_a_counter_that_is_new_was_zero_before() -> None:
    window = minutes(1).with_sample(NOON + MINUTE, {"lost": 1, "errors": 3})
    assert window.growth() == {"lost": 0, "errors": 3}


def test_after_hours_without_a_tick_the_window_begins_anew() -> None:
    assert minutes(1).with_sample(NOON + timedelta(hours=5), {"lost": 500}).growth() == {"lost": 0}


def test_a_database_that_was_restored_counts_from_zero() -> None:
    assert minutes(900, 4).growth() == {"lost": 4}


def test_a_clock_that_went_back_leaves_no_sample_of_a_time_to_come() -> None:
    window = minutes(1, 2).with_sample(NOON - timedelta(hours=1), {"lost": 2})
    assert len(window.samples) == 1


def test_the_cursor_stays_small() -> None:
    window = CounterWindow()
    for second in range(5_000):
        names = {f"leases_lost:{number:03}": 1e15 for number in range(80)}
        window = window.with_sample(NOON + second * timedelta(seconds=1), names)
    assert len(window.to_cursor()) < 40_000


@pytest.mark.parametrize(
    "cursor", [None, "", "{", "7", '[["2026-11-30T12:00:00", {"lost": 1}]]', '"a"', "[[1]]"]
)
def test_a_cursor_of_another_shape_is_an_empty_window(cursor: str | None) -> None:
    assert read_window(cursor) == CounterWindow()


@given(st.text())
def test_no_cursor_breaks_the_tick(cursor: str) -> None:
    read_window(cursor).with_sample(NOON, {"lost": 1}).growth()
