"""Statements on what was fetched, on a given database: new and edited rows, and how far a source was read."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from assets.recipes.job_store import BATCH_FIELDS, CLAIM, JOBS, ONE_ANSWER, chunks
from assets.recipes.models import FetchCounts, FetchedRow
from assets.recipes.statuses import TIMESTAMPS, Status

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

SOURCES = "recipe_ingestion_state"

_DUPLICATE_KEY = 11000
_MADE_FROM_AN_EARLIER_ROW = (
    "retrieved_data",
    "new_ingredient_ids",
    "error_message",
    *BATCH_FIELDS.values(),
    *(stamp for status, stamp in TIMESTAMPS.items() if status != Status.FETCHED),
    *CLAIM,
)


def store_fetched(
    db: "Mongo", source: str, run_id: str, rows: Iterable[FetchedRow], now: datetime, force: bool = False
) -> FetchCounts:
    """Stores rows of the source under the partition `run_id`; tuples do as well.

    An unknown row becomes a job; one that the source edited is refreshed and restarted, whatever its job was
    at; any other is left alone, or with `force` restarted too. Of a row that comes twice the last one counts.
    """
    new = changed = seen = 0
    for chunk in chunks(rows):
        latest = {row[0]: FetchedRow(*row) for row in chunk}
        wanted = {"source": source, "source_id": {"$in": list(latest)}}
        found = db[JOBS].find(wanted, {"source_id": 1, "raw_hash": 1}, batch_size=ONE_ANSWER)
        known = {job["source_id"]: job["raw_hash"] for job in found}
        unknown = [row for row in latest.values() if row.source_id not in known]
        edited = [
            row for id_, row in latest.items() if id_ in known and (force or known[id_] != row.raw_hash)
        ]
        inserted = _insert(db, source, run_id, unknown, now)
        # What another fetch inserted between the look and now may be of another version.
        edited += [row for row in unknown if row.source_id not in inserted]
        new += len(inserted)
        changed += _restart(db, source, run_id, edited, now, force)
        seen += len(latest)
    return FetchCounts(new, changed, seen - new - changed)


def cursor(db: "Mongo", source: str) -> int:
    """The 1-based index of the last row that was fetched; 0 before the first."""
    state = db[SOURCES].find_one({"_id": source})
    return int(state["last_end_idx"]) if state else 0


def move_cursor(db: "Mongo", source: str, to: int, frm: int | None = None) -> bool:
    """Whether the cursor moved. With `frm` only from there: a late fetch must not undo a restart from 1."""
    from pymongo.errors import DuplicateKeyError

    where: dict[str, Any] = {"_id": source}
    if frm is not None:
        where["last_end_idx"] = frm
    try:
        moved = db[SOURCES].update_one(where, {"$set": {"last_end_idx": to}}, upsert=not frm)
    except DuplicateKeyError:
        return False
    return moved.matched_count > 0 or moved.upserted_id is not None


def _insert(db: "Mongo", source: str, run_id: str, rows: Sequence[FetchedRow], now: datetime) -> set[str]:
    """The source ids of those that became jobs: all, unless another fetch was quicker."""
    from bson import ObjectId
    from pymongo import UpdateOne
    from pymongo.errors import BulkWriteError

    if not rows:
        return set()
    writes = [
        UpdateOne(
            {"source": source, "source_id": row.source_id},
            {"$setOnInsert": {"_id": str(ObjectId()), **_fresh(row, run_id, now)}},
            upsert=True,
        )
        for row in rows
    ]
    try:
        result: Mapping[str, Any] = db[JOBS].bulk_write(writes, ordered=False).bulk_api_result
    except BulkWriteError as error:
        result = error.details or {}
        if any(failure["code"] != _DUPLICATE_KEY for failure in result["writeErrors"]):
            raise
    return {rows[upserted["index"]].source_id for upserted in result["upserted"]}


def _restart(
    db: "Mongo", source: str, run_id: str, rows: Sequence[FetchedRow], now: datetime, force: bool
) -> int:
    from pymongo import UpdateOne

    if not rows:
        return 0
    writes = [
        UpdateOne(
            {"source": source, "source_id": row.source_id}
            | ({} if force else {"raw_hash": {"$ne": row.raw_hash}}),
            {"$set": _fresh(row, run_id, now), "$unset": dict.fromkeys(_MADE_FROM_AN_EARLIER_ROW, "")},
        )
        for row in rows
    ]
    return int(db[JOBS].bulk_write(writes, ordered=False).matched_count)


def _fresh(row: FetchedRow, run_id: str, now: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "status": Status.FETCHED.value,
        "retry_count": 0,
        "releases": 0,
        "raw_data": dict(row.raw_data),
        "raw_hash": row.raw_hash,
        "fetched_at": now,
    }
