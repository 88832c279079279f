"""The five alarms of raw_files (assets/raw_files/README.md), each from recorded facts alone.

Messages hold names and numbers of ours and no error texts: those come from files and services of others,
and an alarm goes to chat channels. A cause that names a day is of that day only, so that the report of
another day neither hides nor clears it. Those that do not (`no_new_files`, `partition_failing`,
`schedule_late`) are asked about the newest day; asked about an old one they would clear today's alarm.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from assets.raw_files.facts import PartitionFact, PassFact, PassKind
from assets.raw_files.retry_times import ONE_DAY, PASS_HOURS, RETRY_DELAYS

DAYS_IN_A_ROW = 3
MOST_FAILED_PERCENT = 20
MOST_LATE = timedelta(minutes=30)

_SCHEDULED = (PassKind.DAILY, PassKind.SUPPLEMENTARY)
_MOST_NAMED = 10
_WHERE_ERRORS_ARE = "GET /api/v1/raw/daily/{day} and raw.failure_log have the errors"
_START_AGAIN = "start it again in the UI or by POST /api/v1/seeds/orchestrate"


@dataclass(frozen=True, slots=True)
class Alarm:
    """`cause` is the alert's cause (one message per cause and day); `message` says what to do."""

    name: str
    cause: str
    message: str


def no_new_files(files_by_day: Mapping[date, int], scanned_days: Collection[date], day: date) -> Alarm | None:
    """Raised where `day` and the two days before it were all scanned and none has a file, in any source.

    A day that was never scanned, or only before it ended, proves nothing: leave it out of `scanned_days`.
    """
    days = _days_until(day)
    if not all(one in scanned_days and not files_by_day.get(one) for one in days):
        return None
    return _alarm(
        "no_new_files",
        f"No source has a file for {days[0]} to {day}, {DAYS_IN_A_ROW} days in a row. See whether whoever "
        "uploads them still runs and still writes to this bucket under raw/.",
    )


def failure_rate(partitions: Collection[PartitionFact]) -> list[Alarm]:
    """One alarm for every day with more than 20 % of its partitions with new files failing.

    What has not ended yet counts as not failed, unless it is being tried again.
    """
    new = Counter(fact.day for fact in partitions if fact.has_new_files)
    failing = Counter(fact.day for fact in partitions if fact.is_failing)
    return [
        _alarm(
            "failure_rate",
            f"{failing[day]} of {new[day]} partitions of {day} with new files failed "
            f"({failing[day] / new[day]:.1%}, alarm above {MOST_FAILED_PERCENT} %). "
            f"{_errors_of(day)}: one cause for all points at the bucket or the database.",
            f"{day}",
        )
        for day in sorted(failing)
        if failing[day] * 100 > new[day] * MOST_FAILED_PERCENT
    ]


def partition_failing(partitions_of_three_days: Collection[PartitionFact], day: date) -> list[Alarm]:
    """One alarm for every source that fails on `day` and on both dates before it.

    The dates are of the calendar: one on which the source had no new files breaks the row, since nothing
    of the source was tried.
    """
    failing = {(fact.source, fact.day) for fact in partitions_of_three_days if fact.is_failing}
    days = _days_until(day)
    return [
        _alarm(
            "partition_failing",
            f"{source} has failed for {days[0]} to {day}, {DAYS_IN_A_ROW} dates in a row. {_errors_of(day)}. "
            f"When its files or what hinders them are mended, {_START_AGAIN}, one date at a time.",
            source,
        )
        for source in sorted({source for source, _ in failing})
        if all((source, one) in failing for one in days)
    ]


def schedule_late(passes: Collection[PassFact], expected: Sequence[datetime], now: datetime) -> Alarm | None:
    """Raised where a scheduled pass started over 30 minutes late, or an expected slot has none by then.

    `expected` begins no earlier than the schedules were switched on. Passes of another kind are no tick,
    and make up for none.
    """
    ticks = [one for one in passes if one.kind in _SCHEDULED]
    started: dict[datetime, datetime] = {}
    for one in ticks:
        if one.started_at is not None:
            started[one.scheduled_at] = min(one.started_at, started.get(one.scheduled_at, one.started_at))
    due = {one.scheduled_at for one in ticks} | set(expected)
    slots = sorted(slot for slot in due if started.get(slot, now) - slot > MOST_LATE)
    if not slots:
        return None
    missing = sum(slot not in started for slot in slots)
    named = ", ".join(f"{slot.astimezone(UTC):%Y-%m-%d %H:%M}" for slot in slots[-_MOST_NAMED:])
    more = f" and {len(slots) - _MOST_NAMED} before" if len(slots) > _MOST_NAMED else ""
    return _alarm(
        "schedule_late",
        f"Scheduled passes over {MOST_LATE // timedelta(minutes=1)} minutes late: {len(slots)}, not started: "
        f"{missing} ({named} UTC{more}). See that the Dagster daemon runs and that the schedules are on; the "
        "next pass finds what these have left.",
    )


def daily_processing_failure(partitions: Collection[PartitionFact]) -> list[Alarm]:
    """One alarm for every partition that spent its retries: the first attempt and three more failed."""
    return [
        _alarm(
            "daily_processing_failure",
            f"{fact.source} of {fact.day} failed {fact.failures} times in a row and its retries are spent; "
            f"{fact.files_processed} of its {fact.new_files} new files are processed. "
            f"{_errors_of(fact.day)}. Passes that still look at the day try once more each; to be sooner, "
            f"{_START_AGAIN}.",
            f"{fact.source}:{fact.day}",
        )
        for fact in sorted(partitions, key=lambda fact: (fact.day, fact.source))
        if fact.is_failing and fact.failures > len(RETRY_DELAYS) and fact.next_attempt_at is None
    ]


def expected_slots(now: datetime, back: timedelta, hours: Collection[int] = PASS_HOURS) -> list[datetime]:
    """When passes were due after `now - back` and until `now`, oldest first; `hours` are of UTC.

    Open at its older end, so that windows that follow each other share no slot.
    """
    end = now.astimezone(UTC)
    start = end - back
    days = (start.date() + ONE_DAY * n for n in range((end.date() - start.date()).days + 1))
    slots = (datetime.combine(day, time(hour), UTC) for day in days for hour in sorted(hours))
    return [slot for slot in slots if start < slot <= end]


def _days_until(day: date) -> list[date]:
    return [day - ONE_DAY * ago for ago in reversed(range(DAYS_IN_A_ROW))]


def _errors_of(day: date) -> str:
    return _WHERE_ERRORS_ARE.format(day=day)


def _alarm(name: str, message: str, of: str = "") -> Alarm:
    return Alarm(name=name, cause=f"raw_files:{name}:{of}" if of else f"raw_files:{name}", message=message)
