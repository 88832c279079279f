"""The jobs for people: failed records again, and what names of ingredients mean."""

from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.recipes import recipe_store
from assets.recipes.statuses import Status
from tests.integration.recipes.job_records import NOON, Mongo, put_job, put_jobs, record, statuses
from tests.integration.recipes.recipe_runs import RecipeRuns

REQUEUE, DECIDE = "requeue_failed_recipe_jobs", "decide_ingredient_reviews"


def requeue(runs: RecipeRuns, **config: Any) -> dg.ExecuteInProcessResult:
    return runs.run("recipes_requeue_failed", {REQUEUE: config})


def decide(runs: RecipeRuns, **config: Any) -> dg.ExecuteInProcessResult:
    return runs.run("recipes_decide_review", {DECIDE: config})


def output(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """What the op tells with its output."""
    (event,) = [one for one in result.all_events if one.event_type is dg.DagsterEventType.STEP_OUTPUT]
    return {name: entry.value for name, entry in event.step_output_data.metadata.items()}


def a_failed_job_at_every_result(db: Mongo) -> None:
    read = {"title": "찌개"}
    put_job(db, Status.FAILED, "new", retry_count=3)
    put_job(db, Status.FAILED, "read", retry_count=3, retrieved_data=read)
    put_job(db, Status.FAILED, "stored", retry_count=3, retrieved_data=read, persisted_at=NOON)


def test_failed_records_go_on_at_their_last_result(dagster_runs: RecipeRuns, db: Mongo) -> None:
    a_failed_job_at_every_result(db)
    put_jobs(db, ["other"], Status.PARSE_SUBMITTED)
    result = requeue(dagster_runs, everything=True)
    assert result.success and output(result) == {"requeued": 3}
    assert statuses(db) == {
        "new": "fetched",
        "read": "parse_retrieved",
        "stored": "persisted",
        "other": "parse_submitted",
    }
    assert record(db, "new")["retry_count"] == 0


def test_only_the_named_records_are_requeued(dagster_runs: RecipeRuns, db: Mongo) -> None:
    a_failed_job_at_every_result(db)
    assert requeue(dagster_runs, job_ids=["read", "unknown"]).success
    assert statuses(db) == {"new": "failed", "read": "parse_retrieved", "stored": "failed"}


@pytest.mark.parametrize("config", [{}, {"job_ids": ["new"], "everything": True}], ids=str)
def test_it_must_be_said_which_records_are_meant(
    config: dict[str, Any], dagster_runs: RecipeRuns, db: Mongo
) -> None:
    put_job(db, Status.FAILED, "new")
    result = requeue(dagster_runs, **config)
    assert not result.success and "name job_ids, or set everything: true" in dagster_runs.told()
    assert statuses(db) == {"new": "failed"}


@pytest.fixture
def reviews(connection: psycopg.Connection) -> list[int]:
    """Two names that may mean 콩나물."""
    with connection.transaction():
        known, _ = recipe_store.add_ingredient(connection, "콩나물", "콩나물", None)
        return [
            recipe_store.ask_for_review(connection, name, name, known, 0.87).id
            for name in ("숙주", "숙주나물")
        ]


def aliases(connection: psycopg.Connection) -> list[str]:
    return list(recipe_store.known_aliases(connection))


def test_what_waits_is_listed_and_an_approved_name_becomes_an_alias(
    dagster_runs: RecipeRuns, reviews: list[int], connection: psycopg.Connection
) -> None:
    before = aliases(connection)
    listed = decide(dagster_runs)
    assert listed.success and output(listed) == {"decided": 0, "waiting": 2}
    assert f"review {reviews[0]}: '숙주' may mean '콩나물' (0.870)" in dagster_runs.told()
    result = decide(dagster_runs, approve=reviews[:1], reject=reviews[1:])
    assert output(result) == {"decided": 2, "waiting": 0}
    assert set(aliases(connection)) - set(before) == {"숙주"}
    assert {"콩나물", "숙주나물"} <= set(recipe_store.known_names(connection).values())


def test_what_is_decided_or_unknown_is_left_alone(
    dagster_runs: RecipeRuns, reviews: list[int], connection: psycopg.Connection
) -> None:
    decide(dagster_runs, reject=reviews[:1])
    result = decide(dagster_runs, approve=[reviews[0], 999_999])
    assert result.success and output(result) == {"decided": 0, "waiting": 1}
    assert "숙주" not in aliases(connection)


def test_one_that_is_both_approved_and_rejected_is_refused(
    dagster_runs: RecipeRuns, reviews: list[int]
) -> None:
    assert not decide(dagster_runs, approve=reviews, reject=reviews[:1]).success
    assert output(decide(dagster_runs))["waiting"] == 2
