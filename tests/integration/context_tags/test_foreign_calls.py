"""Calls of somebody else's making: what they give and raise is no fault of the other contexts."""

import json
import socket
import ssl
import urllib.error
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from assets.context_tags.judgement import read_judgement
from assets.context_tags.process import Candidate, Judgement, Selection
from resources.api_failure import ApiFailure
from tests.integration.context_tags.scenes import TEXT, Core, Embeddings, Judge, Pool, axis, request, run

DONE = ("COMPLETED", "COMPLETED")
ODD = "이상한 글"
ASKED = httpx.Request("POST", "http://127.0.0.1/v1")


def answered(status: int) -> httpx.HTTPStatusError:
    return httpx.HTTPStatusError(TEXT, request=ASKED, response=httpx.Response(status, request=ASKED))


class StatusThatIsAnOSError(OSError):
    """As a client raises it whose errors are all of the system's kind."""

    def __init__(self, status: int) -> None:
        super().__init__(TEXT)
        self.response = SimpleNamespace(status_code=status)


class UnreadableBody(Exception):
    status_code = 200


def raising(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def named(error: Exception) -> str:
    return type(error).__name__


@pytest.mark.parametrize("confidences", [(1, 0.9), (0, 0.5), (None, 1), (np.float64(0.25), 1)], ids=repr)
def test_rule_12_confidences_of_several_kinds_in_one_answer_are_stored(
    core: Core, pool: Pool, confidences: Sequence[Any]
) -> None:
    core.add(1)
    selected = tuple(Selection(id_, one) for id_, one in zip((101, 202), confidences, strict=True))
    outcome = run(pool, 1, judge=Judge(Judgement(selected)), embeddings=Embeddings({TEXT: axis(1, 1)}))
    assert (core.state(1), outcome.failed) == (DONE, {})
    rows = core.rows("SELECT confidence FROM ai.context_keyword ORDER BY keyword_id")
    assert [row["confidence"] for row in rows] == [
        one if one is None else Decimal(str(float(one))) for one in confidences
    ]


def test_rule_12_the_confidences_of_a_json_answer_are_stored_whether_whole_or_not(
    core: Core, pool: Pool
) -> None:
    core.add(1)
    selected = [{"keywordId": 101, "confidence": 1}, {"keywordId": 202, "confidence": 0.9}]
    judgement = read_judgement(json.dumps({"selected": selected, "unmatchedConcepts": []}), "a-model")
    run(pool, 1, judge=Judge(judgement), embeddings=Embeddings({TEXT: axis(1, 1)}))
    assert (core.state(1), core.keywords()) == (DONE, {1: {101: 1.0, 202: 0.9}})


NO_JUDGEMENTS: dict[str, Any] = {
    "None": None,
    "a dict": {"selected": []},
    "a list": [Selection(101, 0.5)],
    "a text": "text",
    "None selected": Judgement(None),  # type: ignore[arg-type]
    "dicts selected": Judgement([{"keyword_id": 101}]),  # type: ignore[list-item]
    "tuples selected": Judgement([(101, 0.5)]),  # type: ignore[list-item]
    "no concepts": Judgement((), None),  # type: ignore[arg-type]
    "a text as concepts": Judgement((), "가나다"),
    "a 0-d array": np.array(5),
}


@pytest.mark.parametrize("shape", NO_JUDGEMENTS)
def test_rule_15_a_judgement_of_another_shape_is_asked_for_again_and_then_fails_its_context_alone(
    core: Core, pool: Pool, shape: str
) -> None:
    core.add(1, 2)
    asked: list[str] = []

    class Odd:
        def select(self, text: str, candidates: Sequence[Candidate]) -> Any:
            asked.append(text)
            return NO_JUDGEMENTS[shape] if text == ODD else Judgement((Selection(101, 0.5),))

    outcome = run(pool, request(1, ODD), 2, judge=Odd(), concurrency=1)
    assert (asked.count(ODD), outcome.failed) == (3, {1: "unusable_answer"})
    assert core.states() == {1: ("COMPLETED", "FAILED"), 2: DONE}


NO_VECTORS: dict[str, Callable[[list[str]], Any]] = {
    "None": lambda texts: None,
    "a dict": lambda texts: {number: axis(1) for number in range(len(texts))},
    "dicts": lambda texts: [{"embedding": axis(1)} for _ in texts],
    "Nones": lambda texts: [None for _ in texts],
    "a generator": lambda texts: (axis(1) for _ in texts),
    "generators": lambda texts: [(one for one in axis(1)) for _ in texts],
    "a 0-d array": lambda texts: np.array(5),
    "numbers": lambda texts: np.ones(len(texts)),
    "a text": lambda texts: "x" * len(texts),
    "a set": lambda texts: {tuple(axis(*[0.0] * number, 1)) for number in range(len(texts))},
}


@pytest.mark.parametrize("shape", NO_VECTORS)
def test_rule_14_vectors_of_another_shape_are_an_answer_that_may_pass(
    core: Core, pool: Pool, shape: str
) -> None:
    core.add(1, 2)
    core.add(3, embedding="COMPLETED")
    core.add_vector(3, axis(1))

    class Odd:
        def embed(self, texts: list[str]) -> Any:
            return NO_VECTORS[shape](texts)

    outcome = run(pool, 1, 2, 3, embeddings=Odd())
    assert (outcome.put_off, outcome.failed) == (dict.fromkeys((1, 2), "unreadable_answer"), {})
    assert outcome.embedding_requests == 3
    assert core.states() == {1: ("PROCESSING", "PENDING"), 2: ("PROCESSING", "PENDING"), 3: DONE}


def test_rule_6_vectors_that_are_the_rows_of_an_array_are_stored(core: Core, pool: Pool) -> None:
    core.add(1, 2)

    class Rows:
        def embed(self, texts: list[str]) -> Any:
            return np.array([axis(1) for _ in texts], dtype=np.float32)

    run(pool, 1, 2, embeddings=Rows())
    assert core.vectors() == {1: axis(1), 2: axis(1)}


PASSING = [
    answered(429),
    answered(503),
    answered(302),
    UnreadableBody(TEXT),
    StatusThatIsAnOSError(503),
    httpx.DecodingError(TEXT),
    httpx.RemoteProtocolError(TEXT),
    httpx.TooManyRedirects(TEXT),
    urllib.error.URLError(TEXT),
    socket.gaierror(TEXT),
    ssl.SSLError(TEXT),
    OSError(TEXT),
    json.JSONDecodeError(TEXT, TEXT, 0),
]


@pytest.mark.parametrize("error", PASSING, ids=named)
def test_rule_14_what_another_client_raises_that_may_pass_puts_its_context_off(
    core: Core, pool: Pool, error: Exception
) -> None:
    core.add(1)
    core.add(2, embedding="COMPLETED")
    core.add_vector(2, axis(1))
    embeddings, judge = Embeddings(on_call=raising(error)), Judge(on_call=raising(error))
    outcome = run(pool, 1, 2, embeddings=embeddings, judge=judge)
    assert (set(outcome.put_off), outcome.failed, outcome.stopped_by) == ({1, 2}, {}, None)
    assert (len(embeddings.asked), len(judge.asked)) == (3, 3)
    assert core.states() == {1: ("PROCESSING", "PENDING"), 2: ("COMPLETED", "PROCESSING")}
    assert TEXT not in str(outcome.put_off)


@pytest.mark.parametrize("error", [answered(400), StatusThatIsAnOSError(422)], ids=named)
def test_rule_15_a_refusal_of_another_client_fails_its_context(
    core: Core, pool: Pool, error: Exception
) -> None:
    core.add(1)
    outcome = run(pool, 1, judge=Judge(on_call=raising(error)))
    assert (core.state(1), len(outcome.failed)) == (("COMPLETED", "FAILED"), 1)


@pytest.mark.parametrize("error", [answered(401), answered(404), StatusThatIsAnOSError(403)], ids=named)
def test_rule_16_a_key_that_another_client_says_is_refused_ends_all_and_fails_none(
    core: Core, pool: Pool, error: Exception
) -> None:
    core.add(1)
    outcome = run(pool, 1, judge=Judge(on_call=raising(error)))
    assert isinstance(outcome.stopped_by, ApiFailure)
    assert (core.state(1), outcome.failed, outcome.left) == (("COMPLETED", "PROCESSING"), {}, {1})
