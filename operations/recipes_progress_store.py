"""What the job records and batches of recipes say of work to come, on a given MongoDB. Read only."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from assets.recipes.models import IntentState

if TYPE_CHECKING:
    from pymongo.database import Database


class BatchTokens(NamedTuple):
    """What so many lines of one kind and model took; `ingredients` of them were no recipe's."""

    kind: str
    model: str
    lines: int
    ingredients: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int


def jobs_by_day_and_status(
    db: "Database[dict[str, Any]]", first: date, last: date
) -> dict[date, Mapping[str, int]]:
    """How many job records of each day stand where."""
    steps: list[dict[str, Any]] = [
        {"$match": {"run_id": {"$gte": first.isoformat(), "$lte": last.isoformat()}}},
        {"$group": {"_id": {"day": "$run_id", "status": "$status"}, "jobs": {"$sum": 1}}},
    ]
    found: dict[date, dict[str, int]] = {}
    for row in db[JOBS].aggregate(steps):
        found.setdefault(date.fromisoformat(row["_id"]["day"]), {})[row["_id"]["status"]] = row["jobs"]
    return dict(found)


def batch_tokens(db: "Database[dict[str, Any]]", now: datetime) -> list[BatchTokens]:
    """What batches that ended in the last 30 days took, by kind and model."""
    steps: list[dict[str, Any]] = [
        {"$match": {"state": IntentState.RETRIEVED.value, "ended_at": {"$gt": now - timedelta(days=30)}}},
        {
            "$group": {
                "_id": {"kind": "$kind", "model": "$model"},
                "lines": {"$sum": "$line_count"},
                "ingredients": {"$sum": {"$size": "$ingredient_ids"}},
                "input": {"$sum": "$usage.input"},
                "cached": {"$sum": "$usage.cached"},
                "output": {"$sum": "$usage.output"},
            }
        },
    ]
    return [
        BatchTokens(
            row["_id"]["kind"],
            row["_id"]["model"],
            *(int(row[name]) for name in ("lines", "ingredients", "input", "cached", "output")),
        )
        for row in db[BATCHES].aggregate(steps)
    ]
