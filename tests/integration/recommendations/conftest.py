"""A pool of connections whose clock stands at noon, as a run over the queue is handed one."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.integration.recommendations.factories import NOON, Connect, at
from tests.integration.recommendations.pools import pool_at


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon."""
    return connect(at=at(NOON))


@pytest.fixture
def pool(database_url: str) -> Iterator[ConnectionPool[psycopg.Connection]]:
    with pool_at(database_url, NOON) as opened:
        yield opened
