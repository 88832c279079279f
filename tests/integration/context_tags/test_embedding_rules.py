"""The embedding stage: what is stored, what fails, and what a request of many texts does about a bad one."""

import math
from dataclasses import replace
from typing import Any

import pytest

from assets.context_tags.models import DEFAULT_PROFILE
from resources.api_failure import FAIL, ApiFailure, Verdict
from tests.integration.context_tags.scenes import (
    OTHER_PROFILE,
    TEXT,
    Core,
    Embeddings,
    Judge,
    Pool,
    axis,
    request,
    run,
)

DONE = ("COMPLETED", "COMPLETED")
FAILED = ("FAILED", "PENDING")


def test_many_texts_are_embedded_by_one_request_and_each_gets_its_own_vector(core: Core, pool: Pool) -> None:
    core.add(1, 2, 3)
    vectors = {"하나": axis(1), "둘": axis(0, 1), "셋": axis(0, 0, 1)}
    embeddings = Embeddings(vectors)
    outcome = run(pool, *(request(id_, text) for id_, text in enumerate(vectors, 1)), embeddings=embeddings)
    assert embeddings.asked == [["하나", "둘", "셋"]]
    assert (outcome.embedding_requests, outcome.embedded, outcome.tagged) == (1, {1, 2, 3}, {1, 2, 3})
    assert core.vectors() == {1: axis(1), 2: axis(0, 1), 3: axis(0, 0, 1)}
    assert core.keywords() == {1: {101: 0.9}, 2: {202: 0.9}, 3: {303: 0.9}}
    rows = core.rows(
        "SELECT DISTINCT embedding_profile, user_id, record_id, is_deleted FROM ai.context_embedding"
    )
    assert rows == [{"embedding_profile": DEFAULT_PROFILE, "user_id": 1, "record_id": 1, "is_deleted": False}]


def test_texts_that_are_too_much_for_one_request_are_asked_for_in_several(core: Core, pool: Pool) -> None:
    core.add(*range(1, 7))
    embeddings = Embeddings()
    run(pool, *(request(id_, "가" * 20_000) for id_ in range(1, 7)), embeddings=embeddings)
    assert [len(texts) for texts in embeddings.asked] == [5, 1]
    assert set(core.states().values()) == {DONE}


def test_rule_6_is_deleted_is_never_touched(core: Core, pool: Pool) -> None:
    core.add(1)
    core.add_vector(1, axis(0, 0, 1), profile=OTHER_PROFILE, is_deleted=True)
    run(pool, 1)
    assert core.vectors() == {1: axis(1)}
    rows = core.rows("SELECT is_deleted, embedding_profile FROM ai.context_embedding")
    assert rows == [{"is_deleted": True, "embedding_profile": DEFAULT_PROFILE}]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0] * 1_535, "dimension"),
        ([1.0] * 1_537, "dimension"),
        ([], "dimension"),
        (axis(math.nan), "not_a_number"),
        (axis(math.inf), "not_a_number"),
        (axis(1e39), "not_a_number"),
        (axis(0), "zero"),
        (axis(1e-60), "zero"),
    ],
)
def test_rule_8_a_vector_that_is_none_fails_its_context_alone_and_nothing_is_stored(
    core: Core, pool: Pool, vector: list[float], reason: str
) -> None:
    core.add(1, 2)
    judge = Judge()
    outcome = run(pool, request(1, "나쁜"), 2, embeddings=Embeddings({"나쁜": vector}), judge=judge)
    assert outcome.failed == {1: reason}
    assert core.states() == {1: FAILED, 2: DONE}
    assert (set(core.vectors()), [text for text, _ in judge.asked]) == ({2}, [TEXT])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\u3000", "empty"),
        ("가" * 20_001, "too_long"),
        ("a\x00b", "not_storable"),
        ("\ud83d", "not_storable"),
    ],
)
def test_rule_15_a_text_that_cannot_be_asked_about_fails_without_a_call(
    core: Core, pool: Pool, text: str, reason: str
) -> None:
    core.add(1, 2)
    core.add(3, embedding="COMPLETED")
    core.add_vector(3, axis(1))
    embeddings, judge = Embeddings(), Judge()
    outcome = run(pool, request(1, text), 2, request(3, text), embeddings=embeddings, judge=judge)
    assert outcome.failed == {1: reason, 3: reason}
    assert core.states() == {1: FAILED, 2: DONE, 3: ("COMPLETED", "FAILED")}
    assert (embeddings.asked, len(judge.asked)) == ([[TEXT]], 1)


def refusing(guilty: set[str]) -> Any:
    def refuse(texts: list[str]) -> None:
        if guilty & set(texts):
            raise ApiFailure(Verdict(FAIL), "invalid_request_error", "status 400", 400)

    return refuse


@pytest.mark.parametrize("guilty", [{3}, {1, 8}, {4, 5}])
def test_rule_15_a_refused_request_is_halved_until_the_guilty_text_stands_alone(
    core: Core, pool: Pool, guilty: set[int]
) -> None:
    ids = range(1, 9)
    core.add(*ids)
    embeddings = Embeddings(on_call=refusing({f"글 {id_}" for id_ in guilty}))
    outcome = run(pool, *(request(id_, f"글 {id_}") for id_ in ids), embeddings=embeddings)
    assert outcome.failed == dict.fromkeys(guilty, "invalid_request_error")
    assert core.states() == {id_: FAILED if id_ in guilty else DONE for id_ in ids}
    assert outcome.embedding_requests == len(embeddings.asked) <= 1 + 2 * 3 * len(guilty)
    answered = [text for texts in embeddings.asked if len(texts) == 1 for text in texts]
    assert {f"글 {id_}" for id_ in guilty} <= set(answered)


def test_not_one_vector_for_each_text_is_an_answer_that_may_pass(core: Core, pool: Pool) -> None:
    core.add(1, 2)

    class Short(Embeddings):
        def embed(self, texts: list[str]) -> list[list[float]]:
            return super().embed(texts)[1:]

    embeddings = Short()
    outcome = run(pool, 1, 2, embeddings=embeddings)
    assert (len(embeddings.asked), outcome.put_off) == (3, dict.fromkeys((1, 2), "unreadable_answer"))
    assert set(core.states().values()) == {("PROCESSING", "PENDING")}


def test_one_row_that_cannot_be_stored_fails_alone(core: Core, pool: Pool) -> None:
    core.add(1, 2)
    core.connection.execute("ALTER TABLE ai.context_embedding ADD CHECK (record_id <> 13)")
    outcome = run(pool, replace(request(1), record_id=13), 2)
    assert (outcome.failed, core.states()) == ({1: "cannot_be_stored"}, {1: FAILED, 2: DONE})
    assert (outcome.embedded, outcome.discarded) == ({2}, set())
