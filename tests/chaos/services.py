"""The services of one storm, on free ports with their files in one folder; stopped when it is over."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psycopg

from local_stack.postgres import EmbeddedPostgres
from migrations.upgrade import upgrade
from tests.integration.bucket_fixture import BucketAddress, running_bucket
from tests.integration.mongo_fixture import running_mongo
from tests.integration.stand_ins import StandIn, front_pages, naver_site, openai_stand_in, recipe_api

DATABASE = "storm"

Service = Literal["openai", "naver_site", "front_pages", "recipe_api", "mongo", "bucket"]


@dataclass(frozen=True)
class Addresses:
    """Where the services of a scene are; those it does not need are empty. OpenAI's API is below `/v1`."""

    database_url: str
    folder: Path
    openai: str = ""
    naver_site: str = ""
    front_pages: str = ""
    recipe_api: str = ""
    mongo: str = ""
    mongo_database: str = ""
    bucket: BucketAddress | None = None


@cache
def stand_in(url: str) -> StandIn:
    """Steers the stand-in at that address; for the supervisor, not for runs."""
    return StandIn(url)


def fired(faults: Iterable[Mapping[str, Any]]) -> int:
    """How many answers of a site or source were faults, by its own list of them."""
    return sum(int(one["fired"]) for one in faults)


@contextmanager
def running(needs: Collection[Service], folder: Path) -> Iterator[tuple[EmbeddedPostgres, Addresses]]:
    """Postgres with a migrated, empty database, and what else is needed.

    Postgres syncs to disk, since it is to be killed and come back.
    """
    with ExitStack() as stack:
        postgres = EmbeddedPostgres(folder / "postgres")
        stack.callback(postgres.remove)
        postgres.init()
        postgres.start(die_with_parent=True)
        postgres.create_database(DATABASE)
        database_url = postgres.dsn(DATABASE)
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        upgrade(database_url)

        def url(name: Service) -> str:
            if name not in needs:
                return ""
            if name == "openai":
                return stack.enter_context(openai_stand_in(folder / "openai")).url
            if name == "mongo":
                return stack.enter_context(running_mongo(folder)).address
            serve = {"naver_site": naver_site, "front_pages": front_pages, "recipe_api": recipe_api}[name]
            return stack.enter_context(serve()).url

        yield (
            postgres,
            Addresses(
                database_url,
                folder,
                openai=url("openai"),
                naver_site=url("naver_site"),
                front_pages=url("front_pages"),
                recipe_api=url("recipe_api"),
                mongo=url("mongo"),
                mongo_database=f"storm_{uuid.uuid4().hex[:8]}",
                bucket=stack.enter_context(running_bucket(folder)) if "bucket" in needs else None,
            ),
        )
