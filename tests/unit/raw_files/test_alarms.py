"""The five alarms, at and beside their limits."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.alarms import (
    daily_processing_failure,
    expected_slots,
    failure_rate,
    no_new_files,
    partition_failing,
    schedule_late,
)
from assets.raw_files.facts import PartitionFact, PartitionStatus, PassKind
from tests.bad_inputs import bad_inputs
from tests.unit.raw_files.recorded import DAY, ONE_DAY, TICK, daily_pass, partition, partitions

MINUTE = timedelta(minutes=1)
HALF_AN_HOUR = timedelta(minutes=30)
FIRST_OF_MARCH = date(2026, 3, 1)
THREE_DAYS = [date(2026, 2, 27), date(2026, 2, 28), FIRST_OF_MARCH]
FAILED = PartitionStatus.FAILED


# no_new_files


def test_three_scanned_days_without_a_file_raise_an_alarm_across_a_months_end() -> None:
    alarm = no_new_files({}, THREE_DAYS, FIRST_OF_MARCH)
    assert alarm is not None
    assert (alarm.name, alarm.cause) == ("no_new_files", "raw_files:no_new_files")
    assert "2026-02-27 to 2026-03-01" in alarm.message


@pytest.mark.parametrize("day", THREE_DAYS)
def test_one_file_on_any_of_the_three_days_is_enough(day: date) -> None:
    assert no_new_files({day: 1}, THREE_DAYS, FIRST_OF_MARCH) is None


@pytest.mark.parametrize("day", THREE_DAYS)
def test_a_day_that_was_never_scanned_proves_nothing(day: date) -> None:
    scanned = [one for one in THREE_DAYS if one != day]
    assert no_new_files({}, scanned, FIRST_OF_MARCH) is None


def test_files_of_the_fourth_day_back_do_not_matter_and_a_counted_zero_is_no_file() -> None:
    files = {date(2026, 2, 26): 40, FIRST_OF_MARCH: 0}
    assert no_new_files(files, [date(2026, 2, 26), *THREE_DAYS], FIRST_OF_MARCH) is not None


def test_nothing_recorded_raises_no_alarm() -> None:
    assert no_new_files({}, [], DAY) is None
    assert failure_rate([]) == []
    assert partition_failing([], DAY) == []
    assert schedule_late([], [], TICK) is None
    assert daily_processing_failure([]) == []


# failure_rate


@pytest.mark.parametrize(
    ("succeeded", "failed", "raised"),
    [(4, 1, False), (3, 1, True), (80, 20, False), (79, 21, True), (0, 1, True), (5, 0, False)],
)
def test_a_fifth_of_the_partitions_may_fail_and_not_one_more(
    succeeded: int, failed: int, raised: bool
) -> None:
    assert bool(failure_rate(partitions(SUCCEEDED=succeeded, FAILED=failed))) is raised


def test_the_alarm_of_the_rate_tells_day_and_numbers() -> None:
    (alarm,) = failure_rate(partitions(SUCCEEDED=5, FAILED=3))
    assert alarm.cause == "raw_files:failure_rate:2026-01-30"
    assert "3 of 8" in alarm.message
    assert "37.5%" in alarm.message


def test_partitions_without_new_files_do_not_thin_the_rate() -> None:
    idle = [partition(category=f"idle{n}", new=0) for n in range(10)]
    assert failure_rate([*idle, *partitions(SUCCEEDED=3, FAILED=1)])


def test_partly_read_and_unfinished_partitions_have_not_failed() -> None:
    assert failure_rate(partitions(PARTLY=2, NEW=1, RUNNING=1, FAILED=1)) == []


def test_a_partition_that_failed_before_its_files_were_counted_is_not_left_out() -> None:
    assert failure_rate([partition(FAILED, new=0)])


def test_a_retry_under_way_does_not_clear_the_alarm() -> None:
    retried = partition(PartitionStatus.RUNNING, failures=1, finished_at=None)
    assert failure_rate([retried])
    assert failure_rate([partition(PartitionStatus.RUNNING, finished_at=None)]) == []


def test_each_day_is_judged_by_itself() -> None:
    bad_day = [partition(FAILED, day=DAY - ONE_DAY)]
    alarms = failure_rate([*bad_day, *partitions(SUCCEEDED=20)])
    assert [alarm.cause for alarm in alarms] == ["raw_files:failure_rate:2026-01-29"]


# partition_failing


def failing_on(*days: date, category: str = "news") -> list[PartitionFact]:
    return [partition(FAILED, day=day, category=category) for day in days]


def test_a_source_that_fails_on_three_dates_in_a_row_raises_its_own_alarm() -> None:
    facts = failing_on(*THREE_DAYS) + failing_on(*THREE_DAYS[1:], category="blog")
    (alarm,) = partition_failing(facts, FIRST_OF_MARCH)
    assert alarm.cause == "raw_files:partition_failing:kr/news"
    assert "2026-02-27 to 2026-03-01" in alarm.message


def test_sources_that_fail_in_turn_make_no_row_together() -> None:
    facts = [
        *failing_on(THREE_DAYS[0], THREE_DAYS[2]),
        *failing_on(THREE_DAYS[1], category="blog"),
    ]
    assert partition_failing(facts, FIRST_OF_MARCH) == []


@pytest.mark.parametrize("day", THREE_DAYS)
def test_a_date_without_new_files_or_with_a_success_breaks_the_row(day: date) -> None:
    others = failing_on(*(one for one in THREE_DAYS if one != day))
    assert partition_failing(others, FIRST_OF_MARCH) == []
    for status in (PartitionStatus.PARTLY, PartitionStatus.SUCCEEDED):
        assert partition_failing([*others, partition(status, day=day)], FIRST_OF_MARCH) == []


def test_a_row_that_ended_the_day_before_is_over() -> None:
    assert partition_failing(failing_on(*THREE_DAYS), FIRST_OF_MARCH + ONE_DAY) == []


# schedule_late


@pytest.mark.parametrize(("late", "raised"), [(HALF_AN_HOUR, False), (HALF_AN_HOUR + MINUTE, True)])
def test_a_pass_may_start_half_an_hour_late_and_no_later(late: timedelta, raised: bool) -> None:
    started = daily_pass(started_after=late)
    assert (schedule_late([started], [TICK], TICK + ONE_DAY) is not None) is raised


@pytest.mark.parametrize(("late", "raised"), [(HALF_AN_HOUR, False), (HALF_AN_HOUR + MINUTE, True)])
def test_a_slot_may_wait_half_an_hour_for_its_pass(late: timedelta, raised: bool) -> None:
    recorded = daily_pass(started_after=None, scanned_after=None)
    for passes in ([], [recorded]):
        assert (schedule_late(passes, [TICK], TICK + late) is not None) is raised


def test_the_alarm_of_the_schedule_names_the_slots_and_how_many_never_started() -> None:
    supplementary = TICK + timedelta(hours=12)
    late = daily_pass(started_after=timedelta(hours=1))
    alarm = schedule_late([late], [TICK, supplementary], supplementary + timedelta(hours=1))
    assert alarm is not None
    assert alarm.cause == "raw_files:schedule_late"
    assert "late: 2, not started: 1 (2026-01-31 00:00, 2026-01-31 12:00 UTC)" in alarm.message


@pytest.mark.parametrize("kind", [PassKind.ARRIVAL, PassKind.RETRY, PassKind.REQUEST])
def test_a_pass_of_another_kind_is_no_tick_and_makes_up_for_none(kind: PassKind) -> None:
    other = daily_pass(kind=kind, started_after=timedelta(hours=2))
    assert schedule_late([other], [], TICK + ONE_DAY) is None
    assert schedule_late([other], [TICK], TICK + ONE_DAY) is not None


def test_a_listing_that_failed_is_not_late() -> None:
    assert schedule_late([daily_pass(scanned_after=None)], [TICK], TICK + ONE_DAY) is None


def test_a_tick_that_came_twice_is_as_early_as_its_first() -> None:
    twice = [daily_pass(), daily_pass(started_after=timedelta(hours=2))]
    for passes in (twice, twice[::-1]):
        assert schedule_late(passes, [TICK], TICK + ONE_DAY) is None


def test_a_schedule_that_stood_still_for_a_month_makes_a_message_of_bounded_length() -> None:
    now = TICK + timedelta(hours=6)
    alarm = schedule_late([], expected_slots(now, timedelta(days=30)), now)
    assert alarm is not None
    assert "late: 60" in alarm.message
    assert "and 50 before" in alarm.message
    assert len(alarm.message) < 600


# daily_processing_failure


def test_the_fourth_failure_in_a_row_spends_the_retries() -> None:
    (alarm,) = daily_processing_failure([partition(FAILED, failures=4, processed=2)])
    assert alarm.cause == "raw_files:daily_processing_failure:kr/news:2026-01-30"
    assert "failed 4 times" in alarm.message
    assert "2 of its 5 new files" in alarm.message


def test_while_a_retry_is_due_or_left_nothing_is_spent() -> None:
    assert daily_processing_failure([partition(FAILED, failures=3)]) == []
    assert daily_processing_failure([partition(FAILED, failures=4, next_attempt_at=TICK)]) == []


def test_a_later_pass_that_succeeds_clears_the_alarm_and_one_that_runs_does_not() -> None:
    assert daily_processing_failure([partition(PartitionStatus.SUCCEEDED, failures=4)]) == []
    assert daily_processing_failure([partition(PartitionStatus.RUNNING, failures=4)])


def test_no_alarm_repeats_an_error_text() -> None:
    facts = [
        partition(FAILED, day=day, failures=4, error="<!channel> https://attacker.example")
        for day in THREE_DAYS
    ]
    alarms = [
        *failure_rate(facts),
        *partition_failing(facts, FIRST_OF_MARCH),
        *daily_processing_failure(facts),
    ]
    assert len(alarms) == 7
    assert not any("attacker" in alarm.message + alarm.cause for alarm in alarms)


# expected_slots


def test_the_slots_of_a_window_are_open_at_its_older_end() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert expected_slots(noon, ONE_DAY) == [noon - timedelta(hours=12), noon]
    assert expected_slots(noon - MINUTE, timedelta(hours=12)) == [noon - timedelta(hours=12)]
    assert expected_slots(noon, timedelta(0)) == []


def test_slots_are_in_utc_wherever_the_clock_hangs() -> None:
    in_honolulu = datetime(2026, 2, 28, 15, tzinfo=timezone(timedelta(hours=-10)))
    assert expected_slots(in_honolulu, timedelta(hours=2)) == [datetime(2026, 3, 1, tzinfo=UTC)]


@bad_inputs
@given(
    now=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    first=st.timedeltas(timedelta(0), timedelta(days=40)),
    second=st.timedeltas(timedelta(0), timedelta(days=40)),
)
def test_windows_that_follow_each_other_share_no_slot_and_miss_none(
    now: datetime, first: timedelta, second: timedelta
) -> None:
    both = expected_slots(now - first, second) + expected_slots(now, first)
    assert both == expected_slots(now, first + second)
    assert all(after - before == timedelta(hours=12) for before, after in pairwise(both))
