"""The schedules of raw_files, in UTC. The day comes from the scheduled time, never from the clock."""

from collections.abc import Iterator

import dagster as dg

from assets.raw_files.passes import look
from assets.raw_files.rules import RawFilesRules
from orchestration.jobs import raw_files_metadata_sync, raw_files_partitions
from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG
from resources.alerts import AlertResource
from resources.bucket import BucketResource
from resources.postgres import PostgresResource
from sensors.raw_files import add_sources, partition_runs, pass_key


def raw_files_schedules(is_on: bool, hours_between_syncs: int) -> list[dg.ScheduleDefinition]:
    """The daily pass, the supplementary one, and the refresh of front pages."""
    status = dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED
    return [
        _pass("daily", "daily_raw_files", "0 0 * * *", status),
        _pass("supplementary", "supplementary_raw_files", "0 12 * * *", status),
        dg.ScheduleDefinition(
            name="metadata_sync",
            job=raw_files_metadata_sync,
            cron_schedule=f"0 */{hours_between_syncs} * * *",
            execution_timezone="UTC",
            default_status=status,
            tags={MAX_RETRIES_TAG: "0", LOCK_TAG: raw_files_metadata_sync.name},
            description="Fetches old front pages again.",
        ),
    ]


def _pass(kind: str, name: str, cron: str, status: dg.DefaultScheduleStatus) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=name,
        job=raw_files_partitions,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=status,
        description=f"The {kind} pass: starts partitions of yesterday and the days before with new files.",
    )
    def evaluate(
        context: dg.ScheduleEvaluationContext,
        postgres: PostgresResource,
        bucket: BucketResource,
        alerts: AlertResource,
        raw_files_rules: RawFilesRules,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        scheduled_at = context.scheduled_execution_time
        rules = raw_files_rules
        with postgres.connect() as connection:
            found = look(
                connection, bucket, alerts, kind, scheduled_at, rules.catch_up_days, rules.environment
            )
        if found is None:
            yield dg.SkipReason("this tick has had its look at the bucket")
            return
        partitions = found.to_do()
        add_sources(context.instance, found.files)
        yield from partition_runs(partitions, pass_key(kind, scheduled_at))
        if not partitions:
            yield dg.SkipReason(f"nothing is unprocessed in {len(found.files)} partitions")

    return evaluate
