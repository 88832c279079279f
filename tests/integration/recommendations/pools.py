"""Pools of connections whose clock stands still."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg
from psycopg_pool import ConnectionPool


@contextmanager
def pool_at(
    database_url: str, moment: datetime, configure: Callable[[psycopg.Connection], None] | None = None
) -> Iterator[ConnectionPool[psycopg.Connection]]:
    """Six connections at most, as PostgresResource makes them, but for the clock; `configure` sees each."""
    options = f"-c granary.now={moment.isoformat()}"
    with ConnectionPool(
        database_url,
        kwargs={"autocommit": True, "options": options},
        min_size=0,
        max_size=6,
        timeout=10,
        configure=configure,
    ) as pool:
        yield pool
