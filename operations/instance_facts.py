"""What alarms need to know of Dagster itself: ticks, how many runs failed, what was made.

Its storage opens a connection or more for each question of the instance's own, which would make a tick of
the alarms ten times dearer; so ticks are read from the tables of its storage, by an index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import dagster as dg
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    SensorInstigatorData,
    TickStatus,
)
from dagster._utils.schedules import schedule_execution_time_iterator
from dagster_shared.serdes import deserialize_value

from operations.alarm_facts import LateSchedule
from operations.alarms import FAILED_TICKS, LATE_AFTER

if TYPE_CHECKING:
    from sqlalchemy import Connection

WATCHED_ELSEWHERE = frozenset({"daily_raw_files", "supplementary_raw_files"})
"""raw_files knows by its own records which of its passes are late."""


class _Tick(NamedTuple):
    status: TickStatus
    at: datetime


@dataclass(frozen=True)
class Instigators:
    """`on_since`: since when each running schedule is on (UTC)."""

    on_since: Mapping[str, datetime] = field(default_factory=dict)
    late: tuple[LateSchedule, ...] = ()
    failing_sensors: tuple[str, ...] = ()
    failing_schedules: tuple[str, ...] = ()


def look_at_instigators(
    instance: dg.DagsterInstance, repository: dg.RepositoryDefinition | None, now: datetime, besides: str = ""
) -> Instigators:
    """Schedules without a tick for their latest time, and what failed three times in a row.

    `besides`: the sensor that asks.
    """
    # SQLAlchemy is imported by what asks, and not by every process that loads the code location.
    from dagster._core.storage.schedules.sql_schedule_storage import SqlScheduleStorage

    storage = instance.schedule_storage
    if repository is None or not isinstance(storage, SqlScheduleStorage):  # one in memory has none
        return Instigators()
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    on_by_default = {
        **{name: one.default_status is dg.DefaultScheduleStatus.RUNNING for name, one in schedules.items()},
        **{one.name: one.default_status is dg.DefaultSensorStatus.RUNNING for one in repository.sensor_defs},
    }
    with storage.connect() as connection:  # one for both questions: to connect is most of their cost
        states = [
            state
            for state in _all_states(connection)
            if _is_running(state, on_by_default.get(state.instigator_name))
            and state.instigator_name != besides
        ]
        ticks = _newest_ticks(connection, [state.selector_id for state in states if _may_be_wrong(state)])
    on_since, late = {}, []
    for state in states:
        name, data = state.instigator_name, state.instigator_data
        if (
            isinstance(data, ScheduleInstigatorData)
            and name in schedules
            and data.start_timestamp is not None
        ):
            on_since[name] = datetime.fromtimestamp(data.start_timestamp, UTC)
            found = _lateness(schedules[name], on_since[name], ticks.get(state.selector_id, ()), now)
            late += [found] if found and name not in WATCHED_ELSEWHERE else []
    failing = [state for state in states if _have_failed(ticks.get(state.selector_id, ()))]
    return Instigators(
        on_since,
        tuple(sorted(late, key=lambda one: one.name)),
        _names(failing, InstigatorType.SENSOR),
        _names(failing, InstigatorType.SCHEDULE),
    )


def was_materialised(instance: dg.DagsterInstance, asset: str, partition: str) -> bool:
    """Whether that partition of the asset was ever made."""
    wanted = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[partition])
    return bool(instance.fetch_materializations(wanted, limit=1).records)


def failed_runs(instance: dg.DagsterInstance, start: datetime, end: datetime) -> int:
    """How many runs failed between two moments."""
    failed = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE],
        updated_after=start.astimezone(UTC),
        updated_before=end.astimezone(UTC),
    )
    return instance.get_runs_count(failed)


def _is_running(state: InstigatorState, by_default: bool | None) -> bool:
    """As Dagster reads it: what is declared in code counts only while the code (None: gone) still says so."""
    if by_default is None:
        return False
    if state.status is InstigatorStatus.DECLARED_IN_CODE:
        return by_default
    return state.status is InstigatorStatus.RUNNING


def _all_states(connection: "Connection") -> list[InstigatorState]:
    from dagster._core.storage.schedules.schema import InstigatorsTable
    from sqlalchemy import select

    bodies = connection.execute(select(InstigatorsTable.c.instigator_body))
    return [deserialize_value(body, InstigatorState) for (body,) in bodies]


def _may_be_wrong(state: InstigatorState) -> bool:
    """A sensor's state says whether its last tick went well; a schedule's says nothing of ticks."""
    data = state.instigator_data
    return not isinstance(data, SensorInstigatorData) or data.last_tick_success_timestamp is None


def _newest_ticks(connection: "Connection", selector_ids: Sequence[str]) -> dict[str, list[_Tick]]:
    """The newest of each, without their bodies; every part of the query reads a few rows of one index."""
    from dagster._core.storage.schedules.schema import JobTickTable
    from sqlalchemy import select, union_all

    if not selector_ids:
        return {}
    columns = (JobTickTable.c.selector_id, JobTickTable.c.status, JobTickTable.c.timestamp)
    parts = [
        select(
            select(*columns)
            .where(JobTickTable.c.selector_id == selector_id)
            .order_by(JobTickTable.c.timestamp.desc())
            .limit(FAILED_TICKS + 1)
            .subquery()
        )
        for selector_id in selector_ids
    ]
    found: dict[str, list[_Tick]] = {}
    for selector_id, status, timestamp in connection.execute(union_all(*parts)):
        found.setdefault(selector_id, []).append(_Tick(TickStatus(status), _aware(timestamp)))
    return found


def _lateness(
    schedule: dg.ScheduleDefinition, on_since: datetime, ticks: Sequence[_Tick], now: datetime
) -> LateSchedule | None:
    times = schedule_execution_time_iterator(
        (now - LATE_AFTER).timestamp(), schedule.cron_schedule, schedule.execution_timezone, ascending=False
    )
    due_at = next(times)
    newest = max((tick.at for tick in ticks), default=None)
    if due_at <= on_since or (newest is not None and newest >= due_at):
        return None
    return LateSchedule(schedule.name, due_at, newest)


def _have_failed(ticks: Sequence[_Tick]) -> bool:
    """Whether the last three that have ended failed; the newest may be under way."""
    newest_first = sorted(ticks, key=lambda tick: tick.at, reverse=True)
    ended = [tick.status for tick in newest_first if tick.status is not TickStatus.STARTED][:FAILED_TICKS]
    return len(ended) == FAILED_TICKS and all(status is TickStatus.FAILURE for status in ended)


def _names(states: Sequence[InstigatorState], kind: InstigatorType) -> tuple[str, ...]:
    return tuple(sorted(state.instigator_name for state in states if state.instigator_type is kind))


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
