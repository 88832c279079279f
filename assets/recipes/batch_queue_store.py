"""Statements on what is left at the provider: its full queue, jobs that come back from it, files to delete.

On a given database; `now` is aware, from Postgres' `granary.now()`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import BATCH_FIELDS, CLAIM, JOBS, chunks
from assets.recipes.models import IntentState
from assets.recipes.statuses import STABLE_BEFORE, Status

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

QUEUE_FULL = "token_limit_exceeded"
"""As an intent's error: the account had too many tokens waiting, with our batches or those of others."""
_ENDED = (IntentState.ABANDONED, IntentState.RETRIEVED, IntentState.FAILED)
ASK_AGAIN_AFTER = timedelta(minutes=10)


def send_again(db: "Mongo", job_ids: Iterable[str], frm: Status, claimed_by: str) -> int:
    """How many of the caller's jobs wait for another batch. Theirs said nothing of them: no retry."""
    stage = str(frm).split("_")[0]
    gone = dict.fromkeys((*CLAIM, BATCH_FIELDS[stage], f"{stage}_submitted_at"), "")
    change = {"$set": {"status": STABLE_BEFORE[frm].value}, "$unset": gone}
    held = {"status": frm.value, "claimed_by": claimed_by}
    return sum(
        int(db[JOBS].update_many({"_id": {"$in": chunk}, **held}, change).matched_count)
        for chunk in chunks(job_ids)
    )


def is_queue_full(db: "Mongo", model: str, now: datetime) -> bool:
    """Whether the provider said so last, and no batch of the model has ended since.

    Without an open batch of ours it is the queue of others: that is asked again after ten minutes.
    """
    refused = db[BATCHES].find_one({"model": model, "error": QUEUE_FULL}, sort=[("ended_at", -1)])
    if refused is None:
        return False
    ended = {"$in": [IntentState.RETRIEVED.value, IntentState.FAILED.value]}
    since = {"model": model, "state": ended, "ended_at": {"$gt": refused["ended_at"]}}
    if db[BATCHES].find_one(since, {"_id": 1}) is not None:
        return False
    waiting = {"model": model, "state": IntentState.SUBMITTED.value}
    if db[BATCHES].find_one(waiting, {"_id": 1}) is not None:
        return True
    return bool(refused["ended_at"] > now - ASK_AGAIN_AFTER)


def note_unanswered(db: "Mongo", intent_id: str) -> None:
    """Notes that the intent's creation got no answer: whether there is a batch is open, and no run died."""
    db[BATCHES].update_one({"_id": intent_id}, {"$set": {"unanswered": True}})


def was_unanswered(db: "Mongo", intent_id: str) -> bool:
    """Whether that was noted of the intent."""
    return db[BATCHES].find_one({"_id": intent_id, "unanswered": True}, {"_id": 1}) is not None


def leave_files(db: "Mongo", intent_id: str, files: Sequence[str]) -> None:
    """Notes the provider's files that go when the intent has ended: ids, or names, which end in .jsonl."""
    if files:
        db[BATCHES].update_one({"_id": intent_id}, {"$addToSet": {"files_left": {"$each": list(files)}}})


def files_left(db: "Mongo", now: datetime) -> list[tuple[str, str, datetime, bool]]:
    """The intent, the id or name, and the intent's time, of every file that nobody needs any more.

    Last: whether one that is not there yet may still come, since its upload had no answer.
    """
    ended = {"$in": [state.value for state in _ENDED]}
    where = {"files_left.0": {"$exists": True}, "state": ended}
    found = db[BATCHES].find(where, {"files_left": 1, "created_at": 1, "ended_at": 1})
    return [
        (one["_id"], name, one["created_at"], one["ended_at"] > now - ASK_AGAIN_AFTER)
        for one in found
        for name in one["files_left"]
    ]


def file_deleted(db: "Mongo", intent_id: str, file: str) -> None:
    """Forgets a file that is gone."""
    db[BATCHES].update_one({"_id": intent_id}, {"$pull": {"files_left": file}})
