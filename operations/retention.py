"""The daily clearing up: parts that are done one after the other, and do not stop each other."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from operations import retention_store
from resources.errors import ServiceError

if TYPE_CHECKING:
    from pymongo.database import Database

SECONDS_A_PART = 120
"""What is left after that is left to the next day, so that no part takes the time of the others."""

log = logging.getLogger("granary.retention")

Connect = Callable[[], AbstractContextManager[psycopg.Connection]]
ConnectMongo = Callable[[], "AbstractContextManager[Database[dict[str, Any]]]"]

_BY_INBOX_DAYS = ("context_requests", "member_visits", "raw_requests", "alerts")
_BY_JOB_DAYS = ("raw_passes", "raw_failures", "batch_reservations")


@dataclass(frozen=True)
class Part:
    """One thing that is cleared up. `portions` yields how many rows each portion took."""

    name: str
    portions: Callable[[], Iterator[int]]


@dataclass(frozen=True)
class Purged:
    """What became of a part. `error`: what stopped it, after `rows`. `left`: its time was up."""

    name: str
    rows: int
    error: str | None = None
    left: bool = False


def purge_all(parts: Iterable[Part], seconds_a_part: float = SECONDS_A_PART) -> list[Purged]:
    """What each part took, in order. A part that fails keeps what its portions did, and the others go on."""
    return [_purge(part, seconds_a_part) for part in parts]


def table_parts(connect: Connect, inbox_days: int, job_days: int) -> list[Part]:
    """Of the pipelines' tables in Postgres; each part opens a connection of its own by `connect`."""
    ended = [(name, inbox_days) for name in _BY_INBOX_DAYS] + [(name, job_days) for name in _BY_JOB_DAYS]
    # Results before their jobs, which go once they have none; jobs before the batches that they name.
    return [
        *(_part(connect, retention_store.delete_ended, name, days) for name, days in ended),
        _part(connect, retention_store.delete_superseded, "queue_items", inbox_days),
        _part(connect, retention_store.delete_superseded, "news_results", job_days),
        _part(connect, retention_store.delete_superseded, "news_jobs", job_days),
        _part(connect, retention_store.delete_ended, "news_batches", job_days),
    ]


def recipe_parts(connect_mongo: ConnectMongo, connect: Connect, job_days: int) -> list[Part]:
    """Of the recipes' job records in MongoDB; `connect` is asked for the time alone."""

    def portions() -> Iterator[int]:
        with connect() as connection:
            before: datetime = retention_store.database_now(connection) - timedelta(days=job_days)
        with connect_mongo() as db:
            yield from retention_store.empty_recipe_records(db, before)

    return [Part("recipe_payloads", portions)]


def _part(connect: Connect, delete: Callable[..., Iterator[int]], name: str, days: int) -> Part:
    return Part(name, partial(_on_own_connection, connect, delete, name, days))


def _on_own_connection(
    connect: Connect, delete: Callable[..., Iterator[int]], name: str, days: int
) -> Iterator[int]:
    with connect() as connection:
        retention_store.bound_statements(connection)
        yield from delete(connection, name, days)


def _purge(part: Part, seconds: float) -> Purged:
    rows = 0
    until = time.monotonic() + seconds
    try:
        for portion in part.portions():
            rows += portion
            if time.monotonic() > until:
                return Purged(part.name, rows, left=True)
    except Exception as error:  # whatever it is, the others are worth their turn; the caller fails at the end
        # Drivers quote rows and addresses in their messages; ours do not.
        said = str(error) if isinstance(error, ServiceError) else type(error).__name__
        log.error("clearing up %s failed: %s", part.name, said)
        return Purged(part.name, rows, error=said)
    return Purged(part.name, rows)
