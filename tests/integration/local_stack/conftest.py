"""A stack of which only the services under test are started: the others are declared external."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_stack.environment import TRIGGERS
from local_stack.stack import Stack


@pytest.fixture(scope="session")
def only() -> Callable[..., dict[str, str]]:
    """Makes an environment that brings along every service but the named ones."""
    return _only


def _only(*names: str) -> dict[str, str]:
    elsewhere = {
        "postgres": "postgresql://somebody:their-password@db.example/theirs",
        "mongo_server": "mongodb://somebody:their-password@mongo.example/theirs",
        "openai_stand_in": "sk-their-key",
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
