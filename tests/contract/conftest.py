"""A place of its own at each service, with a random name and removed afterwards."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from pymongo.database import Database

from local_stack.postgres import EmbeddedPostgres
from migrations.upgrade import upgrade
from resources.batches import BatchApi, BatchResource
from resources.bucket import Bucket, BucketResource
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from tests.contract.named_services import SERVICES
from tests.contract.reachable import prices, wrong_with
from tests.integration.bucket_fixture import running_bucket
from tests.integration.mongo_fixture import running_mongo
from tests.integration.stand_ins import StandIn, openai_stand_in


def pytest_report_header() -> list[str]:
    return SERVICES.announcement()


def pytest_sessionstart() -> None:
    if told := wrong_with(SERVICES):
        raise pytest.UsageError(*told, "correct it, or leave it out: then a stand-in is asked")


@pytest.fixture(scope="session")
def own_name() -> str:
    """What everything is named after that this run leaves at a service until its end."""
    return f"granary_contract_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def database_url(own_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with Granary's tables and no rows."""
    with ExitStack() as ending:
        admin_url = SERVICES.database_url
        if not admin_url:
            server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data", durable=False)
            server.start(die_with_parent=True)
            ending.callback(server.remove)
            admin_url = server.dsn()
        url = urlsplit(admin_url)._replace(path=f"/{own_name}").geturl()
        admin = ending.enter_context(PostgresResource(database_url=admin_url).connect())
        name = sql.Identifier(own_name)
        admin.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(name))
        ending.callback(admin.execute, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        upgrade(url)
        yield url


@pytest.fixture
def connect(database_url: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Opens connections as Granary does: in autocommit mode."""
    with ExitStack() as open_ones:
        postgres = PostgresResource(database_url=database_url)
        yield lambda: open_ones.enter_context(postgres.connect())


@pytest.fixture
def connection(connect: Callable[[], psycopg.Connection]) -> psycopg.Connection:
    return connect()


@pytest.fixture(scope="session")
def mongo(own_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with ExitStack() as ending:
        uri = SERVICES.mongodb_uri
        if not uri:
            uri = ending.enter_context(running_mongo(tmp_path_factory.mktemp("mongo"))).address
        db = ending.enter_context(MongoResource(uri=uri, database=own_name).connect())
        ending.callback(db.client.drop_database, own_name)
        yield db


@pytest.fixture
def jobs(mongo: Database[dict[str, Any]]) -> Iterator[Any]:
    """An empty collection with the unique key of the recipes' jobs."""
    collection = mongo[f"jobs_{uuid.uuid4().hex[:8]}"]
    collection.create_index([("source", 1), ("source_id", 1)], unique=True, name="one_job_per_recipe")
    yield collection
    collection.drop()


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """The bucket, with keys read from the environment as Granary does."""
    with ExitStack() as ending:
        url, name = SERVICES.s3_endpoint_url, SERVICES.s3_bucket
        if not url:
            address = ending.enter_context(running_bucket(tmp_path_factory.mktemp("bucket")))
            environment = ending.enter_context(pytest.MonkeyPatch.context())
            for variable, value in address.variables().items():
                environment.setenv(variable, value)
            for variable in ("AWS_SESSION_TOKEN", "AWS_PROFILE"):
                environment.delenv(variable, raising=False)
            url, name = address.url, address.bucket
        yield ending.enter_context(BucketResource(endpoint_url=url, bucket=name).open())


@pytest.fixture
def prefix(bucket: Bucket, own_name: str) -> Iterator[str]:
    """The start of every key that a test may write."""
    own = f"{own_name}/{uuid.uuid4().hex[:8]}/"
    yield own
    for found in list(bucket.objects(own)):
        bucket._client.delete_object(Bucket=bucket.name, Key=found.key)


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn | None]:
    """The OpenAI stand-in, where batches end on command; None where a real API is named."""
    if SERVICES.openai_is_real:
        yield None
        return
    with openai_stand_in(tmp_path_factory.mktemp("openai")) as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-contract")
        served.post("batches/pace")
        yield served


@pytest.fixture(scope="session")
def api_settings(stand_in: StandIn | None) -> dict[str, Any]:
    """Where the API is. The key stays in the environment, where no report shows it."""
    if stand_in is None and not os.environ.get("OPENAI_API_KEY"):
        pytest.fail("OPENAI_API_KEY is not set; a server that wants none takes any")
    url = SERVICES.openai_base_url if stand_in is None else f"{stand_in.url}/v1"
    return {"base_url": url, "model_prices": prices(SERVICES), "timeout_ms": 60_000}


@pytest.fixture
def chat(api_settings: dict[str, Any]) -> ChatResource:
    """A model whose answers are short, so that they are cheap."""
    return ChatResource(model=SERVICES.chat_model, max_output_tokens=200, **api_settings)


@pytest.fixture
def embeddings(api_settings: dict[str, Any]) -> EmbeddingResource:
    return EmbeddingResource(model=SERVICES.embedding_model, **api_settings)


@pytest.fixture
def batches(api_settings: dict[str, Any]) -> Iterator[BatchApi]:
    with BatchResource(model=SERVICES.chat_model, **api_settings).open() as api:
        yield api
