"""Visits, opt-out and erasure of members through the door."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg import sql
from psycopg.rows import dict_row

from tests.integration.api.conftest import OpenDoor
from tests.integration.recommendations.factories import a_product, an_event

MEMBER = "/internal/v1/members/70"
VISITS = f"{MEMBER}/visits"
PROFILING = f"{MEMBER}/profiling"
LONG_AGO = "2026-11-30T10:00:00+09:00"


def member_rows(connection: psycopg.Connection, table: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(sql.SQL("SELECT * FROM rec.{} ORDER BY member_id").format(sql.Identifier(table)))
        return cursor.fetchall()


def trigger(connection: psycopg.Connection) -> tuple[datetime, datetime] | None:
    found = member_rows(connection, "visit_trigger")
    return (found[0]["last_visited_at"], found[0]["trigger_at"]) if found else None


def test_a_visit_is_accepted_and_makes_the_member_due_an_hour_later(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    answered = contexts.post(VISITS, json={"occurredAt": LONG_AGO})
    assert (answered.status_code, answered.content) == (202, b"")
    visited = datetime(2026, 11, 30, 1, tzinfo=UTC)
    assert trigger(connection) == (visited, visited + timedelta(hours=1))


@pytest.mark.parametrize("body", [None, {}, {"occurredAt": None}])
def test_a_visit_without_a_time_is_one_of_now(
    contexts: TestClient, connection: psycopg.Connection, body: dict[str, None] | None
) -> None:
    assert contexts.post(VISITS, json=body).status_code == 202
    found = trigger(connection)
    assert found is not None
    assert abs(found[0] - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    "body",
    [
        {"occurredAt": "2026-11-30T10:00:00"},
        {"occurredAt": "yesterday"},
        {"occurredAt": True},
        {"occurredAt": 0},
        {"occurredAt": "1700000000"},
        {"occurredAt": 1764460800.5},
        {"occurredAt": "9999-12-31T23:59:59Z"},
        {"occurred_at": LONG_AGO},
        [],
    ],
)
def test_a_visit_that_does_not_fit_is_refused_and_leaves_nothing(
    contexts: TestClient, connection: psycopg.Connection, body: object
) -> None:
    assert contexts.post(VISITS, json=body).status_code == 422
    assert trigger(connection) is None


def test_a_visit_in_the_future_is_refused_by_name(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=10)
    answered = contexts.post(VISITS, json={"occurredAt": soon.isoformat()})
    assert answered.status_code == 422
    assert answered.json()["fields"] == [
        {"field": "body.occurredAt", "rule": "in_the_future", "le": "in five minutes"}
    ]
    assert trigger(connection) is None


@pytest.mark.parametrize("member", ["0", "-1", "seventy", str(2**63), "1.0"])
def test_what_is_no_member_is_refused(contexts: TestClient, member: str) -> None:
    assert contexts.post(f"/internal/v1/members/{member}/visits", json={}).status_code == 422
    assert contexts.delete(f"/internal/v1/members/{member}").status_code == 422


def test_the_session_is_as_long_as_the_setting_says(
    open_door: OpenDoor, connection: psycopg.Connection
) -> None:
    door = open_door(visit_session_minutes=10)
    door.post(VISITS, json={"occurredAt": "2026-11-30T10:00:00Z"})
    door.post(VISITS, json={"occurredAt": "2026-11-30T10:09:00Z"})
    first = trigger(connection)
    assert first is not None
    assert first[0] == datetime(2026, 11, 30, 10, tzinfo=UTC)
    door.post(VISITS, json={"occurredAt": "2026-11-30T10:11:00Z"})
    second = trigger(connection)
    assert second is not None
    assert second[0] == datetime(2026, 11, 30, 10, 11, tzinfo=UTC)


def test_a_member_who_opts_out_and_in_again(contexts: TestClient, connection: psycopg.Connection) -> None:
    assert contexts.put(PROFILING, json={"allowed": False}).status_code == 204
    assert contexts.put(PROFILING, json={"allowed": False}).status_code == 204
    assert [row["member_id"] for row in member_rows(connection, "member_opt_out")] == [70]
    assert contexts.put(PROFILING, json={"allowed": True}).status_code == 204
    assert member_rows(connection, "member_opt_out") == []


def test_an_erased_member_leaves_nothing_and_the_answer_says_what_there_was(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    contexts.post(VISITS, json={"occurredAt": LONG_AGO})
    contexts.put(PROFILING, json={"allowed": False})
    contexts.post("/internal/v1/members/71/visits", json={"occurredAt": LONG_AGO})
    a_product(connection, 1)
    for _ in range(2):
        an_event(connection, 70, 1)
    answered = contexts.delete(MEMBER)
    assert (answered.status_code, answered.json()) == (
        200,
        {"visits": 0, "triggers": 1, "queueItems": 0, "recommended": 0, "events": 2, "optOuts": 1},
    )
    assert member_rows(connection, "member_event") == []
    assert [row["member_id"] for row in member_rows(connection, "visit_trigger")] == [71]
    assert member_rows(connection, "member_opt_out") == []


@pytest.mark.parametrize("path", [VISITS, MEMBER, PROFILING])
def test_a_stranger_is_told_nothing(contexts: TestClient, path: str) -> None:
    method = {VISITS: "POST", MEMBER: "DELETE", PROFILING: "PUT"}[path]
    answered = contexts.request(method, path, headers={"Authorization": "Bearer wrong-token-wrong"})
    assert answered.status_code == 401
