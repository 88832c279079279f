"""Statements on how much waits in each pipeline, for how long, and what stands in the way.

On a given connection, or on the recipes' database. Sizes are of what has not ended well: what has is counted
by the runs, and would have to be counted here again and again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from assets.recipes.models import IntentState
from assets.recipes.statuses import TIMESTAMPS, WITHOUT_BATCH, Status
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from pymongo.database import Database

    Mongo = Database[dict[str, Any]]

SQL = read_statements(Path(__file__).parent / "sql" / "queues.sql")

log = logging.getLogger("granary.queues")

T = TypeVar("T")

_NEWS = ("PENDING", "RETRY_WAIT", "RUNNING", "SUBMITTED", "SUSPENDED", "FAILED")
_RAW = ("REQUESTED", "NEW", "RUNNING", "FAILED")
_CONTEXTS = ("PENDING", "PROCESSING", "FAILED")
_UNDER_WAY = [status.value for status in Status if status not in (Status.EMBED_RETRIEVED, Status.FAILED)]
_OPEN_BATCHES = [IntentState.INTENDED.value, IntentState.UPLOADED.value, IntentState.SUBMITTED.value]


@dataclass(frozen=True)
class Batches:
    """Open batches at the provider, and for how many seconds the oldest is."""

    open: int = 0
    oldest_seconds: float = 0.0


@dataclass(frozen=True)
class Queue:
    """What a pipeline has not done: items by status, every status of its being there.

    `oldest_waiting_seconds`: of what a run could take now. `batches`: None where the pipeline has none.
    """

    pipeline: str
    sizes: Mapping[str, int]
    oldest_waiting_seconds: float
    batches: Batches | None = None


@dataclass(frozen=True)
class Figures:
    """What Postgres tells, at `now` (its clock). Money is of the running day in Seoul, USD.

    `heartbeat_age_seconds`: since one was delivered; None before the first of all. `failed`: the parts, and
    whether they could not be read; the figures of one that could not be are None or missing.
    """

    now: datetime
    queues: list[Queue]
    news_jobs: list[tuple[str, str, int]]
    context_stages: list[tuple[str, str, int]]
    spent_usd: float | None
    reserved_usd: float | None
    shut_gates: list[tuple[str, str]]
    alarms_standing: int | None
    heartbeat_age_seconds: float | None
    counters: list[tuple[str, dict[str, Any], float]] = field(repr=False)
    failed: dict[str, bool]


def figures(connection: psycopg.Connection, provider_key: str | None) -> Figures:
    """All that is told of Postgres; gates of this key alone (None: of any).

    To be called outside of a transaction. A part whose tables are missing, or may not be read, is left out.
    """
    (now,) = _row(connection, "now")
    parts = _Parts()
    no_rows: list[tuple[Any, ...]] = []
    nothing: tuple[Queue | None, list[tuple[Any, ...]]] = (None, no_rows)
    news, jobs = parts.read("economy_news", lambda: _news(connection, now), nothing)
    raw = parts.read("raw_files", lambda: _raw_queue(connection, now), None)
    contexts, stages = parts.read("context_tags", lambda: _contexts(connection, now), nothing)
    members = parts.read("recommendations", lambda: _member_queue(connection, now), None)
    spent, reserved = parts.read("spending", lambda: _row(connection, "money"), (None, None))
    key = {"provider_key": provider_key}
    gates = parts.read("gates", lambda: connection.execute(SQL["shut_gates"], key).fetchall(), no_rows)
    standing, heartbeat_age = parts.read("alarms", lambda: _row(connection, "alarms"), (None, None))
    counters = parts.read("counters", lambda: connection.execute(SQL["counters"]).fetchall(), no_rows)
    return Figures(
        now=now,
        queues=[queue for queue in (news, raw, contexts, members) if queue is not None],
        news_jobs=jobs,
        context_stages=stages,
        spent_usd=spent,
        reserved_usd=reserved,
        shut_gates=gates,
        alarms_standing=standing,
        heartbeat_age_seconds=heartbeat_age,
        counters=counters,
        failed=parts.failed,
    )


def recipes_queue(db: "Mongo", now: datetime) -> Queue:
    """The job records of the recipes. Failed ones are counted by an index, the others are few."""
    oldest = {status.value: {"$min": f"${TIMESTAMPS[status]}"} for status in WITHOUT_BATCH}
    steps: list[dict[str, Any]] = [
        {"$match": {"status": {"$in": _UNDER_WAY}}},
        {"$group": {"_id": "$status", "jobs": {"$sum": 1}, **oldest}},
    ]
    found = {row["_id"]: row for row in db[JOBS].aggregate(steps)}
    sizes = {status: found[status]["jobs"] if status in found else 0 for status in _UNDER_WAY}
    sizes[Status.FAILED.value] = db[JOBS].count_documents({"status": Status.FAILED.value})
    waiting = [found[status.value][status.value] for status in WITHOUT_BATCH if status.value in found]
    batches = [
        batch["created_at"]
        for batch in db[BATCHES].find({"state": {"$in": _OPEN_BATCHES}}, {"_id": 0, "created_at": 1})
    ]
    return Queue("recipes", sizes, _age(waiting, now), Batches(len(batches), _age(batches, now)))


class _Parts:
    """Asks for one part after the other, and remembers which could not be read."""

    def __init__(self) -> None:
        self.failed: dict[str, bool] = {}

    def read(self, part: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            found = ask()
        except psycopg.ProgrammingError as error:  # a table is missing, or not ours to read
            log.warning("the figures of %s are unknown: %s", part, type(error).__name__)
            self.failed[part] = True
            return otherwise
        self.failed[part] = False
        return found


def _news(connection: psycopg.Connection, now: datetime) -> tuple[Queue | None, list[tuple[Any, ...]]]:
    jobs = connection.execute(SQL["news_jobs"]).fetchall()
    items, oldest = _row(connection, "news_batches")
    queue = _queue("economy_news", _NEWS, [row[1:] for row in jobs], now)
    batches = Batches(items, _age([oldest], now))
    return Queue(queue.pipeline, queue.sizes, queue.oldest_waiting_seconds, batches), [
        row[:3] for row in jobs
    ]


def _raw_queue(connection: psycopg.Connection, now: datetime) -> Queue | None:
    return _queue("raw_files", _RAW, connection.execute(SQL["raw_partitions"]).fetchall(), now)


def _contexts(connection: psycopg.Connection, now: datetime) -> tuple[Queue | None, list[tuple[Any, ...]]]:
    stages = connection.execute(SQL["context_stages"]).fetchall()
    items, oldest = _row(connection, "context_requests")
    under_way = [(status, number, None) for _, status, number in stages if status != "PENDING"]
    return _queue("context_tags", _CONTEXTS, [("PENDING", items, oldest), *under_way], now), stages


def _member_queue(connection: psycopg.Connection, now: datetime) -> Queue | None:
    return _queue("recommendations", (), connection.execute(SQL["members"]).fetchall(), now)


def _queue(
    pipeline: str, statuses: Iterable[str], rows: Iterable[tuple[str, int, datetime | None]], now: datetime
) -> Queue:
    """Rows are status, items, and since when the oldest waits; several of one status are added up."""
    sizes = dict.fromkeys(statuses, 0)
    since = []
    for status, items, waiting_since in rows:
        sizes[status] = sizes.get(status, 0) + items
        since.append(waiting_since)
    return Queue(pipeline, sizes, _age(since, now))


def _age(since: Iterable[datetime | None], now: datetime) -> float:
    """Seconds since the earliest; 0 where there is none, or only one to come."""
    return max([0.0, *((now - moment).total_seconds() for moment in since if moment is not None)])


def _row(connection: psycopg.Connection, name: str) -> tuple[Any, ...]:
    row = connection.execute(SQL[name]).fetchone()
    assert row is not None
    return row
