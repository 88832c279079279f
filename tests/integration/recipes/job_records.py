"""Job records as a test needs them: written as they are, without the statements that are tested."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.database import Database

from assets.recipes.job_store import JOBS
from assets.recipes.models import FetchedRow
from assets.recipes.statuses import RELEASED_TO, Status

Mongo = Database[dict[str, Any]]

NOON = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
DAY = "2026-03-02"
SOURCE = "foodsafety"
MINE, OTHERS = "run-1:0", "run-2:0"


def after_noon(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def put_jobs(db: Mongo, ids: Iterable[str], status: Status, **fields: Any) -> list[str]:
    """Jobs with these ids in this status; a claimed one is held by MINE since noon."""
    claim = {"claimed_by": MINE, "claimed_at": NOON} if status in RELEASED_TO else {}
    records = [
        {
            "_id": job_id,
            "source": SOURCE,
            "source_id": job_id,
            "run_id": DAY,
            "status": status.value,
            "retry_count": 0,
            "releases": 0,
            "raw_data": {"RCP_NM": "두부찌개"},
            "raw_hash": "h",
            "fetched_at": NOON,
            **claim,
            **fields,
        }
        for job_id in ids
    ]
    db[JOBS].insert_many(records)
    return [str(record["_id"]) for record in records]


def put_job(db: Mongo, status: Status, job_id: str = "job", /, **fields: Any) -> str:
    (only,) = put_jobs(db, [job_id], status, **fields)
    return only


def record(db: Mongo, job_id: str = "job") -> dict[str, Any]:
    found = db[JOBS].find_one({"_id": job_id})
    assert found is not None
    return found


def statuses(db: Mongo) -> dict[str, str]:
    """The status of every job by its id."""
    return {found["_id"]: found["status"] for found in db[JOBS].find({}, {"status": 1})}


def a_row(source_id: str, raw_hash: str = "h", **values: str) -> FetchedRow:
    return FetchedRow(source_id, {"RCP_SEQ": source_id, "RCP_NM": "두부찌개", **values}, raw_hash)
