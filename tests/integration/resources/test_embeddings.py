"""Vectors of a few texts by the real SDK, from the stand-in, its faults, and servers that are none."""

import json
import math
from typing import Any

import pytest

from resources.api_failure import FAIL, SUSPEND, ApiFailure, Verdict
from resources.embeddings import EmbeddingResource
from resources.errors import ModelHasNoPrice, ServiceUnavailable
from resources.openai_api import ApiUnavailable
from resources.spending import Usage
from tests.integration.resources.asking import KEY
from tests.integration.resources.scripted_server import always, answer, scripted
from tests.integration.stand_ins import StandIn

NAMES = ["두부", "연두부", "초콜릿 케이크"]


def embeddings_at(url: str, **changes: Any) -> EmbeddingResource:
    settings = {"model": "text-embedding-3-small", "base_url": url, "api_key": KEY, "timeout_ms": 20_000}
    return EmbeddingResource(**{**settings, **changes})


@pytest.fixture
def embeddings(openai_api: StandIn) -> EmbeddingResource:
    return embeddings_at(f"{openai_api.url}/v1")


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_texts_get_vectors_in_their_order_by_one_request(
    embeddings: EmbeddingResource, openai_api: StandIn
) -> None:
    vectors, usage = embeddings.embed(NAMES)
    assert [len(one) for one in vectors] == [1536] * 3
    assert all(type(number) is float for one in vectors for number in one)
    assert all(math.isclose(math.hypot(*one), 1, abs_tol=1e-5) for one in vectors)
    tofu, soft_tofu, cake = vectors
    assert cosine(tofu, soft_tofu) > cosine(tofu, cake)
    entries = openai_api.get("ledger")["entries"]
    assert [(one["endpoint"], one["prompt_tokens"]) for one in entries] == [
        ("embeddings", usage.input_tokens)
    ]
    assert float(usage.cost_usd) == pytest.approx(entries[0]["cost_usd"])
    assert (usage.calls, usage.cached_tokens, usage.output_tokens) == (1, 0, 0)
    assert usage.input_tokens <= embeddings.most_input_tokens(NAMES)


def test_no_text_is_no_request(embeddings: EmbeddingResource, openai_api: StandIn) -> None:
    assert embeddings.embed([]) == ([], Usage())
    assert openai_api.get("ledger")["entries"] == []


def test_many_texts_are_parted_as_requests_take_them(embeddings: EmbeddingResource) -> None:
    def sizes(texts: list[str]) -> list[int]:
        parts = list(embeddings.requests_of(texts))
        assert [text for part in parts for text in part] == texts
        return [len(part) for part in parts]

    assert sizes([]) == []
    assert sizes(["가"] * 2_048) == [2_048]
    assert sizes(["가"] * 4_097) == [2_048, 2_048, 1]
    assert sizes(["x" * 100_000] * 7) == [3, 3, 1]
    assert sizes(["x" * 400_000, "y"]) == [1, 1]
    # Bytes, not characters: three to a syllable.
    assert sizes(["가" * 100_000, "가"]) == [1, 1]


@pytest.mark.parametrize("texts", [["가"] * 2_049, ["x" * 200_000] * 2, ["가", ""]])
def test_too_much_for_one_request_is_refused_before_it_is_sent(
    embeddings: EmbeddingResource, openai_api: StandIn, texts: list[str]
) -> None:
    with pytest.raises(ValueError, match="text"):
        embeddings.embed(texts)
    assert openai_api.get("ledger")["entries"] == []


@pytest.mark.parametrize("effect", ["short", "zero", "nan", "missing"])
def test_a_vector_that_is_none_is_never_handed_on(
    embeddings: EmbeddingResource, openai_api: StandIn, effect: str
) -> None:
    openai_api.fault(vector=effect, times=1)
    with pytest.raises(ApiUnavailable) as caught:
        embeddings.embed(NAMES)
    assert (caught.value.code, caught.value.may_have_been_charged) == ("unreadable_answer", True)
    assert len(embeddings.embed(NAMES)[0]) == 3


@pytest.mark.parametrize("order", [(1, 0), (0, 0), (0, 2), (0,), ("0", 1)], ids=str)
def test_vectors_are_put_in_order_by_their_index(order: tuple[Any, ...]) -> None:
    data = [{"index": index, "embedding": [place + 1, 0.5]} for place, index in enumerate(order)]
    body = json.dumps({"data": data, "usage": {"prompt_tokens": 2, "total_tokens": 2}}).encode()
    with scripted(always(answer(200, body, content_type="application/json"))) as server:
        resource = embeddings_at(server.url, dimensions=2)
        if order == (1, 0):
            assert resource.embed(["가", "나"])[0] == [[2.0, 0.5], [1.0, 0.5]]
        else:
            with pytest.raises(ApiUnavailable):
                resource.embed(["가", "나"])
        asked = json.loads(server.requests[0].partition("\r\n\r\n")[2])
    assert (asked["model"], asked["dimensions"], asked["input"]) == (
        "text-embedding-3-small",
        2,
        ["가", "나"],
    )


@pytest.mark.parametrize(
    "vector", [None, "###", [], ["a", "b"], [None, 1], [1e39, 0], [1e-40, 0], {"a": 1}], ids=str
)
def test_whatever_else_comes_as_a_vector_is_refused(vector: Any) -> None:
    body = json.dumps({"data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 2}}).encode()
    script = always(answer(200, body, content_type="application/json"))
    with scripted(script) as server, pytest.raises(ApiUnavailable):
        embeddings_at(server.url, dimensions=2).embed(["가"])


@pytest.mark.parametrize(
    ("fault", "kind", "verdict"),
    [
        ({"status": 401}, ApiFailure, Verdict(SUSPEND, "AUTH")),
        ({"status": 429, "code": "insufficient_quota"}, ApiFailure, Verdict(SUSPEND, "QUOTA")),
        ({"status": 404, "code": "model_not_found"}, ApiFailure, Verdict(SUSPEND, "MODEL")),
        ({"status": 400, "code": "context_length_exceeded"}, ApiFailure, Verdict(FAIL)),
        ({"status": 429, "code": "rate_limit_exceeded"}, ServiceUnavailable, None),
        ({"status": 500}, ServiceUnavailable, None),
        ({"drop": "before"}, ServiceUnavailable, None),
    ],
    ids=str,
)
def test_errors_say_who_must_act_and_quote_nothing(
    embeddings: EmbeddingResource,
    openai_api: StandIn,
    fault: dict[str, Any],
    kind: type[Exception],
    verdict: Verdict | None,
) -> None:
    openai_api.fault(message=f"cannot embed 두부 with {KEY}", **fault)
    with pytest.raises(kind) as caught:
        embeddings.embed(NAMES)
    assert isinstance(caught.value, ApiFailure)
    assert verdict is None or caught.value.verdict == verdict
    assert isinstance(caught.value, ServiceUnavailable) is (verdict is None)
    said = repr(vars(caught.value)) + str(caught.value)
    assert KEY not in said and "두부" not in said


def test_a_model_without_a_price_is_refused_before_it_is_asked(openai_api: StandIn) -> None:
    with pytest.raises(ModelHasNoPrice):
        embeddings_at(f"{openai_api.url}/v1", model="text-embedding-9").embed(NAMES)
    assert openai_api.get("ledger")["entries"] == []
