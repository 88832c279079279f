"""What happens when a run ends without success: the work that it had leased is freed at once.

Leases run out by themselves, so a status that never comes only makes the wait longer. Delivery is
at-least-once; freeing twice changes nothing.
"""

from logging import Logger

import dagster as dg

from assets.economy_news import job_store as economy_news_jobs
from resources.postgres import PostgresResource


def run_status_sensors(is_on: bool) -> list[dg.SensorDefinition]:
    """Sensors on failed and canceled runs of every job; on wherever a pipeline runs by itself."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="failed_runs_free_their_work",
        default_status=status,
        minimum_interval_seconds=10,
        description="Frees the AI jobs that a failed run left RUNNING; they are due a minute later.",
    )
    def on_failure(context: dg.RunFailureSensorContext, postgres: PostgresResource) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)

    @dg.run_status_sensor(
        name="canceled_runs_free_their_work",
        run_status=dg.DagsterRunStatus.CANCELED,
        default_status=status,
        minimum_interval_seconds=10,
        description="Frees the AI jobs that a canceled run left RUNNING; they are due a minute later.",
    )
    def on_cancel(context: dg.RunStatusSensorContext, postgres: PostgresResource) -> None:
        _free(context.dagster_run.run_id, postgres, context.log)

    return [on_failure, on_cancel]


def _free(run_id: str, postgres: PostgresResource, log: Logger) -> None:
    with postgres.connect() as connection:
        freed = economy_news_jobs.free_jobs_of_run(connection, run_id)
    if freed:
        log.info(f"freed {freed} AI jobs of run {run_id}")
