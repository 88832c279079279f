"""What every AI call relies on in the API: answers, their cost, and whom an error calls to act."""

import json
import math
from typing import Any

import pytest

from resources.api_failure import FAIL, SUSPEND, ApiFailure, Verdict
from resources.chat import ChatResource, JsonSchema
from resources.embeddings import MAX_INPUTS, EmbeddingResource
from tests.contract.named_services import SERVICES

SCHEMA = JsonSchema(
    "note",
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "numbers": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["text", "numbers"],
        "additionalProperties": False,
    },
)
MESSAGES = [
    {"role": "system", "content": "한 문장으로 요약하고 글에 나온 수를 적는다."},
    {"role": "user", "content": "새벽은행이 예금 금리를 0.25%포인트 내렸다고 밝혔다."},
]


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def failure_of(chat: ChatResource, schema: JsonSchema = SCHEMA) -> ApiFailure:
    with pytest.raises(ApiFailure) as failed:
        chat.ask(MESSAGES, schema)
    return failed.value


def test_an_answer_fits_its_schema_and_tells_its_tokens_and_its_model(chat: ChatResource) -> None:
    answered = chat.ask(MESSAGES, SCHEMA)
    content = json.loads(answered.content)
    assert set(content) == {"text", "numbers"}
    assert isinstance(content["text"], str) and all(type(n) in (int, float) for n in content["numbers"])
    assert (answered.was_cut, answered.refusal) == (False, None)
    used = answered.usage
    assert 0 < used.input_tokens <= chat.most_input_tokens(MESSAGES, SCHEMA)
    assert 0 <= used.cached_tokens <= used.input_tokens and 0 < used.output_tokens <= 200
    assert used.cost_usd == chat.priced_model.cost_usd(
        used.input_tokens, used.cached_tokens, used.output_tokens
    )
    assert answered.model.startswith(SERVICES.chat_model)


@pytest.mark.parametrize("text", ["금리" * 300, "rate " * 300, "🙂" * 100, "a"], ids=lambda text: text[:2])
def test_the_estimate_before_a_call_is_never_below_what_is_counted(chat: ChatResource, text: str) -> None:
    messages = [{"role": "user", "content": text}]
    counted = chat.ask(messages, SCHEMA).usage.input_tokens
    assert counted <= chat.most_input_tokens(messages, SCHEMA)


def test_an_answer_that_the_limit_ends_says_so_and_is_paid(api_settings: dict[str, Any]) -> None:
    short = ChatResource(model=SERVICES.chat_model, max_output_tokens=16, **api_settings)
    answered = short.ask(MESSAGES, SCHEMA)
    assert answered.was_cut and 0 < answered.usage.output_tokens <= 16


def test_a_wrong_key_shuts_the_gate_and_is_not_quoted(api_settings: dict[str, Any]) -> None:
    # The stand-in knows it as one that is wrong.
    key = "sk-invalid-granary-contract"
    failure = failure_of(ChatResource(model=SERVICES.chat_model, api_key=key, **api_settings))
    assert (failure.verdict, failure.status) == (Verdict(SUSPEND, "AUTH"), 401)
    assert key not in f"{failure}{vars(failure)}"


def test_a_model_that_there_is_not_shuts_the_gate(api_settings: dict[str, Any]) -> None:
    priced = {"granary-no-such-model": {"input": 1, "output": 1}}
    settings = {**api_settings, "model_prices": priced, "model": "granary-no-such-model"}
    assert failure_of(ChatResource(**settings)).verdict == Verdict(SUSPEND, "MODEL")


def test_a_schema_that_is_not_strict_is_refused_and_not_tried_again(chat: ChatResource) -> None:
    loose = {name: value for name, value in SCHEMA.schema.items() if name != "additionalProperties"}
    failure = failure_of(chat, JsonSchema("note", loose))
    assert (failure.verdict, failure.status) == (Verdict(FAIL), 400)


def test_texts_get_vectors_of_length_one_in_their_order(embeddings: EmbeddingResource) -> None:
    texts = ["두부", "연두부", "초콜릿 케이크", "두부"]
    vectors, usage = embeddings.embed(texts)
    assert [len(one) for one in vectors] == [1_536] * 4
    assert all(math.isclose(math.hypot(*one), 1, abs_tol=1e-3) for one in vectors)
    tofu, soft_tofu, cake, again = vectors
    assert cosine(tofu, soft_tofu) > cosine(tofu, cake)
    assert cosine(tofu, again) > 0.999
    assert 0 < usage.input_tokens <= embeddings.most_input_tokens(texts)
    assert usage.cost_usd == embeddings.priced_model.cost_usd(usage.input_tokens, 0, 0)


def test_as_many_texts_as_we_send_are_taken_at_once(embeddings: EmbeddingResource) -> None:
    vectors, _ = embeddings.embed([f"{number}" for number in range(MAX_INPUTS)])
    alone, _ = embeddings.embed(["2000"])
    assert len(vectors) == MAX_INPUTS
    assert cosine(vectors[2_000], alone[0]) > 0.999


def test_a_text_that_is_too_long_for_a_vector_is_refused_and_not_tried_again(
    embeddings: EmbeddingResource,
) -> None:
    with pytest.raises(ApiFailure) as failed:
        embeddings.embed(["rate " * 9_000])
    assert (failed.value.verdict, failed.value.status) == (Verdict(FAIL), 400)
