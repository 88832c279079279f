"""Statements on the job records (collection `recipe_ingestion_jobs`) of a given database: claims, finishes.

Every write repeats in its filter the status that it expects, and who holds the job where somebody does:
what is no longer so stays as it is and is not in the count. `now` is aware, from Postgres' `granary.now()`,
the one clock of all runs. A write whose answer was lost may have been done; asked again, it counts less.
Jobs come in through `fetch_store.py`. A job in a planned batch carries its `intent_id`: see `batch_store.py`.
What dead runs held and what failed for good is set free in `repair_store.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from assets.recipes.models import FailCounts, Job
from assets.recipes.statuses import (
    CLAIMED_AS,
    FINISHED_AS,
    MOST_RETRIES,
    RELEASED_TO,
    STABLE_BEFORE,
    TIMESTAMPS,
    Status,
)

if TYPE_CHECKING:
    from pymongo.database import Database

    Mongo = Database[dict[str, Any]]

JOBS = "recipe_ingestion_jobs"
CHUNK = 1_000
ONE_ANSWER = CHUNK + 1
"""A batch size with which a chunk's documents come in one answer, instead of a hundred and the rest."""
MOST_ERROR_CHARACTERS = 500

CLAIM = ("claimed_by", "claimed_at", "intent_id")
BATCH_FIELDS = {"parse": "parse_batch_id", "embed": "embed_batch_id"}
SPENT = {"retry_count": {"$gte": MOST_RETRIES - 1}}
UNSPENT = {"retry_count": {"$lt": MOST_RETRIES - 1}}

_LIGHT_FIELDS = (
    "source",
    "source_id",
    "run_id",
    "status",
    "retry_count",
    "new_ingredient_ids",
    *BATCH_FIELDS.values(),
)
T = TypeVar("T")


def ensure_indexes(db: "Mongo") -> None:
    """Makes the indexes that are not there."""
    jobs = db[JOBS]
    jobs.create_index([("source", 1), ("source_id", 1)], unique=True, name="one_job_per_recipe")
    jobs.create_index([("run_id", 1), ("status", 1), ("_id", 1)], name="jobs_of_run")
    jobs.create_index([("status", 1), ("claimed_at", 1)], name="claims")
    for field in (*BATCH_FIELDS.values(), "intent_id"):
        jobs.create_index([(field, 1)], name=f"jobs_by_{field}", sparse=True)


def claim(
    db: "Mongo",
    run_id: str | None,
    frm: Status,
    to: Status,
    claimed_by: str,
    now: datetime,
    limit: int,
    job_ids: Iterable[str] | None = None,
    batch_id: str | None = None,
) -> list[Job]:
    """Up to `limit` jobs that are the caller's now, oldest first; none is a no-op.

    Of one partition (None: of all), of these ids alone, or of this batch alone: a job that was restarted may
    meanwhile be in another batch, with the same status.
    """
    _expect(CLAIMED_AS.get(frm) == to, frm, to)
    where: dict[str, Any] = {"status": frm.value}
    if run_id is not None:
        where["run_id"] = run_id
    if batch_id is not None:
        where[BATCH_FIELDS[frm.split("_")[0]]] = batch_id
    claimed: list[Job] = []
    for some in [None] if job_ids is None else chunks(job_ids):
        among = where if some is None else {**where, "_id": {"$in": some}}
        # Again where another run took what was seen: there may be more.
        while limit > len(claimed):
            seen = db[JOBS].find(among, {"_id": 1}).sort("_id", 1).limit(limit - len(claimed))
            ids = [job["_id"] for job in seen]
            before = len(claimed)
            for chunk in chunks(ids):
                claimed += _take(db, {**where, "_id": {"$in": chunk}}, to, claimed_by, now)
            if len(claimed) - before == len(ids):
                break
    return claimed


def _take(db: "Mongo", where: dict[str, Any], to: Status, claimed_by: str, now: datetime) -> list[Job]:
    mine = {"status": to.value, "claimed_by": claimed_by}
    db[JOBS].update_many(where, {"$set": {**mine, "claimed_at": now}})
    taken = db[JOBS].find({"_id": where["_id"], **mine}, _projection(()), batch_size=ONE_ANSWER)
    return sorted((_job(found) for found in taken), key=lambda job: job.id)


def renew(db: "Mongo", job_ids: Iterable[str], claimed_by: str, now: datetime) -> int:
    """How many of the jobs are still the caller's; their lease counts from now."""
    held = {"status": {"$in": [status.value for status in RELEASED_TO]}, "claimed_by": claimed_by}
    return sum(
        db[JOBS].update_many({"_id": {"$in": chunk}, **held}, {"$set": {"claimed_at": now}}).matched_count
        for chunk in chunks(job_ids)
    )


def finish(
    db: "Mongo",
    job_ids: Iterable[str],
    frm: Status,
    to: Status,
    claimed_by: str,
    sets: Mapping[str, Any],
    now: datetime,
) -> int:
    """How many of the jobs were still the caller's: they are stored with `sets` and in their new status."""
    change = finished(frm, to, sets, now)
    return sum(
        db[JOBS].update_many({"_id": {"$in": chunk}, **_held(frm, claimed_by)}, change).matched_count
        for chunk in chunks(job_ids)
    )


def finish_each(
    db: "Mongo",
    finishes: Iterable[tuple[str, Mapping[str, Any]]],
    frm: Status,
    to: Status,
    claimed_by: str,
    now: datetime,
) -> int:
    """As `finish`, each job id with fields of its own; `finishes` is read a chunk at a time."""
    from pymongo import UpdateOne

    held = _held(frm, claimed_by)
    return sum(
        _written(
            db,
            [UpdateOne({"_id": job_id, **held}, finished(frm, to, sets, now)) for job_id, sets in chunk],
        )
        for chunk in chunks(finishes)
    )


def fail_lines(
    db: "Mongo", errors: Mapping[str, str], frm: Status, claimed_by: str, now: datetime
) -> FailCounts:
    """Counts a retry for each of the caller's jobs and returns it to the status before its batch.

    The MOST_RETRIES-th fails it. `errors` are short reasons by job id, without any of the job's texts.
    """
    from pymongo import UpdateMany

    _expect(frm in RELEASED_TO, frm, Status.FAILED)
    returned = failed = 0
    for chunk in chunks(errors.items()):
        ids_by_reason: dict[str, list[str]] = {}
        for job_id, reason in chunk:
            ids_by_reason.setdefault(_shown(reason), []).append(job_id)
        spent, unspent = [], []
        for reason, ids in ids_by_reason.items():
            where = {"_id": {"$in": ids}, **_held(frm, claimed_by)}
            spent.append(UpdateMany({**where, **SPENT}, failing(frm, reason, now)))
            unspent.append(UpdateMany({**where, **UNSPENT}, _returning(frm, reason)))
        failed += _written(db, spent)
        returned += _written(db, unspent)
    return FailCounts(returned, failed)


def give_back(db: "Mongo", job_ids: Iterable[str], frm: Status, to: Status, claimed_by: str) -> int:
    """How many of the caller's jobs are free again, as if never claimed; a batch that is paid for is kept.

    Not for the jobs of an intent, which follow it (`batch_store.settle_jobs`).
    """
    _expect(RELEASED_TO.get(frm) == to, frm, to)
    change = released(frm)
    return sum(
        db[JOBS].update_many({"_id": {"$in": chunk}, **_held(frm, claimed_by)}, change).matched_count
        for chunk in chunks(job_ids)
    )


def jobs(db: "Mongo", job_ids: Iterable[str], fields: Sequence[str] = ()) -> Iterator[Job]:
    """The jobs in the order of their ids as given, with `raw_data` or `retrieved_data` where `fields` ask so.

    Reads a chunk at a time; ids that no job has are left out.
    """
    for chunk in chunks(job_ids):
        some = db[JOBS].find({"_id": {"$in": chunk}}, _projection(fields), batch_size=ONE_ANSWER)
        found = {job["_id"]: job for job in some}
        yield from (_job(found[job_id]) for job_id in chunk if job_id in found)


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """The values, CHUNK at a time."""
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def finished(frm: Status, to: Status, sets: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The change of a finish, which ends the claim. Raises ValueError for a step that there is not."""
    _expect(to in FINISHED_AS.get(frm, ()), frm, to)
    return {
        "$set": {**sets, "status": to.value, TIMESTAMPS[to]: now},
        "$unset": dict.fromkeys((*CLAIM, "error_message"), ""),
    }


def released(frm: Status) -> dict[str, Any]:
    """The change that ends a claim as if it had not been."""
    return {"$set": {"status": RELEASED_TO[frm].value}, "$unset": dict.fromkeys(CLAIM, "")}


def failing(frm: Status, reason: str, now: datetime) -> dict[str, Any]:
    """The change that counts the last retry and fails the job."""
    return {
        "$set": {"status": Status.FAILED.value, "failed_at": now, "error_message": reason},
        "$inc": {"retry_count": 1},
        "$unset": forgotten(STABLE_BEFORE[frm]),
    }


def _returning(frm: Status, reason: str) -> dict[str, Any]:
    to = STABLE_BEFORE[frm]
    return {
        "$set": {"status": to.value, "error_message": reason},
        "$inc": {"retry_count": 1},
        "$unset": forgotten(to),
    }


def forgotten(back_at: Status) -> dict[str, str]:
    """What a job loses that goes back to this status to be asked again."""
    stage = {Status.FETCHED: "parse", Status.PERSISTED: "embed"}.get(back_at)
    batch = (BATCH_FIELDS[stage], f"{stage}_submitted_at") if stage else ()
    return dict.fromkeys((*CLAIM, *batch), "")


def _held(status: Status, claimed_by: str) -> dict[str, Any]:
    return {"status": status.value, "claimed_by": claimed_by}


def _expect(is_a_step: bool, frm: Status, to: Status) -> None:
    if not is_a_step:
        raise ValueError(f"no job goes from {frm} to {to} this way")


def _written(db: "Mongo", writes: Sequence[Any]) -> int:
    return int(db[JOBS].bulk_write(writes, ordered=False).matched_count)


def _shown(reason: str) -> str:
    """As it can be stored: a lone surrogate would fail the whole chunk."""
    return reason[:MOST_ERROR_CHARACTERS].encode("utf-8", "replace").decode()


def _projection(fields: Sequence[str]) -> dict[str, int]:
    return dict.fromkeys((*_LIGHT_FIELDS, *fields), 1)


def _job(found: Mapping[str, Any]) -> Job:
    return Job(
        id=found["_id"],
        source=found["source"],
        source_id=found["source_id"],
        run_id=found["run_id"],
        status=Status(found["status"]),
        retry_count=found["retry_count"],
        raw_data=found.get("raw_data"),
        retrieved_data=found.get("retrieved_data"),
        parse_batch_id=found.get("parse_batch_id"),
        embed_batch_id=found.get("embed_batch_id"),
        new_ingredient_ids=tuple(found.get("new_ingredient_ids") or ()),
    )
