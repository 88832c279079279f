"""What a run of recipes held is free as soon as its end is told; who has no MongoDB is not asked for one."""

import dagster as dg
import psycopg
import pytest

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from assets.recipes.statuses import RELEASED_TO, Status
from resources.mongo import MongoResource
from tests.integration.recipes.batch_runs import created, states
from tests.integration.recipes.job_records import Mongo, put_job, statuses
from tests.integration.recipes.recipe_runs import DAY, RecipeRuns, Services

ENDS = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def ended(job: str = "recipes_parsed", run_id: str = "run-a", *assets: str) -> dg.DagsterRun:
    selected = frozenset(dg.AssetKey(name) for name in assets) or None
    return dg.DagsterRun(job_name=job, run_id=run_id, asset_selection=selected)


def held(db: Mongo, claimed_by: str, now: object) -> None:
    """A job in every …ing status."""
    for status in RELEASED_TO:
        put_job(db, status, f"{claimed_by} {status}", claimed_by=claimed_by, claimed_at=now)


@pytest.fixture
def now(connection: psycopg.Connection) -> object:
    (moment,) = connection.execute("SELECT granary.now()").fetchone() or (None,)
    return moment


@pytest.mark.parametrize("end", ENDS)
def test_all_claims_of_its_attempts_are_free_and_nobody_elses(
    end: dg.DagsterRunStatus, dagster_runs: RecipeRuns, db: Mongo, now: object
) -> None:
    for claimed_by in ("run-a:0", "run-a:1", "run-ab:0"):
        held(db, claimed_by, now)
    dagster_runs.end(ended(), end)
    left = statuses(db)
    for status, back in RELEASED_TO.items():
        assert left[f"run-a:0 {status}"] == left[f"run-a:1 {status}"] == back
        assert left[f"run-ab:0 {status}"] == status


@pytest.mark.parametrize("end", ENDS)
def test_a_batch_that_it_was_creating_is_settled_by_the_next_tick(
    end: dg.DagsterRunStatus, dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    services.openai.fault(endpoint="batches/create", drop="after", times=1)
    run = dagster_runs.fetch().dagster_run
    assert isinstance(dagster_runs.tick(), str)
    dagster_runs.end(run, end)
    assert dagster_runs.tick() == [("recipes_parse_submit", DAY)]
    assert dagster_runs.run("recipes_parse_submit").success
    assert states(db) == {"parse_submitted": 5} and len(created(services.openai)) == 1


def test_a_batch_whose_results_it_took_in_is_free(
    dagster_runs: RecipeRuns, db: Mongo, services: Services, now: object
) -> None:
    assert dagster_runs.fetch().success
    services.openai.post("batches/advance")
    db[BATCHES].update_one({}, {"$set": {"claimed_by": "run-a:0", "claimed_at": now}})
    assert isinstance(dagster_runs.tick(), str)
    dagster_runs.end(ended(), dg.DagsterRunStatus.FAILURE)
    assert dagster_runs.tick() == [("recipes_parsed", DAY)]


def test_a_run_of_assets_without_a_job_frees_its_work_too(
    dagster_runs: RecipeRuns, db: Mongo, now: object
) -> None:
    put_job(db, Status.PERSISTING, claimed_by="run-a:0", claimed_at=now)
    dagster_runs.end(ended("__ASSET_JOB", "run-a", "recipes"), dg.DagsterRunStatus.FAILURE)
    assert states(db) == {"parse_retrieved": 1}


def test_told_twice_it_changes_nothing_more(dagster_runs: RecipeRuns, db: Mongo, now: object) -> None:
    held(db, "run-a:0", now)
    dagster_runs.end(ended(), dg.DagsterRunStatus.FAILURE)
    once = list(db[JOBS].find())
    dagster_runs.end(ended(), dg.DagsterRunStatus.FAILURE)
    assert list(db[JOBS].find()) == once


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "run",
    [ended("economy_news_enrich"), ended("__ASSET_JOB", "run-a", "economy_articles")],
    ids=["of a job", "of assets"],
)
def test_the_end_of_another_pipelines_run_asks_no_mongodb(
    run: dg.DagsterRun,
    end: dg.DagsterRunStatus,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    RecipeRuns(services, mongo=MongoResource()).end(run, end)
