"""How the job records stand, on a given database."""

from typing import TYPE_CHECKING, Any

from assets.recipes.job_store import JOBS
from assets.recipes.models import WaitingWork
from assets.recipes.statuses import WITHOUT_BATCH, Status

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo


def counts_by_status(db: "Mongo", run_id: str | None = None) -> dict[Status, int]:
    """How many jobs of the partition, or of all, are in each status; every status is there, in order."""
    steps: list[dict[str, Any]] = [
        {"$match": {} if run_id is None else {"run_id": run_id}},
        {"$group": {"_id": "$status", "jobs": {"$sum": 1}}},
    ]
    found = {row["_id"]: row["jobs"] for row in db[JOBS].aggregate(steps)}
    return {status: found.get(status.value, 0) for status in Status}


def work_waiting(db: "Mongo") -> list[WaitingWork]:
    """What a run could take at once, oldest partition first; open batches are in `batch_store`."""
    steps: list[dict[str, Any]] = [
        {"$match": {"status": {"$in": [status.value for status in WITHOUT_BATCH]}}},
        {"$group": {"_id": {"run_id": "$run_id", "status": "$status"}, "jobs": {"$sum": 1}}},
    ]
    waiting = [
        WaitingWork(row["_id"]["run_id"], Status(row["_id"]["status"]), row["jobs"])
        for row in db[JOBS].aggregate(steps)
    ]
    return sorted(waiting, key=lambda work: (work.run_id, list(Status).index(work.status)))
