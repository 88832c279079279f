"""What starts runs of raw_files besides its schedules: arrivals, tries that are due, requests, reports."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import psycopg

from assets.raw_files import alarm_messages, attempts, partition_store, scan
from assets.raw_files.passes import days_of_interest, look
from assets.raw_files.rules import RawFilesRules
from assets.raw_files.schedule_state import running_since
from assets.raw_files.store import Partition
from orchestration.partitions import raw_key, raw_sources
from orchestration.policies import (
    LOCK_TAG,
    MAX_RETRIES_TAG,
    RAW_FILES_MAX_SECONDS,
    RAW_REPORT_MAX_SECONDS,
    raw_files_run_tags,
)
from resources.alerts import AlertResource
from resources.bucket import BucketResource
from resources.errors import ServiceError
from resources.postgres import PostgresResource
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

PARTITIONS_JOB = "raw_files_partitions"
REPORT_JOB = "raw_files_report"
PARTITIONS_A_TICK = 100
REPORTS_LOOK_BACK = timedelta(days=40)
PAUSE_AFTER_A_FAILED_REPORT = timedelta(minutes=10)


def partition_runs(
    partitions: Iterable[Partition],
    why: str,
    held: AbstractSet[str] = frozenset(),
    force: bool = False,
    more_tags: Mapping[str, str] | None = None,
) -> list[dg.RunRequest]:
    """One run per partition that has no live one. `why` makes the run keys of two occasions differ."""
    runs = []
    for day, source in partitions:
        key = raw_key(day, source)
        tags = {**raw_files_run_tags(PARTITIONS_JOB, key), **(more_tags or {})}
        if tags[LOCK_TAG] in held:
            continue
        config = {"ops": {"raw_file_manifest": {"config": {"force": True}}}} if force else {}
        runs.append(dg.RunRequest(run_key=f"{why}:{key}", partition_key=key, tags=tags, run_config=config))
    return runs


def pass_key(kind: str, scheduled_at: datetime) -> str:
    """The `why` of what a pass starts, by its tick."""
    return f"{kind}:{scheduled_at.isoformat()}"


def add_sources(instance: dg.DagsterInstance, partitions: Iterable[Partition]) -> None:
    """Makes the partitions' sources exist; they are never deleted."""
    known = set(instance.get_dynamic_partitions(str(raw_sources.name)))
    new = sorted({source for _, source in partitions} - known)
    if new:
        instance.add_dynamic_partitions(str(raw_sources.name), new)


def raw_files_sensors(is_on: bool) -> list[dg.SensorDefinition]:
    """The sensors; that on arrivals is off until somebody starts it."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        job_name=PARTITIONS_JOB,
        minimum_interval_seconds=180,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Off by default: lists the bucket every three minutes and starts what has new files.",
    )
    def raw_files_arrived(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        bucket: BucketResource,
        raw_files_rules: RawFilesRules,
    ) -> dg.SensorResult | dg.SkipReason:
        with postgres.connect() as connection, bucket.open() as opened:
            days = days_of_interest(_today(connection), raw_files_rules.catch_up_days)
            arrived = scan.scan_arrivals(connection, opened, days[0], days[-1])
            if not arrived:
                return dg.SkipReason("no file is new since the last look")
            add_sources(context.instance, arrived)
            idle = partition_store.ask_for_partitions(connection, arrived)
        held = held_locks(context.instance, PARTITIONS_JOB, RAW_FILES_MAX_SECONDS)
        why = f"arrival:{next_tick(context)}"
        runs = partition_runs([one for one in arrived if one in idle], why, held)
        # A run that is at its partition may have listed before the file came: another waits behind it.
        runs += partition_runs([one for one in arrived if one not in idle], why)
        return dg.SensorResult(runs)

    @dg.sensor(
        job_name=PARTITIONS_JOB,
        minimum_interval_seconds=30,
        default_status=status,
        description="Starts failed partitions again after 5, 10 and 20 minutes, and repeats failed listings.",
    )
    def raw_files_retry(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        bucket: BucketResource,
        alerts: AlertResource,
        raw_files_rules: RawFilesRules,
    ) -> dg.SensorResult | dg.SkipReason:
        rules = raw_files_rules
        with postgres.connect() as connection:
            attempts.time_out(connection, alerts, rules.environment)
            alarm_messages.tell_of_lateness(connection, alerts, running_since(context.instance))
            found: dict[Partition, str] = {}  # with the pass that it was found for
            for _, kind, scheduled_at in partition_store.passes_due(connection):
                try:
                    seen = look(
                        connection, bucket, alerts, kind, scheduled_at, rules.catch_up_days, rules.environment
                    )
                except ServiceError as error:  # noted, with the time of the next look
                    context.log.warning(f"the {kind} pass could not list the bucket: {error}")
                else:
                    found |= dict.fromkeys(seen.to_do() if seen else [], pass_key(kind, scheduled_at))
            due = partition_store.partitions_due(connection, PARTITIONS_A_TICK)
        if not found and not due:
            return dg.SkipReason("nothing is due to be tried again")
        tick = next_tick(context)
        held = held_locks(context.instance, PARTITIONS_JOB, RAW_FILES_MAX_SECONDS)
        add_sources(context.instance, [*found, *((one.day, one.source) for one in due)])
        runs = [run for partition, why in found.items() for run in partition_runs([partition], why)]
        for one in due:
            runs += partition_runs([(one.day, one.source)], f"attempt {one.failures + 1}:{tick}", held)
        return dg.SensorResult(runs)

    @dg.sensor(
        job_name=PARTITIONS_JOB,
        minimum_interval_seconds=15,
        default_status=status,
        description="Starts what POST /api/v1/seeds/orchestrate asked for.",
    )
    def raw_files_requested(
        context: dg.SensorEvaluationContext, postgres: PostgresResource
    ) -> dg.SensorResult | dg.SkipReason:
        with postgres.connect() as connection:
            waiting = partition_store.requests_waiting(connection, PARTITIONS_A_TICK)
            if not waiting:
                return dg.SkipReason("no request waits")
            held = held_locks(context.instance, PARTITIONS_JOB, RAW_FILES_MAX_SECONDS)
            tick = next_tick(context)
            runs = []
            for one in waiting:
                partition = (one.day, one.source)
                tags = {partition_store.REQUEST_TAG: str(one.id)}
                run = partition_runs([partition], f"request {one.id}:{tick}", held, one.force, tags)
                held |= {asked.tags[LOCK_TAG] for asked in run}  # one request of a partition after the other
                partition_store.ask_for_partitions(connection, [partition] if run else [])
                runs += run
        add_sources(context.instance, [(one.day, one.source) for one in waiting])
        return dg.SensorResult(runs)

    @dg.sensor(
        job_name=REPORT_JOB,
        minimum_interval_seconds=60,
        default_status=status,
        description="Writes the report of days on which something has happened and nothing runs any more.",
    )
    def raw_reports_due(
        context: dg.SensorEvaluationContext, postgres: PostgresResource
    ) -> dg.SensorResult | dg.SkipReason:
        with postgres.connect() as connection:
            days = partition_store.reports_due(connection, _today(connection) - REPORTS_LOOK_BACK)
        if not days:
            return dg.SkipReason("every report is up to date")
        held = held_locks(context.instance, REPORT_JOB, RAW_REPORT_MAX_SECONDS)
        held |= _failed_lately(context.instance)
        tick = next_tick(context)
        return dg.SensorResult(
            [
                dg.RunRequest(
                    run_key=f"{day.isoformat()}:{tick}",
                    partition_key=day.isoformat(),
                    tags={LOCK_TAG: f"{REPORT_JOB}:{day.isoformat()}", MAX_RETRIES_TAG: "0"},
                )
                for day in days
                if f"{REPORT_JOB}:{day.isoformat()}" not in held
            ]
        )

    return [raw_files_arrived, raw_files_retry, raw_files_requested, raw_reports_due]


def _today(connection: psycopg.Connection) -> date:
    """The running day in UTC, by the database's clock."""
    return partition_store.now(connection).astimezone(UTC).date()


def _failed_lately(instance: dg.DagsterInstance) -> set[str]:
    """Locks of reports that failed just now: a bucket that is away is not asked by a run a minute."""
    since = datetime.now(UTC) - PAUSE_AFTER_A_FAILED_REPORT
    failed = dg.RunsFilter(job_name=REPORT_JOB, statuses=[dg.DagsterRunStatus.FAILURE], updated_after=since)
    return {run.tags.get(LOCK_TAG, "") for run in instance.get_runs(failed)}
