"""When a member is due, and for what: every offset and boundary, to the microsecond."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recommendations.models import GenerationType
from assets.recommendations.schedule import (
    OFFSETS,
    due_offset,
    generation_type,
    next_trigger_at,
)
from tests.bad_inputs import bad_inputs

VISIT = datetime(2026, 11, 23, 9, 30, 15, 250_001, tzinfo=UTC)
HOURS = [1, 4, 12, 24, 36, 48, 60, 72, 96, 120, 144, 168]
MICROSECOND = timedelta(microseconds=1)
SPANS = st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=9))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


@pytest.mark.parametrize(("before", "offset"), list(zip([0, *HOURS], HOURS, strict=False)))
def test_the_next_time_is_the_first_offset_that_has_not_come(before: int, offset: int) -> None:
    due = VISIT + hours(offset)
    assert next_trigger_at(VISIT, VISIT + hours(before)) == due
    assert next_trigger_at(VISIT, VISIT + hours(before) + MICROSECOND) == due
    assert next_trigger_at(VISIT, due - MICROSECOND) == due


@pytest.mark.parametrize(("offset", "after"), list(zip(HOURS, [*HOURS[1:], None], strict=True)))
def test_a_time_that_has_come_is_not_given_again(offset: int, after: int | None) -> None:
    assert next_trigger_at(VISIT, VISIT + hours(offset)) == (after and VISIT + hours(after))


@pytest.mark.parametrize("late", [hours(168), hours(168) + MICROSECOND, timedelta(days=400)])
def test_after_the_last_offset_there_is_no_next(late: timedelta) -> None:
    assert next_trigger_at(VISIT, VISIT + late) is None


def test_a_visit_that_is_ahead_of_the_clock_is_due_an_hour_after_it() -> None:
    assert next_trigger_at(VISIT, VISIT - timedelta(minutes=5)) == VISIT + hours(1)


@pytest.mark.parametrize(("offset", "after"), list(zip(HOURS, [*HOURS[1:], 10_000], strict=True)))
def test_the_due_offset_is_the_largest_that_has_passed(offset: int, after: int) -> None:
    assert due_offset(VISIT, VISIT + hours(offset)) == hours(offset)
    assert due_offset(VISIT, VISIT + hours(offset) + MICROSECOND) == hours(offset)
    assert due_offset(VISIT, VISIT + hours(after) - MICROSECOND) == hours(offset)


@pytest.mark.parametrize("early", [hours(1) - MICROSECOND, hours(0), hours(-1)])
def test_before_the_first_offset_the_due_offset_is_the_first(early: timedelta) -> None:
    assert due_offset(VISIT, VISIT + early) == hours(1)
    assert generation_type(VISIT, VISIT + early) == "G2"


@pytest.mark.parametrize(
    ("since", "wanted"),
    [
        *((hours(offset), "G2") for offset in HOURS if offset <= 72),
        (hours(72) + MICROSECOND, "G2"),
        (hours(96) - MICROSECOND, "G2"),
        *((hours(offset), "G1") for offset in HOURS if offset > 72),
        (hours(168) + MICROSECOND, "G1"),
        (timedelta(days=400), "G1"),
    ],
)
def test_the_type_follows_the_due_offset(since: timedelta, wanted: str) -> None:
    assert generation_type(VISIT, VISIT + since) == wanted


def test_a_week_of_ticks_is_due_at_the_twelve_offsets_and_asks_for_eight_g2_and_four_g1() -> None:
    seen, now = [], VISIT
    while (due := next_trigger_at(VISIT, now)) is not None:
        seen.append((due - VISIT, generation_type(VISIT, due)))
        now = due
    assert seen == [(hours(offset), "G2" if offset <= 72 else "G1") for offset in HOURS]


def test_offsets_are_real_hours_where_summer_time_begins() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    visit = datetime(2026, 3, 29, 1, 30, tzinfo=berlin)  # half an hour before the clocks go forward
    an_hour_later = datetime(2026, 3, 29, 3, 30, tzinfo=berlin)
    assert due_offset(visit, an_hour_later) == hours(1)
    assert next_trigger_at(visit, an_hour_later) == datetime(2026, 3, 29, 6, 30, tzinfo=berlin).astimezone(
        UTC
    )
    assert next_trigger_at(visit, an_hour_later - MICROSECOND) == an_hour_later.astimezone(UTC)


@pytest.mark.parametrize("decide", [next_trigger_at, due_offset, generation_type])
def test_a_time_without_a_zone_is_refused(decide: object) -> None:
    naive = VISIT.replace(tzinfo=None)
    assert callable(decide)
    for times in ((naive, VISIT), (VISIT, naive), (naive, naive)):
        with pytest.raises(ValueError, match="zone"):
            decide(*times)


WEST, EAST = timezone(hours(-5)), timezone(hours(5))
FIRST, LAST = datetime.min, datetime.max


@pytest.mark.parametrize(
    ("visit", "now", "due", "due_now"),
    [
        (LAST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC), None, hours(1)),
        (LAST.replace(tzinfo=WEST), LAST.replace(tzinfo=UTC), None, hours(1)),
        (LAST.replace(tzinfo=UTC) - hours(5), LAST.replace(tzinfo=UTC), None, hours(4)),
        (LAST.replace(tzinfo=UTC) - hours(5), LAST.replace(tzinfo=WEST), None, hours(4)),
        (LAST.replace(tzinfo=UTC) - hours(5), LAST.replace(tzinfo=UTC) - hours(2), LAST - hours(1), hours(1)),
        (FIRST.replace(tzinfo=EAST), FIRST.replace(tzinfo=UTC), FIRST + hours(7), hours(4)),
        (FIRST.replace(tzinfo=EAST), FIRST.replace(tzinfo=EAST), None, hours(1)),
        (FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=WEST), None, hours(168)),
        (LAST.replace(tzinfo=WEST), FIRST.replace(tzinfo=EAST), None, hours(1)),
    ],
)
def test_the_ends_of_time_are_no_error(
    visit: datetime, now: datetime, due: datetime | None, due_now: timedelta
) -> None:
    assert next_trigger_at(visit, now) == (due and due.replace(tzinfo=UTC))
    assert due_offset(visit, now) == due_now
    assert generation_type(visit, now) == ("G1" if due_now > hours(72) else "G2")


@bad_inputs
@given(SPANS, ZONES, ZONES)
def test_the_next_time_is_ahead_one_of_the_offsets_and_none_is_skipped(
    span: timedelta, one: timezone, other: timezone
) -> None:
    visit, now = VISIT.astimezone(one), (VISIT + span).astimezone(other)
    due = next_trigger_at(visit, now)
    to_come = [visit + offset for offset in OFFSETS if visit + offset > now]
    assert due == min(to_come, default=None)


@bad_inputs
@given(SPANS, SPANS)
def test_a_later_look_never_asks_for_a_smaller_offset_or_a_warmer_type(a: timedelta, b: timedelta) -> None:
    earlier, later = VISIT + min(a, b), VISIT + max(a, b)
    assert due_offset(VISIT, earlier) <= due_offset(VISIT, later)
    warmth = [GenerationType.G0, GenerationType.G1, GenerationType.G2]
    assert warmth.index(generation_type(VISIT, earlier)) >= warmth.index(generation_type(VISIT, later))
