"""One MongoDB for the session, an empty database with the indexes of recipes for each test."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from assets.recipes import batch_store, job_store
from local_stack.mongo_server import MongoServer
from tests.integration.mongo_fixture import running_mongo
from tests.integration.recipes.batch_runs import no_batches
from tests.integration.recipes.recipe_runs import RecipeRuns, Services
from tests.integration.recipes.round_trips import RoundTrips
from tests.integration.stand_ins import StandIn, recipe_api


@pytest.fixture(scope="session")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture(scope="session")
def round_trips() -> RoundTrips:
    """The commands that the tests' client has sent."""
    return RoundTrips()


@pytest.fixture(scope="session")
def mongo_client(mongo_server: MongoServer, round_trips: RoundTrips) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](
        mongo_server.address, tz_aware=True, event_listeners=[round_trips]
    ) as client:
        yield client


@pytest.fixture
def db(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[Database[dict[str, Any]]]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    database = mongo_client[name]
    job_store.ensure_indexes(database)
    batch_store.ensure_indexes(database)
    yield database
    mongo_client.drop_database(name)


@pytest.fixture(scope="session")
def source_server() -> Iterator[StandIn]:
    with recipe_api() as served:
        yield served


@pytest.fixture
def services(
    database_url: str,
    mongo_server: MongoServer,
    db: Database[dict[str, Any]],
    source_server: StandIn,
    openai_api: StandIn,
) -> Iterator[Services]:
    """All that a run needs, as after its start; a batch ends only on command."""
    source_server.post("reset")
    with no_batches(openai_api) as openai:
        yield Services(database_url, mongo_server.address, db.name, source_server, openai)


@pytest.fixture
def dagster_runs(services: Services) -> RecipeRuns:
    return RecipeRuns(services)
