"""Ticks of the sensors and the schedule, and the jobs for people: what starts, waits, is forgotten."""

from datetime import timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.context_tags import request_store
from resources import gate
from tests.integration.context_tags.context_runs import PRESETS_JOB, TAGS_JOB, Connect, ContextRuns
from tests.integration.context_tags.paid_runs import near_presets, post
from tests.integration.context_tags.scenes import Core
from tests.integration.context_tags.store_rows import put_state, states_of
from tests.integration.job_runs import DAY, NOON, days_of, only, shut_gate
from tests.integration.stand_ins import StandIn

REQUESTS, PRESETS, TEXTS = "context_requests_waiting", "preset_file_changed", "finished_texts_forgotten"
MINUTE, ONE_DAY = timedelta(minutes=1), timedelta(days=1)
LOCK = f"{TAGS_JOB}:{DAY}"
ALIVE, OVERDUE = 5 * MINUTE, timedelta(hours=2)


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon, as that of the ticks."""
    return connect(at=NOON.isoformat())


@pytest.fixture
def runs(database_url: str, openai_api: StandIn) -> ContextRuns:
    return ContextRuns(database_url, openai_api)


def texts(connection: psycopg.Connection) -> dict[int, str | None]:
    return dict(connection.execute("SELECT context_id, text FROM granary.context_request").fetchall())


# --- requests that wait -------------------------------------------------------------------------------------


def test_a_tick_that_finds_nothing_starts_no_run(runs: ContextRuns, core: Core) -> None:
    assert runs.sensor(REQUESTS) == "no request waits"


def test_each_day_with_requests_that_wait_has_a_run(runs: ContextRuns, core: Core, connect: Connect) -> None:
    post(connect(at=NOON.isoformat()), 1, 2)
    post(connect(at=(NOON - ONE_DAY).isoformat()), 3)
    assert days_of(runs.sensor(REQUESTS)) == ["2026-11-27", "2026-11-26"]


def test_what_a_run_has_settled_starts_no_other(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    near_presets(core, openai_api.url)
    core.add(1)
    post(noon, 1)
    assert days_of(runs.sensor(REQUESTS)) == [str(DAY)]
    assert runs.tag().success
    assert runs.sensor(REQUESTS) == "no request waits"
    post(noon, 1)  # the application asks again
    assert days_of(runs.sensor(REQUESTS)) == [str(DAY)]


def test_a_day_whose_run_is_queued_or_under_way_is_left_to_it(
    runs: ContextRuns, core: Core, connect: Connect
) -> None:
    post(connect(at=NOON.isoformat()), 1)
    runs.live_run(TAGS_JOB, LOCK)
    assert runs.sensor(REQUESTS) == "every day with requests that wait has a live run"
    post(connect(at=(NOON - ONE_DAY).isoformat()), 2)
    assert days_of(runs.sensor(REQUESTS)) == ["2026-11-26"]


@pytest.mark.parametrize(("since", "keeps_the_day"), [(ALIVE, True), (OVERDUE, False)])
def test_a_run_past_its_time_keeps_no_day_back(
    since: timedelta, keeps_the_day: bool, runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    runs.live_run(TAGS_JOB, LOCK, since=since)
    assert days_of(runs.sensor(REQUESTS)) == ([] if keeps_the_day else [str(DAY)])


def test_without_keywords_the_tick_says_which_job_comes_first(
    runs: ContextRuns, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    assert PRESETS_JOB in str(runs.sensor(REQUESTS))


@pytest.mark.parametrize("model", ["embeddings", "chat"])
def test_behind_a_shut_gate_no_run_starts_until_its_probe_is_due(
    model: str, runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    shut_gate(noon, runs.resources[model])
    said = runs.sensor(REQUESTS)
    assert isinstance(said, str) and runs.resources[model].model in said
    assert "the AI gate is shut (AUTH" in said and "next probe 12:05" in said
    noon.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    assert days_of(runs.sensor(REQUESTS)) == [str(DAY)]


def test_a_probe_that_is_due_starts_no_run_while_the_other_models_gate_is_shut(
    runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    shut_gate(noon, runs.resources["embeddings"], probe_is_due=True)
    shut_gate(noon, runs.resources["chat"])
    assert runs.resources["chat"].model in str(runs.sensor(REQUESTS))


def test_a_cap_of_yesterday_keeps_nothing_back(
    runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    shut_gate(noon, runs.resources["chat"], "BUDGET", probe_is_due=True)
    assert days_of(runs.sensor(REQUESTS)) == [str(DAY)]


# --- texts --------------------------------------------------------------------------------------------------


def test_texts_are_forgotten_once_both_stages_ended_and_after_a_day_whatever_else(
    runs: ContextRuns, core: Core, connect: Connect, noon: psycopg.Connection
) -> None:
    post(noon, 1, 2, 3, 4)
    post(connect(at=(NOON - ONE_DAY - MINUTE).isoformat()), 5)
    post(connect(at=(NOON - ONE_DAY + MINUTE).isoformat()), 6)
    core.add(1, embedding="COMPLETED", keyword="FAILED")
    core.add(2, embedding="CANCELLED", keyword="CANCELLED")
    core.add(3, embedding="COMPLETED")
    core.add(5, 6)
    assert runs.sensor(TEXTS) == "3 texts forgotten"
    assert {id_ for id_, text in texts(noon).items() if text is None} == {1, 2, 5}
    assert runs.sensor(TEXTS) == "0 texts forgotten"


def test_texts_are_forgotten_behind_a_shut_gate_too(
    runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    core.add(1, embedding="CANCELLED", keyword="CANCELLED")
    shut_gate(noon, runs.resources["chat"])
    runs.sensor(TEXTS)
    assert texts(noon) == {1: None}


# --- the application's part ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({}, False),
        ({"granary_pipelines": ["context_tags"]}, False),
        ({"context_own_state": True}, False),
        ({"granary_pipelines": ["context_tags"], "context_own_state": True}, True),
    ],
    ids=["neither", "an application", "the pipeline is off", "ours"],
)
def test_the_schedule_is_off_where_an_application_keeps_the_states(
    settings: dict[str, Any], is_on: bool, database_url: str, openai_api: StandIn
) -> None:
    defs = ContextRuns(database_url, openai_api, **settings).defs
    status = defs.resolve_schedule_def("context_rescan").default_status
    assert (status is dg.DefaultScheduleStatus.RUNNING) is is_on
    pipeline_is_on = "granary_pipelines" in settings
    for name in (REQUESTS, PRESETS, TEXTS):
        sensor = defs.resolve_sensor_def(name).default_status
        assert (sensor is dg.DefaultSensorStatus.RUNNING) is pipeline_is_on


@pytest.fixture
def own_runs(database_url: str, openai_api: StandIn) -> ContextRuns:
    return ContextRuns(database_url, openai_api, context_own_state=True)


def test_where_nothing_waits_too_long_the_schedule_starts_no_run(
    own_runs: ContextRuns, noon: psycopg.Connection
) -> None:
    put_state(noon, 1, minutes_ago=4)
    put_state(noon, 2, embedding="PROCESSING", minutes_ago=9)
    put_state(noon, 3, embedding="COMPLETED", keyword="COMPLETED", minutes_ago=60)
    assert own_runs.schedule("context_rescan") == "nothing waits too long"


def test_what_waits_too_long_is_sent_again_and_what_was_sent_three_times_ends_as_failed(
    own_runs: ContextRuns, connect: Connect, noon: psycopg.Connection
) -> None:
    put_state(noon, 1, minutes_ago=6)
    put_state(noon, 2, embedding="COMPLETED", keyword="PROCESSING", minutes_ago=11)
    put_state(noon, 3, minutes_ago=6, retries=3)
    put_state(noon, 4, minutes_ago=4)
    earlier = connect(at=(NOON - 20 * MINUTE).isoformat())
    post(earlier, 1, 2, 3)
    request_store.handled(earlier, request_store.waiting(earlier, None, 10))
    assert request_store.days_waiting(noon) == []

    asked = only(own_runs.schedule("context_rescan"))
    assert (asked.run_key, asked.tags["lock"]) == (NOON.isoformat(), "context_tags_rescan")
    assert own_runs.run("context_tags_rescan").success
    assert states_of(noon) == {
        1: ("PENDING", "PENDING"),
        2: ("COMPLETED", "PROCESSING"),
        3: ("FAILED", "FAILED"),
        4: ("PENDING", "PENDING"),
    }
    assert {one.context_id for one in request_store.waiting(noon, None, 10)} == {1, 2}
    assert own_runs.schedule("context_rescan") == "nothing waits too long"


def test_a_slot_that_is_evaluated_twice_asks_for_the_same_run(
    own_runs: ContextRuns, noon: psycopg.Connection
) -> None:
    put_state(noon, 1, minutes_ago=6)
    keys = [only(own_runs.schedule("context_rescan")).run_key for _ in range(2)]
    assert keys[0] == keys[1] == NOON.isoformat()


# --- the gates, by hand -------------------------------------------------------------------------------------


def test_resuming_opens_both_gates_and_clears_their_alarms_and_no_others(
    runs: ContextRuns, core: Core, noon: psycopg.Connection
) -> None:
    post(noon, 1)
    other = runs.resources["chat"].model_copy(update={"model": "gpt-4o"})
    for one in (runs.resources["embeddings"], runs.resources["chat"], other):
        shut_gate(noon, one)
    assert isinstance(runs.sensor(REQUESTS), str)
    assert runs.run("context_tags_resume_suspended").success
    assert [gate.read(noon, runs.resources[name].gate_key) for name in ("embeddings", "chat")] == [None, None]
    assert gate.read(noon, other.gate_key) is not None
    standing = core.rows("SELECT cause FROM granary.alert WHERE cleared_at IS NULL")
    assert standing == [{"cause": "gate:gpt-4o"}]
    assert days_of(runs.sensor(REQUESTS)) == [str(DAY)]


def test_resuming_where_no_gate_is_shut_changes_nothing(runs: ContextRuns, noon: psycopg.Connection) -> None:
    result = runs.run("context_tags_resume_suspended")
    assert result.success
    assert "none was shut" in runs.told()
