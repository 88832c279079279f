"""Two runs, or a run and a look, at one file or one domain; the order is fixed by hooks."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO

import psycopg
import pytest

from assets.raw_files import partition_store
from assets.raw_files import store as ledger
from assets.raw_files.file_processing import Outcome, process_files
from assets.raw_files.raw_document import RawItem
from assets.raw_files.scan import scan_arrivals, scan_days, scan_partition
from resources.bucket import Bucket
from tests.integration.raw_files.outcomes import assert_files_are_right, files_stored
from tests.integration.raw_files.raw_runs import DAY, Store, document, raw_path
from tests.integration.raw_files.work_runs import NEWS, process

Connect = Callable[..., psycopg.Connection]
THIS_FILE, ANOTHER = raw_path(1), raw_path(2)


@pytest.fixture
def bucket(store: Store) -> Bucket:
    store.put(THIS_FILE, document("gaon-market.test", "hanbit-news.test"))
    return Bucket(store.client, store.name)


class Interrupted(Bucket):
    """Has something else happen while a file is read: its lock is held, its rows are not there yet."""

    def __init__(self, bucket: Bucket, meanwhile: Callable[[], object]) -> None:
        super().__init__(bucket._client, bucket.name)
        self._meanwhile = meanwhile

    @contextmanager
    def read(self, key: str, etag: str) -> Iterator[BinaryIO]:
        with super().read(key, etag) as body:
            self._meanwhile()
            yield body


def impatient(connect: Connect) -> psycopg.Connection:
    """A connection that fails instead of waiting for a lock."""
    connection = connect()
    connection.execute("SET lock_timeout = '100ms'")
    return connection


def status_of(connection: psycopg.Connection, key: str = THIS_FILE) -> tuple[str, str | None]:
    row = connection.execute("SELECT status, run_id FROM raw.file WHERE key = %s", (key,)).fetchone()
    assert row is not None
    return row


def test_a_second_run_skips_a_file_that_is_being_processed_and_takes_the_others(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    first, second = connect(), impatient(connect)
    store.put(ANOTHER, document("narae-books.test"))
    scan_partition(first, bucket, NEWS)
    seen: list[Outcome] = []

    def meanwhile() -> None:
        if not seen:
            seen.append(process_files(second, bucket, NEWS, "second"))

    outcome = process_files(first, Interrupted(bucket, meanwhile), NEWS, "first")

    assert (seen[0].processed, seen[0].left) == (1, 1)
    assert (outcome.processed, outcome.left) == (1, 1)
    assert status_of(first) == ("PROCESSED", "first")
    assert status_of(first, ANOTHER) == ("PROCESSED", "second")
    assert files_stored(first) == 2
    assert_files_are_right(first, store)


def test_a_run_that_was_given_up_and_still_lives_stores_what_it_holds_once(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    first, second = connect(), impatient(connect)
    partition_store.start_partition(first, NEWS, "first", 600)
    scan_partition(first, bucket, NEWS)

    def meanwhile() -> None:
        assert partition_store.fail_partition(second, NEWS, "first", "no sign of life") is not None
        assert process(second, bucket, NEWS, "second").left == 1

    process_files(first, Interrupted(bucket, meanwhile), NEWS, "first")

    assert not partition_store.finish_partition(first, NEWS, "first")
    assert first.execute("SELECT run_id, status FROM raw.partition").fetchall() == [("second", "DONE")]
    assert status_of(first) == ("PROCESSED", "first")
    assert process(second, bucket, NEWS, "third").processed == 0
    assert files_stored(first) == 1
    assert_files_are_right(first, store)


def test_a_run_whose_connection_was_cut_stores_nothing_after_another_has(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    first, second = connect(), connect()
    scan_partition(first, bucket, NEWS)

    def meanwhile() -> None:
        second.execute("SELECT pg_terminate_backend(%s, 5000)", (first.info.backend_pid,))
        assert process(second, bucket, NEWS, "second").processed == 1

    with pytest.raises(psycopg.OperationalError):
        process_files(first, Interrupted(bucket, meanwhile), NEWS, "first")

    assert status_of(second) == ("PROCESSED", "second")
    assert files_stored(second) == 1
    assert_files_are_right(second, store)


def test_a_look_does_not_wait_for_the_file_that_is_being_processed(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    first, looking = connect(), impatient(connect)
    scan_partition(first, bucket, NEWS)

    def meanwhile() -> None:
        store.put(THIS_FILE, document("narae-books.test"))
        store.put(ANOTHER, document("quiet-engine.test"))
        assert scan_days(looking, bucket, DAY, DAY).unprocessed == {NEWS: [THIS_FILE, ANOTHER]}
        assert status_of(looking, ANOTHER) == ("PENDING", None)
        ledger.forget_processing(looking, [THIS_FILE])

    process_files(first, Interrupted(bucket, meanwhile), NEWS, "first")

    # What it had read by then is stored; the newer version is the next look's to see.
    assert status_of(first) == ("PROCESSED", "first")
    assert scan_days(looking, bucket, DAY, DAY).unprocessed == {NEWS: [THIS_FILE, ANOTHER]}
    process(first, bucket)
    assert_files_are_right(first, store)


def test_a_look_does_not_wait_for_a_file_that_is_finished_and_not_committed(
    connect: Connect, bucket: Bucket
) -> None:
    first, looking = connect(), impatient(connect)
    scan_partition(first, bucket, NEWS)
    (etag,) = first.execute("SELECT etag FROM raw.file").fetchone() or ("",)

    with first.transaction():
        assert ledger.lock_file(first, THIS_FILE, etag)
        ledger.finish_file(first, THIS_FILE, etag, "first", 0, 0, "0" * 64)
        assert scan_days(looking, bucket, DAY, DAY).unprocessed == {NEWS: [THIS_FILE]}
        assert process_files(looking, bucket, NEWS, "second").left == 1

    assert scan_days(looking, bucket, DAY, DAY).new_files_on(DAY) == 0


def test_two_looks_that_find_the_same_new_files_record_them_once(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    store.put(ANOTHER, document("narae-books.test"))
    first, second = connect(), connect()

    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            scan_days(first, bucket, DAY, DAY)
            other = pool.submit(scan_days, second, bucket, DAY, DAY)
            until_waiting(first, 1)
        assert other.result(30).unprocessed == {NEWS: [THIS_FILE, ANOTHER]}

    assert first.execute("SELECT key FROM raw.file ORDER BY key").fetchall() == [(THIS_FILE,), (ANOTHER,)]


def test_files_that_name_the_same_new_domains_in_opposite_order_do_not_block_each_other_for_good(
    connect: Connect, bucket: Bucket, store: Store
) -> None:
    names = ["aaa.test", "mmm.test", "zzz.test"]
    store.put(ANOTHER, document("narae-books.test"))
    holder, first, second = connect(), connect(), connect()
    scan_partition(holder, bucket, NEWS)

    def add(connection: psycopg.Connection, key: str, domains: list[str]) -> int:
        with connection.transaction():
            ledger.stage_items(connection, [RawItem(domain, None, None, None) for domain in domains])
            return ledger.replace_sightings(connection, key)

    with ThreadPoolExecutor(2) as pool:
        # Both come to wait in the middle of their domains, with the first of them added.
        with holder.transaction(force_rollback=True):
            holder.execute("INSERT INTO raw.domain (domain, first_seen_at) VALUES ('mmm.test', now())")
            one = pool.submit(add, first, THIS_FILE, names)
            until_waiting(holder, 1)
            other = pool.submit(add, second, ANOTHER, names[::-1])
            until_waiting(holder, 2)
        assert (one.result(30), other.result(30)) == (3, 3)

    assert holder.execute("SELECT domain FROM raw.domain ORDER BY id").fetchall() == [(one,) for one in names]


def until_waiting(connection: psycopg.Connection, count: int) -> None:
    """Returns once so many connections wait for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 30
    while connection.execute(waiting).fetchone() != (count,):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_arrivals_that_nobody_has_asked_a_run_for_are_seen_again(
    connection: psycopg.Connection, bucket: Bucket
) -> None:
    assert scan_arrivals(connection, bucket, DAY, DAY) == [NEWS]

    # The sensor died here.
    assert scan_arrivals(connection, bucket, DAY, DAY) == [NEWS]
    partition_store.ask_for_partitions(connection, [NEWS])
    assert scan_arrivals(connection, bucket, DAY, DAY) == []


def test_an_arrival_during_a_run_is_asked_for_after_it(
    connection: psycopg.Connection, bucket: Bucket, store: Store
) -> None:
    partition_store.start_partition(connection, NEWS, "first", 600)
    scan_partition(connection, bucket, NEWS)

    def meanwhile() -> None:
        store.put(ANOTHER, document("narae-books.test"))
        assert scan_arrivals(connection, bucket, DAY, DAY) == [NEWS]
        partition_store.ask_for_partitions(connection, [NEWS])  # changes nothing: one runs
        assert scan_arrivals(connection, bucket, DAY, DAY) == []

    process_files(connection, bucket, NEWS, "first", progress=lambda line: meanwhile())
    partition_store.finish_partition(connection, NEWS, "first")

    assert scan_arrivals(connection, bucket, DAY, DAY) == [NEWS]
