"""Statements of raw_files on a given connection: the ledger of files, domains and where they were seen.

Opens no connection and ends no transaction. Attempts, passes and reports are in `partition_store.py`, front
pages in `front_page_store.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import Jsonb

from resources.named_sql import read_statements

if TYPE_CHECKING:
    from assets.raw_files.plan import ListedObject
    from assets.raw_files.raw_document import RawItem

SQL = read_statements(Path(__file__).parent / "sql" / "files.sql")

Partition = tuple[date, str]
"""A day (UTC) and a source, as `kr/news`."""


@dataclass(frozen=True)
class FileCounts:
    """How a partition's files stand; `rows` are sightings, `rejected` items that name no domain."""

    files: int = 0
    pending: int = 0
    processed: int = 0
    finished_by_others: int = 0
    failed: int = 0
    rows: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class Marker:
    """What a `.success` marker says of one version of a file."""

    key: str
    etag: str
    run_id: str
    rows: int
    sha256: str
    finished_at: datetime


def ledger(
    connection: psycopg.Connection, first: date, last: date, source: str | None = None
) -> dict[str, str]:
    """Each known file's processed version, "" where none was, over days first to last."""
    parameters = {"first": first, "last": last, "source": source}
    return dict(connection.execute(SQL["ledger"], parameters).fetchall())


def known_versions(connection: psycopg.Connection, first: date, last: date) -> dict[str, str]:
    """Each known file's version as last seen, "" where it waits and no run is asked for or under way."""
    return dict(connection.execute(SQL["known_versions"], {"first": first, "last": last}).fetchall())


def record_files(
    connection: psycopg.Connection,
    files: Iterable[tuple[Partition, "ListedObject"]],
    honoured: Iterable[str] = (),
) -> None:
    """Adds new files and turns replaced ones back to PENDING; `honoured` keys were finished by others."""
    finished = set(honoured)
    rows = [
        {
            "key": listed.key,
            "source": source,
            "day": day.isoformat(),
            "etag": listed.etag,
            "size": listed.size,
            "modified_at": listed.modified.isoformat() if listed.modified else None,
            "finished": listed.key in finished,
        }
        for (day, source), listed in files
    ]
    if rows:
        connection.execute(SQL["add_files"], {"files": Jsonb(rows)})
        connection.execute(SQL["replace_files"], {"files": Jsonb(rows)})


def forget_processing(connection: psycopg.Connection, keys: Iterable[str]) -> None:
    """These files wait again; one that a run is processing just now does not."""
    connection.execute(SQL["forget_processing"], {"keys": list(keys)})


def files_to_process(connection: psycopg.Connection, partition: Partition) -> list[tuple[str, str, int]]:
    """Key, version and size of what waits or failed before, in the order of the keys."""
    return list(connection.execute(SQL["files_to_process"], _of(partition)).fetchall())


def lock_file(connection: psycopg.Connection, key: str, etag: str) -> bool:
    """True if the version is this transaction's to process until it ends."""
    return connection.execute(SQL["lock_file"], {"key": key, "etag": etag}).fetchone() is not None


def stage_items(connection: psycopg.Connection, items: Iterable["RawItem"]) -> None:
    """Streams the items into the connection's temporary table, which is emptied first."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["make_stage"])
        cursor.execute(SQL["empty_stage"])
        with cursor.copy(SQL["copy_into_stage"]) as copy:
            for item in items:
                copy.write_row((item.domain, item.title, item.description, item.rank))


def replace_sightings(connection: psycopg.Connection, key: str) -> int:
    """Puts what is staged in the place of the key's sightings; their number. New domains are added."""
    connection.execute(SQL["add_domains"])
    connection.execute(SQL["drop_sightings"], {"key": key})
    return connection.execute(SQL["add_sightings"], {"key": key}).rowcount


def finish_file(
    connection: psycopg.Connection, key: str, etag: str, run_id: str, rows: int, rejected: int, sha256: str
) -> datetime:
    """PROCESSED; returns when. The caller holds the file's lock."""
    row = connection.execute(
        SQL["finish_file"],
        {"key": key, "etag": etag, "run_id": run_id, "rows": rows, "rejected": rejected, "sha256": sha256},
    ).fetchone()
    assert row is not None, "the file's lock was held"
    finished: datetime = row[0]
    return finished


def fail_file(connection: psycopg.Connection, key: str, etag: str, run_id: str, reason: str) -> None:
    """FAILED with the reason; the next pass tries again."""
    connection.execute(SQL["fail_file"], {"key": key, "etag": etag, "run_id": run_id, "reason": reason})


def forget_gone_file(connection: psycopg.Connection, key: str, etag: str) -> None:
    """The version is not in the bucket any more; one that was processed before it stands as the last.

    The caller holds its lock.
    """
    connection.execute(SQL["forget_gone_file"], {"key": key, "etag": etag})
    connection.execute(SQL["keep_gone_file"], {"key": key, "etag": etag})


def markers_to_write(connection: psycopg.Connection, partition: Partition) -> list[Marker]:
    """Of the partition's files that we processed and have not said so in the bucket."""
    return [Marker(*row) for row in connection.execute(SQL["markers_to_write"], _of(partition))]


def marker_written(connection: psycopg.Connection, marker: Marker) -> None:
    connection.execute(SQL["marker_written"], {"key": marker.key, "etag": marker.etag})


def partitions_without_markers(connection: psycopg.Connection, first: date, last: date) -> list[Partition]:
    """Partitions of the days that have markers to write: a run died between commit and marker."""
    rows: Sequence[Any] = connection.execute(
        SQL["partitions_without_markers"], {"first": first, "last": last}
    ).fetchall()
    return [(day, source) for day, source in rows]


def file_counts(connection: psycopg.Connection, partition: Partition) -> FileCounts:
    """How the partition's files stand."""
    row = connection.execute(SQL["partition_counts"], _of(partition)).fetchone()
    assert row is not None
    return FileCounts(*row)


def failed_files(
    connection: psycopg.Connection, partition: Partition, limit: int = 50
) -> list[tuple[str, str]]:
    """Keys of FAILED files with their reasons."""
    return list(connection.execute(SQL["failed_files"], {**_of(partition), "limit": limit}).fetchall())


def _of(partition: Partition) -> dict[str, object]:
    return {"day": partition[0], "source": partition[1]}
