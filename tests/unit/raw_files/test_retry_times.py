"""When a failed partition is tried again, and by which pass when its retries are spent."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.retry_times import PASS_HOURS, next_attempt, next_pass
from tests.bad_inputs import bad_inputs
from tests.unit.raw_files.recorded import DAY, ONE_DAY

NOW = datetime(2026, 1, 31, 23, 52, tzinfo=UTC)


def at(month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def test_three_retries_wait_5_10_and_20_minutes_and_then_they_are_spent() -> None:
    times = [next_attempt(failures, NOW) for failures in range(1, 6)]
    assert times == [at(1, 31, 23, 57), at(2, 1, 0, 2), at(2, 1, 0, 12), None, None]


@pytest.mark.parametrize("failures", [0, -1])
def test_where_nothing_failed_nothing_is_tried_again(failures: int) -> None:
    assert next_attempt(failures, NOW) is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (at(1, 30, 9), at(1, 31, 0)),  # files that arrived while their day still went on
        (at(1, 31, 0, 15), at(1, 31, 12)),  # the example of the source document
        (at(1, 31, 11, 59), at(1, 31, 12)),
        (at(1, 31, 12), at(2, 1, 0)),  # this supplementary pass may have listed already
        (at(1, 31, 12, 1), at(2, 1, 0)),  # and across the month's end
        (at(2, 6, 23), at(2, 7, 0)),
        (at(2, 7, 0), at(2, 7, 12)),  # 31 January and seven more dates look at 30 January
        (at(2, 7, 12), None),
        (at(3, 1, 0), None),
    ],
)
def test_the_next_pass_is_the_first_that_still_looks_at_the_day(
    after: datetime, expected: datetime | None
) -> None:
    assert next_pass(DAY, after) == expected


def test_without_catching_up_only_the_next_dates_two_passes_look_at_a_day() -> None:
    assert next_pass(DAY, at(1, 31, 3), catch_up_days=0) == at(1, 31, 12)
    assert next_pass(DAY, at(1, 31, 12), catch_up_days=0) is None


def test_the_leap_day_has_its_passes_on_the_first_of_march() -> None:
    assert next_pass(date(2028, 2, 29), datetime(2028, 2, 29, 13, tzinfo=UTC)) == datetime(
        2028, 3, 1, tzinfo=UTC
    )


def test_a_moment_given_in_another_zone_is_understood() -> None:
    on_kiritimati = datetime(2026, 2, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    assert next_pass(DAY, on_kiritimati) == at(1, 31, 12)
    assert next_pass(DAY, on_kiritimati + timedelta(hours=1)) == at(2, 1, 0)


@bad_inputs
@given(
    after=st.datetimes(datetime(2026, 1, 25), datetime(2026, 2, 20), timezones=st.just(UTC)),
    catch_up_days=st.integers(0, 10),
)
def test_the_next_pass_is_what_going_through_all_passes_finds(after: datetime, catch_up_days: int) -> None:
    every_pass = [datetime(2026, 1, 20, tzinfo=UTC) + timedelta(hours=12) * n for n in range(100)]
    assert {one.hour for one in every_pass} == set(PASS_HOURS)

    def looks_at(one: datetime) -> list[date]:
        return [one.date() - ONE_DAY * back for back in range(1, 2 + catch_up_days)]

    expected = next((one for one in every_pass if one > after and DAY in looks_at(one)), None)
    assert next_pass(DAY, after, catch_up_days) == expected
