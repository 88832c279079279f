"""Which days the sensor of context_tags asks for, given what it saw."""

from datetime import date, timedelta

from sensors.context_tags import TAGS_JOB
from sensors.day_runs import DAYS_A_TICK, day_runs

DAY, EARLIER = date(2026, 11, 27), date(2026, 11, 26)


def asked(*days: date, held: tuple[str, ...] = ()) -> list[str]:
    """The days of the runs that are asked for."""
    return [str(run.partition_key) for run in day_runs(TAGS_JOB, days, set(held), tick=1)]


def test_nothing_that_waits_asks_for_nothing() -> None:
    assert asked() == []


def test_a_run_says_what_it_is_of_and_that_nobody_else_tries_it_again() -> None:
    (run,) = day_runs(TAGS_JOB, [DAY], set(), tick=7)
    assert (run.run_key, run.partition_key) == ("2026-11-27:7", "2026-11-27")
    assert run.tags == {
        "lock": "context_tags:2026-11-27",
        "dagster/max_retries": "0",
        "dagster/priority": "10",
    }


def test_every_day_has_a_run_of_its_own_the_newest_first() -> None:
    assert asked(EARLIER, DAY) == ["2026-11-27", "2026-11-26"]


def test_a_day_with_a_live_run_is_left_to_it() -> None:
    assert asked(EARLIER, DAY, held=("context_tags:2026-11-27",)) == ["2026-11-26"]
    assert asked(DAY, held=("context_tags:2026-11-27",)) == []


def test_a_live_run_of_another_job_keeps_no_day_back() -> None:
    assert asked(DAY, held=("context_tags_presets", "recommendations:2026-11-27")) == ["2026-11-27"]


def test_a_tick_asks_for_a_bounded_number_of_days_and_days_with_a_live_run_do_not_count() -> None:
    days = [DAY - timedelta(days=number) for number in range(3 * DAYS_A_TICK)]
    newest = [day.isoformat() for day in days]
    assert asked(*days) == newest[:DAYS_A_TICK]
    held = tuple(f"context_tags:{day}" for day in newest[:DAYS_A_TICK])
    assert asked(*days, held=held) == newest[DAYS_A_TICK : 2 * DAYS_A_TICK]


def test_a_tick_that_is_evaluated_twice_asks_for_the_same_run() -> None:
    keys = [day_runs(TAGS_JOB, [DAY], set(), tick)[0].run_key for tick in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]
