"""Every route against its own documentation: requests that fit it, requests that do not, other methods."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.types import ASGIApp, Receive, Scope, Send

from api.app import build_app
from orchestration.settings import Settings
from tests.bad_inputs import how_many
from tests.integration.api.conftest import OpenDoor
from tests.unit.api.tokens import ADMIN, BEARER, NOWHERE

EXAMPLES = how_many(25)

schema = schemathesis.openapi.from_asgi("/openapi.json", build_app(Settings(api_docs=True), NOWHERE))


@pytest.fixture
def opened(open_door: OpenDoor) -> ASGIApp:
    """A door that is open; schemathesis would start and stop it around every request."""
    door = open_door(api_docs=True).app

    async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await door(scope, receive, send)
        else:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})

    return without_lifespan


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_documented_and_none_is_a_failure_of_ours(case: Case[Any], opened: ASGIApp) -> None:
    # Of a body a schema cannot say all: days of the calendar until tomorrow, bytes, the profile in force.
    unsaid: list[CheckFunction] = [positive_data_acceptance] if case.method == "POST" else []
    case.call_and_validate(app=opened, headers={**BEARER, **ADMIN}, excluded_checks=unsaid)
