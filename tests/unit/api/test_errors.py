import logging
from typing import Annotated

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict, Field

from api.errors import NoTraces, answer_errors
from tests.unit.api.tokens import door

SECRET = "canary-5f1d"


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern="^[a-z]+$", max_length=5)]
    size: Annotated[int, Field(ge=1)] = 1
    words: list[Annotated[str, Field(max_length=3)]] = []
    user_id: Annotated[int, Field(ge=1, alias="userId")] = 1


app = FastAPI()
answer_errors(app)
app.add_middleware(NoTraces)


@app.post("/sent")
def sent(body: Sent) -> str:
    return "fine"


@app.get("/raises/{kind}")
def raises(kind: str) -> str:
    errors: dict[str, Exception] = {
        "value": ValueError(SECRET),
        "operational": psycopg.OperationalError(SECRET),
        "interface": psycopg.InterfaceError(SECRET),
        "data": psycopg.DataError(SECRET),
    }
    raise errors[kind]


@app.get("/wrong-answer", response_model=Sent)
def wrong_answer() -> object:
    return {"name": SECRET}


@app.get("/breaks-off")
def breaks_off() -> StreamingResponse:
    def parts() -> object:
        yield b"begun"
        raise ValueError(SECRET)

    return StreamingResponse(parts())  # type: ignore[arg-type]


@pytest.fixture
def client() -> TestClient:
    return TestClient(app)


def test_a_failed_validation_names_field_and_rule(client: TestClient) -> None:
    answered = client.post("/sent", json={"name": "A1", "size": 0, "words": ["ok", "long"], "userId": 0})
    assert answered.status_code == 422
    assert answered.json() == {
        "error": "invalid request",
        "fields": [
            {"field": "body.name", "rule": "string_pattern_mismatch", "pattern": "^[a-z]+$"},
            {"field": "body.size", "rule": "greater_than_equal", "ge": 1},
            {"field": "body.words.1", "rule": "string_too_long", "max_length": 3},
            {"field": "body.userId", "rule": "greater_than_equal", "ge": 1},
        ],
    }


def test_a_body_that_is_no_json_is_told_as_such(client: TestClient) -> None:
    answered = client.post("/sent", content=b'{"name": ', headers={"Content-Type": "application/json"})
    assert answered.json()["fields"] == [{"field": "body", "rule": "json_invalid"}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "canary-5f1d"}',
        b'{"name": "a", "canary-5f1d": 1}',
        b'{"name": "a", "canary": 1}',
        b'{"name": {"canary": "canary-5f1d"}}',
        b'{"name": "a", "size": "canary-5f1d"}',
        b'["canary-5f1d"]',
        b'"canary-5f1d"',
        b"canary-5f1d",
        b'{"canary-5f1d',
        b'{"name": "\\ud800canary"}',
        b'{"\\ud800canary": 1}',
        b"\xff\xfecanary",
        b'{"name": ' + b"[" * 30_000,
        b'{"size": ' + b"9" * 6_000 + b"}",
        b"",
    ],
)
def test_what_was_sent_is_not_told_back(client: TestClient, body: bytes) -> None:
    answered = client.post("/sent", content=body, headers={"Content-Type": "application/json"})
    assert answered.status_code in (400, 422)
    assert "canary" not in answered.text


@pytest.mark.parametrize("path", ["/raises/value", "/raises/data", "/wrong-answer"])
def test_what_nobody_expected_is_told_by_its_type_in_the_log_only(
    client: TestClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        answered = client.get(path)
    assert (answered.status_code, answered.json()) == (500, {"error": "internal error"})
    assert "Error at " in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("kind", ["operational", "interface"])
def test_a_missing_postgres_is_a_503(client: TestClient, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    with caplog.at_level(logging.DEBUG):
        answered = client.get(f"/raises/{kind}")
    assert (answered.status_code, answered.json()) == (503, {"error": "the database does not answer"})
    assert answered.headers["Retry-After"] == "5"
    assert SECRET not in caplog.text


def test_an_answer_that_breaks_off_is_not_completed(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    answered = client.get("/breaks-off")
    assert answered.content == b"begun"
    assert SECRET not in caplog.text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/sent", 405)])
def test_the_frameworks_own_refusals_have_the_same_form(
    client: TestClient, method: str, path: str, status: int
) -> None:
    answered = client.request(method, path)
    assert answered.status_code == status
    assert list(answered.json()) == ["error"]


def test_the_docs_are_shown_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ("/docs", "/redoc", "/openapi.json")
    monkeypatch.delenv("API_DOCS", raising=False)
    assert [door().get(path).status_code for path in paths] == [404, 404, 404]
    monkeypatch.setenv("API_DOCS", "true")
    assert [door().get(path).status_code for path in paths] == [200, 404, 200]
