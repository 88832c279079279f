"""The door's connections to the project's Postgres (DATABASE_URL): few, and bounded in time."""

from typing import Annotated

import psycopg
from fastapi import Depends, Request
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from resources.errors import ServiceNotConfigured
from resources.postgres import check_database_url

MOST_CONNECTIONS = 8
MOST_WAITING = 32
MOST_SEARCHES = 12
MOST_WAITING_SEARCHES = 4
WAIT_SECONDS = 3.0
STATEMENT_SECONDS = 5

Pool = ConnectionPool[psycopg.Connection]


def connection_pool(
    database_url: str, most: int = MOST_CONNECTIONS, most_waiting: int = MOST_WAITING
) -> Pool:
    """A pool, not yet opened, of connections in autocommit mode; none is made before it is needed.

    Who waits longer than three seconds, or finds `most_waiting` waiting, gets a psycopg.OperationalError.
    Raises ServiceNotConfigured where `database_url` is no Postgres address.
    """
    check_database_url(database_url)
    try:
        conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:  # its message quotes the address, and the pool would log it
        raise ServiceNotConfigured("DATABASE_URL is no Postgres address that psycopg can read") from None
    return ConnectionPool(
        database_url,
        kwargs={
            "autocommit": True,
            "connect_timeout": 3,
            "tcp_user_timeout": 10_000,
            "application_name": "granary api",
        },
        configure=_bound_statements,
        check=ConnectionPool.check_connection,  # so that a restart of Postgres costs no request
        min_size=0,
        max_size=most,
        max_waiting=most_waiting,
        timeout=WAIT_SECONDS,
        # A pool that does not give up doubles its pause with each try, also after Postgres is back.
        reconnect_timeout=WAIT_SECONDS,
        open=False,
    )


def search_pool(database_url: str) -> Pool:
    """A pool of its own for searches, which hold a connection and a thread while the model is asked.

    They are so few at once that a slow model takes no thread (of 40) that other requests wait for.
    """
    return connection_pool(database_url, MOST_SEARCHES, MOST_WAITING_SEARCHES)


def _bound_statements(connection: psycopg.Connection) -> None:
    # Not as a start-up option: a connection pooler in front of Postgres refuses those.
    connection.execute("SELECT set_config('statement_timeout', %s, false)", (f"{STATEMENT_SECONDS}s",))


async def pool_of(request: Request) -> Pool:
    """The application's pool. Async, as all dependencies that only look: others cost a change of thread."""
    pool: Pool = request.app.state.pool
    return pool


# Routes take a connection inside their body: given back before the answer is sent, a slow reader holds none.
Connections = Annotated[Pool, Depends(pool_of)]
