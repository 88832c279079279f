"""Statements on passes, attempts at partitions, requests, reports and failures, on a given connection."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from assets.raw_files.facts import PartitionFact, PartitionStatus, PassFact, PassKind
from assets.raw_files.retry_times import RETRY_DELAYS
from assets.raw_files.store import Partition
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "partitions.sql")
REQUEST_TAG = "granary/request"
"""On a run, the id of the request that asked for it."""
DELAYS = [int(delay.total_seconds() // 60) for delay in RETRY_DELAYS]


@dataclass(frozen=True)
class DuePartition:
    """A partition whose next try is due; `failures`: tries that have failed in a row."""

    day: date
    source: str
    failures: int


@dataclass(frozen=True)
class Request:
    """A partition that somebody asked for over HTTP."""

    id: int
    day: date
    source: str
    force: bool


@dataclass(frozen=True)
class Failure:
    """A row of the failure log."""

    type: str
    kind: str
    error: str
    environment: str
    stack: str | None = None
    partition: str | None = None
    run_id: str | None = None


def now(connection: psycopg.Connection) -> datetime:
    """The database's clock."""
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


def start_pass(connection: psycopg.Connection, kind: str, scheduled_at: datetime, day: date) -> int | None:
    """The pass of a tick, or None where that tick has had its look already."""
    row = connection.execute(
        SQL["start_pass"], {"kind": kind, "scheduled_at": scheduled_at, "day": day}
    ).fetchone()
    return None if row is None else int(row[0])


def finish_pass(
    connection: psycopg.Connection, pass_id: int, scanned: int, with_new_files: int, new_files: int
) -> None:
    """The look succeeded: partitions of its day that have files, those with new ones, and the new files."""
    connection.execute(
        SQL["finish_pass"],
        {"id": pass_id, "scanned": scanned, "with_new_files": with_new_files, "new_files": new_files},
    )


def fail_pass(
    connection: psycopg.Connection, pass_id: int, error: str, delays: Sequence[int]
) -> datetime | None:
    """When the look is repeated, by the delays in minutes; None: not any more."""
    row = connection.execute(
        SQL["fail_pass"], {"id": pass_id, "error": error, "delays": list(delays)}
    ).fetchone()
    return None if row is None else row[0]


def passes_due(connection: psycopg.Connection) -> list[tuple[int, str, datetime]]:
    """Looks to repeat now: id, kind and the time of their tick."""
    return list(connection.execute(SQL["passes_due"]).fetchall())


def pass_facts(connection: psycopg.Connection, since: datetime) -> list[PassFact]:
    """The passes whose tick was at or after `since`, oldest first."""
    rows = connection.execute(SQL["pass_facts"], {"since": since})
    return [PassFact(PassKind(kind), *rest) for kind, *rest in rows]


def newest_pass_day(connection: psycopg.Connection) -> date | None:
    """The latest day that a pass looked for."""
    row = connection.execute(SQL["newest_pass_day"]).fetchone()
    return None if row is None else row[0]


def ask_for_partitions(connection: psycopg.Connection, partitions: Iterable[Partition]) -> set[Partition]:
    """Notes that runs are asked for; those that no run is at just now. Failures in a row stay counted."""
    rows = [{"day": day.isoformat(), "source": source} for day, source in partitions]
    if not rows:
        return set()
    return set(connection.execute(SQL["ask_for_partitions"], {"partitions": Jsonb(rows)}).fetchall())


def start_partition(
    connection: psycopg.Connection, partition: Partition, run_id: str, most_seconds: int
) -> None:
    """RUNNING by this run; overdue after `most_seconds`."""
    connection.execute(SQL["start_partition"], {**_of(partition), "run_id": run_id, "seconds": most_seconds})


def finish_partition(connection: psycopg.Connection, partition: Partition, run_id: str) -> bool:
    """DONE, unless the attempt is another run's by now."""
    finished = connection.execute(SQL["finish_partition"], {**_of(partition), "run_id": run_id})
    return finished.fetchone() is not None


def fail_partition(
    connection: psycopg.Connection, partition: Partition, run_id: str, error: str
) -> tuple[int, datetime | None] | None:
    """FAILED: how often in a row, and when it is tried again (None: spent). None: not this run's attempt."""
    row = connection.execute(
        SQL["fail_partition"], {**_of(partition), "run_id": run_id, "error": error, "delays": DELAYS}
    ).fetchone()
    return None if row is None else (row[0], row[1])


def stop_partition(connection: psycopg.Connection, partition: Partition, run_id: str) -> None:
    """A person canceled the run: FAILED without a next try."""
    connection.execute(SQL["stop_partition"], {**_of(partition), "run_id": run_id})


def overdue_partitions(connection: psycopg.Connection) -> list[tuple[date, str, str]]:
    """Day, source and run of attempts that have taken longer than a run may."""
    return list(connection.execute(SQL["overdue_partitions"]).fetchall())


def partitions_due(connection: psycopg.Connection, limit: int) -> list[DuePartition]:
    return [DuePartition(*row) for row in connection.execute(SQL["partitions_due"], {"limit": limit})]


def partition_facts(connection: psycopg.Connection, first: date, last: date) -> list[PartitionFact]:
    """Every partition of the days that had files new to us, or an attempt."""
    facts = []
    for row in connection.execute(SQL["partition_facts"], {"first": first, "last": last}):
        day, source, attempt, new_files, processed, failed, failures, error, due_at, finished_at = row
        country, category = source.split("/")
        facts.append(
            PartitionFact(
                day=day,
                country=country,
                category=category,
                status=_status(attempt, new_files, processed, failed),
                new_files=new_files,
                files_processed=processed,
                files_failed=failed,
                failures=failures,
                error=error,
                next_attempt_at=due_at,
                finished_at=finished_at,
            )
        )
    return facts


def _status(attempt: str, new_files: int, processed: int, failed: int) -> PartitionStatus:
    if attempt != "DONE":
        return PartitionStatus(attempt)
    if failed:
        return PartitionStatus.PARTLY if processed else PartitionStatus.FAILED
    return PartitionStatus.SUCCEEDED if processed == new_files else PartitionStatus.NEW


def files_by_day(connection: psycopg.Connection, first: date, last: date) -> dict[date, int]:
    """How many files each day has, whoever processed them; a day without one is not in it."""
    return dict(connection.execute(SQL["files_by_day"], {"first": first, "last": last}).fetchall())


def scanned_days(connection: psycopg.Connection, first: date, last: date) -> set[date]:
    """The days that a finished pass looked for."""
    rows = connection.execute(SQL["scanned_days"], {"first": first, "last": last})
    return {day for (day,) in rows}


def request_partition(
    connection: psycopg.Connection, country: str, category: str, day: date, force: bool
) -> int:
    """The id of the request, which a sensor starts."""
    row = connection.execute(
        SQL["request_partition"], {"day": day, "source": f"{country}/{category}", "force": force}
    ).fetchone()
    assert row is not None
    return int(row[0])


def requests_waiting(connection: psycopg.Connection, limit: int) -> list[Request]:
    """Oldest first."""
    return [Request(*row) for row in connection.execute(SQL["requests_waiting"], {"limit": limit})]


def request_started(connection: psycopg.Connection, request_id: int, run_id: str) -> None:
    connection.execute(SQL["request_started"], {"id": request_id, "run_id": run_id})


def reports_due(connection: psycopg.Connection, since: date) -> list[date]:
    """Days, newest first, of which something has happened since their report and on which nothing runs."""
    return [day for (day,) in connection.execute(SQL["reports_due"], {"since": since})]


def write_report(
    connection: psycopg.Connection, day: date, as_of: datetime, summary: Mapping[str, object]
) -> None:
    """Keeps the summary; an older one never replaces a newer."""
    connection.execute(SQL["write_report"], {"day": day, "as_of": as_of, "summary": Jsonb(dict(summary))})


def daily_report(connection: psycopg.Connection, day: date) -> dict[str, object] | None:
    """The day's summary as it was written last, or None."""
    row = connection.execute(SQL["daily_report"], {"day": day}).fetchone()
    return None if row is None else row[0]


def log_failure(connection: psycopg.Connection, failure: Failure) -> None:
    """Adds to raw.failure_log; a run's failure of one kind once."""
    connection.execute(SQL["log_failure"], vars(failure))


def _of(partition: Partition) -> dict[str, object]:
    return {"day": partition[0], "source": partition[1]}
