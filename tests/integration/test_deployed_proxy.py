"""A real Caddy with deploy/proxy's file: what it lets through, to whom, and what it writes down.

Caddy may be older here than in compose.yaml: before 2.8 `basic_auth` was called `basicauth`.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from local_stack.ports import LOOPBACK, choose
from tests.integration.resources.scripted_server import ScriptedServer, always, answer

pytestmark = pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")

CADDYFILE = Path(__file__).resolve().parents[2] / "deploy" / "proxy" / "Caddyfile"
LOGIN = ("editor", "a password of the UI")
TOKEN = "a-token-of-the-door"
MOST_BYTES = 256_000


def _caddy(*arguments: str) -> str:
    done = subprocess.run(["caddy", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass
class Proxy:
    """`client` asks it; `behind` are those that it passes on to; `log` is what it has written."""

    client: httpx.Client
    behind: dict[str, ScriptedServer]
    log: Path


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("caddy")
    behind = {
        name: ScriptedServer(always(answer(200, name.encode())))
        for name in ("door:8787", "ui:3000", "grafana:3000")
    }
    text = CADDYFILE.read_text(encoding="utf-8").replace("{\n\tservers", "{\n\tadmin off\n\tservers", 1)
    for name, server in behind.items():
        assert f"reverse_proxy {name}\n" in text
        text = text.replace(
            f"reverse_proxy {name}\n", f"reverse_proxy {server.url.removeprefix('http://')}\n"
        )
    if tuple(map(int, _caddy("version").lstrip("v").split()[0].split(".")[:2])) < (2, 8):
        text = text.replace("basic_auth", "basicauth")
    (folder / "Caddyfile").write_text(text)
    site = f"http://{LOOPBACK}:{choose()}"
    environment = {
        "HOME": str(folder),
        "SITE": site,
        "UI_USER": LOGIN[0],
        "UI_PASSWORD_HASH": _caddy("hash-password", "--plaintext", LOGIN[1]),
    }
    log = folder / "log"
    command = [str(shutil.which("caddy")), "run", "--adapter", "caddyfile", "--config", "Caddyfile"]
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=written)
    try:
        transport = httpx.HTTPTransport(retries=8)  # waits longer each time: it needs a moment to listen
        with httpx.Client(base_url=site, transport=transport, timeout=20) as client:
            yield Proxy(client, behind, log)
    finally:
        process.kill()
        process.wait()
        for server in behind.values():
            server.stop()


@pytest.mark.parametrize("login", [None, (LOGIN[0], "guessed"), ("root", LOGIN[1])])
def test_without_the_login_nothing_of_the_ui_is_seen(proxy: Proxy, login: tuple[str, str] | None) -> None:
    before = len(proxy.behind["ui:3000"].requests)
    for path in (
        "/",
        "/graphql",
        "/server_info",
        "/metrics",
        "/apis",
        "/api",
        "/healthz/x",
    ):
        answered = proxy.client.get(path, auth=login)
        assert answered.status_code == 401, path
        assert "Basic" in answered.headers["www-authenticate"]
    assert len(proxy.behind["ui:3000"].requests) == before


@pytest.mark.parametrize("path", ["/", "/graphql", "/runs/1"])
def test_with_the_login_the_ui_is_seen(proxy: Proxy, path: str) -> None:
    assert proxy.client.get(path, auth=LOGIN).text == "ui:3000"
    assert proxy.behind["ui:3000"].requests[-1].startswith(f"GET {path} HTTP/1.1")


@pytest.mark.parametrize("path", ["/api/v1/recipes/search?q=1", "/internal/ai/x", "/healthz"])
def test_the_door_is_asked_with_its_tokens_and_no_login(proxy: Proxy, path: str) -> None:
    answered = proxy.client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answered.text == "door:8787"
    passed_on = proxy.behind["door:8787"].requests[-1]
    assert passed_on.startswith(f"GET {path} HTTP/1.1")
    assert f"authorization: bearer {TOKEN}" in passed_on.lower()


@pytest.mark.parametrize(
    "path",
    ["/api/../graphql", "/api/..%2fgraphql", "/healthz/../", "/grafana/../graphql", "/api/%2e%2e/graphql"],
)
def test_no_way_round_leads_to_the_ui(proxy: Proxy, path: str) -> None:
    before = len(proxy.behind["ui:3000"].requests)
    request = proxy.client.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    assert proxy.client.send(request).status_code in (200, 308, 401)
    assert len(proxy.behind["ui:3000"].requests) == before


def test_grafana_is_asked_without_the_prefix(proxy: Proxy) -> None:
    assert proxy.client.get("/grafana/d/granary").text == "grafana:3000"
    assert proxy.behind["grafana:3000"].requests[-1].startswith("GET /d/granary HTTP/1.1")


@pytest.mark.parametrize("path", ["/api/v1/x", "/internal/x"])
def test_a_body_that_is_too_large_is_refused(proxy: Proxy, path: str) -> None:
    assert proxy.client.post(path, content=b" " * MOST_BYTES).status_code == 200
    before = len(proxy.behind["door:8787"].requests)
    refused = proxy.client.post(path, content=b" " * (MOST_BYTES + 1))
    assert refused.status_code in (413, 502)  # the latter before 2.7
    assert len(proxy.behind["door:8787"].requests) == before


def test_what_was_asked_is_written_down_without_tokens(proxy: Proxy) -> None:
    proxy.client.get(
        "/api/v1/written-down", headers={"Authorization": f"Bearer {TOKEN}", "X-ADMIN-TOKEN": TOKEN}
    )
    proxy.client.get("/", auth=LOGIN, headers={"Cookie": f"session={TOKEN}"})
    log = proxy.log.read_text()
    assert "/api/v1/written-down" in log
    assert TOKEN not in log and "Basic " not in log
