"""What is wrong, decided from facts: tables at the edges of each rule."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from operations.alarm_facts import SEOUL, Facts, LateSchedule, Watched
from operations.alarms import asks_for_recipes, causes_over, standing_alarms

NOON = datetime(2026, 11, 30, 12, tzinfo=SEOUL)
TODAY, YESTERDAY = date(2026, 11, 30), date(2026, 11, 29)
ALL = Watched(
    frozenset({"economy_news", "raw_files", "recipes", "context_tags", "recommendations"}),
    crawls=True,
    fetches_recipes=True,
    spending_cap_usd=Decimal(5),
)
LONG_AGO = NOON - timedelta(days=3)
ON = {"economy_news_every_five_minutes": LONG_AGO, "recipes_every_day": LONG_AGO}
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
QUIET = Facts(NOON, ALL, on_since=ON, newest_article_at=NOON - MINUTE)
HEADINGS = ("The quota is spent", "The key was revoked", "The site changed its layout", "A batch is stuck")
MORE_HEADINGS = ("The backlog grows", "A day has to be done again", "The database was restored from a backup")


def causes(facts: Facts) -> list[str]:
    return [alarm.cause for alarm in standing_alarms(facts)]


def over(facts: Facts) -> list[str]:
    return causes_over(facts, standing_alarms(facts))


def at(hour: float, facts: Facts = QUIET) -> Facts:
    """The same at another time of the day; the newest article stays a minute old."""
    now = NOON.replace(hour=0) + timedelta(hours=hour)
    return replace(facts, now=now, newest_article_at=now - MINUTE)


def test_where_all_is_well_nothing_is_told() -> None:
    assert causes(QUIET) == [] and over(QUIET) == []


@pytest.mark.parametrize(
    ("used", "is_spent", "cap", "expected"),
    [
        ("3.99999999", False, "5", []),
        ("4", False, "5", ["spending:80"]),
        ("4.99", False, "5", ["spending:80"]),
        ("4.99", True, "5", ["spending:100"]),
        ("5", False, "5", ["spending:100"]),
        ("6", False, "5", ["spending:100"]),
        ("0", False, "0", []),
        ("99", False, None, []),
    ],
)
def test_spending_is_told_from_four_fifths_of_the_cap_on(
    used: str, is_spent: bool, cap: str | None, expected: list[str]
) -> None:
    watched = replace(ALL, spending_cap_usd=None if cap is None else Decimal(cap))
    assert causes(replace(QUIET, watched=watched, used_usd=Decimal(used), is_spent=is_spent)) == expected


def test_spending_is_over_on_the_next_day_and_not_when_money_comes_back() -> None:
    assert over(replace(QUIET, standing={"spending:80": TODAY, "spending:100": TODAY})) == []
    assert over(replace(QUIET, standing={"spending:80": YESTERDAY})) == ["spending:80"]


@pytest.mark.parametrize(
    ("hour", "silent_for", "expected"),
    [
        (9.99, 9 * HOUR, False),  # of the night
        (10, 3 * HOUR, True),
        (12, 3 * HOUR - MINUTE, False),
        (23.99, 4 * HOUR, True),
    ],
)
def test_no_article_for_three_hours_of_the_day_is_told(
    hour: float, silent_for: timedelta, expected: bool
) -> None:
    facts = at(hour)
    facts = replace(facts, newest_article_at=facts.now - silent_for)
    assert ("nothing_new:economy_news" in causes(facts)) is expected


def test_no_article_is_expected_where_nothing_crawls_by_itself_for_so_long() -> None:
    silent = replace(QUIET, newest_article_at=None)
    assert causes(silent) == ["nothing_new:economy_news"]
    assert causes(replace(silent, watched=replace(ALL, crawls=False))) == []
    assert causes(replace(silent, watched=replace(ALL, pipelines=frozenset({"recipes"})))) == []
    assert causes(replace(silent, on_since={})) == []
    started = {"economy_news_every_five_minutes": NOON - 3 * HOUR + MINUTE}
    assert causes(replace(silent, on_since=started)) == []


def test_what_was_silent_in_the_evening_is_not_over_at_night_but_with_the_next_article() -> None:
    night = replace(at(2), standing={"nothing_new:economy_news": YESTERDAY})
    silent = replace(night, newest_article_at=night.now - 6 * HOUR)
    assert causes(silent) == [] and over(silent) == []
    assert over(night) == ["nothing_new:economy_news"]


@pytest.mark.parametrize(("hour", "expected"), [(12.99, []), (13, ["nothing_new:recipes"])])
def test_recipes_that_are_not_fetched_by_one_are_told(hour: float, expected: list[str]) -> None:
    assert causes(at(hour)) == expected
    assert causes(replace(at(hour), recipes_fetched_today=True)) == []


def test_recipes_are_not_expected_of_a_schedule_that_was_off_at_eleven() -> None:
    late = replace(at(14), on_since={"recipes_every_day": NOON.replace(hour=11, minute=1)})
    assert causes(late) == []
    assert causes(at(14, replace(QUIET, watched=replace(ALL, fetches_recipes=False)))) == []


def test_recipes_missed_are_over_only_when_a_day_is_fetched() -> None:
    next_morning = replace(at(9), standing={"nothing_new:recipes": YESTERDAY})
    assert over(next_morning) == []
    assert over(replace(next_morning, recipes_fetched_today=True)) == ["nothing_new:recipes"]
    assert asks_for_recipes(next_morning) and not asks_for_recipes(at(9)) and asks_for_recipes(at(13))


@pytest.mark.parametrize("pipeline", ["context_tags", "recommendations"])
def test_what_waits_over_ten_minutes_is_told(pipeline: str) -> None:
    waiting = replace(QUIET, waiting={pipeline: NOON - 10 * MINUTE})
    assert causes(waiting) == []
    longer = replace(QUIET, waiting={pipeline: NOON - 10 * MINUTE - timedelta(seconds=1)})
    assert causes(longer) == [f"waiting:{pipeline}"]
    assert causes(replace(longer, watched=replace(ALL, pipelines=frozenset()))) == []


def test_three_leases_lost_in_ten_minutes_are_told() -> None:
    assert causes(replace(QUIET, leases_lost={"economy_news": 2})) == []
    assert causes(replace(QUIET, leases_lost={"economy_news": 3})) == ["leases_lost:economy_news"]


def test_what_is_held_by_dead_runs_is_told() -> None:
    found = replace(QUIET, running_long={"economy_news": 0, "context_tags": 2})
    assert causes(found) == ["running_long:context_tags"]


@pytest.mark.parametrize(
    ("requests", "errors", "expected"),
    [(19, 19, []), (20, 1, []), (20, 2, ["api_errors"]), (1_000, 50, []), (1_000, 51, ["api_errors"])],
)
def test_over_five_percent_of_twenty_requests_are_told(
    requests: int, errors: int, expected: list[str]
) -> None:
    assert causes(replace(QUIET, requests=requests, errors=errors)) == expected


def test_a_batch_is_stuck_after_twenty_six_hours() -> None:
    assert causes(replace(QUIET, open_batches={"recipes": NOON - 26 * HOUR})) == []
    stuck = replace(QUIET, open_batches={"recipes": NOON - 26 * HOUR - MINUTE})
    assert causes(stuck) == ["batch_stuck:recipes"]


def test_late_schedules_and_failing_sensors_are_told_by_name() -> None:
    found = replace(
        QUIET,
        late_schedules=(LateSchedule("metadata_sync", NOON - HOUR, None),),
        failing_sensors=("members_due",),
        failing_schedules=("recipes_every_day",),
    )
    assert causes(found) == [
        "schedule_late:metadata_sync",
        "sensor_failing:members_due",
        "schedule_failing:recipes_every_day",
    ]


def test_a_failed_run_is_over_when_its_job_has_succeeded_since() -> None:
    standing = {"run:recipes_fetch": YESTERDAY, "run:context_tags": TODAY}
    recovered = replace(QUIET, standing=standing, recovered=frozenset({"run:recipes_fetch"}))
    assert over(recovered) == ["run:recipes_fetch"]


@pytest.mark.parametrize(
    ("unreadable", "stay"),
    [
        ("spending", ["spending:80"]),
        ("batch_stuck", ["batch_stuck:recipes"]),
        ("batch_stuck:economy_news", []),
        ("waiting:context_tags", ["waiting:context_tags"]),
        ("leases_lost", ["leases_lost:context_tags"]),
        ("api_errors", ["api_errors"]),
    ],
)
def test_what_cannot_be_read_is_told_and_its_causes_stay(unreadable: str, stay: list[str]) -> None:
    standing = ["api_errors", "batch_stuck:recipes", "leases_lost:context_tags", "spending:80"]
    standing += ["waiting:context_tags"]
    facts = replace(QUIET, standing=dict.fromkeys(standing, YESTERDAY), unreadable=frozenset({unreadable}))
    assert causes(facts) == [f"facts_unreadable:{unreadable}"]
    assert over(facts) == [cause for cause in standing if cause not in stay]


def test_what_others_raise_is_never_cleared_here() -> None:
    others = ("gate:gpt-4o-mini", "raw_files:schedule_late", "economy_news:list_layout", "heartbeat")
    assert over(replace(QUIET, standing=dict.fromkeys(others, YESTERDAY))) == []


def test_what_no_longer_holds_is_over() -> None:
    gone = (
        "api_errors",
        "batch_stuck:recipes",
        "facts_unreadable:spending",
        "leases_lost:economy_news",
        "running_long:context_tags",
        "schedule_failing:recipes_every_day",
        "schedule_late:metadata_sync",
        "sensor_failing:members_due",
        "waiting:context_tags",
    )
    assert over(replace(QUIET, standing=dict.fromkeys(gone, TODAY))) == list(gone)


def test_every_message_names_a_heading_of_the_runbook_and_a_time_with_its_zone() -> None:
    everything = replace(
        at(14),
        used_usd=Decimal(5),
        newest_article_at=NOON - 5 * HOUR,
        waiting={"context_tags": LONG_AGO.astimezone(UTC), "recommendations": LONG_AGO},
        running_long={"economy_news": 3},
        leases_lost={"economy_news": 4},
        requests=100,
        errors=100,
        open_batches={"recipes": LONG_AGO},
        late_schedules=(LateSchedule("metadata_sync", NOON, NOON - HOUR),),
        failing_sensors=("members_due",),
        unreadable=frozenset({"batch_stuck"}),
    )
    alarms = standing_alarms(everything)
    assert len(alarms) == 12
    for alarm in alarms:
        assert any(f'docs/runbook.md, "{heading}".' in alarm.message for heading in HEADINGS + MORE_HEADINGS)
    messages = {alarm.cause: alarm.message for alarm in alarms}
    assert "2026-11-27 12:00 KST" in messages["waiting:context_tags"]
    assert "5.0000 of 5 USD" in messages["spending:100"]
