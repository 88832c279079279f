"""Counters' growth over ten minutes, out of a sensor's cursor."""

import json
import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operations.alarm_cursor import AlarmCursor, read_cursor
from operations.counter_window import CounterWindow
from tests.bad_inputs import bad_inputs

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def minutes(*values: float, name: str = "lost") -> CounterWindow:
    """A tick a minute up to noon, each through the cursor of the one before."""
    window = CounterWindow()
    for ago, value in zip(reversed(range(len(values))), values, strict=True):
        window = read_cursor(AlarmCursor(window).to_text()).window.with_sample(
            NOON - ago * MINUTE, {name: value}
        )
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
    assert len(AlarmCursor(window).to_text()) < 40_000


@pytest.mark.parametrize(
    "samples",
    [
        "7",
        '"a"',
        "[[1]]",
        '[["2026-11-30T12:00:00", {"lost": 1}]]',
        '[["2026-11-30T12:00:00+00:00", {"lost": NaN}]]',
        '[["2026-11-30T12:00:00+00:00", {"lost": 1e999}]]',
        '[["2026-11-30T12:00:00+00:00", {"lost": 1%s}]]' % ("0" * 400),
    ],
)
def test_samples_of_another_shape_are_an_empty_window(samples: str) -> None:
    assert read_cursor(samples) == AlarmCursor()
    moment = '"2026-11-30T12:00:00+00:00"'
    assert read_cursor(f'{{"runs_after": {moment}, "samples": {samples}}}') == AlarmCursor(runs_after=NOON)


@pytest.mark.parametrize("cursor", [None, "", "{", "\x00", "[" * 100_000, '{"a":' * 100_000])
def test_a_cursor_that_is_no_json_is_a_first_one(cursor: str | None) -> None:
    assert read_cursor(cursor) == AlarmCursor()


@pytest.mark.parametrize(
    "moment", ["7", "null", '"noon"', '"2026-11-30T12:00:00"', '"0001-01-01T00:00:00+23:59"']
)
def test_a_moment_of_another_shape_is_none(moment: str) -> None:
    assert read_cursor(f'{{"runs_after": {moment}}}').runs_after is None


def test_a_number_that_is_none_is_not_kept() -> None:
    assert CounterWindow().with_sample(NOON, {"lost": float("nan"), "requests": 1}).growth() == {
        "requests": 0
    }


def test_the_samples_of_an_older_cursor_are_read() -> None:
    older = '[["2026-11-30T12:00:00+00:00",{"lost":1.0}]]'
    assert read_cursor(older).window.samples == ((NOON, {"lost": 1.0}),)


NUMBERS = st.floats() | st.integers()
MOMENTS = st.timedeltas(-20 * MINUTE, 20 * MINUTE).map(lambda by: (NOON + by).isoformat())
SAMPLES = st.lists(st.tuples(MOMENTS, st.dictionaries(st.sampled_from(["lost", "x"]), NUMBERS)), max_size=3)


@bad_inputs
@given(st.text() | (st.recursive(st.text() | NUMBERS, st.lists) | SAMPLES).map(json.dumps))
@example('[["2026-11-30T11:55:00+00:00", {"lost": -Infinity}]]')
def test_no_cursor_breaks_the_tick(cursor: str) -> None:
    window = read_cursor(cursor).window.with_sample(NOON, {"lost": 1})
    assert all(NOON - 12 * MINUTE < moment <= NOON for moment, _ in window.samples)
    assert window.samples[-1] == (NOON, {"lost": 1})
    assert set(window.growth()) == {"lost"} and 0 <= window.growth()["lost"] < math.inf
