"""Ticks of the pipeline's schedules and sensors, evaluated as the daemon does, at a time of choice."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
)

from assets.raw_files import partition_store
from assets.raw_files.assets import daily_raw_report
from assets.raw_files.schedule_state import PASSES
from orchestration.definitions import build_definitions
from orchestration.partitions import raw_key, raw_sources
from orchestration.policies import LOCK_TAG
from orchestration.settings import Settings
from resources.bucket import BucketResource
from resources.postgres import PostgresResource
from tests.integration.raw_files.raw_runs import DAY, Store

Connect = Callable[..., psycopg.Connection]

MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
"""The daily tick that looks for DAY."""
NOON = MIDNIGHT + timedelta(hours=12)
PARTITIONS_JOB = "raw_files_partitions"
REPORT_JOB = "raw_files_report"
REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("granary"), "__repository__")


@cache
def definitions() -> dg.Definitions:
    return build_definitions(Settings(granary_environment="tests"))


class ClockedPostgres(PostgresResource):
    """The database as it is at another time."""

    at: str

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection]:
        with super().connect() as connection:
            connection.execute("SELECT set_config('granary.now', %s, false)", (self.at,))
            yield connection


class Ticks:
    """What the daemon would ask for; nothing is run. Every sensor keeps its cursor."""

    def __init__(
        self, instance: dg.DagsterInstance, database_url: str, store: Store, bucket_url: str = ""
    ) -> None:
        self.instance = instance
        self.bucket = BucketResource(
            endpoint_url=bucket_url or store.url, bucket=store.name, timeout_seconds=2
        )
        self._database_url = database_url
        self._cursors: dict[str, str | None] = {}

    def resources(self, at: datetime) -> dict[str, Any]:
        postgres = ClockedPostgres(database_url=self._database_url, at=at.isoformat())
        return {**(definitions().resources or {}), "postgres": postgres, "bucket": self.bucket}

    def schedule(
        self, name: str, scheduled_at: datetime, at: datetime | None = None
    ) -> list[dg.RunRequest] | str:
        """The runs that the tick asks for, or why it asks for none. Raises what the tick raises."""
        made = dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=scheduled_at,
            repository_def=definitions().get_repository_def(),
            resources=self.resources(at or scheduled_at),
        )
        with made as context, _own_error():
            said = definitions().resolve_schedule_def(name).evaluate_tick(context)
        return list(said.run_requests or []) or str(said.skip_message)

    def daily(self, scheduled_at: datetime = MIDNIGHT, at: datetime | None = None) -> list[str]:
        """The partitions that the daily tick asks for."""
        return keys(self.schedule("daily_raw_files", scheduled_at, at))

    def supplementary(self, scheduled_at: datetime = NOON) -> list[str]:
        return keys(self.schedule("supplementary_raw_files", scheduled_at))

    def sensor(self, name: str, at: datetime) -> list[dg.RunRequest] | str:
        """The runs that the sensor's next tick asks for, or why it asks for none."""
        made = dg.build_sensor_context(
            instance=self.instance,
            instance_ref=self.instance.get_ref(),
            cursor=self._cursors.get(name),
            repository_def=definitions().get_repository_def(),
            resources=self.resources(at),
            sensor_name=name,
        )
        with made as context, _own_error():
            said = definitions().resolve_sensor_def(name).evaluate_tick(context)
        self._cursors[name] = said.cursor
        return list(said.run_requests or []) or str(said.skip_message)

    def retry(self, at: datetime) -> list[str]:
        """The partitions that the retry sensor asks for."""
        return keys(self.sensor("raw_files_retry", at))

    def reports(self, at: datetime) -> list[str]:
        """The days whose report is asked for."""
        return keys(self.sensor("raw_reports_due", at))

    def report(self, at: datetime, day: date = DAY) -> dg.MaterializeResult[Any]:
        """The day's report is written, without the cost of a run. Raises as its step does."""
        resources = self.resources(at)
        with dg.build_asset_context(instance=self.instance, partition_key=day.isoformat()) as context:
            wanted = ("postgres", "bucket", "alerts", "raw_files_rules")
            result = daily_raw_report(context, **{name: resources[name] for name in wanted})
        assert isinstance(result, dg.MaterializeResult)
        return result

    def sources(self) -> list[str]:
        return sorted(self.instance.get_dynamic_partitions(str(raw_sources.name)))

    def live_run(self, lock: str, status: dg.DagsterRunStatus, job: str = PARTITIONS_JOB) -> str:
        """The id of a run that holds the lock."""
        run_id = str(uuid.uuid4())
        run = dg.DagsterRun(
            job_name=job,
            run_id=run_id,
            status=status,
            tags={LOCK_TAG: lock},
            remote_job_origin=RemoteJobOrigin(REPOSITORY, job),
        )
        self.instance.add_run(run)
        return run_id

    def switch_on(self, since: datetime) -> None:
        """As the daemon notes it of schedules that are on by default."""
        for name in PASSES:
            self.instance.add_instigator_state(
                InstigatorState(
                    RemoteInstigatorOrigin(REPOSITORY, name),
                    InstigatorType.SCHEDULE,
                    InstigatorStatus.DECLARED_IN_CODE,
                    ScheduleInstigatorData("0 0 * * *", since.timestamp()),
                )
            )

    def switch_off(self) -> None:
        for state in self.instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE):
            self.instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))


@contextmanager
def _own_error() -> Iterator[None]:
    """What a tick raised, without Dagster's wrapping."""
    try:
        yield
    except dg.DagsterUserCodeExecutionError as error:
        raise error.user_exception from error


def keys(requests: list[dg.RunRequest] | str) -> list[str]:
    """The requests' partitions, of none where the tick skipped."""
    return [] if isinstance(requests, str) else [str(request.partition_key) for request in requests]


def key(source: str = "kr/news", day: date = DAY) -> str:
    return str(raw_key(day, source))


def lock(source: str = "kr/news", day: date = DAY) -> str:
    return f"{PARTITIONS_JOB}:{key(source, day)}"


def failure(run_id: str | None, error: str = "the network is away") -> partition_store.Failure:
    """As a run that failed would note it."""
    return partition_store.Failure(
        type="ServiceUnavailable",
        kind="PARTITION",
        error=error,
        environment="tests",
        partition=key(),
        run_id=run_id,
    )


def alarms(connection: psycopg.Connection) -> dict[str, bool]:
    """Each alarm that was ever raised, and whether it stands."""
    return dict(connection.execute("SELECT cause, bool_or(cleared_at IS NULL) FROM granary.alert GROUP BY 1"))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The titles of the messages that went out since the last look, sorted."""
    titles = sorted(
        str(record.args[0])
        for record in caplog.records
        if isinstance(record.args, tuple) and record.name == "granary.alerts"
    )
    caplog.clear()
    return titles


def failure_log(connection: psycopg.Connection) -> list[tuple[str, str | None]]:
    """Kind and run of each entry."""
    return connection.execute("SELECT kind, run_id FROM raw.failure_log ORDER BY id").fetchall()
