"""What the pipelines' tables lose with time, a portion at a time, on a given connection or database.

Each function yields how many rows each portion deleted; a portion is a transaction, and whoever stops asking
leaves the rest to another day. Days are counted by `granary.now()`. Why each row may go: `sql/retention.sql`.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from assets.economy_news.store import SQL as ARTICLES
from assets.recipes.job_store import CHUNK, JOBS, chunks
from assets.recipes.statuses import TIMESTAMPS, Status
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from pymongo.database import Database

SQL = read_statements(Path(__file__).parent / "sql" / "retention.sql")
PORTION = 2_000
LOCK_SECONDS = 5
STATEMENT_SECONDS = 120
_PAYLOADS = ("raw_data", "retrieved_data")


def bound_statements(connection: psycopg.Connection) -> None:
    """Its statements neither wait for a lock nor run for longer than that from now on; they raise instead."""
    # Not as a start-up option: a connection pooler in front of Postgres refuses those.
    connection.execute(
        "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)",
        (f"{LOCK_SECONDS}s", f"{STATEMENT_SECONDS}s"),
    )


def delete_ended(connection: psycopg.Connection, name: str, days: int, limit: int = PORTION) -> Iterator[int]:
    """Rows of one of the statements that delete without looking at what stays, oldest first."""
    while True:
        deleted = connection.execute(SQL[name], {"days": days, "limit": limit}).rowcount
        yield deleted
        if deleted < limit:
            return


def delete_superseded(
    connection: psycopg.Connection, name: str, days: int, limit: int = PORTION
) -> Iterator[int]:
    """Rows of one of the statements that pass by what stays, in the order of ids."""
    after = 0
    while True:
        parameters = {"days": days, "limit": limit, "after": after}
        with connection.transaction():
            if name == "news_results":
                connection.execute(ARTICLES["lock_term_cards"])
            row = connection.execute(SQL[name], parameters).fetchone()
        assert row is not None
        deleted, last = row
        yield deleted
        if last is None:
            return
        after = last


def empty_recipe_records(db: "Database[dict[str, Any]]", before: datetime) -> Iterator[int]:
    """Job records of recipes that were embedded before then lose what was fetched and what was read from it.

    The record stays with its hash, by which a later fetch knows the recipe as unchanged.
    """
    done = {"status": Status.EMBED_RETRIEVED.value, TIMESTAMPS[Status.EMBED_RETRIEVED]: {"$lt": before}}
    full = {**done, "$or": [{name: {"$exists": True}} for name in _PAYLOADS]}
    found = (record["_id"] for record in db[JOBS].find(full, {"_id": 1}, batch_size=CHUNK))
    for ids in chunks(found):
        # One that was fetched anew since then is at another status, with a row of its own.
        emptied = db[JOBS].update_many(
            {"_id": {"$in": ids}, **done}, {"$unset": dict.fromkeys(_PAYLOADS, "")}
        )
        yield int(emptied.modified_count)


def database_now(connection: psycopg.Connection) -> datetime:
    """The one clock of all pipelines; aware."""
    row = connection.execute("SELECT granary.now()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now
