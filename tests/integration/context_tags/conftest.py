"""The application's side of the tables, and pools as a run uses them."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.integration.context_tags.scenes import EXPIRY_AND_MORE, Core, Pool


@pytest.fixture
def core(connect: Callable[..., psycopg.Connection]) -> Core:
    """The application, with three presets stored."""
    return Core(connect())


@pytest.fixture
def open_pool(database_url: str) -> Iterator[Callable[..., Pool]]:
    """Opens pools; `at` moves the database's clock for their sessions."""
    pools: list[Pool] = []

    def open_one(at: str | None = None, most: int = 2, autocommit: bool = True) -> Pool:
        options = f"-c granary.now={at.replace(' ', 'T')}" if at else ""
        kwargs = {"autocommit": autocommit, "options": options, "application_name": "a run"}
        pool: Pool = ConnectionPool(database_url, kwargs=kwargs, min_size=0, max_size=most, timeout=10)
        pools.append(pool)
        pool.open()
        return pool

    yield open_one
    for pool in pools:
        pool.close()


@pytest.fixture
def pool(open_pool: Callable[..., Pool]) -> Pool:
    return open_pool()


@pytest.fixture
def later_pool(open_pool: Callable[..., Pool], core: Core) -> Pool:
    """A pool for which all that is PROCESSING now has expired."""
    return open_pool(core.rows(f"SELECT (now() + {EXPIRY_AND_MORE})::text AS at")[0]["at"])
