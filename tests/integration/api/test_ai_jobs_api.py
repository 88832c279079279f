"""Suspended AI jobs begin anew by a request of the admin's."""

from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient

from assets.economy_news import repair_store
from resources import gate
from resources.chat import ChatResource
from tests.integration.api.conftest import OpenDoor
from tests.integration.economy_news.factories import an_article
from tests.unit.api.tokens import ADMIN

JOBS = "/api/v1/admin/ai/jobs"
TYPES = ("SUMMARY", "TERM_CARDS", "INSIGHT", "QUIZ_CONTENT")


@pytest.fixture
def admin(open_door: OpenDoor) -> TestClient:
    door = open_door()
    door.headers.update(ADMIN)
    return door


@pytest.fixture
def jobs(connection: psycopg.Connection) -> list[int]:
    """Suspended for QUOTA, QUOTA and AUTH, each after three attempts; and one that waits."""
    an_article(connection)
    rows = connection.execute(
        "INSERT INTO news.ai_job (article_id, job_type, prompt_version, model, input_hash, day, section,"
        " created_at, status, attempt, suspend_reason, error_code)"
        " SELECT article.id, job_type, 'v1', 'gpt-4o-mini', 'h', day, section, granary.now(), status,"
        " 3, reason, 'insufficient_quota' FROM news.article, unnest(%s::text[],"
        " ARRAY['SUSPENDED', 'SUSPENDED', 'SUSPENDED', 'PENDING'],"
        " ARRAY['QUOTA', 'QUOTA', 'AUTH', NULL]) AS job (job_type, status, reason) RETURNING ai_job.id",
        (list(TYPES),),
    )
    return sorted(row[0] for row in rows)


@pytest.fixture
def shut(admin: TestClient, connection: psycopg.Connection) -> gate.GateKey:
    """The gate of the door's key and model, shut, with its alarm."""
    key = chat_of(admin).gate_key
    assert gate.shut(connection, key, "QUOTA", "the bill", 30)
    connection.execute(
        "INSERT INTO granary.alert (cause, day, message, raised_at)"
        " VALUES ('gate:gpt-4o-mini', granary.today(), 'm', granary.now())"
    )
    return key


def chat_of(door: TestClient) -> ChatResource:
    chat: ChatResource = door.app.state.chat  # type: ignore[attr-defined]
    return chat


def rows(connection: psycopg.Connection) -> list[tuple[str, int, str | None]]:
    return connection.execute(
        "SELECT status, attempt, suspend_reason FROM news.ai_job ORDER BY id"
    ).fetchall()


def alarms_standing(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM granary.alert WHERE cleared_at IS NULL").fetchone()
    assert row is not None
    return int(row[0])


def test_a_suspended_job_is_pending_again_with_all_attempts_and_the_gate_is_open(
    admin: TestClient, jobs: list[int], shut: gate.GateKey, connection: psycopg.Connection
) -> None:
    answered = admin.post(f"{JOBS}/{jobs[0]}/resume")
    assert (answered.status_code, answered.json()) == (200, {"jobId": jobs[0], "status": "PENDING"})
    assert rows(connection) == [
        ("PENDING", 0, None),
        ("SUSPENDED", 3, "QUOTA"),
        ("SUSPENDED", 3, "AUTH"),
        ("PENDING", 3, None),
    ]
    assert gate.read(connection, shut) is None
    assert alarms_standing(connection) == 0


def test_all_of_a_reason_are_resumed_and_their_number_is_told(
    admin: TestClient, jobs: list[int], shut: gate.GateKey, connection: psycopg.Connection
) -> None:
    answered = admin.post(f"{JOBS}/resume", params={"reason": "QUOTA"})
    assert (answered.status_code, answered.json()) == (200, {"resumedCount": 2})
    assert [status for status, _, _ in rows(connection)] == ["PENDING", "PENDING", "SUSPENDED", "PENDING"]
    assert gate.read(connection, shut) is None
    assert admin.post(f"{JOBS}/resume", params={"reason": "QUOTA"}).json() == {"resumedCount": 0}


def test_an_unknown_job_is_a_404_and_one_that_is_not_suspended_a_400(
    admin: TestClient, jobs: list[int], shut: gate.GateKey, connection: psycopg.Connection
) -> None:
    before = rows(connection)
    unknown, waiting = admin.post(f"{JOBS}/999999/resume"), admin.post(f"{JOBS}/{jobs[3]}/resume")
    assert (unknown.status_code, waiting.status_code) == (404, 400)
    assert unknown.json() == {"error": "not SUSPENDED: job 999999 does not exist"}
    assert waiting.json() == {"error": f"not SUSPENDED: job {jobs[3]} is PENDING"}
    assert rows(connection) == before
    assert gate.read(connection, shut) is not None
    assert alarms_standing(connection) == 1


def test_a_suspended_job_that_a_newer_one_took_the_place_of_is_a_400(
    admin: TestClient, jobs: list[int], shut: gate.GateKey, connection: psycopg.Connection
) -> None:
    connection.execute(
        "INSERT INTO news.ai_job (article_id, job_type, prompt_version, model, input_hash, day, section,"
        " created_at, asked_at) SELECT article_id, job_type, 'v2', model, input_hash, day, section,"
        " granary.now(), granary.now() + interval '1 second' FROM news.ai_job WHERE id = %s",
        (jobs[0],),
    )
    answered = admin.post(f"{JOBS}/{jobs[0]}/resume")
    assert answered.status_code == 400
    assert "redone meanwhile" in answered.json()["error"]
    assert rows(connection)[0] == ("SUSPENDED", 3, "QUOTA")
    assert gate.read(connection, shut) is not None


@pytest.mark.parametrize(
    "query", ["", "reason=", "reason=quota", "reason=BUDGET", "reason=QUOTA&reason=AUTH", "why=QUOTA"]
)
def test_a_reason_that_is_none_is_a_400(
    query: str, admin: TestClient, jobs: list[int], shut: gate.GateKey, connection: psycopg.Connection
) -> None:
    before = rows(connection)
    answered = admin.post(f"{JOBS}/resume?{query}")
    assert (answered.status_code, answered.json()) == (
        400,
        {"error": "reason must be one of QUOTA, AUTH, MODEL"},
    )
    assert rows(connection) == before
    assert gate.read(connection, shut) is not None


def test_without_the_admin_token_nothing_is_resumed(
    open_door: OpenDoor, jobs: list[int], connection: psycopg.Connection
) -> None:
    door = open_door()
    assert door.post(f"{JOBS}/{jobs[0]}/resume").status_code == 403
    assert door.post(f"{JOBS}/resume?reason=QUOTA").status_code == 403
    assert rows(connection)[0] == ("SUSPENDED", 3, "QUOTA")


def test_a_door_without_the_key_opens_no_other_gate(
    admin: TestClient, jobs: list[int], connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    answered = admin.post(f"{JOBS}/{jobs[0]}/resume")
    assert answered.status_code == 503
    assert "OPENAI_API_KEY" in answered.json()["error"]
    assert rows(connection)[0] == ("SUSPENDED", 3, "QUOTA")


def test_the_alarm_of_a_key_that_was_replaced_is_cleared_too(
    admin: TestClient,
    jobs: list[int],
    shut: gate.GateKey,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-renewed")
    assert admin.post(f"{JOBS}/resume?reason=AUTH").json() == {"resumedCount": 1}
    assert alarms_standing(connection) == 0


def test_of_two_who_resume_one_job_at_once_the_second_changes_nothing(
    admin: TestClient,
    jobs: list[int],
    shut: gate.GateKey,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resumed = repair_store.resume_suspended

    def after_the_other(*arguments: Any) -> Any:
        connection.execute(
            "UPDATE news.ai_job SET status = 'RUNNING', attempt = 1, suspend_reason = NULL,"
            " claimed_by = 'run', lease_until = granary.now() WHERE id = %s",
            (jobs[0],),
        )
        return resumed(*arguments)

    monkeypatch.setattr(repair_store, "resume_suspended", after_the_other)
    assert admin.post(f"{JOBS}/{jobs[0]}/resume").status_code == 400
    assert rows(connection)[0] == ("RUNNING", 1, None)
    assert gate.read(connection, shut) is not None
