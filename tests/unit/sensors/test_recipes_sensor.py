"""What the sensor of recipes asks for, given what it saw."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any

import pytest

from assets.recipes.models import BatchKind, WaitingWork
from assets.recipes.statuses import Status
from sensors.recipes import RUNS_A_TICK, Seen, lock_of_day, runs_to_start, why_none

DAY, EARLIER = "2026-11-27", "2026-11-26"
PARSE, EMBED = BatchKind.PARSE, BatchKind.EMBED
SUBMIT, PARSED, EMBEDDED = "recipes_parse_submit", "recipes_parsed", "recipes_embedded"


def asked(seen: Seen, held: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The days and jobs of the runs that are asked for."""
    runs = runs_to_start(seen, set(held), tick=1)
    return [(str(run.partition_key), str(run.job_name)) for run in runs]


def waiting(*statuses: Status, day: str = DAY) -> tuple[WaitingWork, ...]:
    return tuple(WaitingWork(day, status, 3) for status in statuses)


def at(*kinds: BatchKind, day: str = DAY) -> frozenset[tuple[str, BatchKind]]:
    return frozenset((day, kind) for kind in kinds)


def test_where_nothing_is_over_and_nothing_waits_nothing_is_asked_for() -> None:
    assert asked(Seen(open=2)) == []
    assert why_none(Seen(open=2)) == "2 batches are open and none is over; nothing waits"


@pytest.mark.parametrize(
    ("seen", "job"),
    [
        (Seen(over=at(PARSE)), PARSED),
        (Seen(over=at(EMBED)), EMBEDDED),
        (Seen(dead=at(PARSE)), SUBMIT),
        (Seen(dead=at(EMBED)), PARSED),
        (Seen(waiting=waiting(Status.FETCHED)), SUBMIT),
        (Seen(waiting=waiting(Status.PARSE_RETRIEVED)), PARSED),
        (Seen(waiting=waiting(Status.PERSISTED)), PARSED),
    ],
)
def test_what_is_over_dead_or_waits_starts_the_job_that_goes_on_with_it(seen: Seen, job: str) -> None:
    assert asked(seen) == [(DAY, job)]


def test_a_run_says_what_it_is_of_and_that_nobody_else_tries_it_again() -> None:
    (run,) = runs_to_start(Seen(over=at(PARSE)), set(), tick=7)
    assert run.run_key == "recipes_parsed:2026-11-27:7"
    assert run.tags == {
        "lock": "recipes:2026-11-27",
        "dagster/max_retries": "0",
        "dagster/priority": "5",
    }


def test_a_day_has_one_run_and_the_stage_that_is_furthest_goes_first() -> None:
    everything = Seen(
        waiting=waiting(Status.FETCHED, Status.PARSE_RETRIEVED, Status.PERSISTED),
        dead=at(PARSE, EMBED),
        over=at(PARSE, EMBED),
    )
    assert asked(everything) == [(DAY, EMBEDDED)]
    assert asked(Seen(waiting=everything.waiting, over=at(PARSE))) == [(DAY, PARSED)]
    assert asked(Seen(waiting=waiting(Status.FETCHED, Status.PERSISTED))) == [(DAY, PARSED)]


def test_a_day_with_a_live_run_is_left_to_it() -> None:
    seen = Seen(waiting=waiting(Status.FETCHED), over=at(PARSE, day=EARLIER))
    assert asked(seen, held=[lock_of_day(EARLIER)]) == [(DAY, SUBMIT)]


def test_a_tick_asks_for_a_bounded_number_of_days_the_oldest_first() -> None:
    days = [(date(2026, 11, 27) - timedelta(days=number)).isoformat() for number in range(30)]
    seen = Seen(over=frozenset((day, PARSE) for day in days))
    assert [day for day, _ in asked(seen)] == sorted(days)[:RUNS_A_TICK]
    held = {lock_of_day(day) for day in sorted(days)[:RUNS_A_TICK]}
    assert [day for day, _ in asked(seen, held)] == sorted(days)[RUNS_A_TICK : 2 * RUNS_A_TICK]


def test_a_tick_that_is_evaluated_twice_asks_for_the_same_run() -> None:
    keys = [runs_to_start(Seen(over=at(PARSE)), set(), tick)[0].run_key for tick in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]


# --- what must wait -----------------------------------------------------------------------------------------

EVERYTHING_WAITS = waiting(Status.FETCHED) + waiting(Status.PERSISTED, day=EARLIER)


@pytest.mark.parametrize("limits", [{"shut": {PARSE: "QUOTA"}}, {"no_room": {PARSE: "MAX_ENQUEUED_TOKENS"}}])
def test_what_keeps_one_model_back_does_not_keep_the_other(limits: dict[str, Any]) -> None:
    assert asked(Seen(waiting=EVERYTHING_WAITS, **limits)) == [(EARLIER, PARSED)]


@pytest.mark.parametrize("limits", [{"shut": {EMBED: "MODEL"}}, {"no_room": {EMBED: "token_limit_exceeded"}}])
def test_recipes_are_sent_to_be_parsed_while_none_can_be_embedded(limits: dict[str, Any]) -> None:
    assert asked(Seen(waiting=EVERYTHING_WAITS, **limits)) == [(DAY, SUBMIT)]


def test_where_nothing_that_waits_can_be_sent_no_run_starts_and_the_tick_says_why() -> None:
    seen = Seen(
        waiting=EVERYTHING_WAITS,
        dead=at(EMBED),
        shut={EMBED: "AUTH"},
        no_room={PARSE: "token_limit_exceeded"},
        open=1,
    )
    assert asked(seen) == []
    said = (
        "what is over or waits has a live run, rests, or must wait; embed: AUTH; parse: token_limit_exceeded"
    )
    assert why_none(seen) == said


def test_a_dead_runs_batch_is_looked_for_without_room_but_not_behind_a_shut_gate() -> None:
    dead = at(PARSE, EMBED)
    full = {PARSE: "MAX_ENQUEUED_TOKENS", EMBED: "MAX_ENQUEUED_TOKENS"}
    assert asked(Seen(dead=dead, no_room=full)) == [(DAY, PARSED)]
    assert asked(Seen(dead=dead, shut={EMBED: "QUOTA"})) == [(DAY, SUBMIT)]
    assert asked(Seen(dead=dead, shut={EMBED: "QUOTA", PARSE: "QUOTA"})) == []


@pytest.mark.parametrize(("reason", "is_asked"), [("QUOTA", True), ("BUDGET", True), ("AUTH", False)])
def test_results_that_are_paid_for_are_taken_in_unless_the_key_is_refused(
    reason: str, is_asked: bool
) -> None:
    for kind, job in ((PARSE, PARSED), (EMBED, EMBEDDED)):
        seen = Seen(over=at(kind), shut={kind: reason}, no_room={kind: "BUDGET"})
        assert asked(seen) == ([(DAY, job)] if is_asked else [])


@pytest.mark.parametrize(
    ("limits", "is_asked"),
    [
        ({}, True),
        ({"no_room": {EMBED: "token_limit_exceeded"}}, True),
        ({"no_room": {EMBED: "MAX_ENQUEUED_TOKENS"}}, True),
        ({"no_room": {EMBED: "BUDGET"}}, False),
        ({"shut": {EMBED: "QUOTA"}}, False),
        ({"shut": {PARSE: "AUTH"}}, True),
    ],
    ids=str,
)
def test_recipes_are_stored_where_their_ingredients_names_may_be_embedded(
    limits: dict[str, Any], is_asked: bool
) -> None:
    seen = Seen(waiting=waiting(Status.PARSE_RETRIEVED), **limits)
    assert asked(seen) == ([(DAY, PARSED)] if is_asked else [])
