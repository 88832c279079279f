"""When a member is due after a visit, and which type of candidates that time asks for (README)."""

from datetime import UTC, datetime, timedelta

from assets.recommendations.models import GenerationType

OFFSETS = tuple(timedelta(hours=hours) for hours in (1, 4, 12, 24, 36, 48, 60, 72, 96, 120, 144, 168))
"""After the last visit, rising."""
MOST_AHEAD = timedelta(minutes=5)
"""Clocks differ; a visit further ahead than this would freeze its member until then."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PERSONAL_UP_TO = timedelta(hours=72)
_WARM_UP_TO = timedelta(hours=168)


def next_trigger_at(last_visited_at: datetime, now: datetime) -> datetime | None:
    """The first due time strictly later than `now`, in UTC; None where the last has come,
    or where it is no datetime any more.

    Times that have gone by are skipped: a late check catches up with one item, not with one for each.
    Raises ValueError for a naive datetime.
    """
    visited = _since_epoch(last_visited_at)
    elapsed = _since_epoch(now) - visited
    offset = next((offset for offset in OFFSETS if offset > elapsed), None)
    if offset is None:
        return None
    try:
        return _EPOCH + (visited + offset)
    except OverflowError:  # after the year 9999
        return None


def due_offset(last_visited_at: datetime, at: datetime) -> timedelta:
    """The largest offset that has passed at `at`; the smallest where none has. ValueError as above."""
    elapsed = _since_epoch(at) - _since_epoch(last_visited_at)
    return max((offset for offset in OFFSETS if offset <= elapsed), default=OFFSETS[0])


def generation_type(last_visited_at: datetime, at: datetime) -> GenerationType:
    """What the item due at `at` asks for, by its offset, boundaries included. ValueError as above.

    The last offset is still warm, so G0 never comes from the schedule: it is for members without a
    history, and for filling.
    """
    offset = due_offset(last_visited_at, at)
    if offset <= _PERSONAL_UP_TO:
        return GenerationType.G2
    # What a longer schedule would end in.
    return GenerationType.G1 if offset <= _WARM_UP_TO else GenerationType.G0


def _since_epoch(moment: datetime) -> timedelta:
    # Between two times of one zone Python counts by the wall clock, an hour off where summer time changes.
    # Not by way of UTC, which the first and the last hours of all may not have.
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a time without a zone")
    return moment.replace(tzinfo=UTC) - _EPOCH - offset
