"""Which days the sensor of recommendations asks for, given what it saw."""

from datetime import date, timedelta

from sensors.day_runs import DAYS_A_TICK
from sensors.recommendations import recommendation_runs

TODAY, EARLIER = date(2026, 11, 27), date(2026, 11, 26)


def asked(*waiting: date, someone_is_due: bool = False, held: tuple[str, ...] = ()) -> list[str]:
    """The days of the runs that are asked for."""
    runs = recommendation_runs(waiting, TODAY, someone_is_due, set(held), tick=1)
    return [str(run.partition_key) for run in runs]


def test_where_nobody_is_due_and_nothing_waits_nothing_is_asked_for() -> None:
    assert asked() == []


def test_a_run_says_what_it_is_of_and_that_nobody_else_tries_it_again() -> None:
    (run,) = recommendation_runs([], TODAY, True, set(), tick=7)
    assert (run.run_key, run.partition_key) == ("2026-11-27:7", "2026-11-27")
    assert run.tags == {
        "lock": "recommendations:2026-11-27",
        "dagster/max_retries": "0",
        "dagster/priority": "10",
    }


def test_members_who_are_due_are_queued_today() -> None:
    assert asked(someone_is_due=True) == ["2026-11-27"]


def test_items_of_a_day_in_the_past_wait_for_a_run_of_that_day_alone() -> None:
    assert asked(EARLIER) == ["2026-11-26"]


def test_today_has_one_run_for_who_is_due_and_for_what_waits() -> None:
    assert asked(EARLIER, TODAY, someone_is_due=True) == ["2026-11-27", "2026-11-26"]


def test_a_day_with_a_live_run_is_left_to_it() -> None:
    held = ("recommendations:2026-11-27",)
    assert asked(EARLIER, TODAY, someone_is_due=True, held=held) == ["2026-11-26"]
    assert asked(TODAY, someone_is_due=True, held=held) == []


def test_a_live_run_that_embeds_products_keeps_no_day_back() -> None:
    assert asked(TODAY, held=("recommendations_products",)) == ["2026-11-27"]


def test_a_tick_asks_for_a_bounded_number_of_days_and_today_is_among_them() -> None:
    past = [TODAY - timedelta(days=number) for number in range(1, 3 * DAYS_A_TICK)]
    newest = [day.isoformat() for day in (TODAY, *past)]
    assert asked(*past, someone_is_due=True) == newest[:DAYS_A_TICK]
    held = tuple(f"recommendations:{day}" for day in newest[:DAYS_A_TICK])
    assert asked(*past, someone_is_due=True, held=held) == newest[DAYS_A_TICK : 2 * DAYS_A_TICK]


def test_a_tick_that_is_evaluated_twice_asks_for_the_same_run() -> None:
    keys = [recommendation_runs([TODAY], TODAY, False, set(), tick)[0].run_key for tick in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]
