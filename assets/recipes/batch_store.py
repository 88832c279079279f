"""Statements on planned batches (collection `recipe_batches`), on a given database.

An intent is written down before anything is sent. Whether its batch exists is decided by its state alone,
which moves by one conditional write; its jobs follow it (`settle_jobs`), as often as asked and by whom ever.
So a run that was declared dead and comes back neither creates a batch nor moves a job: its next write on the
intent finds that it is another's. `now` is aware, from Postgres' `granary.now()`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from assets.recipes.job_store import BATCH_FIELDS, JOBS, chunks, finished, forgotten, released
from assets.recipes.models import BatchIntent, BatchKind, IntentState
from assets.recipes.repair_store import release
from assets.recipes.statuses import LEASE_SECONDS, STABLE_BEFORE, Status

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

BATCHES = "recipe_batches"

_OPEN = {"$in": [IntentState.INTENDED.value, IntentState.UPLOADED.value]}
_NOT_ENDED = {"$in": [*_OPEN["$in"], IntentState.SUBMITTED.value]}
_SUBMITTING = {
    BatchKind.PARSE: (Status.PARSE_SUBMITTING, Status.PARSE_SUBMITTED),
    BatchKind.EMBED: (Status.EMBED_SUBMITTING, Status.EMBED_SUBMITTED),
}
_NO_CLAIM = {"claimed_by": "", "claimed_at": ""}


def ensure_indexes(db: "Mongo") -> None:
    """Makes the indexes that are not there."""
    batches = db[BATCHES]
    batches.create_index(
        [("batch_id", 1)],
        unique=True,
        name="one_intent_per_batch",
        partialFilterExpression={"batch_id": {"$exists": True}},
    )
    batches.create_index([("state", 1), ("kind", 1)], name="batches_in_state")
    batches.create_index([("run_id", 1), ("kind", 1)], name="batches_of_run")


def plan(db: "Mongo", intent: BatchIntent) -> bool:
    """Writes the intent down and ties its jobs, which its holder has claimed, to it.

    False where some of them are no longer the holder's: the intent is abandoned, the others are free again.
    """
    known = {name: value for name, value in asdict(intent).items() if value is not None}
    for name in ("kind", "state"):
        known[name] = known[name].value
    known |= {"job_ids": list(intent.job_ids), "ingredient_ids": list(intent.ingredient_ids)}
    db[BATCHES].insert_one({"_id": known.pop("id"), **known, "claimed_at": intent.created_at})
    submitting, _ = _SUBMITTING[intent.kind]
    mine = {"status": submitting.value, "claimed_by": intent.claimed_by, "intent_id": None}
    tied = sum(
        db[JOBS]
        .update_many({"_id": {"$in": chunk}, **mine}, {"$set": {"intent_id": intent.id}})
        .matched_count
        for chunk in chunks(intent.job_ids)
    )
    if tied == len(intent.job_ids):
        return True
    abandon(db, intent.id, str(intent.claimed_by), "its jobs were claimed by another run", intent.created_at)
    settle_jobs(db, intent.id, intent.created_at)
    return False


def take(
    db: "Mongo", intent_id: str, claimed_by: str, now: datetime, lease_seconds: float = LEASE_SECONDS
) -> BatchIntent | None:
    """The intent, for the caller alone; None while another run holds it or when it has ended.

    Where it is a batch already, its jobs have followed it, so that all of them are found by its batch id.
    """
    from pymongo import ReturnDocument

    waiting = {"state": _NOT_ENDED}
    free = {"$or": [*_dead(now, lease_seconds)["$or"], {"claimed_by": claimed_by}]}
    found = db[BATCHES].find_one_and_update(
        {"_id": intent_id, **waiting, **free},
        {"$set": {"claimed_by": claimed_by, "claimed_at": now}},
        return_document=ReturnDocument.AFTER,
    )
    if found is None:
        return None
    if found["state"] == IntentState.SUBMITTED:
        settle_jobs(db, intent_id, now)
    return _intent(found)


def renew(db: "Mongo", intent_id: str, claimed_by: str, now: datetime) -> bool:
    """Whether the intent is still the caller's and not ended; its lease counts from now."""
    where = {"_id": intent_id, "claimed_by": claimed_by, "state": _NOT_ENDED}
    return _move(db, where, {"claimed_at": now})


def mark_uploaded(db: "Mongo", intent_id: str, claimed_by: str, input_file_id: str, now: datetime) -> bool:
    """Whether the intent was the caller's; its lines are a file at the provider."""
    where = {"_id": intent_id, "claimed_by": claimed_by, "state": IntentState.INTENDED.value}
    sets = {"state": IntentState.UPLOADED.value, "input_file_id": input_file_id}
    return _move(db, where, sets | {"uploaded_at": now, "claimed_at": now})


def mark_submitted(
    db: "Mongo",
    intent_id: str,
    claimed_by: str,
    batch_id: str,
    now: datetime,
    input_file_id: str | None = None,
) -> bool:
    """Whether the intent was the caller's and open: it is a batch, and free for the run that retrieves it."""
    where = {"_id": intent_id, "claimed_by": claimed_by, "state": _OPEN}
    sets = {"state": IntentState.SUBMITTED.value, "batch_id": batch_id, "submitted_at": now}
    if input_file_id is not None:
        sets["input_file_id"] = input_file_id
    return _move(db, where, sets, _NO_CLAIM)


def abandon(
    db: "Mongo", intent_id: str, claimed_by: str, reason: str, now: datetime, died: bool = False
) -> bool:
    """Whether the intent was the caller's and open: there is no batch and there will be none.

    `died`: its first holder did not live to say so, which counts against its jobs from the third time.
    """
    where = {"_id": intent_id, "claimed_by": claimed_by, "state": _OPEN}
    sets = {"state": IntentState.ABANDONED.value, "error": reason, "died": died, "ended_at": now}
    return _move(db, where, sets, _NO_CLAIM)


def mark_retrieved(
    db: "Mongo",
    intent_id: str,
    claimed_by: str,
    now: datetime,
    last_status: str | None = None,
    counts: Mapping[str, int] | None = None,
    usage: Mapping[str, int] | None = None,
) -> bool:
    """Whether the batch was the caller's and submitted: its results are stored. Line counts, tokens used."""
    known = {"last_status": last_status, "counts": counts, "usage": usage}
    return _end(db, intent_id, claimed_by, IntentState.RETRIEVED, now, known)


def mark_failed(
    db: "Mongo",
    intent_id: str,
    claimed_by: str,
    error: str,
    now: datetime,
    last_status: str | None = None,
    usage: Mapping[str, int] | None = None,
) -> bool:
    """Whether the batch was the caller's and submitted: it ended without results."""
    known = {"last_status": last_status, "error": error, "usage": usage}
    return _end(db, intent_id, claimed_by, IntentState.FAILED, now, known)


def note_status(db: "Mongo", intent_id: str, last_status: str) -> bool:
    """Whether the batch is still submitted; what the provider said of it last is kept, whoever asked."""
    where = {"_id": intent_id, "state": IntentState.SUBMITTED.value}
    return _move(db, where, {"last_status": last_status})


def release_claims(db: "Mongo", claimed_by_prefix: str) -> int:
    """How many intents such runs held: others may take them at once."""
    held = {"claimed_by": {"$regex": f"^{re.escape(claimed_by_prefix)}"}, "state": _NOT_ENDED}
    return int(db[BATCHES].update_many(held, {"$unset": _NO_CLAIM}).matched_count)


def settle_jobs(db: "Mongo", intent_id: str, now: datetime) -> int:
    """How many jobs followed their intent: to submitted where it became a batch, back where it will not.

    None while the intent is open. Whoever asks, and again: what has followed already is not there any more.
    """
    intent = get(db, intent_id)
    if intent is None or intent.state in (IntentState.INTENDED, IntentState.UPLOADED):
        return 0
    submitting, submitted = _SUBMITTING[intent.kind]
    if intent.died:
        return sum(release(db, {submitting: {"intent_id": intent_id}}, now))
    change = released(submitting)
    if intent.state == IntentState.SUBMITTED:
        batch = {BATCH_FIELDS[intent.kind]: intent.batch_id}
        change = finished(submitting, submitted, batch, intent.submitted_at or now)
    where = {"intent_id": intent_id, "status": submitting.value}
    return int(db[JOBS].update_many(where, change).matched_count)


def settle_ended(db: "Mongo", now: datetime) -> int:
    """How many jobs follow intents that were decided and batches that have ended, left by runs that died."""
    settled = 0
    for kind, (submitting, submitted) in _SUBMITTING.items():
        tied = db[JOBS].distinct("intent_id", {"status": submitting.value})
        settled += sum(settle_jobs(db, intent_id, now) for intent_id in tied if intent_id)
        sent = db[JOBS].distinct(BATCH_FIELDS[kind], {"status": submitted.value})
        settled += sum(_free_from_ended(db, kind, batch_id) for batch_id in sent)
    return settled


def _free_from_ended(db: "Mongo", kind: BatchKind, batch_id: str) -> int:
    """How many jobs wait for a batch whose results were stored without them, and are to be asked again."""
    if db[BATCHES].find_one({"batch_id": batch_id, "state": IntentState.SUBMITTED.value}, {"_id": 1}):
        return 0
    _, submitted = _SUBMITTING[kind]
    back = STABLE_BEFORE[submitted]
    return int(
        db[JOBS]
        .update_many(
            {"status": submitted.value, BATCH_FIELDS[kind]: batch_id},
            {"$set": {"status": back.value}, "$inc": {"releases": 1}, "$unset": forgotten(back)},
        )
        .matched_count
    )


def get(db: "Mongo", intent_id: str) -> BatchIntent | None:
    """The intent as it stands."""
    found = db[BATCHES].find_one({"_id": intent_id})
    return None if found is None else _intent(found)


def open_intents(db: "Mongo", run_id: str, kind: BatchKind) -> list[BatchIntent]:
    """Those of the partition of which it is not known yet whether they became batches, oldest first."""
    return _listed(db, {"state": _OPEN, "run_id": run_id, "kind": kind.value})


def dead_intents(db: "Mongo", now: datetime, lease_seconds: float = LEASE_SECONDS) -> list[BatchIntent]:
    """Open intents that nobody holds: released, or not renewed for so long."""
    return _listed(db, {"state": _OPEN, **_dead(now, lease_seconds)})


def open_batches(db: "Mongo", kind: BatchKind | None = None) -> list[BatchIntent]:
    """Batches whose results are not stored yet, oldest first."""
    which = {} if kind is None else {"kind": kind.value}
    return _listed(db, {"state": IntentState.SUBMITTED.value, **which})


def enqueued_tokens(db: "Mongo", model: str | None = None) -> int:
    """The estimated tokens of all open batches, or of a model's."""
    which = {} if model is None else {"model": model}
    steps: list[dict[str, Any]] = [
        {"$match": {"state": IntentState.SUBMITTED.value, **which}},
        {"$group": {"_id": None, "tokens": {"$sum": "$estimated_tokens"}}},
    ]
    rows = list(db[BATCHES].aggregate(steps))
    return int(rows[0]["tokens"]) if rows else 0


def _end(
    db: "Mongo", intent_id: str, claimed_by: str, to: IntentState, now: datetime, known: Mapping[str, Any]
) -> bool:
    where = {"_id": intent_id, "claimed_by": claimed_by, "state": IntentState.SUBMITTED.value}
    sets = {name: value for name, value in known.items() if value is not None}
    return _move(db, where, {**sets, "state": to.value, "ended_at": now}, _NO_CLAIM)


def _move(
    db: "Mongo", where: Mapping[str, Any], sets: Mapping[str, Any], unsets: Mapping[str, str] | None = None
) -> bool:
    change = {"$set": sets, **({"$unset": unsets} if unsets else {})}
    return bool(db[BATCHES].update_one(where, change).matched_count)


def _dead(now: datetime, lease_seconds: float) -> dict[str, list[dict[str, Any]]]:
    stale = {"claimed_at": {"$lt": now - timedelta(seconds=lease_seconds)}}
    return {"$or": [{"claimed_by": None}, stale]}


def _listed(db: "Mongo", where: Mapping[str, Any]) -> list[BatchIntent]:
    return [_intent(found) for found in db[BATCHES].find(where).sort([("created_at", 1), ("shard", 1)])]


def _intent(found: Mapping[str, Any]) -> BatchIntent:
    known: dict[str, Any] = {"claimed_by": None, **found, "id": found["_id"]}
    known = {name: value for name, value in known.items() if name in BatchIntent.__dataclass_fields__}
    return BatchIntent(
        **known
        | {
            "kind": BatchKind(found["kind"]),
            "state": IntentState(found["state"]),
            "job_ids": tuple(found["job_ids"]),
            "ingredient_ids": tuple(found["ingredient_ids"]),
        }
    )
