"""Runs that kill themselves, as the kernel would, at one of their steps: `python -m ….killed_run`.

A step is a statement, or one member's ranking. Reads orders from standard input, a JSON object a line,
forks a run for each and says how it ended: the imports, most of such a run's time, are paid once.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from assets.recommendations import rank as ranking
from assets.recommendations.recommend import Ranker, Recommender
from assets.recommendations.trigger_check import check_triggers
from tests.integration.fatal_calls import die
from tests.integration.recommendations.factories import PROFILE
from tests.integration.recommendations.pools import pool_at

CHECKED_AT_ONCE = 5
ALIVE = 7_707_707
"""An advisory lock that a run holds as long as the server knows one of its connections."""


@dataclass(frozen=True)
class Order:
    """Which step is fatal (odd: instead of it; even: right after it), where, when, and as which run."""

    database_url: str
    now: str
    run_id: str
    fatal_step: int
    at_once: int = 1

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.now).astimezone(UTC)


def die_at_step(fatal: int) -> Ranker:
    """Counts statements and rankings from now on; gives the ranker to use."""
    made = [0]

    def counted(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            made[0] += 1
            number = made[0]
            if number == (fatal + 1) // 2 and fatal % 2:
                die()
            result = real(*args, **kwargs)
            if number == (fatal + 1) // 2:
                die()
            return result

        return call

    for name in ("execute", "executemany"):
        setattr(psycopg.Cursor, name, counted(getattr(psycopg.Cursor, name)))
    return counted(ranking.rank)  # type: ignore[no-any-return]


def whole_run(
    database_url: str,
    moment: datetime,
    run_id: str,
    rank: Ranker | None = None,
    at_once: int = 1,
    configure: Callable[[psycopg.Connection], None] | None = None,
) -> None:
    """Visits and due triggers first, then the queue, as the two sensors start them."""
    with pool_at(database_url, moment, configure) as pool:
        with pool.connection() as connection:
            check_triggers(connection, limit=CHECKED_AT_ONCE)
        Recommender(pool, run_id, None, PROFILE, size=5, at_once=at_once, rank=rank).run()


def run(order: Order) -> None:
    rank = die_at_step(order.fatal_step)
    whole_run(order.database_url, order.moment, order.run_id, rank, order.at_once, note_alive)


def note_alive(connection: psycopg.Connection) -> None:
    # Not by a cursor: it is no step of the run.
    connection.pgconn.exec_(f"SELECT pg_advisory_lock_shared({ALIVE})".encode())


def until_dead_runs_are_gone(connection: psycopg.Connection) -> None:
    """Waits until the server has let go of what a killed run's connections held."""
    connection.execute("SELECT pg_advisory_unlock(%(key)s) FROM pg_advisory_lock(%(key)s)", {"key": ALIVE})


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(Order(**json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
