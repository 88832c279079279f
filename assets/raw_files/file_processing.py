"""Raw files become domains: one transaction a file, streamed, its marker after the commit.

The lock on the file's row is the lease: it falls with the connection, so nothing is held by a dead run, and a
run that was given up and still lives keeps what it has, so that no file is stored by two.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast

import psycopg

from assets.raw_files import store
from assets.raw_files.keys import marker_of
from assets.raw_files.raw_document import ItemCounts, RawDocumentUnreadable, items_in
from assets.raw_files.store import Marker, Partition
from resources.bucket import Bucket, ObjectGone, ObjectReplaced
from resources.counters import Counts


@dataclass
class Outcome:
    """What a run did with a partition's files; `left` were replaced, taken away or another run's."""

    processed: int = 0
    failed: int = 0
    left: int = 0
    rows: int = 0
    rejected: int = 0
    reasons: list[tuple[str, str]] = field(default_factory=list)


def process_files(
    connection: psycopg.Connection,
    bucket: Bucket,
    partition: Partition,
    run_id: str,
    progress: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Processes the partition's files that wait or failed, and writes the markers that are missing.

    A file that cannot be read is FAILED with its reason and the others go on. Raises as `Bucket` does where
    the bucket is away or refuses: what is processed by then stays.
    """
    outcome = Outcome()
    write_markers(connection, bucket, partition)
    files = store.files_to_process(connection, partition)
    for number, (key, etag, size) in enumerate(files, 1):
        progress(f"file {number} of {len(files)}, {size:,} bytes: {key}")
        _process(connection, bucket, key, etag, run_id, outcome)
        write_markers(connection, bucket, partition)
    return outcome


def write_markers(connection: psycopg.Connection, bucket: Bucket, partition: Partition) -> None:
    """Says in the bucket, for others, which files are done: also those that a dead run had committed."""
    for marker in store.markers_to_write(connection, partition):
        bucket.put(marker_of(marker.key), _body(marker), "application/json")
        store.marker_written(connection, marker)


def _process(
    connection: psycopg.Connection, bucket: Bucket, key: str, etag: str, run_id: str, outcome: Outcome
) -> None:
    counts = Counts()
    started = time.monotonic()
    with connection.transaction():
        if not store.lock_file(connection, key, etag):
            outcome.left += 1
            return
        found = ItemCounts()
        try:
            with connection.transaction(), bucket.read(key, etag) as body:
                stream = _Hashing(body)
                store.stage_items(connection, items_in(cast(BinaryIO, stream), found))
                digest = stream.rest_and_digest()
                rows = store.replace_sightings(connection, key)
        except RawDocumentUnreadable as problem:
            store.fail_file(connection, key, etag, run_id, str(problem))
            outcome.failed += 1
            outcome.reasons.append((key, str(problem)))
            counts.add("raw_files_total", outcome="failed")
        except (ObjectReplaced, ObjectGone) as problem:
            if isinstance(problem, ObjectGone):
                store.forget_gone_file(connection, key, etag)
            outcome.left += 1
            counts.add("raw_files_total", outcome="left")
        else:
            store.finish_file(connection, key, etag, run_id, rows, found.rejected, digest)
            outcome.processed += 1
            outcome.rows += rows
            outcome.rejected += found.rejected
            counts.add("raw_files_total", outcome="processed")
            counts.add("raw_file_rows_total", rows)
            counts.observe("raw_file_seconds", time.monotonic() - started)
        counts.write(connection)


def _body(marker: Marker) -> bytes:
    said = {
        "run_id": marker.run_id,
        "rows": marker.rows,
        "sha256": marker.sha256,
        "finished_at": marker.finished_at.isoformat(),
    }
    return json.dumps(said).encode()


class _Hashing:
    """A stream that digests what is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._digest.update(chunk)
        return chunk

    def rest_and_digest(self) -> str:
        """SHA-256 of the whole object in hex: what the parser had no need of is read too."""
        while self.read(1 << 20):
            pass
        return self._digest.hexdigest()
