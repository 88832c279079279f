"""Which keys of the bucket are raw files, which are markers, and which look like a raw file gone wrong.

The rules are those of "Keys and what counts as processed" in the pipeline's contract.
"""

import re
from dataclasses import dataclass
from datetime import date

RAW_PREFIX = "raw/"
SUCCESS_SUFFIX = ".success"

# [0-9] and not \d, which takes the digits of every script.
_RAW_KEY = re.compile(
    r"raw/country=([a-z]{2})/category=([a-z]+)/date=([0-9]{4}-[0-9]{2}-[0-9]{2})/raw_([0-9]{4})\.json"
)


@dataclass(frozen=True, slots=True)
class RawKey:
    """What the key of a raw file says: its source, its day (UTC) and its number on that day."""

    country: str
    category: str
    date: date
    number: int


def parse_raw_key(key: str) -> RawKey | None:
    """What a key that fits says; None for any other, also where the date is in no calendar."""
    match = _RAW_KEY.fullmatch(key)
    if match is None:
        return None
    try:
        day = date.fromisoformat(match[3])
    except ValueError:
        return None
    return RawKey(match[1], match[2], day, int(match[4]))


def marker_of(key: str) -> str:
    """The key of the marker that says to others that the file of `key` is finished."""
    return key + SUCCESS_SUFFIX


def marked_key(key: str) -> str | None:
    """The raw file that `key` is the marker of; None where it is no marker, or of a key that does not fit."""
    marked = key.removesuffix(SUCCESS_SUFFIX)
    return marked if marked != key and parse_raw_key(marked) is not None else None


def is_near_miss(key: str) -> bool:
    """Whether a key was probably meant as a raw file or as its marker, but does not fit.

    That is a JSON file below `raw/`, also compressed, numbered otherwise or in upper case, that is either
    named `raw…` or lies in a day's folder. A folder's placeholder, a README, a key that fits and its marker
    are none.
    """
    folders, _, name = key.casefold().rpartition("/")
    if not folders.lstrip("/").startswith("raw") or ".json" not in name:
        return False
    looks_meant = name.startswith("raw") or "date=" in folders
    return looks_meant and parse_raw_key(key) is None and marked_key(key) is None


def source_prefix(country: str, category: str) -> str:
    """Where all files of a source are, with the slash at its end."""
    return f"{RAW_PREFIX}country={country}/category={category}/"


def day_prefix(country: str, category: str, day: date) -> str:
    """Where the files of a source's day are, with the slash at its end."""
    return f"{source_prefix(country, category)}date={day.isoformat()}/"
