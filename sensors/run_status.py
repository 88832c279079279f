"""What happens when a run ends without success: the work that it had leased is freed at once.

Leases run out by themselves, so a status that never comes only makes the wait longer. Delivery is
at-least-once; freeing twice changes nothing.
"""

from datetime import date
from logging import Logger

import dagster as dg
from dagster._core.execution.plan.objects import ErrorSource
from dagster_shared.error import SerializableErrorInfo

from assets.economy_news import job_store as economy_news_jobs
from assets.raw_files import attempts as raw_files_attempts
from assets.raw_files import front_page_store, partition_store
from assets.recommendations import queue_store
from orchestration.partitions import read_raw_key
from orchestration.policies import MAX_RUNTIME_TAG, RAW_FILES_MAX_SECONDS
from resources.alerts import AlertResource
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from sensors.ended_runs import canceled_for
from sensors.recipes import free_work_of

# Dagster looks every five seconds and passes over what is not quite due yet: 10 would often be 15.
EVERY_10_SECONDS = 9

RAW_FILES_JOB = "raw_files_partitions"
RAW_FILES_ATTEMPT = frozenset({"raw_file_manifest", "raw_domains"})
PARTITION_TAG = "dagster/partition"


def run_status_sensors(is_on: bool, environment: str) -> list[dg.SensorDefinition]:
    """Sensors on failed and canceled runs of every job; on wherever a pipeline runs by itself."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="failed_runs_free_their_work",
        default_status=status,
        minimum_interval_seconds=EVERY_10_SECONDS,
        description="Frees what a failed run had leased: AI jobs, pages, raw partitions, recipes, members.",
    )
    def on_failure(
        context: dg.RunFailureSensorContext,
        postgres: PostgresResource,
        mongo: MongoResource,
        alerts: AlertResource,
    ) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)
        _fail_raw_files(context, postgres, alerts, environment)
        _free_recipes(context.dagster_run, postgres, mongo, context.log)

    @dg.run_status_sensor(
        name="canceled_runs_free_their_work",
        run_status=dg.DagsterRunStatus.CANCELED,
        default_status=status,
        minimum_interval_seconds=EVERY_10_SECONDS,
        description="Frees the work that a canceled run had leased.",
    )
    def on_cancel(
        context: dg.RunStatusSensorContext,
        postgres: PostgresResource,
        mongo: MongoResource,
        alerts: AlertResource,
    ) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)
        _stop_raw_files(context, postgres, alerts, environment)
        _free_recipes(context.dagster_run, postgres, mongo, context.log)

    return [on_failure, on_cancel]


def _free(run_id: str, postgres: PostgresResource, log: Logger) -> None:
    with postgres.connect() as connection:
        freed = economy_news_jobs.free_jobs_of_run(connection, run_id)
        front_page_store.release(connection, run_id)
        members = queue_store.free_of_run(connection, run_id)
    if freed:
        log.info(f"freed {freed} AI jobs of run {run_id}")
    if members.returned or members.failed:
        log.info(f"{members.returned} members of run {run_id} wait again, {members.failed} failed for good")


def _free_recipes(run: dg.DagsterRun, postgres: PostgresResource, mongo: MongoResource, log: Logger) -> None:
    if freed := free_work_of(run, postgres, mongo):
        log.info(f"freed {freed} recipes and batches of run {run.run_id}")


def _fail_raw_files(
    context: dg.RunFailureSensorContext, postgres: PostgresResource, alerts: AlertResource, environment: str
) -> None:
    """Notes the failed attempt at a partition, unless its step has done so itself."""
    run = context.dagster_run
    if (partition := _raw_partition(run)) is None:
        return
    if canceled_for(context.instance, run.run_id) == "length":
        failure = _time_out(run, environment)
    else:
        failure = _failure(run, _failed_step(context), context.failure_event.message, environment)
    with postgres.connect() as connection:
        raw_files_attempts.fail(connection, alerts, partition, run.run_id, failure)


def _stop_raw_files(
    context: dg.RunStatusSensorContext, postgres: PostgresResource, alerts: AlertResource, environment: str
) -> None:
    """A person's cancel is the end of it; one for taking too long is a failed attempt."""
    run = context.dagster_run
    if (partition := _raw_partition(run)) is None:
        return
    with postgres.connect() as connection:
        if canceled_for(context.instance, run.run_id) == "length":
            failure = _time_out(run, environment)
            raw_files_attempts.fail(connection, alerts, partition, run.run_id, failure)
            return
        partition_store.stop_partition(connection, partition, run.run_id)
        if request := run.tags.get(partition_store.REQUEST_TAG):  # or the sensor would start it again
            partition_store.request_started(connection, int(request), run.run_id)


def _raw_partition(run: dg.DagsterRun) -> tuple[date, str] | None:
    """The partition that the run was an attempt at, also one that was started from an asset's page."""
    key = run.tags.get(PARTITION_TAG)
    assets = {asset.to_user_string() for asset in run.asset_selection or ()}
    if not key or not (run.job_name == RAW_FILES_JOB or assets & RAW_FILES_ATTEMPT):
        return None
    return read_raw_key(key)


def _time_out(run: dg.DagsterRun, environment: str) -> partition_store.Failure:
    most = run.tags.get(MAX_RUNTIME_TAG, RAW_FILES_MAX_SECONDS)
    return partition_store.Failure(
        type="TimeoutError",
        kind="TIMEOUT",
        error=f"the run took longer than {most} seconds",
        environment=environment,
        partition=run.tags[PARTITION_TAG],
        run_id=run.run_id,
    )


def _failed_step(context: dg.RunFailureSensorContext) -> SerializableErrorInfo | None:
    """The error of the first step that failed by itself, as its cause has it; None: the run was ended."""
    for event in context.get_step_failure_events():
        failed = event.step_failure_data
        if failed.error is not None and failed.error_source is not ErrorSource.INTERRUPT:
            return failed.error.cause or failed.error
    return None


def _failure(
    run: dg.DagsterRun, error: SerializableErrorInfo | None, message: str | None, environment: str
) -> partition_store.Failure:
    """A run that ended without a failed step, or out of memory, lacked something to run with."""
    name = (error.cls_name if error else None) or "RunFailed"
    text = (error.message if error else message) or "the run failed"
    return partition_store.Failure(
        type=name,
        kind="RESOURCE" if error is None or name == "MemoryError" else "PARTITION",
        error=_storable(text.strip())[:2_000],
        stack=_storable("".join(error.stack))[:20_000] if error else None,
        environment=environment,
        partition=run.tags[PARTITION_TAG],
        run_id=run.run_id,
    )


def _storable(text: str) -> str:
    """Postgres takes no NUL, and no half of a surrogate pair; an error may quote both."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
