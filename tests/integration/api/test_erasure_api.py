"""A user's erasure through the door."""

import psycopg
import pytest
from fastapi.testclient import TestClient

from assets.context_tags import embedding_store, erasure_store, state_store
from assets.context_tags.erasure_store import Erased
from assets.context_tags.models import DEFAULT_PROFILE, ContextRequest, Stage, StoredVector
from tests.integration.api.test_context_tags_api import PROCESS, body, rows, state

USER = "/internal/v1/users/70"
NOTHING = {"requests": 0, "embeddings": 0, "keywords": 0, "analyses": 0, "cancelled": 0}
VECTOR = [1.0, *[0.0] * 1_535]


def tagged(connection: psycopg.Connection, context_id: int, user_id: int) -> None:
    """A context that both stages are through with."""
    state(connection, context_id, "COMPLETED", "COMPLETED")
    connection.execute(
        "INSERT INTO ai.keyword_preset (id, code, display_name, category, description)"
        " VALUES (101, 'with-friends', '친구와', 'COMPANION', '친구와 함께') ON CONFLICT DO NOTHING"
    )
    connection.execute(
        "INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile)"
        " VALUES (%s, %s, 700, %s::vector, %s)",
        (context_id, user_id, str(VECTOR), DEFAULT_PROFILE),
    )
    connection.execute(
        "INSERT INTO ai.context_keyword (context_id, keyword_id, preset_version) VALUES (%s, 101, 1)",
        (context_id,),
    )
    connection.execute(
        "INSERT INTO ai.context_keyword_analysis (context_id, preset_version) VALUES (%s, 1)", (context_id,)
    )


def test_a_users_rows_are_gone_and_the_answer_says_how_many(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    for context_id, user_id in ((1, 70), (2, 70), (3, 71)):
        contexts.post(PROCESS, json={**body(context_id), "userId": user_id})
    tagged(connection, 1, 70)
    state(connection, 2, "PENDING", "PENDING")
    tagged(connection, 3, 71)
    answered = contexts.delete(USER)
    assert (answered.status_code, answered.json()) == (
        200,
        {"requests": 2, "embeddings": 1, "keywords": 1, "analyses": 1, "cancelled": 1},
    )
    for table in (
        "granary.context_request",
        "ai.context_embedding",
        "ai.context_keyword",
        "ai.context_keyword_analysis",
    ):
        assert [row["context_id"] for row in rows(connection, table)] == [3]
    stopped = rows(connection, "ai.context_ai_state")[1]
    assert (stopped["embedding_status"], stopped["keyword_status"]) == ("CANCELLED", "CANCELLED")
    assert contexts.delete(USER).json() == NOTHING


def test_nobody_is_erased_without_the_token(contexts: TestClient, connection: psycopg.Connection) -> None:
    contexts.post(PROCESS, json=body())
    assert contexts.delete(USER, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert len(rows(connection)) == 1


def test_a_user_of_whom_nothing_is_kept_is_erased_too(contexts: TestClient) -> None:
    assert contexts.delete(f"/internal/v1/users/{2**63 - 1}").json() == NOTHING


def test_a_run_in_the_middle_of_a_call_stores_nothing_afterwards(
    contexts: TestClient, connection: psycopg.Connection
) -> None:
    contexts.post(PROCESS, json=body(7))
    state(connection, 7, "PENDING", "PENDING")
    started = state_store.start(connection, Stage.EMBEDDING, [7], 600)
    assert contexts.delete(USER).json() == {**NOTHING, "requests": 1, "cancelled": 1}
    made = StoredVector(ContextRequest(7, 70, 700, "가"), started[7].token, VECTOR)
    assert embedding_store.store(connection, [made], DEFAULT_PROFILE) == set()
    assert rows(connection, "ai.context_embedding") == []


def test_an_erasure_may_take_longer_than_other_statements(
    contexts: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[object] = []
    erase = erasure_store.erase_user

    def watched(connection: psycopg.Connection, user_id: int) -> Erased:
        bounds.extend(connection.execute("SHOW statement_timeout").fetchall())
        return erase(connection, user_id)

    monkeypatch.setattr(erasure_store, "erase_user", watched)
    assert contexts.delete(USER).status_code == 200
    with contexts.app.state.pool.connection() as ours:  # type: ignore[attr-defined]
        bounds.extend(ours.execute("SHOW statement_timeout").fetchall())
    assert bounds == [("1min",), ("5s",)]
