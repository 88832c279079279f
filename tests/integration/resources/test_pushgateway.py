"""Counters pushed over HTTP: exact names and labels, and a gateway that fails only warns."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from local_stack import ports
from resources import pushgateway
from resources.counters import Counts
from resources.pushgateway import PushgatewayResource
from tests.integration.resources.scripted_server import ScriptedServer

JOB = "recipe_ingestion"
OWN = ("recipe_ingestion_ingredient_match_total", "recipe_ingestion_parse_confidence_total")
PERSISTED = {
    'recipe_ingestion_stage_total{outcome="failed",stage="persist"} 1.0',
    'recipe_ingestion_stage_total{outcome="success",stage="persist"} 7.0',
    'recipe_ingestion_stage_latency_ms_count{stage="persist"} 1.0',
    'recipe_ingestion_stage_latency_ms_sum{stage="persist"} 250.0',
    'recipe_ingestion_ingredient_match_total{match_method="exact"} 5.0',
    'recipe_ingestion_ingredient_match_total{match_method="new"} 2.0',
    'recipe_ingestion_parse_confidence_total{level="high"} 7.0',
}


@pytest.fixture(autouse=True)
def counted(connection: psycopg.Connection) -> None:
    """What the stages have counted, with counters of others beside it."""
    counts = Counts()
    counts.add("recipe_ingestion_stage_total", 7, stage="persist", outcome="success")
    counts.add("recipe_ingestion_stage_total", 1, stage="persist", outcome="failed")
    counts.observe("recipe_ingestion_stage_latency_ms", 250, stage="persist")
    counts.add("recipe_ingestion_ingredient_match_total", 5, match_method="exact")
    counts.add("recipe_ingestion_ingredient_match_total", 2, match_method="new")
    counts.add("recipe_ingestion_parse_confidence_total", 7, level="high")
    counts.add("recipe_ingestion_stage_total", 9, stage="fetch", outcome="success")
    counts.add("recipe_ingestion_llm_tokens_total", 99, token_type="input")
    counts.add("news_articles_total", 3, stage="persist")
    counts.write(connection)


def answers(status: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


@contextmanager
def gateway(status: str = "202 Accepted") -> Iterator[ScriptedServer]:
    server = ScriptedServer(lambda _, __: answers(status))
    try:
        yield server
    finally:
        server.stop()


def samples(text: str) -> set[str]:
    return {line for line in text.split("\n") if line and not line.startswith("#")}


def push(url: str, connection: psycopg.Connection, stage: str = "persist") -> bool:
    return PushgatewayResource(url=url).push(connection, JOB, stage, OWN if stage == "persist" else ())


def test_a_stage_pushes_its_counters_and_those_that_it_alone_counts(connection: psycopg.Connection) -> None:
    with gateway() as server:
        assert push(server.url, connection)
    (request,) = server.requests
    head, _, body = request.partition("\r\n\r\n")
    assert head.startswith("POST /metrics/job/recipe_ingestion/stage/persist HTTP/1.1\r\n")
    assert samples(body) == PERSISTED
    assert "# TYPE recipe_ingestion_stage_total counter" in body
    assert "# TYPE recipe_ingestion_stage_latency_ms summary" in body


def test_every_stage_is_a_group_of_its_own(connection: psycopg.Connection) -> None:
    with gateway() as server:
        assert push(server.url, connection, "fetch")
        assert push(server.url, connection, "parse-submit")
    fetch, submit = server.requests
    assert fetch.startswith("POST /metrics/job/recipe_ingestion/stage/fetch ")
    assert samples(fetch.partition("\r\n\r\n")[2]) == {
        'recipe_ingestion_stage_total{outcome="success",stage="fetch"} 9.0'
    }
    assert submit.startswith("POST /metrics/job/recipe_ingestion/stage/parse-submit ")
    assert samples(submit.partition("\r\n\r\n")[2]) == set()


def test_without_an_address_nothing_is_pushed(connection: psycopg.Connection) -> None:
    assert not push("", connection)


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
def test_a_gateway_that_refuses_only_warns(
    connection: psycopg.Connection, caplog: pytest.LogCaptureFixture, status: str
) -> None:
    with gateway(status) as server:
        assert not push(server.url, connection)
    code = status.split()[0]
    assert caplog.messages == [
        f"the metrics of persist were not pushed (HTTPError {code}): see PUSHGATEWAY_URL"
    ]


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "http://user:a-password@127.0.0.1:1", "nonsense://a-password", "a b"]
)
def test_an_address_where_none_is_only_warns_and_shows_no_password(
    connection: psycopg.Connection, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    assert not push(address, connection)
    (message,) = caplog.messages
    assert "PUSHGATEWAY_URL" in message and "a-password" not in message + caplog.text


def test_a_gateway_that_does_not_answer_is_given_up(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushgateway, "TIMEOUT_SECONDS", 0.2)

    def hang(server: ScriptedServer, _: str) -> Iterator[bytes]:
        server.ended.wait(30)
        yield b""

    server = ScriptedServer(hang)
    try:
        assert not push(server.url, connection)
    finally:
        server.stop()


@pytest.mark.skipif(
    shutil.which("prometheus-pushgateway") is None, reason="prometheus-pushgateway is not installed"
)
def test_a_real_gateway_keeps_the_last_values(connection: psycopg.Connection) -> None:
    port = ports.choose()
    command = ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        transport = httpx.HTTPTransport(retries=8)  # waits longer each time: it needs a moment to listen
        with httpx.Client(base_url=url, transport=transport) as client:
            client.get("/-/ready").raise_for_status()
            for _ in range(2):
                assert push(url, connection)
            assert push(url, connection, "fetch")
            kept = client.get("/metrics").text
    finally:
        process.kill()
        process.wait()
    assert (
        'recipe_ingestion_stage_total{instance="",job="recipe_ingestion",outcome="success",stage="persist"} 7'
        in kept
    )
    assert (
        'recipe_ingestion_stage_total{instance="",job="recipe_ingestion",outcome="success",stage="fetch"} 9'
        in kept
    )
    assert (
        'recipe_ingestion_ingredient_match_total{instance="",job="recipe_ingestion",match_method="new",'
        'stage="persist"} 2' in kept
    )
