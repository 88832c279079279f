"""What the OpenAI stand-in refuses, as the real API does, and what it cuts."""

import math
from typing import Any

import openai
import pytest

from tests.integration.local_stack.openai_asking import (
    BODY,
    MODEL,
    Served,
    fenced,
    request,
)


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"model": "gpt-9"}, 404, "model_not_found"),
        ({"model": "gpt-5-mini", "temperature": 0.2}, 400, "unsupported_value"),
        ({"model": "gpt-5-mini", "max_tokens": 10}, 400, "unsupported_parameter"),
        ({"messages": []}, 400, "empty_array"),
        ({"messages": [{"role": "user", "content": "가" * 130_000}]}, 400, "context_length_exceeded"),
        ({"max_tokens": 3000, "temperature": 7}, 400, None),
    ],
)
def test_a_request_the_real_api_refuses_is_refused_alike(
    stand_in: Served, changes: dict[str, Any], status: int, code: str | None
) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        stand_in.client.chat.completions.create(**request("quiz", "글", **changes))
    assert (refused.value.status_code, refused.value.code) == (status, code)
    entry = stand_in.ledger()[-1]
    assert (entry["status"], entry["cost_usd"], entry["prompt_tokens"]) == (status, 0.0, 0)


def test_a_strict_schema_with_an_open_object_is_refused(stand_in: Served) -> None:
    ask = request("loose", "글")
    ask["response_format"]["json_schema"] |= {"strict": True, "schema": {"type": "object", "properties": {}}}
    with pytest.raises(openai.BadRequestError, match="additionalProperties"):
        stand_in.client.chat.completions.create(**ask)


@pytest.mark.parametrize("header", ["", "Bearer", "Basic sk-local", "Bearer sk-invalid-1"])
def test_a_missing_or_invalid_key_is_401_and_is_in_the_ledger(stand_in: Served, header: str) -> None:
    answer = stand_in.http.get("/v1/models", headers={"authorization": header})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert stand_in.ledger()[-1]["error_code"] == "invalid_api_key"


@pytest.mark.parametrize("shape", [{"enum": []}, {"$ref": "#"}, {"$ref": "#/nowhere"}, 3])
def test_a_schema_without_instances_is_400_and_not_a_crash(stand_in: Served, shape: Any) -> None:
    for whole in ({"type": "object", "properties": {"a": shape}, "required": ["a"]}, {"$ref": "#"}):
        ask = request("odd", "글", shape=whole)
        assert stand_in.http.post("/v1/chat/completions", json=ask).status_code == 400
    ask["messages"] = [{"role": ["user"], "content": [{"text": None}, 4]}]
    assert stand_in.http.post("/v1/chat/completions", json=ask).status_code == 400


def test_a_body_that_is_no_text_is_400(stand_in: Served) -> None:
    for body in (b"{", b"[]", b'{"model": "\\ud83d"}', b"\xff"):
        answer = stand_in.http.post("/v1/chat/completions", content=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_an_answer_longer_than_the_limit_is_cut_with_reason_length(stand_in: Served) -> None:
    ask = request("article_summary", fenced(body=BODY), max_completion_tokens=50)
    choice = stand_in.client.chat.completions.create(**ask)
    assert choice.choices[0].finish_reason == "length"
    assert choice.usage and choice.usage.completion_tokens <= 50


def test_a_prompt_opening_seen_before_counts_as_cached(stand_in: Served) -> None:
    for content, cached in (("가", 0), ("나", 1536)):
        opening = [{"role": "system", "content": "규칙을 지킨다. " * 230}]
        messages = [*opening, {"role": "user", "content": fenced(body=content)}]
        usage = stand_in.client.chat.completions.create(model=MODEL, messages=messages).usage  # type: ignore[arg-type]
        assert usage and usage.prompt_tokens_details
        assert usage.prompt_tokens_details.cached_tokens == cached
    entry = stand_in.ledger()[-1]
    fresh = entry["prompt_tokens"] - 1536
    expected = (fresh * 0.15 + 1536 * 0.075 + entry["completion_tokens"] * 0.60) / 1e6
    assert math.isclose(entry["cost_usd"], expected, rel_tol=1e-6)
