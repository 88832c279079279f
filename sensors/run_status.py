"""What happens when a run ends without success: the work that it had leased is freed at once.

Leases run out by themselves, so a status that never comes only makes the wait longer. Delivery is
at-least-once; freeing twice changes nothing.
"""

from logging import Logger

import dagster as dg

from assets.economy_news import job_store as economy_news_jobs
from assets.raw_files import attempts as raw_files_attempts
from assets.raw_files import front_page_store, partition_store
from orchestration.partitions import read_raw_key
from orchestration.policies import RAW_FILES_MAX_SECONDS
from resources.alerts import AlertResource
from resources.postgres import PostgresResource

RAW_FILES_JOB = "raw_files_partitions"
PARTITION_TAG = "dagster/partition"


def run_status_sensors(is_on: bool, environment: str) -> list[dg.SensorDefinition]:
    """Sensors on failed and canceled runs of every job; on wherever a pipeline runs by itself."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="failed_runs_free_their_work",
        default_status=status,
        minimum_interval_seconds=10,
        description="Frees the work that a failed run had leased: AI jobs, front pages, raw partitions.",
    )
    def on_failure(
        context: dg.RunFailureSensorContext, postgres: PostgresResource, alerts: AlertResource
    ) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)
        _fail_raw_files(context, postgres, alerts, environment)

    @dg.run_status_sensor(
        name="canceled_runs_free_their_work",
        run_status=dg.DagsterRunStatus.CANCELED,
        default_status=status,
        minimum_interval_seconds=10,
        description="Frees the work that a canceled run had leased.",
    )
    def on_cancel(
        context: dg.RunStatusSensorContext, postgres: PostgresResource, alerts: AlertResource
    ) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)
        _stop_raw_files(context, postgres, alerts, environment)

    return [on_failure, on_cancel]


def _free(run_id: str, postgres: PostgresResource, log: Logger) -> None:
    with postgres.connect() as connection:
        freed = economy_news_jobs.free_jobs_of_run(connection, run_id)
        front_page_store.release(connection, run_id)
    if freed:
        log.info(f"freed {freed} AI jobs of run {run_id}")


def _fail_raw_files(
    context: dg.RunFailureSensorContext, postgres: PostgresResource, alerts: AlertResource, environment: str
) -> None:
    """Notes the failed attempt at a partition, unless its step has done so itself."""
    run = context.dagster_run
    key = run.tags.get(PARTITION_TAG)
    if run.job_name != RAW_FILES_JOB or not key:
        return
    steps = [event.step_failure_data for event in context.get_step_failure_events()]
    error = steps[0].error if steps else None
    text = f"{error.cause or error}" if error else context.failure_event.message or "the run failed"
    failure = partition_store.Failure(
        type=(error.cause or error).cls_name or "Error" if error else "RunFailed",
        kind=_kind(text, error is None),
        error=text.strip()[:2_000],
        stack="".join(error.stack)[:20_000] if error else None,
        environment=environment,
        partition=key,
        run_id=run.run_id,
    )
    with postgres.connect() as connection:
        raw_files_attempts.fail(connection, alerts, read_raw_key(key), run.run_id, failure)


def _stop_raw_files(
    context: dg.RunStatusSensorContext, postgres: PostgresResource, alerts: AlertResource, environment: str
) -> None:
    """A person's cancel is the end of it; one for taking too long is a failed attempt."""
    run = context.dagster_run
    key = run.tags.get(PARTITION_TAG)
    if run.job_name != RAW_FILES_JOB or not key:
        return
    with postgres.connect() as connection:
        if _seconds(context.instance.get_run_record_by_id(run.run_id)) < RAW_FILES_MAX_SECONDS:
            partition_store.stop_partition(connection, read_raw_key(key), run.run_id)
            return
        failure = partition_store.Failure(
            type="TimeoutError",
            kind="TIMEOUT",
            error=f"the run took longer than {RAW_FILES_MAX_SECONDS // 60} minutes",
            environment=environment,
            partition=key,
            run_id=run.run_id,
        )
        raw_files_attempts.fail(connection, alerts, read_raw_key(key), run.run_id, failure)


def _seconds(record: dg.RunRecord | None) -> float:
    if record is None or record.start_time is None or record.end_time is None:
        return 0.0
    return record.end_time - record.start_time


def _kind(text: str, without_a_step: bool) -> str:
    """Which of the source document's kinds: a run that ended without a failed step was ended from outside."""
    if not without_a_step:
        return "PARTITION"
    return "TIMEOUT" if "maximum runtime" in text else "RESOURCE"
