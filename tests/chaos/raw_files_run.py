"""A run over what a look has found and what is due again, as sensors and assets of raw_files do it."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import psycopg

from assets.raw_files import front_page_store, partition_store
from assets.raw_files.file_processing import process_files
from assets.raw_files.front_page_fetching import collect
from assets.raw_files.front_page_store import Claim
from assets.raw_files.passes import look
from assets.raw_files.scan import scan_partition
from assets.raw_files.store import Partition
from resources.alerts import AlertResource
from resources.bucket import Bucket, BucketResource
from resources.errors import ServiceUnavailable
from tests.integration.raw_files.work_runs import CLAIMED_AT_ONCE, LEASE_SECONDS, TICK, a_fetcher

Result = TypeVar("Result")

ENVIRONMENT = "tests"
REFRESH_EVERY = 4
MOST_PARTITIONS = 2
TRIES_A_STEP = 4
"""The step's own and the three later ones that it asks for where the bucket is away (`failures_by_owner`)."""
RUN_SECONDS = 1_860
DAYS_BEFORE_ANEW = 7


class Run:
    """One run; every fourth one also fetches front pages of any partition."""

    def __init__(
        self,
        connection: psycopg.Connection,
        resource: BucketResource,
        bucket: Bucket,
        sites: str,
        run_id: str,
    ) -> None:
        self._connection = connection
        self._resource = resource
        self._bucket = bucket
        self._sites = sites
        self._run_id = run_id

    def whole(self, turn: int) -> None:
        if turn % REFRESH_EVERY == 0:
            self._fetch(None)
        for partition in self._asked_for(turn):
            self._process(partition)
            self._fetch(partition)

    def _asked_for(self, turn: int) -> Iterable[Partition]:
        """What the look of this tick has found, and those that failed before; what is due again."""
        found: set[Partition] = set()
        again = [at for _, _, at in partition_store.passes_due(self._connection)]
        for at in [*again, TICK + timedelta(minutes=turn)]:
            with suppress(ServiceUnavailable):  # due again by its row
                found.update(_with_later_tries(partial(self._look, at)))
        due = partition_store.partitions_due(self._connection, MOST_PARTITIONS)
        return found | {(one.day, one.source) for one in due}

    def _look(self, at: datetime) -> list[Partition]:
        kind, catch_up_days = "supplementary", 1
        seen = look(self._connection, self._resource, AlertResource(), kind, at, catch_up_days, ENVIRONMENT)
        return seen.to_do() if seen else []

    def _process(self, partition: Partition) -> None:
        """As the steps raw_file_manifest and raw_domains do it."""
        partition_store.start_partition(self._connection, partition, self._run_id, RUN_SECONDS)
        _with_later_tries(lambda: scan_partition(self._connection, self._bucket, partition))
        _with_later_tries(lambda: process_files(self._connection, self._bucket, partition, self._run_id))
        partition_store.finish_partition(self._connection, partition, self._run_id)

    def _fetch(self, partition: Partition | None) -> None:
        """Front pages of the partition, or of all as domain_metadata_refresh does."""

        def claim() -> list[Claim]:
            if partition is None:
                return front_page_store.claim_oldest(
                    self._connection, self._run_id, LEASE_SECONDS, DAYS_BEFORE_ANEW, CLAIMED_AT_ONCE
                )
            return front_page_store.claim_of_partition(
                self._connection, partition, self._run_id, LEASE_SECONDS, CLAIMED_AT_ONCE
            )

        collect(self._connection, a_fetcher(self._sites), claim, self._run_id, slice_seconds=60)


def _with_later_tries(step: Callable[[], Result]) -> Result:
    for _ in range(TRIES_A_STEP - 1):
        with suppress(ServiceUnavailable):
            return step()
    return step()
