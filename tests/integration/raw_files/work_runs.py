"""The pipeline's work on a connection, as the assets and sensors have it done, with small settings."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import psycopg

from assets.raw_files import front_page_store, partition_store
from assets.raw_files.file_processing import Outcome, process_files
from assets.raw_files.front_page_fetching import Collected, collect
from assets.raw_files.passes import look
from assets.raw_files.scan import Scan, scan_partition
from assets.raw_files.store import Partition
from resources.alerts import AlertResource
from resources.bucket import Bucket, BucketResource
from resources.guarded_fetch import GuardedFetcher
from tests.integration.raw_files.raw_runs import DAY

TICK = datetime(2026, 11, 30, tzinfo=UTC)
"""The daily pass that looks for DAY."""
CLAIMED_AT_ONCE = 2
LEASE_SECONDS = 300.0
NEWS: Partition = (DAY, "kr/news")
SPORTS: Partition = (DAY, "kr/sports")


@dataclass
class _Opened:
    """Stands in for the resource: a client of its own for every look takes a tenth of a second."""

    bucket: Bucket

    @contextmanager
    def open(self) -> Iterator[Bucket]:
        yield self.bucket


def look_at(connection: psycopg.Connection, bucket: Bucket) -> Scan | None:
    """The look of TICK, at its day and the one before."""
    opened = cast(BucketResource, _Opened(bucket))
    return look(connection, opened, AlertResource(), "daily", TICK, 1, "tests")


def process(
    connection: psycopg.Connection, bucket: Bucket, partition: Partition = NEWS, run_id: str = "run-1"
) -> Outcome:
    """The partition's files: its manifest, then its domains and markers."""
    partition_store.start_partition(connection, partition, run_id, 600)
    scan_partition(connection, bucket, partition)
    outcome = process_files(connection, bucket, partition, run_id)
    partition_store.finish_partition(connection, partition, run_id)
    return outcome


def a_fetcher(sites: str) -> GuardedFetcher:
    """A fetcher that trusts no certificate: the sites speak no TLS, and reading the system's takes longer."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return GuardedFetcher("GranaryBot/1.0 (tests)", local_test_sites=sites, tls=tls)


def fetch(connection: psycopg.Connection, sites: str, partition: Partition, run_id: str) -> Collected:
    """The front pages of the partition's domains, a few at a time."""
    return collect(
        connection,
        a_fetcher(sites),
        lambda: front_page_store.claim_of_partition(
            connection, partition, run_id, LEASE_SECONDS, CLAIMED_AT_ONCE
        ),
        run_id,
        slice_seconds=60,
    )


def whole_run(
    connection: psycopg.Connection,
    bucket: Bucket,
    sites: str,
    run_id: str,
    partitions: tuple[Partition, ...] = (NEWS, SPORTS),
) -> None:
    """A look, and each partition from its manifest to its front pages, whatever the look has found."""
    look_at(connection, bucket)
    for partition in partitions:
        process(connection, bucket, partition, run_id)
        fetch(connection, sites, partition, run_id)
