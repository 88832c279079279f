"""Files that are replaced or taken away between the look that lists them and the run that reads them."""

import psycopg
import pytest

from assets.raw_files.file_processing import process_files
from assets.raw_files.scan import scan_days, scan_partition
from resources.bucket import Bucket
from tests.integration.raw_files.outcomes import assert_files_are_right
from tests.integration.raw_files.raw_runs import DAY, Store, document, raw_path
from tests.integration.raw_files.work_runs import NEWS, process


@pytest.fixture
def bucket(store: Store) -> Bucket:
    return Bucket(store.client, store.name)


def statuses(connection: psycopg.Connection) -> dict[str, tuple[str, int]]:
    rows = connection.execute("SELECT key, status, attempts FROM raw.file")
    return {key: (status, attempts) for key, status, attempts in rows}


def test_a_file_replaced_after_the_listing_is_left_for_the_next_pass(
    bucket: Bucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(2), document("hanbit-news.test"))
    scan_partition(connection, bucket, NEWS)
    store.put(raw_path(1), document("narae-books.test"))

    outcome = process_files(connection, bucket, NEWS, "run-1")

    assert (outcome.left, outcome.processed, outcome.failed) == (1, 1, 0)
    assert statuses(connection)[raw_path(1)] == ("PENDING", 0)
    assert f"{raw_path(1)}.success" not in store.keys("raw/")
    assert scan_days(connection, bucket, DAY, DAY).unprocessed == {NEWS: [raw_path(1)]}
    process(connection, bucket)
    assert_files_are_right(connection, store)


@pytest.mark.parametrize("body", [document("gaon-market.test"), b"{"], ids=["waiting", "failed before"])
def test_a_file_deleted_after_the_listing_is_forgotten(
    body: bytes, bucket: Bucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), body)
    store.put(raw_path(2), document("hanbit-news.test"))
    scan_partition(connection, bucket, NEWS)
    if body == b"{":
        assert process_files(connection, bucket, NEWS, "run-1").failed == 1
    store.client.delete_object(Bucket=store.name, Key=raw_path(1))

    outcome = process_files(connection, bucket, NEWS, "run-2")

    assert (outcome.left, outcome.failed) == (1, 0)
    assert_files_are_right(connection, store)

    store.put(raw_path(1), document("gaon-market.test"))
    process(connection, bucket)
    assert_files_are_right(connection, store)


def test_a_file_replaced_and_then_deleted_is_what_it_was_before(
    bucket: Bucket, store: Store, connection: psycopg.Connection
) -> None:
    """Without its row, its old marker would have a later upload pass for one that others finished."""
    store.put(raw_path(1), document("gaon-market.test"))
    process(connection, bucket)
    store.put(raw_path(1), document("hanbit-news.test"))
    scan_partition(connection, bucket, NEWS)
    store.client.delete_object(Bucket=store.name, Key=raw_path(1))

    assert process(connection, bucket).left == 1

    assert statuses(connection) == {raw_path(1): ("PROCESSED", 0)}
    assert process(connection, bucket).left == 0
    assert connection.execute("SELECT key FROM raw.domain_sighting").fetchall() == [(raw_path(1),)]
    store.put(raw_path(1), document("narae-books.test"))
    process(connection, bucket)
    assert_files_are_right(connection, store)
