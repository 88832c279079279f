"""Times as the news site writes them, for machines and for readers."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

SEOUL = ZoneInfo("Asia/Seoul")

# Outside these a date is a mistake of the page: the site's news begin in 1990.
_PLAUSIBLE_YEARS = range(1990, 2100)
_DATE_AND_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}[0-9:.+\-Z]*")
_WRITTEN = re.compile(
    r"(?<![0-9])([0-9]{4})[.\-/] ?([0-9]{1,2})[.\-/] ?([0-9]{1,2})\.? ?(오전|오후)? ?"
    r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?![0-9])"
)


def parse_timestamp(text: str) -> datetime | None:
    """The instant of "2024-05-30 11:40:08" or of ISO 8601, in Asia/Seoul; None where it is not one.

    Without an offset the time is Seoul's. A date alone is not an instant: midnight would be invented.
    """
    compact = text.strip().replace(" +", "+")
    if not _DATE_AND_TIME.fullmatch(compact):
        return None
    try:
        moment = datetime.fromisoformat(compact)
        return _plausible(moment.replace(tzinfo=SEOUL) if moment.tzinfo is None else moment.astimezone(SEOUL))
    except (ValueError, OverflowError):
        return None


def parse_written_time(text: str) -> datetime | None:
    """The first time in a reader's text, "2020.09.19. 오후 8:28", in Asia/Seoul; None where there is none.

    오후 12:22 is 12:22 and 오전 12:05 is 00:05; without 오전 or 오후 the hour counts to 23. The text is
    expected in NFC, with single spaces.
    """
    match = _WRITTEN.search(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[group] or 0) for group in (1, 2, 3, 5, 6, 7))
    if match[4] == "오전" and hour > 12:
        return None
    if match[4] and hour <= 12:
        hour = hour % 12 + (12 if match[4] == "오후" else 0)
    try:
        return _plausible(datetime(year, month, day, hour, minute, second, tzinfo=SEOUL))
    except ValueError:
        return None


def _plausible(moment: datetime) -> datetime | None:
    return moment if moment.year in _PLAUSIBLE_YEARS else None
