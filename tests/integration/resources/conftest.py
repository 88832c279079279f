"""The clients of the stand-ins that these tests look at."""

from collections.abc import Iterator

import psycopg
import pytest

from resources.chat import ChatResource
from tests.integration.resources.asking import chat_at
from tests.integration.resources.visits import Visits
from tests.integration.stand_ins import StandIn


@pytest.fixture
def visit(connection: psycopg.Connection) -> Iterator[Visits]:
    """Opens sites; all are closed afterwards."""
    visits = Visits(connection)
    yield visits
    visits.close()


@pytest.fixture
def chat(openai_api: StandIn) -> ChatResource:
    """A model of the OpenAI stand-in."""
    return chat_at(f"{openai_api.url}/v1")
