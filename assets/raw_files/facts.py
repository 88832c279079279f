"""What is recorded of passes and partitions: all that the alarms and the daily report are made from.

Every moment is aware, in UTC; a day is the date in the key of the raw files.
"""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

Source = str
"""A country and a category, as `kr/news`."""


class PartitionStatus(StrEnum):
    """How far the files of a day and source are."""

    NEW = "NEW"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    PARTLY = "PARTLY"
    """Some of its new files could not be read; the others were processed."""
    FAILED = "FAILED"
    """The attempt failed, or not one new file could be read."""


class PassKind(StrEnum):
    """What asked for a pass."""

    DAILY = "daily"
    SUPPLEMENTARY = "supplementary"
    ARRIVAL = "arrival"
    RETRY = "retry"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class PartitionFact:
    """One day of one source, as it stands now.

    `new_files` are all its files that any pass or request found unprocessed, not only those of the last
    one; each of them is in `files_processed`, in `files_failed`, or still waits. `failures` counts the
    failed attempts in a row, and is 0 again after one that ended well.
    """

    day: date
    country: str
    category: str
    status: PartitionStatus
    new_files: int
    files_processed: int
    files_failed: int
    failures: int
    error: str | None
    next_attempt_at: datetime | None
    """None: none is planned."""
    finished_at: datetime | None

    @property
    def source(self) -> Source:
        return f"{self.country}/{self.category}"

    @property
    def has_new_files(self) -> bool:
        """True too for a partition that failed before its files were counted: no failure is left out."""
        return self.new_files > 0 or self.is_failing

    @property
    def is_finished(self) -> bool:
        """Nothing of it runs or is about to; a later attempt may be planned."""
        return self.status not in (PartitionStatus.NEW, PartitionStatus.RUNNING)

    @property
    def has_succeeded(self) -> bool:
        """It ended with what could be read; SUCCEEDED or PARTLY."""
        return self.status in (PartitionStatus.SUCCEEDED, PartitionStatus.PARTLY)

    @property
    def is_failing(self) -> bool:
        """Its last finished attempt failed: that another is under way changes this only when it ends well."""
        return self.status is PartitionStatus.FAILED or (not self.is_finished and self.failures > 0)


@dataclass(frozen=True, slots=True)
class PassFact:
    """One look for new files. A tick that finds nothing to do is a pass too, or it would seem missed.

    `day` is the day that it looked for, yesterday of its tick; the counts are of this day alone, although
    the same listing finds what is left of the days before.
    """

    kind: PassKind
    day: date
    scheduled_at: datetime
    started_at: datetime | None
    scanned_at: datetime | None
    """When its listing was complete; None: not yet, or the listing failed."""
    partitions_scanned: int
    partitions_with_new_files: int
    new_files: int
