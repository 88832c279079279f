"""The project folder of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import Stack
from tests.end_to_end.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A folder; what still runs there afterwards is stopped and its data removed."""
    folder = tmp_path / "project"
    folder.mkdir()
    yield Project(folder)
    Stack(folder / ".local", environ={}).remove_data()
