"""A search through the door, its model at the stand-in: what is found, what it costs, and what fails how."""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from assets.context_tags.models import DEFAULT_PROFILE
from resources.embeddings import EmbeddingResource
from tests.integration.api.conftest import OpenDoor
from tests.integration.stand_ins import StandIn

SEARCH = "/internal/v1/search"
UNAVAILABLE = {"error": "the search is not available now"}
REFUSED = {"error": "the model's provider refused"}


def search(door: TestClient, query: str, **more: Any) -> Response:
    asked = {"userId": 70, "query": query, "limit": 5, "embeddingProfile": DEFAULT_PROFILE}
    return door.post(SEARCH, json={**asked, **more})


def calls(api: StandIn) -> int:
    return len(api.get("ledger")["entries"])


@pytest.fixture
def vectors_of(openai_api: StandIn) -> Callable[[Sequence[str]], list[list[float]]]:
    """The stand-in's vectors, asked for outside the ledger that the test looks at."""

    def asked(texts: Sequence[str]) -> list[list[float]]:
        resource = EmbeddingResource(
            model="text-embedding-3-small", base_url=f"{openai_api.url}/v1", api_key="sk-local-other"
        )
        found = resource.embed(texts)[0]
        openai_api.post("reset", ledger=True)
        return found

    return asked


def store(
    connection: psycopg.Connection, context_id: int, record_id: int, vector: Sequence[float], **more: Any
) -> None:
    """A context of user 70 that was embedded."""
    row = {"user": 70, "status": "COMPLETED", "deleted": False, "profile": DEFAULT_PROFILE, **more}
    row |= {"context": context_id, "record": record_id, "vector": str(list(vector))}
    connection.execute(
        "INSERT INTO ai.context_ai_state (context_id, embedding_status) VALUES (%(context)s, %(status)s)", row
    )
    connection.execute(
        "INSERT INTO ai.context_embedding"
        " (context_id, user_id, record_id, embedding, embedding_profile, is_deleted)"
        " VALUES (%(context)s, %(user)s, %(record)s, %(vector)s::vector, %(profile)s, %(deleted)s)",
        row,
    )


def gates(connection: psycopg.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT model, reason FROM granary.api_gate").fetchall()


def test_records_are_found_by_what_their_contexts_say(
    contexts: TestClient,
    connection: psycopg.Connection,
    openai_api: StandIn,
    vectors_of: Callable[[Sequence[str]], list[list[float]]],
) -> None:
    texts = ["친구와 조용한 카페에서 커피를 마셨다", "조용한 카페", "아이와 놀이공원에서 뛰어놀았다"]
    cafe, same_cafe, park = vectors_of(texts)
    store(connection, 1, 100, cafe)
    store(connection, 2, 100, same_cafe)
    store(connection, 3, 300, park)
    store(connection, 4, 400, same_cafe, user=71)
    store(connection, 5, 500, same_cafe, deleted=True)
    store(connection, 6, 600, same_cafe, status="CANCELLED")
    store(connection, 7, 700, same_cafe, profile="openai-text-embedding-3-large-1536-cosine-v1")
    answered = search(contexts, "조용한 카페")
    assert answered.status_code == 200
    best, *others = answered.json()["results"]
    assert (best["recordId"], best["contextId"]) == (100, 2)
    assert best["similarity"] == pytest.approx(1, abs=1e-3)
    assert {one["recordId"] for one in others} <= {300}
    assert calls(openai_api) == 1
    (spent,) = connection.execute("SELECT pipeline, calls, cost_usd > 0 FROM granary.spending").fetchall()
    assert spent == ("context_tags", 1, True)
    assert connection.execute("SELECT reserved_usd FROM granary.spending_day").fetchone() == (0,)


def test_nothing_near_is_an_empty_list(contexts: TestClient) -> None:
    assert search(contexts, "조용한 카페").json() == {"results": []}


def test_one_short_word_finds_what_two_words_do_not(
    contexts: TestClient,
    connection: psycopg.Connection,
    vectors_of: Callable[[Sequence[str]], list[list[float]]],
) -> None:
    for context_id, vector in enumerate(vectors_of(["카페", "카페 밖"]), 1):
        store(connection, context_id, context_id, _at_cosine(vector, 0.27), user=context_id)
    found = [
        search(contexts, query, userId=user).json()["results"]
        for user, query in ((1, "카페"), (2, "카페 밖"))
    ]
    assert [one["similarity"] for one in found[0]] == [pytest.approx(0.27, abs=1e-3)]
    assert found[1] == []


def _at_cosine(vector: Sequence[float], cosine: float) -> list[float]:
    """A vector of length 1 that is so similar to this one of length 1."""
    across = [-vector[1], vector[0], *[0.0] * (len(vector) - 2)]
    length = math.hypot(*across)
    share = math.sqrt(1 - cosine**2) / length
    return [cosine * one + share * other for one, other in zip(vector, across, strict=True)]


def test_another_profile_is_refused_before_anything_is_asked(
    contexts: TestClient, openai_api: StandIn
) -> None:
    other = "openai-text-embedding-3-large-3072-cosine-v1"
    answered = search(contexts, "카페", embeddingProfile=other)
    assert answered.status_code == 422
    assert (answered.json()["expected"], answered.json()["given"]) == (DEFAULT_PROFILE, other)
    assert calls(openai_api) == 0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 401, "code": "invalid_api_key"}, "AUTH"),
        ({"status": 403}, "AUTH"),
        ({"status": 404, "code": "model_not_found"}, "MODEL"),
        ({"status": 429, "code": "insufficient_quota"}, "QUOTA"),
    ],
)
def test_an_answer_that_hits_everyone_is_a_502_and_shuts_the_gate_with_an_alarm(
    contexts: TestClient,
    connection: psycopg.Connection,
    openai_api: StandIn,
    fault: dict[str, Any],
    reason: str,
) -> None:
    openai_api.fault(**fault)
    refused = search(contexts, "카페")
    assert (refused.status_code, refused.json()) == (502, REFUSED)
    assert gates(connection) == [("text-embedding-3-small", reason)]
    (cause,) = connection.execute("SELECT cause FROM granary.alert WHERE cleared_at IS NULL").fetchall()
    assert cause == ("gate:text-embedding-3-small",)
    asked = calls(openai_api)
    again = search(contexts, "카페")
    assert (again.status_code, again.json()) == (503, UNAVAILABLE)
    assert calls(openai_api) == asked


def test_a_query_that_the_model_refuses_is_a_502_and_the_gate_stays_open(
    contexts: TestClient, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    openai_api.fault(status=400, code="content_filter", times=1)
    refused = search(contexts, "카페")
    assert (refused.status_code, refused.json()) == (502, REFUSED)
    assert gates(connection) == []
    assert search(contexts, "카페").status_code == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "code": "rate_limit_exceeded"},
        {"status": 500},
        {"status": 503},
        {"drop": "before"},
        {"hang": True},
        {"vector": "nan"},
        {"vector": "short"},
    ],
    ids=str,
)
def test_a_model_that_is_away_is_a_503_and_the_gate_stays_open(
    open_door: OpenDoor, connection: psycopg.Connection, openai_api: StandIn, fault: dict[str, Any]
) -> None:
    door = open_door(openai_timeout_ms=500)
    openai_api.fault(**fault, times=1)
    away = search(door, "카페")
    assert (away.status_code, away.json(), away.headers["Retry-After"]) == (503, UNAVAILABLE, "5")
    assert gates(connection) == []
    assert search(door, "카페").status_code == 200


def test_the_search_that_holds_the_probe_opens_the_gate(
    contexts: TestClient, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    openai_api.fault(status=429, code="insufficient_quota", times=1)
    search(contexts, "카페")
    connection.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    openai_api.fault(status=500, times=1)
    assert search(contexts, "카페").status_code == 503
    asked = calls(openai_api)
    assert search(contexts, "카페").status_code == 503
    assert (len(gates(connection)), calls(openai_api)) == (1, asked)  # the next probe has its time
    connection.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    assert search(contexts, "카페").status_code == 200
    assert gates(connection) == []


def test_without_money_nothing_is_asked_and_the_gate_stays_open(
    open_door: OpenDoor, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    away = search(open_door(daily_spending_cap_usd=0), "카페")
    assert (away.status_code, away.json()) == (503, UNAVAILABLE)
    assert calls(openai_api) == 0
    assert gates(connection) == []


def test_no_transaction_is_open_while_the_model_is_asked(
    contexts: TestClient, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = EmbeddingResource.embed
    seen: list[tuple[str, int]] = []

    def looked(self: EmbeddingResource, texts: Sequence[str]) -> Any:
        rows = connection.execute(
            "SELECT state, count(*) FROM pg_stat_activity WHERE application_name = 'granary api'"
            " AND datname = current_database() GROUP BY state"
        )
        seen.extend(rows.fetchall())
        return embed(self, texts)

    monkeypatch.setattr(EmbeddingResource, "embed", looked)
    assert search(contexts, "카페").status_code == 200
    assert seen == [("idle", 1)]


def test_searches_that_wait_for_the_model_keep_no_post_waiting(contexts: TestClient) -> None:
    pool = contexts.app.state.search_pool  # type: ignore[attr-defined]
    posted = {"contextId": 7, "userId": 70, "recordId": 700, "text": "조용한 카페"}
    with ExitStack() as held:
        for _ in range(pool.max_size):
            held.enter_context(pool.connection())
        pool.timeout = 0.2
        assert contexts.post("/internal/v1/context/process", json=posted).status_code == 202
        assert search(contexts, "카페").status_code == 503
    assert search(contexts, "카페").status_code == 200


def test_the_query_stands_in_no_log_and_no_answer(
    contexts: TestClient, openai_api: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    query = "canary 카페"
    with caplog.at_level(logging.INFO):
        answers = [search(contexts, query)]
        for fault in ({"status": 400}, {"status": 500}, {"status": 401}):
            openai_api.fault(**fault, message=f"about {query}", times=1)
            answers.append(search(contexts, query))
    assert [one.status_code for one in answers] == [200, 502, 503, 502]
    assert "canary" not in caplog.text + "".join(one.text for one in answers)
