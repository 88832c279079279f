"""What every command needs: the settings in force, and the databases that they name."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import psycopg

from orchestration.settings import Settings, settings_from_environment
from resources.mongo import MongoResource
from resources.postgres import PostgresResource

if TYPE_CHECKING:
    from pymongo.database import Database

SEOUL = ZoneInfo("Asia/Seoul")


def settings_now() -> Settings:
    """The settings of the environment. Raises SettingsError."""
    return settings_from_environment(datetime.now(SEOUL).date())


@contextmanager
def database() -> Iterator[psycopg.Connection]:
    """The Postgres of DATABASE_URL, in autocommit mode. Raises ServiceNotConfigured, ServiceUnavailable."""
    with PostgresResource().connect() as connection:
        yield connection


@contextmanager
def recipes_database(settings: Settings) -> Iterator["Database[dict[str, Any]]"]:
    """The MongoDB of MONGODB_URI. Raises ServiceNotConfigured, ServiceUnavailable."""
    with MongoResource(database=settings.mongodb_database).connect() as mongo:
        yield mongo
