"""Connections to the project's Postgres (DATABASE_URL): one at a time, opened when used."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import dagster as dg
import psycopg
from pydantic import Field

from resources.errors import ServiceNotConfigured, ServiceUnavailable

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

HOW_TO_START = "start the local stack with `make up` and load its addresses with `. .local/env`"


def database_url_from_environment() -> str:
    """DATABASE_URL. Raises ServiceNotConfigured where it is missing or no Postgres address."""
    url = os.environ.get("DATABASE_URL", "")
    if not url:
        raise ServiceNotConfigured(f"DATABASE_URL is not set: {HOW_TO_START}, or name your own Postgres")
    check_database_url(url)
    return url


def check_database_url(url: str) -> None:
    """Raises ServiceNotConfigured where `url` is no `postgresql://user:password@host:port/name`."""
    try:
        parts = urlsplit(url)
        readable = parts.scheme in ("postgresql", "postgres") and bool(parts.path.strip("/"))
        _ = parts.port
    except ValueError:
        readable = False
    if not readable:
        raise ServiceNotConfigured(
            "DATABASE_URL is no Postgres address; allowed: postgresql://user:password@host:port/name"
        )


class PostgresResource(dg.ConfigurableResource):
    """The database of all pipelines' tables. Knows no table."""

    database_url: str = Field(
        default="", description="Empty: DATABASE_URL is read from the environment when a run needs it."
    )

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection]:
        """A connection in autocommit mode, so that every `with connection.transaction()` commits by itself.

        Raises ServiceNotConfigured without an address, ServiceUnavailable where nothing answers.
        """
        url = self.database_url or database_url_from_environment()
        try:
            connection = psycopg.connect(url, autocommit=True, connect_timeout=10, application_name="granary")
        except psycopg.ProgrammingError:  # its message quotes the address with its password
            raise ServiceNotConfigured(
                "DATABASE_URL is no Postgres address; allowed: postgresql://user:password@host:port/name"
            ) from None
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(
                f"Postgres at DATABASE_URL does not answer ({str(error).splitlines()[0]}): {HOW_TO_START}"
            ) from None
        with connection:
            yield connection

    @contextmanager
    def pool(self, most: int) -> "Iterator[ConnectionPool[psycopg.Connection]]":
        """At most so many connections in autocommit mode, made when needed; raises as `connect`.

        Who waits longer than ten seconds for one gets a psycopg.OperationalError.
        """
        from psycopg_pool import ConnectionPool

        with self.connect():  # says in one line what is wrong with the address; the pool would try for long
            pass
        with ConnectionPool(
            self.database_url or database_url_from_environment(),
            kwargs={"autocommit": True, "connect_timeout": 10, "application_name": "granary"},
            min_size=0,
            max_size=most,
            timeout=10,
            reconnect_timeout=10,
        ) as pool:
            yield pool
