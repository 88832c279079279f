"""What a listing of the bucket and the ledger of processed files say together: what is left to process.

The rules are those of "Keys and what counts as processed" in the pipeline's contract.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from assets.raw_files.keys import is_near_miss, marked_key, marker_of, parse_raw_key

# Country, category and day (UTC).
SourceDay = tuple[str, str, date]

NEAR_MISSES_KEPT = 50


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object as a listing gives it; `size` in bytes, the ETag with or without its quotes."""

    key: str
    etag: str
    size: int
    modified: datetime | None = None


@dataclass(frozen=True)
class Survey:
    """What was found, by source and day; all lists are sorted.

    `unprocessed` has only days with something to process. `honoured` are files that another system finished:
    they have a marker and no entry in the ledger. `ignored` counts distinct keys that are neither a raw file
    nor a raw file's marker, folder placeholders among them; `near_misses` are the first fifty of those that
    look meant.
    """

    files: dict[SourceDay, list[ListedObject]]
    unprocessed: dict[SourceDay, list[str]]
    honoured: list[str]
    ignored: int
    near_misses: list[str]


def survey(objects: Iterable[ListedObject], ledger: Mapping[str, str]) -> Survey:
    """Everything that one pass over a listing tells.

    `objects` may come in any order; of an object that is listed twice the later counts. `ledger` has the
    ETag that a key was processed with, or "" for a key that is known but never was processed.
    """
    listed = {each.key: each for each in objects}
    files: defaultdict[SourceDay, list[ListedObject]] = defaultdict(list)
    unprocessed: defaultdict[SourceDay, list[str]] = defaultdict(list)
    honoured: list[str] = []
    others: list[str] = []
    for key in sorted(listed):
        parsed = parse_raw_key(key)
        if parsed is None:
            if marked_key(key) is None:
                others.append(key)
            continue
        source_day = (parsed.country, parsed.category, parsed.date)
        files[source_day].append(listed[key])
        if key not in ledger and marker_of(key) in listed:
            honoured.append(key)
        elif not _is_same_version(listed[key].etag, ledger.get(key, "")):
            unprocessed[source_day].append(key)
    near_misses = [key for key in others if is_near_miss(key)]
    return Survey(dict(files), dict(unprocessed), honoured, len(others), near_misses[:NEAR_MISSES_KEPT])


def unprocessed(objects: Iterable[ListedObject], ledger: Mapping[str, str]) -> list[str]:
    """The keys to process, sorted; see `survey`."""
    by_day = survey(objects, ledger).unprocessed
    return sorted(key for keys in by_day.values() for key in keys)


def wanted_days(today: date, catch_up_days: int) -> list[date]:
    """Yesterday and the `catch_up_days` days before it, oldest first. `today` is the day in UTC."""
    return [today - timedelta(days=back) for back in range(catch_up_days + 1, 0, -1)]


def _is_same_version(etag: str, processed: str) -> bool:
    """Whether both name one version. Nothing is known about an object without an ETag: it is another one."""
    return _bare(etag) != "" and _bare(etag) == _bare(processed)


def _bare(etag: str) -> str:
    """The ETag without quotes and without the mark of a weak one: servers differ in what they add."""
    return etag.strip().removeprefix("W/").strip('"')
