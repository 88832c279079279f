"""A stack of which only the services under test are started, and OpenAI stand-ins served from a thread."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from local_stack.environment import TRIGGERS
from local_stack.openai_stand_in.__main__ import server_config
from local_stack.openai_stand_in.state import StandInState
from local_stack.stack import Stack
from tests.integration.local_stack.openai_asking import (
    Served,
    clients,
    free_port,
    wait_for,
)


@pytest.fixture(scope="session")
def only() -> Callable[..., dict[str, str]]:
    """Makes an environment that brings along every service but the named ones."""
    return _only


def _only(*names: str) -> dict[str, str]:
    elsewhere = {
        "postgres": "postgresql://somebody:their-password@db.example/theirs",
        "mongo_server": "mongodb://somebody:their-password@mongo.example/theirs",
        "openai_stand_in": "sk-their-key",
        "front_pages": "127.0.0.1:9",
    }
    others = [name for name in TRIGGERS if name not in names]
    return {TRIGGERS[name][0]: elsewhere.get(name, f"https://{name}.example") for name in others}


@pytest.fixture
def make_stack(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    """Makes stacks in the test's folder; what they leave is removed afterwards."""
    root = tmp_path / "project" / ".local"

    def make(*names: str, **options: object) -> Stack:
        environ = options.pop("environ", None) or (_only(*names) if names else {})
        return Stack(root, die_with_parent=True, environ=environ, **options)  # type: ignore[arg-type]

    yield make
    Stack(root, environ={}).remove_data()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts stand-ins over one data directory; each start ends the one before, the test the last."""
    running: list[tuple[uvicorn.Server, threading.Thread, Served]] = []

    def stop() -> None:
        while running:
            server, thread, served = running.pop()
            served.client.close()
            served.http.close()
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()
            served.state.close()

    def start(**settings: Any) -> Served:
        stop()
        state = StandInState(tmp_path / "data", **{"batch_seconds": 0.0, **settings})
        port = free_port()
        server = uvicorn.Server(server_config(state, port))
        thread = threading.Thread(target=server.run)
        served = clients(state, port)
        running.append((server, thread, served))
        thread.start()
        wait_for(lambda: server.started or not thread.is_alive())
        assert server.started
        return served

    yield start
    stop()


@pytest.fixture
def stand_in(serve: Callable[..., Served]) -> Served:
    return serve()
