"""The OpenAI stand-in's embeddings."""

import math

import openai
import pytest

from tests.integration.local_stack.openai_asking import (
    Served,
    cosine,
)


def test_similar_texts_are_near_and_vectors_keep_their_order_and_length(stand_in: Served) -> None:
    texts = ["중앙은행이 기준금리를 올렸다", "두부와 새우로 만든 계란찜", "한국은행이 금리를 인상했다"]
    found = stand_in.client.embeddings.create(model="text-embedding-3-small", input=texts).data
    vectors = [one.embedding for one in found]
    assert [one.index for one in found] == [0, 1, 2] and {len(one) for one in vectors} == {1536}
    assert all(math.isclose(math.hypot(*one), 1.0, abs_tol=1e-5) for one in vectors)
    rates, food, raised = vectors
    near, far = cosine(rates, raised), cosine(rates, food)
    assert near > far + 0.2
    floats = stand_in.client.embeddings.create(
        model="text-embedding-3-small", input=texts[0], dimensions=256, encoding_format="float"
    )
    assert len(floats.data[0].embedding) == 256


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        (["가"] * 2049, "array_above_max_length"),
        (["가" * 8000] * 38, "max_tokens_per_request"),
        (["가" * 8193], "context_length_exceeded"),
        (["가", ""], None),
    ],
)
def test_too_much_to_embed_is_refused(stand_in: Served, inputs: list[str], code: str | None) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        stand_in.client.embeddings.create(model="text-embedding-3-small", input=inputs)
    assert refused.value.code == code
