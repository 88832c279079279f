import asyncio
from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from api.limits import BodyLimit
from tests.unit.api.tokens import ADMIN, configure, door

MOST = 100


async def told_length(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
    await Response(str(len(body)))(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    return TestClient(BodyLimit(told_length, most_bytes=MOST))


def chunks(size: int) -> Iterator[bytes]:
    """A body without Content-Length, in pieces of seven bytes."""
    for start in range(0, size, 7):
        yield b"x" * min(7, size - start)


@pytest.mark.parametrize("size", [0, 1, MOST])
def test_a_body_within_the_limit_arrives_whole(client: TestClient, size: int) -> None:
    assert client.post("/", content=b"x" * size).text == str(size)
    assert client.post("/", content=chunks(size)).text == str(size)


def test_a_larger_body_is_refused_with_and_without_its_length(client: TestClient) -> None:
    for body in (b"x" * (MOST + 1), chunks(MOST + 1)):
        answered = client.post("/", content=body)
        assert answered.status_code == 413
        assert answered.json() == {"error": "the body is larger than 100 bytes"}
        assert answered.headers["connection"] == "close"


async def served(scope: Scope, messages: list[Message], seconds: float = 5) -> tuple[list[Message], int]:
    """What is sent back, and how many of the messages were taken; after the last one nothing comes."""
    sent: list[Message] = []
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        if taken == len(messages):
            await asyncio.Event().wait()
        taken += 1
        return messages[taken - 1]

    async def send(message: Message) -> None:
        sent.append(message)

    await BodyLimit(told_length, most_bytes=MOST, seconds=seconds)(scope, receive, send)
    return sent, taken


def scope_with(*headers: tuple[bytes, bytes]) -> Scope:
    return {"type": "http", "method": "POST", "path": "/", "headers": list(headers)}


def piece(size: int) -> Message:
    return {"type": "http.request", "body": b"x" * size, "more_body": True}


def test_an_endless_body_is_read_no_further_than_the_limit() -> None:
    sent, taken = asyncio.run(served(scope_with(), [piece(40)] * 50))
    assert sent[0]["status"] == 413
    assert taken == 3


@pytest.mark.parametrize("length", [b"101", b"9" * 5000])
def test_a_body_that_announces_too_much_is_not_read_at_all(length: bytes) -> None:
    sent, taken = asyncio.run(served(scope_with((b"content-length", length)), [piece(40)]))
    assert (sent[0]["status"], taken) == (413, 0)


def test_a_body_longer_than_announced_is_refused() -> None:
    sent, _ = asyncio.run(served(scope_with((b"content-length", b"5")), [piece(60), piece(60)]))
    assert sent[0]["status"] == 413


def test_a_body_that_dribbles_is_given_up() -> None:
    sent, _ = asyncio.run(served(scope_with(), [piece(1)], seconds=0.01))
    assert sent[0]["status"] == 408


def test_nobody_is_answered_who_hung_up() -> None:
    sent, _ = asyncio.run(served(scope_with(), [piece(1), {"type": "http.disconnect"}]))
    assert sent == []


def test_the_door_takes_256_kib_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch)
    statuses = [
        door().post("/api/v1/seeds/orchestrate", headers=ADMIN, content=b" " * size).status_code
        for size in (256 * 1024, 256 * 1024 + 1)
    ]
    assert statuses == [422, 413]
