"""What happens to the work of a run that ended without success."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import psycopg
import pytest

from orchestration.definitions import build_definitions
from orchestration.settings import Settings
from resources.postgres import PostgresResource

INSERT_ARTICLE = """
INSERT INTO news.article
    (oid, aid, day, section, url, title, body, body_characters, input_hash, similarity_signature, run_id,
     stored_at)
VALUES ('001', lpad(%(number)s::text, 10, '0'), '2026-11-30', 'STOCK', 'https://news.example/1', '제목',
        '본문', 2, 'hash', '', 'run-crawl', granary.now())
RETURNING id
"""

INSERT_BATCH = """
INSERT INTO news.ai_batch
    (plan, job_type, day, prompt_version, model, status, jobs, queued_tokens, batch_id, planned_at)
VALUES ('plan-1', 'SUMMARY', '2026-11-30', 'v1', 'gpt-4o-mini', 'SUBMITTED', 1, 0, 'batch_1', granary.now())
ON CONFLICT DO NOTHING
"""

INSERT_JOB = """
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, day, section, status, attempt, claimed_by,
     lease_until, next_run_at, suspend_reason, batch_plan, created_at)
VALUES (%(article_id)s, 'SUMMARY', 'v1', 'gpt-4o-mini', 'hash', '2026-11-30', 'STOCK', %(status)s, 1,
        %(claimed_by)s,
        CASE WHEN %(status)s = 'RUNNING' THEN granary.now() + interval '10 minutes' END,
        CASE WHEN %(status)s = 'RETRY_WAIT' THEN granary.now() + interval '8 minutes' END,
        CASE WHEN %(status)s = 'SUSPENDED' THEN 'QUOTA' END,
        CASE WHEN %(status)s = 'SUBMITTED' THEN 'plan-1' END, granary.now())
RETURNING id
"""

OTHERS = ("PENDING", "SUBMITTED", "SUCCESS", "RETRY_WAIT", "SUSPENDED", "FAILED")


@dg.job
def ended_job() -> None:
    """Stands for any job: the sensors look at a run's id only."""


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


def add_job(connection: psycopg.Connection, status: str, claimed_by: str | None) -> int:
    number = connection.execute("SELECT count(*) FROM news.article").fetchone()
    assert number is not None
    article = connection.execute(INSERT_ARTICLE, {"number": number[0]}).fetchone()
    assert article is not None
    parameters = {"article_id": article[0], "status": status, "claimed_by": claimed_by}
    connection.execute(INSERT_BATCH)
    job = connection.execute(INSERT_JOB, parameters).fetchone()
    assert job is not None
    return int(job[0])


def jobs(connection: psycopg.Connection) -> dict[int, tuple[Any, ...]]:
    rows = connection.execute(
        "SELECT id, status, attempt, claimed_by, lease_until, next_run_at, error_code FROM news.ai_job"
    )
    return {row[0]: row[1:] for row in rows}


def end_run(
    run_id: str, status: dg.DagsterRunStatus, instance: dg.DagsterInstance, database_url: str
) -> None:
    """Evaluates the sensor for that status as the daemon would for a run that ended so."""
    run = dg.DagsterRun(job_name=ended_job.name, run_id=run_id, status=status)
    failed = status is dg.DagsterRunStatus.FAILURE
    kind = dg.DagsterEventType.RUN_FAILURE if failed else dg.DagsterEventType.RUN_CANCELED
    definitions = build_definitions(Settings())
    name = "failed_runs_free_their_work" if failed else "canceled_runs_free_their_work"
    context = dg.build_run_status_sensor_context(
        sensor_name=name,
        dagster_event=dg.DagsterEvent(kind.value, ended_job.name),
        dagster_instance=instance,
        dagster_run=run,
        resources={
            **(definitions.resources or {}),
            "postgres": PostgresResource(database_url=database_url),
        },
    )
    sensor = definitions.get_repository_def().get_sensor_def(name)
    assert isinstance(sensor, dg.RunStatusSensorDefinition)
    sensor(context.for_run_failure() if failed else context)


ENDS = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@pytest.mark.parametrize("status", ENDS)
def test_what_an_ended_run_left_running_is_due_a_minute_later(
    connect: Callable[..., psycopg.Connection],
    database_url: str,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
) -> None:
    connection = connect()
    job = add_job(connection, "RUNNING", "run-a")
    end_run("run-a", status, instance, database_url)
    state, attempt, claimed_by, lease_until, next_run_at, error_code = jobs(connection)[job]
    assert (state, attempt, claimed_by, lease_until) == ("RETRY_WAIT", 1, "run-a", None)
    assert 50 < (next_run_at - datetime.now(UTC)).total_seconds() <= 60
    assert error_code == "run_ended"


@pytest.mark.parametrize("status", ENDS)
def test_running_jobs_of_other_runs_and_settled_ones_of_its_own_stay_as_they_are(
    connect: Callable[..., psycopg.Connection],
    database_url: str,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
) -> None:
    connection = connect()
    untouched = [
        add_job(connection, "RUNNING", "run-b"),
        *(add_job(connection, one, "run-a") for one in OTHERS),
    ]
    freed = [add_job(connection, "RUNNING", "run-a") for _ in range(2)]
    before = jobs(connection)
    end_run("run-a", status, instance, database_url)
    after = jobs(connection)
    assert {job: after[job] for job in untouched} == {job: before[job] for job in untouched}
    assert [after[job][0] for job in freed] == ["RETRY_WAIT"] * 2


def test_a_status_that_is_delivered_twice_changes_nothing_more(
    connect: Callable[..., psycopg.Connection], database_url: str, instance: dg.DagsterInstance
) -> None:
    connection = connect()
    add_job(connection, "RUNNING", "run-a")
    end_run("run-a", dg.DagsterRunStatus.FAILURE, instance, database_url)
    once = jobs(connection)
    end_run("run-a", dg.DagsterRunStatus.FAILURE, instance, database_url)
    assert jobs(connection) == once


def test_a_job_that_another_run_has_taken_since_is_left_to_it(
    connect: Callable[..., psycopg.Connection], database_url: str, instance: dg.DagsterInstance
) -> None:
    connection = connect()
    job = add_job(connection, "RUNNING", "run-a")
    connection.execute("UPDATE news.ai_job SET claimed_by = 'run-b', attempt = 2")
    before = jobs(connection)
    end_run("run-a", dg.DagsterRunStatus.FAILURE, instance, database_url)
    assert jobs(connection) == before
    assert before[job][:3] == ("RUNNING", 2, "run-b")


def test_a_run_that_left_nothing_frees_nothing(
    connect: Callable[..., psycopg.Connection], database_url: str, instance: dg.DagsterInstance
) -> None:
    end_run("run-a", dg.DagsterRunStatus.CANCELED, instance, database_url)
    assert jobs(connect()) == {}
