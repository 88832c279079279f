"""The cursors that count ticks: whatever stands there, the sensor goes on with keys it has not used."""

import dagster as dg
from hypothesis import example, given
from hypothesis import strategies as st

from sensors.tick_counter import next_tick
from tests.bad_inputs import bad_inputs


def test_ticks_are_counted_from_one() -> None:
    assert [tick_after(cursor) for cursor in (None, "", "1", "41")] == [1, 1, 2, 42]


@bad_inputs
@given(cursor=st.text(st.characters(), max_size=20) | st.integers().map(str))
@example(cursor="2026-11-30")
@example(cursor="-1")
@example(cursor="٣")
@example(cursor="9" * 15)
@example(cursor="9" * 5_000)
def test_a_cursor_that_is_no_count_begins_ahead_of_every_count(cursor: str) -> None:
    tick = tick_after(cursor)
    is_count = cursor.isascii() and cursor.isdecimal() and len(cursor) <= 15
    assert tick == int(cursor or "0") + 1 if is_count or not cursor else tick > 1_700_000_000
    after = tick_after(str(tick))
    assert after == tick + 1 if tick < 10**15 else after > 1_700_000_000


def tick_after(cursor: str | None) -> int:
    with dg.build_sensor_context(cursor=cursor) as context:
        tick = next_tick(context)
        assert context.cursor == str(tick)
        return tick
