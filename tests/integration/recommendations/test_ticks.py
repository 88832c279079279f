"""Ticks of the sensors, the ends of runs, and the job for people."""

from datetime import timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest

from tests.integration.job_runs import DAY, NOON, days_of, only, shut_gate, why
from tests.integration.recommendations.factories import Connect, items
from tests.integration.recommendations.recommendation_runs import (
    HOUR,
    MEMBERS_JOB,
    ONE_DAY,
    PRODUCTS_JOB,
    RecommendationRuns,
    due,
    products,
    queued,
    statuses,
)
from tests.integration.stand_ins import StandIn

MEMBERS, PRODUCTS = "members_due", "product_texts_changed"
REQUEUE = "requeue_failed_members"
LOCK = f"{MEMBERS_JOB}:{DAY}"
MINUTE = timedelta(minutes=1)
ENDS = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon, as that of the ticks."""
    return connect(at=NOON.isoformat())


@pytest.fixture
def runs(database_url: str, openai_api: StandIn) -> RecommendationRuns:
    return RecommendationRuns(database_url, openai_api)


# --- members ------------------------------------------------------------------------------------------------


def test_a_tick_that_finds_nothing_starts_no_run(runs: RecommendationRuns, noon: psycopg.Connection) -> None:
    queued(noon, 1, "SUCCEEDED")
    queued(noon, 2, "FAILED")
    queued(noon, 3, "RUNNING")
    assert runs.sensor(MEMBERS) == "nobody is due and no item waits"


def test_a_member_is_due_by_the_databases_clock_and_starts_a_run_of_its_day(
    database_url: str, openai_api: StandIn, noon: psycopg.Connection
) -> None:
    due(noon, 1)
    early = RecommendationRuns(database_url, openai_api, at=NOON - MINUTE / 60)
    assert early.sensor(MEMBERS) == "nobody is due and no item waits"
    assert days_of(RecommendationRuns(database_url, openai_api).sensor(MEMBERS)) == [str(DAY)]
    late = RecommendationRuns(database_url, openai_api, at=NOON + 12 * HOUR)
    assert days_of(late.sensor(MEMBERS)) == ["2026-11-28"]


def test_a_visit_in_the_table_starts_a_run(runs: RecommendationRuns, noon: psycopg.Connection) -> None:
    noon.execute("INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (1, granary.now())")
    assert days_of(runs.sensor(MEMBERS)) == [str(DAY)]
    assert runs.run(MEMBERS_JOB, DAY).success
    assert runs.sensor(MEMBERS) == "nobody is due and no item waits"


def test_items_of_a_past_day_start_a_run_of_that_day_and_who_is_due_one_of_today(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    queued(noon, 1, queued_at=NOON - 3 * ONE_DAY)
    assert days_of(runs.sensor(MEMBERS)) == ["2026-11-24"]
    due(noon, 2)
    assert days_of(runs.sensor(MEMBERS)) == ["2026-11-27", "2026-11-24"]


def test_items_of_a_dead_run_start_a_run_once_their_lease_is_over(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 2)
    queued(noon, 1, "RUNNING", queued_at=NOON - ONE_DAY, lease_until=NOON - MINUTE)
    assert days_of(runs.sensor(MEMBERS)) == ["2026-11-26"]
    assert runs.run(MEMBERS_JOB, DAY - ONE_DAY).success
    assert statuses(noon) == {1: "SUCCEEDED"}
    assert runs.sensor(MEMBERS) == "nobody is due and no item waits"


def test_a_day_whose_run_is_queued_is_left_to_it(runs: RecommendationRuns, noon: psycopg.Connection) -> None:
    due(noon, 1)
    queued(noon, 2)
    runs.live_run(MEMBERS_JOB, LOCK)
    assert runs.sensor(MEMBERS) == "every day with work has a live run"
    queued(noon, 3, queued_at=NOON - ONE_DAY)
    assert days_of(runs.sensor(MEMBERS)) == ["2026-11-26"]


@pytest.mark.parametrize(("since", "keeps_the_day"), [(25 * MINUTE, True), (45 * MINUTE, False)])
def test_a_run_keeps_its_day_for_the_time_that_its_job_may_take(
    since: timedelta, keeps_the_day: bool, runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    due(noon, 1)
    runs.live_run(MEMBERS_JOB, LOCK, since=since)
    most = runs.defs.resolve_job_def(MEMBERS_JOB).tags["dagster/max_runtime"]
    assert (since.total_seconds() < int(most)) is keeps_the_day
    assert days_of(runs.sensor(MEMBERS)) == ([] if keeps_the_day else [str(DAY)])


# --- products -----------------------------------------------------------------------------------------------


def test_products_without_a_vector_start_one_run(runs: RecommendationRuns, noon: psycopg.Connection) -> None:
    assert runs.sensor(PRODUCTS) == "every active product has its vector"
    products(noon, 2)
    asked = only(runs.sensor(PRODUCTS))
    assert asked.tags == {"lock": PRODUCTS_JOB, "dagster/max_retries": "0"}
    runs.live_run(PRODUCTS_JOB, PRODUCTS_JOB)
    assert runs.sensor(PRODUCTS) == "a run embeds them already"
    assert runs.run(PRODUCTS_JOB).success
    assert runs.sensor(PRODUCTS) == "every active product has its vector"


def test_products_wait_for_the_gate_until_its_probe_is_due(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 2)
    shut_gate(noon, runs.resources["embeddings"], "QUOTA")
    said = str(runs.sensor(PRODUCTS))
    assert "the AI gate is shut (QUOTA" in said and "next probe 12:05" in said
    noon.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    assert only(runs.sensor(PRODUCTS))


def test_a_shut_gate_keeps_no_member_back(runs: RecommendationRuns, noon: psycopg.Connection) -> None:
    products(noon, 2)
    due(noon, 1)
    shut_gate(noon, runs.resources["embeddings"])
    assert days_of(runs.sensor(MEMBERS)) == [str(DAY)]
    assert runs.run(MEMBERS_JOB, DAY).success
    assert statuses(noon) == {1: "SUCCEEDED"}


@pytest.mark.parametrize("pipelines", [[], ["recommendations"]], ids=["off", "on"])
def test_the_sensors_run_by_themselves_where_the_pipeline_is_named(
    pipelines: list[str], database_url: str, openai_api: StandIn
) -> None:
    defs = RecommendationRuns(database_url, openai_api, granary_pipelines=pipelines).defs
    for name in (MEMBERS, PRODUCTS):
        status = defs.resolve_sensor_def(name).default_status
        assert (status is dg.DefaultSensorStatus.RUNNING) is bool(pipelines)


# --- runs that ended ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ENDS)
def test_what_an_ended_run_held_is_free_at_once_and_nobody_elses(
    end: dg.DagsterRunStatus, runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    for member_id, claimed_by, returns in ((1, "run-a", 0), (2, "run-a", 1), (3, "run-ab", 0)):
        queued(noon, member_id, "RUNNING", claimed_by=claimed_by, returns=returns)
    queued(noon, 4, "SUCCEEDED")
    assert runs.sensor(MEMBERS) == "nobody is due and no item waits"
    ended = dg.DagsterRun(job_name=MEMBERS_JOB, run_id="run-a")
    runs.end(ended, end)
    assert statuses(noon) == {1: "PENDING", 2: "FAILED", 3: "RUNNING", 4: "SUCCEEDED"}
    assert [item["error"] for item in items(noon)] == [None, "run_ended", None, None]
    assert days_of(runs.sensor(MEMBERS)) == [str(DAY)]
    once = items(noon)
    runs.end(ended, end)
    assert items(noon) == once


# --- the job for people -------------------------------------------------------------------------------------


def test_failed_members_are_queued_again_by_id_or_all_of_them(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    ids = [queued(noon, member_id, "FAILED") for member_id in (1, 2, 3)]
    queued(noon, 4, "SUCCEEDED")
    requeue = "recommendations_requeue_failed"
    assert runs.run(requeue, ops={REQUEUE: {"item_ids": ids[:1]}}).success
    assert statuses(noon) == {1: "PENDING", 2: "FAILED", 3: "FAILED", 4: "SUCCEEDED"}
    assert days_of(runs.sensor(MEMBERS)) == [str(DAY)]
    assert runs.run(requeue, ops={REQUEUE: {"everything": True}}).success
    assert statuses(noon) == {1: "PENDING", 2: "PENDING", 3: "PENDING", 4: "SUCCEEDED"}
    assert "2 queue items are PENDING again" in runs.told()


@pytest.mark.parametrize("config", [{}, {"item_ids": [1], "everything": True}], ids=["neither", "both"])
def test_requeueing_wants_either_ids_or_everything(
    config: dict[str, Any], runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    queued(noon, 1, "FAILED")
    told = why(runs.run("recommendations_requeue_failed", ops={REQUEUE: config}))
    assert "item_ids" in told and "everything" in told
    assert statuses(noon) == {1: "FAILED"}
