"""Old runs of Dagster: their log lines first, then whole runs, and their files.

Dagster's own `delete_run` takes a run's materialisations with it, turns its partitions missing, and leaves
evaluations of checks behind. Here a run goes only when each partition that it made was made again later.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import psycopg
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.events import DagsterEventType as Event
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager

from operations.retention import Part
from operations.retention_store import bound_statements
from resources.errors import ServiceNotConfigured, ServiceUnavailable
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "run_purge.sql")
PORTION = 200

_ASSET_EVENTS = [event.value for event in ASSET_EVENTS]
_KEPT = [
    *_ASSET_EVENTS,
    *(event.value for event in ASSET_CHECK_EVENTS),
    # How the run went, for as long as it is shown.
    *(event.value for event in (Event.RUN_START, Event.RUN_SUCCESS, Event.RUN_FAILURE, Event.RUN_CANCELED)),
    Event.STEP_FAILURE.value,
]
_RESUMABLE = [
    event.value
    for event in (
        Event.STEP_START,
        Event.STEP_SUCCESS,
        Event.STEP_OUTPUT,
        Event.STEP_SKIPPED,
        Event.RESOURCE_INIT_FAILURE,
    )
]
"""What a rerun from failure reads of the run that failed."""

log = logging.getLogger("granary.retention")


def run_parts(instance: dg.DagsterInstance, now: datetime, run_days: int, log_days: int) -> list[Part]:
    """Log lines of runs that ended `log_days` ago, then whole runs that ended `run_days` ago. `now` is aware.

    None where the instance forgets by itself. The parts raise ServiceNotConfigured where Dagster's storage is
    not in Postgres.
    """
    if instance.is_ephemeral:
        return []
    logs_before, runs_before = now - timedelta(days=log_days), now - timedelta(days=run_days)
    return [
        Part("dagster_logs", partial(_purge_logs, instance, logs_before)),
        Part("dagster_tick_logs", partial(_purge_tick_logs, instance, logs_before)),
        Part("dagster_runs", partial(_purge_runs, instance, runs_before)),
    ]


def purge_logs(
    connection: psycopg.Connection, instance: dg.DagsterInstance, before: datetime, limit: int = PORTION
) -> Iterator[int]:
    """Rows of the event log that went, a portion of runs at a time, with what their steps printed."""
    after = 0
    while True:
        parameters = {"after": after, "before": before, "limit": limit}
        kept = {"kept": _KEPT, "resumable": _RESUMABLE}
        runs = connection.execute(SQL["runs_with_logs"], {**parameters, **kept}).fetchall()
        if not runs:
            return
        deleted = 0
        for failed, kept_types in ((False, _KEPT), (True, [*_KEPT, *_RESUMABLE])):
            ids = [run_id for _, run_id, has_failed, has_logs in runs if has_logs and has_failed is failed]
            found = connection.execute(SQL["delete_logs"], {"run_ids": ids, "kept": kept_types})
            deleted += found.rowcount
            # After the rows, which may wait for a lock in vain; what a kill leaves here goes with the run.
            _delete_files(instance, ids, with_artifacts=False)
        yield deleted
        after = runs[-1][0]


def purge_runs(
    connection: psycopg.Connection, instance: dg.DagsterInstance, before: datetime, limit: int = PORTION
) -> Iterator[int]:
    """Runs that went, a portion at a time, with their events, evaluations, printed output and artifacts."""
    checked = [run_id for (run_id,) in connection.execute(SQL["runs_that_checks_need"]) if run_id]
    parameters = {"before": before, "limit": limit, "checked": checked, "asset_events": _ASSET_EVENTS}
    after = 0
    while True:
        with connection.transaction():
            runs = connection.execute(SQL["old_runs"], {**parameters, "after": after}).fetchall()
            going = [run_id for _, run_id, may_go in runs if may_go]
            for name in ("delete_event_tags", "delete_checks", "delete_events", "delete_runs"):
                connection.execute(SQL[name], {"run_ids": going})
        if not runs:
            return
        # After the commit: a run that stays after all keeps its files. A kill here leaves some for good.
        _delete_files(instance, going, with_artifacts=True)
        yield len(going)
        after = runs[-1][0]


@contextmanager
def dagster_database(instance: dg.DagsterInstance) -> Iterator[psycopg.Connection]:
    """A connection to the database of Dagster's runs and events, in autocommit mode, bounded in time.

    Raises ServiceNotConfigured where they are not in Postgres, ServiceUnavailable where it does not answer.
    """
    url = getattr(instance.event_log_storage, "postgres_url", "")
    if not url:
        raise ServiceNotConfigured("Dagster's storage is not in Postgres: old runs are not purged")
    try:
        connection = psycopg.connect(
            url.replace("postgresql+psycopg2://", "postgresql://"), autocommit=True, connect_timeout=10
        )
    except psycopg.Error as error:  # its message may quote the address with its password
        raise ServiceUnavailable(
            f"Dagster's database (DAGSTER_PG_URL) does not answer ({type(error).__name__})"
        ) from None
    with connection:
        bound_statements(connection)
        yield connection


def _purge_logs(instance: dg.DagsterInstance, before: datetime) -> Iterator[int]:
    with dagster_database(instance) as connection:
        yield from purge_logs(connection, instance, before)


def _purge_runs(instance: dg.DagsterInstance, before: datetime) -> Iterator[int]:
    with dagster_database(instance) as connection:
        yield from purge_runs(connection, instance, before)


def _purge_tick_logs(instance: dg.DagsterInstance, before: datetime) -> Iterator[int]:
    # What sensors and schedules log lies in <repository>/<name>/<tick>.err; Dagster drops their ticks alone.
    manager = instance.compute_log_manager
    if not isinstance(manager, LocalComputeLogManager):
        return
    old = [
        file
        for file in Path(manager._base_dir).glob("__repository__/*/*")
        if file.is_file() and file.stat().st_mtime < before.timestamp()
    ]
    for file in old:
        file.unlink(missing_ok=True)
    yield len(old)


def _delete_files(instance: dg.DagsterInstance, run_ids: Iterable[str], with_artifacts: bool) -> None:
    for run_id in run_ids:
        try:
            instance.compute_log_manager.delete_logs(prefix=[run_id])
            if with_artifacts:
                shutil.rmtree(os.path.join(instance.storage_directory(), run_id), ignore_errors=True)
        except OSError as error:  # a file that somebody else owns does not keep the rows
            log.warning("files of run %s are left: %s", run_id, type(error).__name__)
