"""Jobs, sensors and schedules as Dagster runs them in this process, at noon by the database's clock."""

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import quote

import dagster as dg
import psycopg
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from orchestration.definitions import build_definitions
from orchestration.partitions import RANGE_END_TAG, RANGE_START_TAG
from orchestration.policies import LOCK_TAG
from orchestration.settings import Settings

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
DAY = NOON.date()
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("granary"), "__repository__")

Asked = list[dg.RunRequest] | str
"""What a tick asks for, or why it asks for nothing."""


def clocked(database_url: str, moment: datetime = NOON) -> str:
    """The database as it is at another time."""
    return f"{database_url}?options={quote(f'-c granary.now={moment.isoformat()}')}"


class JobRuns:
    """One code location with its own instance; its sensors keep their cursors."""

    def __init__(self, resources: Mapping[str, Any], settings: Settings) -> None:
        self.instance = dg.DagsterInstance.ephemeral()
        self.resources = dict(resources)
        self.defs = build_definitions(settings, self.resources)
        self._cursors: dict[str, str | None] = {}

    def run(
        self, job: str, *days: date, ops: Mapping[str, dict[str, Any]] | None = None
    ) -> dg.ExecuteInProcessResult:
        """A run of the job, from the first to the last of the days where it has partitions. `ops`: config."""
        span = {RANGE_START_TAG: days[0].isoformat(), RANGE_END_TAG: days[-1].isoformat()} if days else {}
        config = {name: {"config": given} for name, given in (ops or {}).items()}
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, tags=span, run_config={**QUIET, "ops": config}, raise_on_error=False
        )

    def metadata(self, asset: str, day: date | None = DAY) -> dict[str, Any]:
        """What its latest materialisation tells; KeyError where there is none."""
        wanted = dg.AssetRecordsFilter(
            dg.AssetKey(asset), asset_partitions=[day.isoformat()] if day else None
        )
        records = self.instance.fetch_materializations(wanted, limit=1).records
        if not records or records[0].asset_materialization is None:
            raise KeyError(f"{asset} was not materialised")
        return {name: entry.value for name, entry in records[0].asset_materialization.metadata.items()}

    def numbers(self, asset: str, *names: str, day: date | None = DAY) -> list[Any]:
        """Those numbers of its latest materialisation."""
        told = self.metadata(asset, day)
        return [told[name] for name in names]

    def sensor(self, name: str) -> Asked:
        """What the sensor's next tick asks for. Raises what the tick raises."""
        made = dg.build_sensor_context(
            instance=self.instance, cursor=self._cursors.get(name), resources=self._all_resources()
        )
        with made as context:
            said: Any = self.defs.resolve_sensor_def(name)(context)
            found: list[Any] = [said] if isinstance(said, (dg.RunRequest, dg.SkipReason)) else list(said)
            self._cursors[name] = context.cursor
        asked = [one for one in found if isinstance(one, dg.RunRequest)]
        return asked or "; ".join(str(one.skip_message) for one in found)

    def schedule(self, name: str, at: datetime = NOON) -> Asked:
        """What the schedule's tick of that slot asks for."""
        made = dg.build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=at,
            repository_def=self.defs.get_repository_def(),
            resources=self._all_resources(),
        )
        with made as context:
            said = self.defs.resolve_schedule_def(name).evaluate_tick(context)
        return list(said.run_requests or []) or str(said.skip_message)

    def live_run(self, job: str, lock: str, since: timedelta | None = None) -> None:
        """A run that holds the lock; it started so long ago, or waits in the queue."""
        run = dg.DagsterRun(
            job_name=job,
            run_id=str(uuid.uuid4()),
            status=dg.DagsterRunStatus.QUEUED,
            tags={LOCK_TAG: lock},
            remote_job_origin=RemoteJobOrigin(REPOSITORY, job),
        )
        self.instance.add_run(run)
        if since is not None:
            begun = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, job)
            moment = (datetime.now(UTC) - since).timestamp()
            self.instance.report_dagster_event(begun, run.run_id, timestamp=moment)

    def end(self, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> None:
        """Tells the run-status sensor that the run has ended so."""
        failed = status is dg.DagsterRunStatus.FAILURE
        kind = dg.DagsterEventType.RUN_FAILURE if failed else dg.DagsterEventType.RUN_CANCELED
        name = "failed_runs_free_their_work" if failed else "canceled_runs_free_their_work"
        context = dg.build_run_status_sensor_context(
            sensor_name=name,
            dagster_event=dg.DagsterEvent(kind.value, run.job_name),
            dagster_instance=self.instance,
            dagster_run=run,
            resources=self._all_resources(),
        )
        sensor = self.defs.get_repository_def().get_sensor_def(name)
        assert isinstance(sensor, dg.RunStatusSensorDefinition)
        sensor(context.for_run_failure() if failed else context)

    def told(self) -> str:
        """Every event of every run: what the UI can show."""
        runs = self.instance.get_runs()
        return "\n".join(repr(entry) for run in runs for entry in self.instance.all_logs(run.run_id))

    def _all_resources(self) -> dict[str, Any]:
        return {**(self.defs.resources or {}), **self.resources}


def why(result: dg.ExecuteInProcessResult) -> str:
    """Why the run's only failed step failed; a failure that asks for no later try."""
    assert not result.success
    (failed,) = result.get_step_failure_events()
    told = failed.step_failure_data.user_failure_data
    assert told is not None and told.description is not None, failed.step_failure_data.error
    return str(told.description)


def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    """The run's evaluation of a check."""
    (found,) = [one for one in result.get_asset_check_evaluations() if one.check_name == name]
    return found


def only(asked: Asked) -> dg.RunRequest:
    """The one run that is asked for."""
    assert not isinstance(asked, str), asked
    (run,) = asked
    return run


def days_of(asked: Asked) -> list[str]:
    """The days of the runs that are asked for; of none where the tick skipped."""
    return [str(one.partition_key) for one in asked if isinstance(one, dg.RunRequest)]


def shut_gate(
    connection: psycopg.Connection, resource: Any, reason: str = "AUTH", probe_is_due: bool = False
) -> None:
    """As an answer that hits everyone left it, with its alarm, an hour before noon."""
    key, since = resource.gate_key, NOON - timedelta(hours=1)
    connection.execute(
        "INSERT INTO granary.api_gate VALUES (%s, %s, %s, 'status 401', %s, %s)",
        (key.provider_key, key.model, reason, since, NOON + timedelta(minutes=-1 if probe_is_due else 5)),
    )
    connection.execute(
        "INSERT INTO granary.alert (cause, day, message, raised_at) VALUES (%s, granary.today(), 'shut', %s)",
        (f"gate:{key.model}", since),
    )
