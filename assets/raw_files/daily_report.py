"""The report of a day: the JSON of the source document with its field names, and the same as Markdown."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TypedDict

from assets.raw_files.facts import PartitionFact, PartitionStatus, PassFact, PassKind
from assets.raw_files.markdown_text import escaped
from assets.raw_files.retry_times import ONE_DAY, PASS_HOURS, next_pass

MOST_NAMED = 50

_TENTH_OF_A_MINUTE = timedelta(seconds=6)


class ProcessingSummary(TypedDict):
    """Moments are as `2026-01-31T00:15:23Z`."""

    date: str
    scheduled_at: str
    completed_at: str | None
    duration_minutes: float | None
    partitions_scanned: int
    partitions_with_new_files: int
    partitions_processed_successfully: int
    partitions_failed: int
    total_new_files: int
    total_files_processed: int
    success_rate: float | None


class FailedPartition(TypedDict):
    """A partition whose last attempt failed, and when the next one is; None: only by request."""

    country: str
    category: str
    date: str
    error: str | None
    retry_scheduled: str | None


class ReportDetails(TypedDict):
    """What the example leaves out: files that could not be read, and what has not ended."""

    files_failed: int
    partitions_partly_processed: int
    partitions_unfinished: int


class DailySummary(TypedDict):
    """The source document's example, and `details`, which it does not have."""

    daily_processing_summary: ProcessingSummary
    failed_partitions: list[FailedPartition]
    details: ReportDetails


def daily_summary(
    day: date,
    passes: Sequence[PassFact],
    partitions: Sequence[PartitionFact],
    now: datetime,
    catch_up_days: int = 7,
) -> DailySummary:
    """The report of `day` as it stands at `now`; facts of other days are left out.

    `scheduled_at` is the tick of the daily pass. The day is complete when its partitions have ended and
    the listing was made, whichever is later; `completed_at` and `duration_minutes` (since the tick, to a
    tenth) are None before that. `success_rate` is succeeded ÷ with new files (a partition of which some
    files could not be read has succeeded), to four digits; None where there were none. `retry_scheduled`
    is the next attempt, else the next scheduled pass that looks at the day.
    """
    of_day = sorted((fact for fact in partitions if fact.day == day), key=lambda fact: fact.source)
    looks = [one for one in passes if one.day == day]
    with_new = [fact for fact in of_day if fact.has_new_files]
    succeeded = sum(fact.has_succeeded for fact in with_new)
    failed = [fact for fact in with_new if fact.status is PartitionStatus.FAILED]
    scheduled = _scheduled_at(day, looks)
    completed = _completed_at(scheduled, looks, with_new)
    return {
        "daily_processing_summary": {
            "date": day.isoformat(),
            "scheduled_at": _iso(scheduled),
            "completed_at": _iso(completed) if completed else None,
            "duration_minutes": _minutes(completed - scheduled) if completed else None,
            # A day that only a later pass caught up with has partitions and no pass of its own.
            "partitions_scanned": max([len(of_day), *(one.partitions_scanned for one in looks)]),
            "partitions_with_new_files": len(with_new),
            "partitions_processed_successfully": succeeded,
            "partitions_failed": len(failed),
            "total_new_files": sum(fact.new_files for fact in with_new),
            "total_files_processed": sum(fact.files_processed for fact in with_new),
            "success_rate": round(succeeded / len(with_new), 4) if with_new else None,
        },
        "failed_partitions": [_failed_partition(fact, now, catch_up_days) for fact in failed],
        "details": {
            "files_failed": sum(fact.files_failed for fact in with_new),
            "partitions_partly_processed": sum(fact.status is PartitionStatus.PARTLY for fact in with_new),
            "partitions_unfinished": sum(not fact.is_finished for fact in with_new),
        },
    }


def as_markdown(summary: DailySummary) -> str:
    """Two tables: the day's numbers, and its failed partitions where there are any (at most 50 named).

    Text from outside is escaped; see `markdown_text.escaped`.
    """
    values = {**summary["daily_processing_summary"], **summary["details"]}
    lines = ["| | |", "|---|---|"]
    lines += [
        f"| {name.replace('_', ' ')} | {'–' if value is None else escaped(str(value))} |"
        for name, value in values.items()
    ]
    failed = summary["failed_partitions"]
    if failed:
        lines += ["", "| failed partition | error | tried again |", "|---|---|---|"]
        lines += [_failed_line(one) for one in failed[:MOST_NAMED]]
    if len(failed) > MOST_NAMED:
        lines += ["", f"and {len(failed) - MOST_NAMED} more"]
    return "\n".join(lines)


def _scheduled_at(day: date, looks: Sequence[PassFact]) -> datetime:
    """Of the daily pass; where none is recorded, when it would have been."""
    daily = [one.scheduled_at for one in looks if one.kind == PassKind.DAILY]
    return min(daily, default=datetime.combine(day + ONE_DAY, time(PASS_HOURS[0]), UTC))


def _completed_at(
    scheduled: datetime, looks: Sequence[PassFact], with_new: Sequence[PartitionFact]
) -> datetime | None:
    """What ended before the tick completes nothing: files that were processed on arrival may not be all.

    Of the listings only the first counts: a supplementary pass that finds nothing does not make a day that
    was complete at 00:15 one that took twelve hours.
    """
    ended = [fact.finished_at for fact in with_new]
    if not all(fact.is_finished and fact.finished_at for fact in with_new):
        return None
    listed = [one.scanned_at for one in looks if one.scanned_at and one.scanned_at >= scheduled]
    moments = [at for at in ended if at and at >= scheduled] + sorted(listed)[:1]
    return max(moments, default=None)


def _failed_partition(fact: PartitionFact, now: datetime, catch_up_days: int) -> FailedPartition:
    again = fact.next_attempt_at or next_pass(fact.day, now, catch_up_days)
    return {
        "country": fact.country,
        "category": fact.category,
        "date": fact.day.isoformat(),
        "error": fact.error,
        "retry_scheduled": _iso(again) if again else None,
    }


def _failed_line(one: FailedPartition) -> str:
    source = escaped(f"{one['country']}/{one['category']}")
    error = escaped(one["error"] or "") or "–"
    return f"| {source} | {error} | {one['retry_scheduled'] or 'by request only'} |"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _minutes(elapsed: timedelta) -> float:
    """To the nearest tenth, halves up; in whole numbers, because round(0.15, 1) is 0.1."""
    return (elapsed + _TENTH_OF_A_MINUTE / 2) // _TENTH_OF_A_MINUTE / 10
