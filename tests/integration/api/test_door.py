"""The door over the real Postgres, inside the test's process."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime

import psycopg
import pytest
from fastapi.testclient import TestClient

from api import database
from api.app import build_app
from assets.raw_files import partition_store
from local_stack.postgres import EmbeddedPostgres
from orchestration.settings import Settings
from resources.counters import Counts
from tests.integration.economy_news.factories import an_article
from tests.unit.api.tokens import ADMIN, ADMIN_TOKEN, API_TOKEN, BEARER, configure

ASKED = {"country": "kr", "category": "news", "date": "2026-01-30", "force": True}
ORCHESTRATE = "/api/v1/seeds/orchestrate"
REPORT = "/api/v1/raw/daily/2026-01-30"


@pytest.fixture(autouse=True)
def _tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch)


@pytest.fixture
def client(database_url: str) -> Iterator[TestClient]:
    with TestClient(build_app(Settings(), database_url)) as client:
        yield client


def pool_of(client: TestClient) -> database.Pool:
    pool: database.Pool = client.app.state.pool  # type: ignore[attr-defined]
    return pool


def test_a_request_is_a_row_and_nothing_else(client: TestClient, connection: psycopg.Connection) -> None:
    answered = client.post(ORCHESTRATE, json=ASKED, headers=ADMIN)
    rows = connection.execute("SELECT id, day, source, force, started_at FROM raw.request").fetchall()
    request_id = answered.json()["request_id"]
    assert (answered.status_code, answered.json()["partition"]) == (202, "2026-01-30|kr/news")
    assert rows == [(request_id, date(2026, 1, 30), "kr/news", True, None)]


def test_a_refused_request_leaves_no_row(client: TestClient, connection: psycopg.Connection) -> None:
    statuses = [
        client.post(ORCHESTRATE, json=ASKED).status_code,
        client.post(ORCHESTRATE, json=ASKED, headers=BEARER).status_code,
        client.post(ORCHESTRATE, json={**ASKED, "country": "Korea"}, headers=ADMIN).status_code,
        client.post(ORCHESTRATE, json={**ASKED, "more": 1}, headers=ADMIN).status_code,
    ]
    assert statuses == [403, 403, 422, 422]
    assert connection.execute("SELECT count(*) FROM raw.request").fetchone() == (0,)


def test_a_report_is_served_as_it_was_stored(client: TestClient, connection: psycopg.Connection) -> None:
    assert client.get(REPORT, headers=BEARER).status_code == 404
    summary = {"success_rate": 0.75, "failed": ["kr/news"], "note": "요약"}
    partition_store.write_report(connection, date(2026, 1, 30), datetime(2026, 1, 31, tzinfo=UTC), summary)
    answered = client.get(REPORT, headers=BEARER)
    assert (answered.status_code, answered.json()) == (200, summary)
    assert client.get(REPORT, headers=ADMIN).status_code == 401


def test_metrics_show_what_was_counted_and_what_waits(
    client: TestClient, connection: psycopg.Connection
) -> None:
    counts = Counts()
    counts.add("raw_files_total", 3, status="PROCESSED")
    counts.observe("raw_seconds", 1.5, kind="a")
    counts.observe("raw_seconds", 2.0, kind="a")
    counts.write(connection)
    an_article(connection)
    connection.execute(
        "INSERT INTO news.ai_job "
        "(article_id, job_type, prompt_version, model, input_hash, day, section, created_at) "
        "SELECT id, 'QUIZ_TERM', 'v1', 'm', 'h', day, section, granary.now() FROM news.article LIMIT 1"
    )
    answered = client.get("/metrics", headers=BEARER)
    assert answered.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answered.text.splitlines()
    assert 'raw_files_total{status="PROCESSED"} 3.0' in lines
    assert 'raw_seconds_sum{kind="a"} 3.5' in lines
    assert 'raw_seconds_count{kind="a"} 2.0' in lines
    assert 'ai_jobs_queue_size{status="PENDING",type="QUIZ_TERM"} 1.0' in lines
    assert client.get("/metrics").status_code == 401


def test_it_is_ready_once_the_database_was_migrated(
    client: TestClient, postgres_server: EmbeddedPostgres
) -> None:
    assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 200)
    with TestClient(build_app(Settings(), postgres_server.dsn("postgres"))) as too_early:
        answered = too_early.get("/readyz")
    assert answered.status_code == 503
    assert "migrat" in answered.json()["error"]


def test_no_connection_is_made_before_one_is_needed(
    client: TestClient, connection: psycopg.Connection
) -> None:
    def made() -> object:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'granary api' "
            "AND datname = current_database()"
        ).fetchone()

    client.get("/healthz")
    client.post(ORCHESTRATE, json=ASKED)
    assert made() == (0,)
    client.get("/readyz")
    assert made() == (1,)


def test_postgres_gone_is_a_503_and_its_return_is_noticed(
    database_url: str,
    postgres_server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.5)
    with TestClient(build_app(Settings(), database_url)) as client, caplog.at_level(logging.DEBUG):
        assert client.get("/readyz").status_code == 200
        postgres_server.stop()
        try:
            away = [
                answer
                for _ in range(2)  # four seconds, after which a pool that does not give up pauses for as long
                for answer in (
                    client.get("/readyz"),
                    client.get("/metrics", headers=BEARER),
                    client.get(REPORT, headers=BEARER),
                    client.post(ORCHESTRATE, json=ASKED, headers=ADMIN),
                )
            ]
            alive = client.get("/healthz")
        finally:
            postgres_server.start(die_with_parent=True)
        back = [client.get("/readyz").status_code for _ in range(3)]
    assert alive.status_code == 200
    assert [one.status_code for one in away] == [503] * 8
    assert {one.text for one in away} == {'{"error":"the database does not answer"}'}
    assert postgres_server.dsn().split(":")[2].split("@")[0] not in caplog.text
    assert back[-1] == 200


def test_a_restart_of_postgres_costs_no_request(
    client: TestClient, postgres_server: EmbeddedPostgres
) -> None:
    assert client.get("/readyz").status_code == 200
    postgres_server.stop()
    postgres_server.start(die_with_parent=True)
    assert client.post(ORCHESTRATE, json=ASKED, headers=ADMIN).status_code == 202


def test_who_finds_all_connections_taken_gets_a_503(client: TestClient) -> None:
    pool = pool_of(client)
    with ExitStack() as held:
        for _ in range(database.MOST_CONNECTIONS):
            held.enter_context(pool.connection())
        pool.timeout = 0.2
        assert client.get("/readyz").status_code == 503
    pool.timeout = 3
    assert client.get("/readyz").status_code == 200


def test_a_statement_that_waits_too_long_is_a_503(
    client: TestClient, connect: Callable[..., psycopg.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 0.3)
    with pool_of(client).connection() as ours:
        assert ours.execute("SHOW statement_timeout").fetchone() == ("300ms",)  # or what follows never ends
    blocker = connect()
    with blocker.transaction():
        blocker.execute("LOCK TABLE raw.request IN ACCESS EXCLUSIVE MODE")
        assert client.post(ORCHESTRATE, json=ASKED, headers=ADMIN).status_code == 503
    assert client.post(ORCHESTRATE, json=ASKED, headers=ADMIN).status_code == 202


def test_no_secret_is_told(
    client: TestClient, database_url: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    password = database_url.split(":")[2].split("@")[0]
    wrong = {"Authorization": f"Bearer {API_TOKEN}x", "X-ADMIN-TOKEN": f"{ADMIN_TOKEN}x"}
    with caplog.at_level(logging.DEBUG):
        answers = [
            client.request(method, path, headers=headers, json={**ASKED, "country": API_TOKEN})
            for method, path in (
                ("GET", "/metrics"),
                ("GET", REPORT),
                ("POST", ORCHESTRATE),
                ("GET", "/readyz"),
            )
            for headers in ({**BEARER, **ADMIN}, wrong, {})
        ]
        connection.execute("ALTER TABLE raw.daily_report RENAME TO elsewhere")
        answers.append(client.get(REPORT, headers=BEARER))
    assert [one.status_code for one in answers] == [
        200,
        401,
        401,
        404,
        401,
        401,
        422,
        403,
        403,
        200,
        200,
        200,
        500,
    ]
    told = caplog.text + "".join(f"{one.headers}{one.text}" for one in answers)
    assert "UndefinedTable at" in told
    for secret in (API_TOKEN, ADMIN_TOKEN, password):
        assert secret not in told
