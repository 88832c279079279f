"""Every route against its own documentation: requests that fit it, requests that do not, other methods."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case

from api.app import build_app
from orchestration.settings import Settings
from tests.integration.api.conftest import OpenDoor
from tests.unit.api.tokens import ADMIN, BEARER, NOWHERE

schema = schemathesis.openapi.from_asgi("/openapi.json", build_app(Settings(api_docs=True), NOWHERE))


@pytest.fixture
def _door(open_door: OpenDoor) -> None:
    schema.app = open_door(api_docs=True).app


@pytest.mark.usefixtures("_door")
@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_documented_and_none_is_a_failure_of_ours(case: Case) -> None:
    case.call_and_validate(headers={**BEARER, **ADMIN})
