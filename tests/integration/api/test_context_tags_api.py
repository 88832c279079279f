"""A text posted through the door: what stands in the inbox afterwards, and what stands nowhere."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg import sql
from psycopg.rows import dict_row

from api import database
from assets.context_tags.request_text import keyed_hash
from resources import counters
from tests.integration.api.conftest import OpenDoor
from tests.unit.api.tokens import HMAC_KEY

PROCESS = "/internal/v1/context/process"
BREACHES = "context_contract_breaches_total"
TEXT = "비 오는 날 친구와 창가에서 커피를 마셨다 canary-31ab"
OTHER_TEXT = "혼자 조용히 책을 읽었다 canary-77fe"


def body(context_id: int = 7, text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"contextId": context_id, "userId": 70, "recordId": 700, "text": text, **more}


def rows(connection: psycopg.Connection, table: str = "granary.context_request") -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        name = sql.Identifier(*table.split("."))
        return cursor.execute(sql.SQL("SELECT * FROM {} ORDER BY context_id").format(name)).fetchall()


def state(connection: psycopg.Connection, context_id: int, embedding: str, keyword: str) -> None:
    """The application's row."""
    connection.execute(
        "INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status) VALUES (%s, %s, %s)",
        (context_id, embedding, keyword),
    )


def test_a_posted_text_waits_in_the_inbox(contexts: TestClient, connection: psycopg.Connection) -> None:
    place = {"name": "골목 카페", "floor": 2, "tags": ["조용함"], "open": None}
    answered = contexts.post(PROCESS, json=body(placeMeta=place))
    assert (answered.status_code, answered.content) == (202, b"")
    (row,) = rows(connection)
    assert row.pop("requested_at") == row.pop("text_since") is not None
    assert row == {
        "context_id": 7,
        "user_id": 70,
        "record_id": 700,
        "text": TEXT,
        "text_hmac": keyed_hash(TEXT, HMAC_KEY.encode()),
        "place_meta": place,
        "handled_at": None,
    }
    assert rows(connection, "ai.context_ai_state") == []


@pytest.mark.parametrize(
    "text",
    [
        "가",
        "\u1112\u1161\u11ab글",
        "줄\u2028과 \u2029 문단",
        "👩\u200d👩\u200d👧 가족과",
        "\ufeff\x01 끝",
        " 앞뒤 ",
    ],
)
def test_a_text_is_kept_as_it_was_sent(
    contexts: TestClient, connection: psycopg.Connection, text: str
) -> None:
    assert contexts.post(PROCESS, json=body(text=text)).status_code == 202
    assert rows(connection)[0]["text"] == text


def test_each_post_is_one_attempt_on_the_same_row(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    contexts.post(PROCESS, json=body())
    connection.execute("UPDATE granary.context_request SET handled_at = granary.now(), text = NULL")
    (before,) = rows(connection)
    contexts.post(PROCESS, json=body())
    (after,) = rows(connection)
    assert after["text"] == TEXT
    assert after["requested_at"] > after["handled_at"] == before["handled_at"] >= before["requested_at"]
    assert counters.value(connection, BREACHES, {}) == 0


@pytest.mark.parametrize(
    ("embedding", "keyword", "kept"),
    [
        ("PENDING", "PENDING", OTHER_TEXT),
        ("COMPLETED", "PENDING", OTHER_TEXT),
        ("PROCESSING", "PROCESSING", TEXT),
        ("COMPLETED", "COMPLETED", TEXT),
        ("CANCELLED", "CANCELLED", TEXT),
    ],
)
def test_another_text_is_taken_only_while_a_stage_is_pending_and_told_by_hashes_alone(
    contexts: TestClient,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
    embedding: str,
    keyword: str,
    kept: str,
) -> None:
    state(connection, 7, embedding, keyword)
    contexts.post(PROCESS, json=body())
    with caplog.at_level(logging.DEBUG):
        answered = contexts.post(PROCESS, json=body(text=OTHER_TEXT))
    assert (answered.status_code, answered.content) == (202, b"")
    (row,) = rows(connection)
    assert (row["text"], row["text_hmac"]) == (kept, keyed_hash(kept, HMAC_KEY.encode()))
    assert counters.value(connection, BREACHES, {}) == 1
    (warning,) = [one for one in caplog.records if one.name == "granary.api"]
    assert warning.levelno == logging.WARNING
    for text in (TEXT, OTHER_TEXT):
        assert keyed_hash(text, HMAC_KEY.encode()) in warning.getMessage()
    assert "canary" not in caplog.text
    assert rows(connection, "ai.context_ai_state")[0]["embedding_status"] == embedding


def test_states_are_the_applications_unless_we_are_told_to_keep_them(
    open_door: OpenDoor, connection: psycopg.Connection
) -> None:
    door = open_door(context_own_state=True)
    state(connection, 8, "COMPLETED", "PENDING")
    assert [door.post(PROCESS, json=body(id_)).status_code for id_ in (7, 8, 7)] == [202] * 3
    states = [(row["context_id"], row["embedding_status"]) for row in rows(connection, "ai.context_ai_state")]
    assert states == [(7, "PENDING"), (8, "COMPLETED")]


def test_posts_of_one_context_at_once_make_one_row(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: contexts.post(PROCESS, json=body()).status_code, range(40)))
    assert answers == [202] * 40
    assert len(rows(connection)) == 1


def test_what_is_refused_leaves_no_row_and_no_trace(
    contexts: TestClient, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [
            contexts.post(PROCESS, json=body(text=f"{TEXT}\x00")),
            contexts.post(PROCESS, json=body(text=TEXT * 1_000)),
            contexts.post(PROCESS, json=body(placeMeta={"name": TEXT * 200})),
            contexts.post(PROCESS, json=body(context_id=0)),
            contexts.post(PROCESS, json=body(), headers={"Authorization": "Bearer wrong"}),
            contexts.post(
                PROCESS, content=json.dumps(body())[:-1], headers={"Content-Type": "application/json"}
            ),
        ]
    assert [one.status_code for one in answers] == [422, 422, 422, 422, 401, 422]
    assert rows(connection) == []
    assert "canary" not in caplog.text + "".join(one.text for one in answers)


def test_a_lock_that_does_not_end_is_a_503_without_the_text(
    contexts: TestClient,
    connect: Callable[..., psycopg.Connection],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 0.3)
    blocker = connect()
    with blocker.transaction(), caplog.at_level(logging.DEBUG):
        blocker.execute("LOCK TABLE granary.context_request IN ACCESS EXCLUSIVE MODE")
        refused = contexts.post(PROCESS, json=body())
    assert (refused.status_code, refused.json()) == (503, {"error": "the database does not answer"})
    assert "canary" not in caplog.text
    assert contexts.post(PROCESS, json=body()).status_code == 202


def test_what_postgres_refuses_unexpectedly_is_told_without_the_text(
    contexts: TestClient, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.execute("ALTER TABLE granary.context_request ADD CHECK (length(text) < 3)")
    with caplog.at_level(logging.DEBUG):
        refused = contexts.post(PROCESS, json=body())
    assert (refused.status_code, refused.json()) == (500, {"error": "internal error"})
    assert "canary" not in caplog.text


def test_metrics_show_what_waits_and_where_stages_stand(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    for context_id in (7, 8, 9):
        contexts.post(PROCESS, json=body(context_id))
    connection.execute(
        "UPDATE granary.context_request SET requested_at = granary.now() - interval '90 seconds',"
        " handled_at = CASE context_id WHEN 9 THEN granary.now() END WHERE context_id IN (8, 9)"
    )
    state(connection, 7, "PENDING", "PENDING")
    state(connection, 8, "COMPLETED", "PROCESSING")
    state(connection, 9, "FAILED", "PENDING")
    shown = dict(line.rsplit(" ", 1) for line in contexts.get("/metrics").text.splitlines())
    assert float(shown["context_requests_waiting"]) == 2
    assert 90 <= float(shown["context_oldest_waiting_seconds"]) < 120
    sizes = {
        (stage, status): float(shown[f'context_stage_size{{stage="{stage}",status="{status}"}}'])
        for stage in ("embedding", "keyword")
        for status in ("FAILED", "PENDING", "PROCESSING")
    }
    assert sizes == {
        ("embedding", "FAILED"): 1,
        ("embedding", "PENDING"): 1,
        ("embedding", "PROCESSING"): 0,
        ("keyword", "FAILED"): 0,
        ("keyword", "PENDING"): 2,
        ("keyword", "PROCESSING"): 1,
    }
