"""Reads what the alarms are decided from, on a given connection. Times are aware, of the database's clock."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg.rows import class_row

from operations.heartbeat import HEARTBEAT_HOUR, DayFigures
from resources.alerts import HEARTBEAT
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "alarms.sql")

WAITED_FOR = ("context_tags", "recommendations")
LEASED = ("context_tags", "economy_news", "recommendations")
LEASES_LOST = "leases_lost:"
REQUESTS, ERRORS = "requests", "errors"
ANSWERED = "ok"

log = logging.getLogger("granary.alerts")
T = TypeVar("T")
U = TypeVar("U")


class Readings:
    """Reads each fact on its own. `unreadable`: names of those whose table is away or may not be read."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.unreadable: set[str] = set()
        self._connection = connection

    def read(self, names: str | Sequence[str], fact: Callable[[], T], otherwise: U) -> T | U:
        """The fact, or `otherwise`; `names` are the beginnings of the causes that hang on it.

        Raises psycopg.Error where the connection is gone: then nothing can be read, and nothing told.
        """
        try:
            return fact()
        except psycopg.Error as error:
            if self._connection.closed:
                raise
            named = [names] if isinstance(names, str) else names
            self.unreadable.update(named)
            log.error("%s cannot be read: %s", ", ".join(named), type(error).__name__)
            return otherwise


def now(connection: psycopg.Connection) -> datetime:
    """The database's clock."""
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def standing(connection: psycopg.Connection) -> dict[str, date]:
    """The causes that stand, with the newest day (Asia/Seoul) that each was raised on."""
    return dict(connection.execute(SQL["standing"]).fetchall())


def raised_at(connection: psycopg.Connection, cause: str) -> datetime | None:
    """When the cause was raised last; None if it does not stand."""
    row = connection.execute(SQL["raised_at"], {"cause": cause}).fetchone()
    return row[0] if row else None


def untold(connection: psycopg.Connection) -> int:
    """How many messages no channel has taken yet: over 0, the last delivery failed."""
    row = connection.execute(SQL["untold"]).fetchone()
    return int(row[0]) if row else 0


def spending(connection: psycopg.Connection) -> tuple[Decimal, bool]:
    """USD that today (Asia/Seoul) has spent or reserved, and whether a call found no room under the cap."""
    row = connection.execute(SQL["spending"]).fetchone()
    assert row is not None
    return row[0], row[1]


def newest_article_at(connection: psycopg.Connection) -> datetime | None:
    """When an article was stored last; None: never."""
    row = connection.execute(SQL["newest_article"]).fetchone()
    return row[0] if row else None


def waiting_since(connection: psycopg.Connection, pipeline: str) -> datetime | None:
    """Since when the oldest of WAITED_FOR's pipelines waits that no run has taken; None: nothing waits."""
    row = connection.execute(SQL[f"waiting_{pipeline}"]).fetchone()
    return row[0] if row else None


def running_long(connection: psycopg.Connection, pipeline: str, after: timedelta) -> int:
    """How many leases of one of LEASED ran out so long ago; a context has none, and counts from its start."""
    row = connection.execute(SQL[f"running_long_{pipeline}"], {"after": after}).fetchone()
    return int(row[0]) if row else 0


def reserved_batches(connection: psycopg.Connection) -> dict[str, datetime]:
    """By pipeline, when money was put aside for the oldest batch that is not taken in or given up."""
    return dict(connection.execute(SQL["reserved_batches"]).fetchall())


def news_batch_planned_at(connection: psycopg.Connection) -> datetime | None:
    """When the oldest open batch of economy_news was planned."""
    row = connection.execute(SQL["news_batch"]).fetchone()
    return row[0] if row else None


def counted(connection: psycopg.Connection) -> dict[str, float]:
    """What is watched for growth: leases lost by pipeline, requests to the provider, those that failed."""
    found: dict[str, float] = {REQUESTS: 0.0, ERRORS: 0.0}
    for name, labels, value in connection.execute(SQL["counters"]):
        if name == "ai_leases_lost_total":
            _add(found, f"{LEASES_LOST}{labels.get('pipeline', 'unknown')}", value)
        else:
            _add(found, REQUESTS, value)
            _add(found, ERRORS, 0.0 if labels.get("status") == ANSWERED else value)
    return found


def leases_lost(growth: Mapping[str, float]) -> dict[str, float]:
    """By pipeline, out of the growth of what was `counted`."""
    return {name.removeprefix(LEASES_LOST): by for name, by in growth.items() if name.startswith(LEASES_LOST)}


def heartbeat_is_due(connection: psycopg.Connection) -> bool:
    """Whether it is past the hour and today (Asia/Seoul) has none yet."""
    parameters = {"hour": HEARTBEAT_HOUR, "cause": HEARTBEAT}
    row = connection.execute(SQL["heartbeat_is_due"], parameters).fetchone()
    return bool(row and row[0])


def yesterday(connection: psycopg.Connection) -> DayFigures:
    """What became of the day before today (Asia/Seoul)."""
    with connection.cursor(row_factory=class_row(DayFigures)) as cursor:
        figures = cursor.execute(SQL["yesterday"]).fetchone()
    assert figures is not None
    return figures


def _add(found: dict[str, float], name: str, value: float) -> None:
    found[name] = found.get(name, 0.0) + value
