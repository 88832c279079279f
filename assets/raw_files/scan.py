"""A look at the bucket: lists, compares with the ledger, and writes down what is new."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

import psycopg

from assets.raw_files import store
from assets.raw_files.listing import list_partition, list_wanted
from assets.raw_files.plan import ListedObject, SourceDay, survey
from assets.raw_files.store import Partition
from resources.bucket import Bucket


@dataclass(frozen=True)
class Scan:
    """What a look found, by partition."""

    files: dict[Partition, list[ListedObject]]
    unprocessed: dict[Partition, list[str]]
    finished_by_others: int
    ignored: int
    near_misses: list[str]

    def to_do(self) -> list[Partition]:
        """The partitions that have files to process, newest day first."""
        return sorted(self.unprocessed, reverse=True)

    def partitions_on(self, day: date) -> int:
        return sum(1 for found, _ in self.files if found == day)

    def to_do_on(self, day: date) -> int:
        return sum(1 for found, _ in self.unprocessed if found == day)

    def new_files_on(self, day: date) -> int:
        return sum(len(keys) for (found, _), keys in self.unprocessed.items() if found == day)


def scan_days(connection: psycopg.Connection, bucket: Bucket, first: date, last: date) -> Scan:
    """All sources over days first to last (UTC). Raises as `Bucket` does, and records nothing then.

    Partitions with markers to write are to be done too, with no file.
    """
    found = _scan(connection, list_wanted(bucket, first, last), store.ledger(connection, first, last))
    for partition in store.partitions_without_markers(connection, first, last):
        found.unprocessed.setdefault(partition, [])
    return found


def scan_partition(connection: psycopg.Connection, bucket: Bucket, partition: Partition) -> Scan:
    """One partition alone."""
    day, source = partition
    country, category = source.split("/")
    objects = list_partition(bucket, country, category, day)
    return _scan(connection, objects, store.ledger(connection, day, day, source))


def scan_arrivals(connection: psycopg.Connection, bucket: Bucket, first: date, last: date) -> list[Partition]:
    """The partitions with files that no look has seen before in this version; newest day first.

    A file that failed is not tried again here but on the next pass, and one that waits has its run.
    """
    known = store.known_versions(connection, first, last)
    return _scan(connection, list_wanted(bucket, first, last), known).to_do()


def _scan(connection: psycopg.Connection, objects: Iterable[ListedObject], ledger: dict[str, str]) -> Scan:
    """Compares and records: new and replaced files, and those that others have finished."""
    found = survey(objects, ledger)
    wanted = {key for keys in found.unprocessed.values() for key in keys} | set(found.honoured)
    files = {_partition(place): listed for place, listed in found.files.items()}
    changed = [(partition, one) for partition, listed in files.items() for one in listed if one.key in wanted]
    with connection.transaction():
        store.record_files(connection, changed, found.honoured)
    unprocessed = {_partition(place): keys for place, keys in found.unprocessed.items()}
    return Scan(files, unprocessed, len(found.honoured), found.ignored, found.near_misses)


def _partition(place: SourceDay) -> Partition:
    country, category, day = place
    return day, f"{country}/{category}"
