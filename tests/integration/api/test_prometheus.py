"""A real Prometheus, configured by deploy/prometheus, over a door that is served."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml

from local_stack.ports import LOOPBACK, choose
from tests.integration.api.test_served_door import started
from tests.integration.api.test_watching_files import RULES, expressions, rules
from tests.unit.api.tokens import API_TOKEN

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")

Answer = TypeVar("Answer")

WITHIN_SECONDS = 60


@pytest.fixture
def door(database_url: str) -> Iterator[str]:
    """Host and port of a door with API_TOKEN."""
    port = choose()
    process = started("--port", str(port), DATABASE_URL=database_url, API_TOKEN=API_TOKEN)
    assert process.stdout is not None
    try:
        assert any("Uvicorn running" in line for line in iter(process.stdout.readline, ""))
        yield f"{LOOPBACK}:{port}"
    finally:
        process.kill()
        process.communicate()


@contextmanager
def watching(door: str, token: str, folder: Path) -> Iterator[httpx.Client]:
    """Prometheus as it is deployed, but that it looks each second; a client of its API."""
    shutil.copy(RULES, folder)
    (folder / "token").write_text(token)
    config = yaml.safe_load((RULES.parent / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(config["global"], "1s")
    (scraped,) = config["scrape_configs"]
    scraped["authorization"]["credentials_file"] = str(folder / "token")
    scraped["static_configs"][0]["targets"] = [door]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    subprocess.run(["promtool", "check", "config", "prometheus.yml"], cwd=folder, check=True)
    address = f"{LOOPBACK}:{choose()}"
    process = subprocess.Popen(
        [
            "prometheus",
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address={address}",
            "--log.level=error",
        ],
        cwd=folder,
    )
    try:
        transport = httpx.HTTPTransport(retries=8)  # waits longer each time: it needs a moment to listen
        with httpx.Client(base_url=f"http://{address}", transport=transport, timeout=20) as client:
            until("it is ready", lambda: client.get("/-/ready").is_success)
            yield client
    finally:
        process.kill()
        process.wait()


def asked(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    answered = prometheus.get("/api/v1/query", params={"query": expression}).json()
    assert answered["status"] == "success", f"{expression}: {answered}"
    found: list[dict[str, Any]] = answered["data"]["result"]
    return found


def first(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    """What the expression gives, once it gives anything."""
    return until(f"{expression} gives something", lambda: asked(prometheus, expression))


def until(what: str, answer: Callable[[], Answer]) -> Answer:
    """The first answer that is one: it scrapes and evaluates by its own clock, no event tells of it."""
    deadline = time.monotonic() + WITHIN_SECONDS
    while not (found := answer()):
        assert time.monotonic() < deadline, f"not in {WITHIN_SECONDS} s: {what}"
        time.sleep(0.2)
    return found


def test_it_scrapes_the_door_and_understands_every_rule_and_panel(door: str, tmp_path: Path) -> None:
    with watching(door, API_TOKEN, tmp_path) as prometheus:
        (up,) = first(prometheus, 'up{job="granary"}')
        assert up["value"][1] == "1"
        assert {one["metric"]["kind"] for one in asked(prometheus, "granary_spending_usd")} == {
            "spent",
            "reserved",
            "cap",
        }
        for _, expression, _ in expressions():
            asked(prometheus, expression)
        # A rule is evaluated for the first time up to an interval after the start.
        first(prometheus, 'ALERTS{alertname="GranaryHeartbeatMissing"}')
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
    assert [rule["name"] for group in groups for rule in group["rules"]] == [
        rule["alert"] for rule in rules()
    ]
    assert {rule["lastError"] for group in groups for rule in group["rules"] if "lastError" in rule} <= {""}


def test_a_door_that_refuses_the_token_is_told_as_not_scraped(door: str, tmp_path: Path) -> None:
    with watching(door, "another-token", tmp_path) as prometheus:
        (up,) = first(prometheus, 'up{job="granary"}')
        assert up["value"][1] == "0"
        (told,) = first(prometheus, 'ALERTS{alertname="GranaryIsNotScraped"}')
        assert told["metric"]["alertstate"] == "pending"
        targets = prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
    assert ["HTTP status 401" in target["lastError"] for target in targets] == [True]
