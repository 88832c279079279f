"""The door as it is started, `python -m api`, and asked over the wire."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import psutil
import pytest

from api.__main__ import main
from api.app import app
from local_stack.ports import LOOPBACK, choose
from tests.unit.api.tokens import ADMIN, ADMIN_TOKEN, API_TOKEN, NOWHERE

ORCHESTRATE = "/api/v1/seeds/orchestrate"


def started(*arguments: str, **variables: str) -> "subprocess.Popen[str]":
    environ = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.Popen(
        [sys.executable, "-m", "api", *arguments],
        env={**environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[httpx.Client, int, int]]:
    """A client, the port and the process of a door whose Postgres is away."""
    port = choose()
    process = started("--port", str(port), DATABASE_URL=NOWHERE, API_TOKEN=API_TOKEN, ADMIN_TOKEN=ADMIN_TOKEN)
    assert process.stdout is not None
    try:
        said = iter(process.stdout.readline, "")
        assert any("Uvicorn running" in line for line in said)
        with httpx.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=20) as client:
            yield client, port, process.pid
        process.terminate()
        rest = process.communicate(timeout=20)[0]
        assert process.returncode in (0, -15)
        assert "Traceback" not in rest
        assert "canary" not in rest
    finally:
        process.kill()
        process.wait()


def test_it_starts_without_postgres_and_says_that_it_is_not_ready(
    served: tuple[httpx.Client, int, int],
) -> None:
    client, _, _ = served
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").status_code == 503
    assert "server" not in client.get("/healthz").headers


def test_it_listens_on_loopback_only(served: tuple[httpx.Client, int, int]) -> None:
    _, port, pid = served
    listening = [
        one.laddr for one in psutil.Process(pid).net_connections() if one.status == psutil.CONN_LISTEN
    ]
    assert [(address.ip, address.port) for address in listening] == [(LOOPBACK, port)]


def test_a_chunked_body_is_cut_off_while_it_is_sent(served: tuple[httpx.Client, int, int]) -> None:
    _, port, _ = served
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    head = f"POST {ORCHESTRATE} HTTP/1.1\r\nHost: x\r\nX-ADMIN-TOKEN: {ADMIN_TOKEN}\r\n"
    with socket.create_connection((LOOPBACK, port), timeout=20) as wire:
        wire.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 65)  # and no end
        answered = b""
        while part := wire.recv(65536):
            answered += part
    assert answered.startswith(b"HTTP/1.1 413 ")
    assert answered.endswith(b'{"error":"the body is larger than 262144 bytes"}')


def test_a_token_beyond_ascii_is_refused_on_the_wire(served: tuple[httpx.Client, int, int]) -> None:
    client, _, _ = served
    refused = client.post(ORCHESTRATE, headers={b"X-ADMIN-TOKEN": "비밀번호".encode()}, json={})
    assert refused.status_code == 403
    assert client.post(ORCHESTRATE, headers=ADMIN, json={}).status_code == 422


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "DATABASE_URL is not set"),
        ({"DATABASE_URL": "mysql://canary@host/x"}, "DATABASE_URL is no Postgres address"),
        ({"DATABASE_URL": "postgresql://u:canary@host/x?nonsense=1"}, "DATABASE_URL is no Postgres address"),
        ({"DATABASE_URL": NOWHERE, "AI_CONCURRENCY": "many"}, "AI_CONCURRENCY: "),
    ],
)
def test_a_wrong_setting_ends_it_with_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["api"])
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: pytest.fail("it serves"))
    with pytest.raises(SystemExit) as ended:
        main()
    told = str(ended.value.code)
    assert told.startswith(said)
    assert len(told.splitlines()) == 1
    assert "canary" not in told


def test_an_expired_permission_to_crawl_does_not_keep_it_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", NOWHERE)
    monkeypatch.setenv("CRAWL_PERMISSION", "contract 1; Example Media; 2020-01-01")
    assert app().title == "Granary"


def test_help_names_the_defaults() -> None:
    process = started("--help")
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert "--port" in told and "--host" in told and "8787" in told
