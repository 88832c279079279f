"""Services for the tests: one Postgres and one of each stand-in a session, a fresh database per test."""

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from local_stack.postgres import EmbeddedPostgres
from migrations.upgrade import upgrade
from tests.integration.stand_ins import StandIn, naver_site, openai_stand_in

TEMPLATE = "granary_template"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that syncs nothing to disk, with a migrated template database."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data", durable=False)
    server.init()
    server.start(die_with_parent=True)
    server.create_database(TEMPLATE)
    with psycopg.connect(server.dsn(TEMPLATE), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    upgrade(server.dsn(TEMPLATE))
    yield server
    server.remove()


@pytest.fixture
def database_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """A migrated, empty database of its own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
        )
    yield postgres_server.dsn(name)
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def connect(database_url: str) -> Iterator[Callable[..., psycopg.Connection]]:
    """Opens connections in autocommit mode; `at` moves the database's clock for that session."""
    opened: list[psycopg.Connection] = []

    def open_one(at: str | None = None) -> psycopg.Connection:
        connection = psycopg.connect(database_url, autocommit=True)
        opened.append(connection)
        if at is not None:
            connection.execute("SELECT set_config('granary.now', %s, false)", (at,))
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def connection(connect: Callable[..., psycopg.Connection]) -> psycopg.Connection:
    """One connection in autocommit mode."""
    return connect()


@pytest.fixture(scope="session")
def openai_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with openai_stand_in(tmp_path_factory.mktemp("openai")) as served:
        yield served


@pytest.fixture
def openai_api(openai_server: StandIn) -> StandIn:
    """The OpenAI stand-in without faults and with an empty ledger."""
    openai_server.post("reset", ledger=True, batches=True)
    return openai_server


@pytest.fixture(scope="session")
def site_server() -> Iterator[StandIn]:
    with naver_site() as served:
        yield served


@pytest.fixture
def site(site_server: StandIn) -> StandIn:
    """The news site without faults and as if nothing had been asked yet."""
    site_server.post("reset")
    return site_server
