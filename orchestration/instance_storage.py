"""Dagster's Postgres storage with one clear message where the database is not there.

Without it, a command against a stack that is down prints retries and a stack trace. The address is
DAGSTER_PG_URL, in SQLAlchemy's notation with the scheme `postgresql+psycopg2`.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import click
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage

HOW_TO_START = "start the local stack with `make up` and load its addresses with `. .local/env`"


class GranaryStorage(DagsterPostgresStorage):
    """Runs, events and ticks in the database at DAGSTER_PG_URL."""

    @classmethod
    def config_type(cls) -> Any:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Any
    ) -> "GranaryStorage":
        """The storage. Raises click's error, which the command line prints as one line."""
        url = os.environ.get("DAGSTER_PG_URL", "")
        if not url:
            raise click.ClickException(f"DAGSTER_PG_URL is not set: {HOW_TO_START}")
        _check_that_it_answers(url)
        return cls(postgres_url=url, inst_data=inst_data)


def _check_that_it_answers(url: str) -> None:
    import psycopg2

    try:
        parts = urlsplit(url)
        where = f"{parts.hostname}:{parts.port or 5432}"
        psycopg2.connect(url.replace("postgresql+psycopg2://", "postgresql://"), connect_timeout=5).close()
    except (ValueError, psycopg2.ProgrammingError):  # their messages quote the address with its password
        raise click.ClickException(
            "DAGSTER_PG_URL is no Postgres address; allowed: postgresql+psycopg2://user:password@host:port/name"
        ) from None
    except psycopg2.OperationalError as error:
        reason = str(error).strip().splitlines()[0].strip()
        raise click.ClickException(
            f"Dagster's database at {where} (DAGSTER_PG_URL) does not answer ({reason}): {HOW_TO_START}"
        ) from None
