"""Statements on stuck job records of a given database: what dead runs held, what failed for good."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from assets.recipes.job_store import CLAIM, JOBS, SPENT, UNSPENT, chunks, failing, released
from assets.recipes.models import ReleaseCounts
from assets.recipes.statuses import LEASE_SECONDS, RELEASED_TO, Status

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

FREE_RELEASES = 2
"""So many deaths of its runs cost a job nothing; from the next one on, each is a retry."""
_REASON = f"its run ended without a result more than {FREE_RELEASES} times"


def release_dead(
    db: "Mongo",
    now: datetime,
    lease_seconds: float = LEASE_SECONDS,
    claimed_by_prefix: str | None = None,
) -> ReleaseCounts:
    """Frees what was not renewed for `lease_seconds`; with a prefix, whatever such a run holds.

    Batches that are paid for are kept. A job of a planned batch follows its intent instead
    (`batch_store.settle_jobs`): its batch may exist.
    """
    dead: dict[str, Any] = {"claimed_at": {"$lt": now - timedelta(seconds=lease_seconds)}}
    if claimed_by_prefix is not None:
        dead = {"claimed_by": {"$regex": f"^{re.escape(claimed_by_prefix)}"}}
    return release(db, {status: {**dead, "intent_id": None} for status in RELEASED_TO}, now)


def release(db: "Mongo", held: Mapping[Status, Mapping[str, Any]], now: datetime) -> ReleaseCounts:
    """Frees the jobs in these statuses that fit these filters, as those of runs that died."""
    from pymongo import UpdateMany

    free, counted, spent = [], [], []
    for status, where in held.items():
        change, one_more = released(status), {"releases": 1}
        often = {"status": status.value, **where, "releases": {"$gte": FREE_RELEASES}}
        seldom = {"status": status.value, **where, "releases": {"$lt": FREE_RELEASES}}
        failed = failing(status, _REASON, now)
        free.append(UpdateMany(seldom, {**change, "$inc": one_more}))
        counted.append(UpdateMany({**often, **UNSPENT}, {**change, "$inc": {**one_more, "retry_count": 1}}))
        spent.append(UpdateMany({**often, **SPENT}, {**failed, "$inc": {**one_more, **failed["$inc"]}}))
    # What one of them frees has lost its claim and its status, so that the next does not see it again.
    return ReleaseCounts(
        *(int(db[JOBS].bulk_write(writes, ordered=False).matched_count) for writes in (free, counted, spent))
    )


def requeue_failed(db: "Mongo", job_ids: Iterable[str] | None = None) -> int:
    """How many failed jobs (None: all) begin anew, without retries counted, at their last result."""
    some = [{}] if job_ids is None else [{"_id": {"$in": chunk}} for chunk in chunks(job_ids)]
    return sum(_requeue(db, where) for where in some)


def _requeue(db: "Mongo", where: Mapping[str, Any]) -> int:
    from pymongo import UpdateMany

    missing: Any = None
    there: Any = {"$ne": None}
    by_results: dict[Status, dict[str, Any]] = {
        Status.FETCHED: {"retrieved_data": missing},
        Status.PARSE_RETRIEVED: {"retrieved_data": there, "persisted_at": missing},
        Status.PERSISTED: {"retrieved_data": there, "persisted_at": there},
    }
    gone = dict.fromkeys((*CLAIM, "failed_at", "error_message"), "")
    writes = [
        UpdateMany(
            {**where, "status": Status.FAILED.value, **results},
            {"$set": {"status": status.value, "retry_count": 0, "releases": 0}, "$unset": gone},
        )
        for status, results in by_results.items()
    ]
    return int(db[JOBS].bulk_write(writes, ordered=False).matched_count)
