import hmac
import re
from collections.abc import Callable

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response

from api.access import AdminRoute, InternalRoute
from api.errors import NoTraces, answer_errors
from tests.unit.api.tokens import ADMIN_TOKEN, API_TOKEN, configure, door

internal = APIRouter(route_class=InternalRoute)
admin = APIRouter(route_class=AdminRoute)


@internal.get("/internal")
def of_internal() -> str:
    return "open"


@admin.post("/admin")
def of_admin(body: dict[str, int]) -> str:
    return "open"


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    answer_errors(app)
    app.add_middleware(NoTraces)
    app.include_router(internal)
    app.include_router(admin)
    return TestClient(app)


Ask = Callable[[bytes | None], Response]


@pytest.fixture(params=["internal", "admin"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(client: TestClient, kind: str) -> Ask:
    """Asks the route with this token, as its bytes on the wire."""

    def asked(token: bytes | None) -> Response:
        if kind == "internal":
            headers = {} if token is None else {b"Authorization": b"Bearer " + token}
            return client.get("/internal", headers=headers)
        headers = {} if token is None else {b"X-ADMIN-TOKEN": token}
        return client.post("/admin", headers=headers, json={})

    return asked


def refusal_of(kind: str) -> int:
    return 401 if kind == "internal" else 403


def token_of(kind: str) -> str:
    return API_TOKEN if kind == "internal" else ADMIN_TOKEN


def variable_of(kind: str) -> str:
    return "API_TOKEN" if kind == "internal" else "ADMIN_TOKEN"


def test_the_right_token_opens(monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask) -> None:
    configure(monkeypatch)
    answered = ask(token_of(kind).encode())
    assert (answered.status_code, answered.json()) == (200, "open")


@pytest.mark.parametrize(
    "token",
    [
        None,
        b"",
        b"wrong",
        API_TOKEN[:-1].encode(),
        ADMIN_TOKEN[:-1].encode(),
        f"{API_TOKEN}{ADMIN_TOKEN}".encode(),
        API_TOKEN.upper().encode(),
        "비밀번호-비밀번호-비밀번호".encode(),
        b"\xff\xfe\x80 not even UTF-8",
        "é".encode("latin-1") * 20,
    ],
)
def test_any_other_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask, token: bytes | None
) -> None:
    configure(monkeypatch)
    assert ask(token).status_code == refusal_of(kind)


@pytest.mark.parametrize("are_the_same", [True, False])
def test_tokens_are_compared_as_bytes_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask, are_the_same: bool
) -> None:
    """It is `hmac.compare_digest` that decides, and nothing before it that ends sooner for a worse guess."""
    compared: list[tuple[object, object]] = []

    def decides(shown: object, expected: object) -> bool:
        compared.append((shown, expected))
        return are_the_same

    configure(monkeypatch)
    monkeypatch.setattr(hmac, "compare_digest", decides)
    expected = token_of(kind).encode()
    for shown in (b"x", expected):
        assert ask(shown).status_code == (200 if are_the_same else refusal_of(kind))
    assert compared == [(b"x", expected), (expected, expected)]


def test_the_other_routes_token_does_not_open(monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask) -> None:
    configure(monkeypatch)
    other = ADMIN_TOKEN if kind == "internal" else API_TOKEN
    assert ask(other.encode()).status_code == refusal_of(kind)


@pytest.mark.parametrize(
    "configured",
    [None, "", "   ", "fifteen-letters", "with a space in it", "토큰토큰토큰토큰토큰토큰토큰토큰"],
)
def test_without_a_usable_token_configured_the_route_never_opens(
    monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask, configured: str | None
) -> None:
    monkeypatch.delenv(variable_of(kind), raising=False)
    if configured is not None:
        monkeypatch.setenv(variable_of(kind), configured)
    for shown in (None, b"", (configured or "").encode()):
        answered = ask(shown)
        assert answered.status_code == 503
        assert answered.json()["error"].startswith(f"{variable_of(kind)} is not configured")


def test_a_token_that_changes_counts_at_once(monkeypatch: pytest.MonkeyPatch, kind: str, ask: Ask) -> None:
    configure(monkeypatch)
    monkeypatch.setenv(variable_of(kind), "another-token-since-now")
    assert ask(token_of(kind).encode()).status_code == refusal_of(kind)
    assert ask(b"another-token-since-now").status_code == 200


def test_a_refused_internal_call_is_told_how_to_authenticate(
    monkeypatch: pytest.MonkeyPatch, client: TestClient
) -> None:
    configure(monkeypatch)
    assert client.get("/internal").headers["WWW-Authenticate"] == "Bearer"


def test_the_scheme_must_be_bearer_in_any_case(monkeypatch: pytest.MonkeyPatch, client: TestClient) -> None:
    configure(monkeypatch)
    statuses = {
        scheme: client.get("/internal", headers={"Authorization": f"{scheme}{API_TOKEN}"}).status_code
        for scheme in ("bearer ", "BEARER ", "Basic ", "Token ", "")
    }
    assert statuses == {"bearer ": 200, "BEARER ": 200, "Basic ": 401, "Token ": 401, "": 401}


def test_a_header_that_stands_twice_is_refused(monkeypatch: pytest.MonkeyPatch, client: TestClient) -> None:
    configure(monkeypatch)
    twice = [("X-ADMIN-TOKEN", ADMIN_TOKEN), ("X-ADMIN-TOKEN", "other")]
    assert client.post("/admin", headers=twice, json={}).status_code == 403


@pytest.mark.parametrize("body", [b"{broken", b"[]", b'{"a": "no number"}', b"[" * 60_000])
def test_a_strangers_body_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, client: TestClient, body: bytes
) -> None:
    configure(monkeypatch)
    headers = {"Content-Type": "application/json"}
    assert client.post("/admin", content=body, headers=headers).status_code == 403


def test_every_route_but_the_probes_asks_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch)
    monkeypatch.setenv("API_DOCS", "true")
    client = door()
    paths = client.get("/openapi.json").json()["paths"]
    statuses = {
        path: client.request(method, re.sub(r"{[A-Za-z]+}", "1", path)).status_code
        for path, methods in paths.items()
        for method in methods
        if path not in ("/healthz", "/readyz")
    }
    assert len(statuses) >= 6
    assert set(statuses.values()) <= {401, 403}
