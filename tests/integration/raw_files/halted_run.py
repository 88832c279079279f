"""A run over a partition's files in a thread of its own, halted in the middle of each file that it reads."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Queue
from typing import BinaryIO, cast

import psycopg

from assets.raw_files.file_processing import process_files
from resources.bucket import Bucket, ObjectGone, ObjectReplaced, StoredObject
from tests.integration.raw_files.file_model import version
from tests.integration.raw_files.work_runs import NEWS

SECONDS = 30
"""Nothing here takes so long."""
LOOKED_AT = datetime(2026, 11, 30, tzinfo=UTC)


class Died(Exception):
    """The run's process, as far as the run can tell."""


class Shelf:
    """Objects in memory: what the pipeline asks of a bucket, and nothing that it does not."""

    def __init__(self) -> None:
        self.objects_by_key: dict[str, bytes] = {}

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        for key, body in sorted(self.objects_by_key.items()):
            if key.startswith(prefix):
                yield StoredObject(key, version(body), len(body), LOOKED_AT)

    @contextmanager
    def read(self, key: str, etag: str) -> Iterator[BinaryIO]:
        if key not in self.objects_by_key:
            raise ObjectGone(key)
        if version(self.objects_by_key[key]) != etag:
            raise ObjectReplaced(key)
        yield io.BytesIO(self.objects_by_key[key])

    def put(self, key: str, body: bytes, content_type: str) -> None:
        self.objects_by_key[key] = body


class HaltedRun(Shelf):
    """Runs as soon as it is made, until it has a file open: `is_at` is its key, None where it has ended."""

    def __init__(self, connection: psycopg.Connection, shelf: Shelf, run_id: str) -> None:
        self.objects_by_key = shelf.objects_by_key
        self.is_at: str | None = None
        self._told: Queue[str | BaseException | None] = Queue()
        self._orders: Queue[bool] = Queue()
        self._dies_at_marker = False
        self._thread = threading.Thread(target=self._run, args=(connection, run_id), daemon=True)
        self._thread.start()
        self._wait()

    def go_on(self, dies_at_marker: bool = False) -> None:
        """To the next file that it may read, its end, or its death between a commit and the marker."""
        self._dies_at_marker = dies_at_marker
        self._orders.put(True)
        self._wait()

    def die(self) -> None:
        """Ends with its file unread; its connection lives on, without the transaction."""
        self._orders.put(False)
        self._wait()

    @contextmanager
    def read(self, key: str, etag: str) -> Iterator[BinaryIO]:
        with super().read(key, etag) as body:
            self._told.put(key)
            if not self._orders.get(timeout=SECONDS):
                raise Died
            yield body

    def put(self, key: str, body: bytes, content_type: str) -> None:
        if self._dies_at_marker:
            raise Died
        super().put(key, body, content_type)

    def _run(self, connection: psycopg.Connection, run_id: str) -> None:
        try:
            process_files(connection, cast(Bucket, self), NEWS, run_id)
            self._told.put(None)
        except BaseException as error:
            self._told.put(None if isinstance(error, Died) else error)

    def _wait(self) -> None:
        told = self._told.get(timeout=SECONDS)
        self.is_at = told if isinstance(told, str) else None
        if isinstance(told, BaseException):
            raise told
        if told is None:
            self._thread.join(SECONDS)
