"""The door over the real Postgres, inside the test's process, with its model at the stand-in."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import build_app
from local_stack.mongo_server import MongoServer
from orchestration.settings import Settings
from tests.integration.mongo_fixture import running_mongo
from tests.integration.stand_ins import StandIn
from tests.unit.api.tokens import BEARER, configure

OpenDoor = Callable[..., TestClient]


@pytest.fixture
def open_door(database_url: str, openai_api: StandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenDoor]:
    """Opens a door with these settings besides; whoever asks it shows API_TOKEN."""
    configure(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-door")
    with ExitStack() as opened:

        def open_one(**settings: Any) -> TestClient:
            model: dict[str, Any] = {"openai_base_url": f"{openai_api.url}/v1", "openai_timeout_ms": 2_000}
            app = build_app(Settings(**{**model, **settings}), database_url)
            return opened.enter_context(TestClient(app, headers=BEARER))

        yield open_one


@pytest.fixture
def contexts(open_door: OpenDoor) -> TestClient:
    """The door by its default settings."""
    return open_door()


@pytest.fixture(scope="session")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture
def mongo_database(mongo_server: MongoServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an empty database; MONGODB_URI is set."""
    monkeypatch.setenv("MONGODB_URI", mongo_server.address)
    return f"test_{uuid.uuid4().hex[:12]}"
