"""The project folder of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.project import Project, project_in


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A folder; what still runs there afterwards is stopped and its data removed."""
    with project_in(tmp_path / "project") as made:
        yield made
