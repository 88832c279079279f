"""Facts as a store would hand them over, of the day of the source document's example."""

from datetime import UTC, date, datetime, timedelta

from assets.raw_files.facts import PartitionFact, PartitionStatus, PassFact, PassKind

DAY = date(2026, 1, 30)
TICK = datetime(2026, 1, 31, tzinfo=UTC)
ONE_DAY = timedelta(days=1)


def partition(
    status: PartitionStatus = PartitionStatus.SUCCEEDED,
    *,
    day: date = DAY,
    category: str = "news",
    new: int = 5,
    processed: int = 0,
    unreadable: int = 0,
    failures: int = 0,
    error: str | None = None,
    next_attempt_at: datetime | None = None,
    finished_at: datetime | None = TICK + timedelta(minutes=10),
) -> PartitionFact:
    return PartitionFact(
        day=day,
        country="kr",
        category=category,
        status=status,
        new_files=new,
        files_processed=processed,
        files_failed=unreadable,
        failures=failures,
        error=error,
        next_attempt_at=next_attempt_at,
        finished_at=finished_at,
    )


def partitions(**by_status: int) -> list[PartitionFact]:
    """So many of each status, each of another source."""
    statuses = [PartitionStatus(name) for name, count in by_status.items() for _ in range(count)]
    return [partition(status, category=f"c{number:03}") for number, status in enumerate(statuses)]


def daily_pass(
    scheduled_at: datetime = TICK,
    *,
    kind: PassKind = PassKind.DAILY,
    started_after: timedelta | None = timedelta(seconds=2),
    scanned_after: timedelta | None = timedelta(seconds=10),
    scanned: int = 25,
) -> PassFact:
    return PassFact(
        kind=kind,
        day=scheduled_at.date() - ONE_DAY,
        scheduled_at=scheduled_at,
        started_at=None if started_after is None else scheduled_at + started_after,
        scanned_at=None if scanned_after is None else scheduled_at + scanned_after,
        partitions_scanned=scanned,
        partitions_with_new_files=0,
        new_files=0,
    )
