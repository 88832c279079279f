"""Requests for vectors and what is usable of the answers."""

import math
from collections.abc import Mapping
from typing import Any

DIMENSIONS = 1_536


class UnusableVector(Exception):
    """The answer holds no vector; the message is a reason without content."""


def embedding_request(text: str, model: str) -> dict[str, Any]:
    """The body of POST /v1/embeddings for one text."""
    return {"model": model, "input": text, "dimensions": DIMENSIONS, "encoding_format": "float"}


def vector_of(body: Mapping[str, Any]) -> list[float]:
    """The one vector of an answer: 1536 finite numbers with a direction. Raises UnusableVector."""
    data = body.get("data")
    entry = data[0] if isinstance(data, list) and len(data) == 1 else None
    vector = entry.get("embedding") if isinstance(entry, dict) else None
    if not isinstance(vector, list) or len(vector) != DIMENSIONS:
        raise UnusableVector("vector: length")
    # A bool is an int to Python; and numbers may be written that no float holds.
    if not all(type(number) in (float, int) for number in vector):
        raise UnusableVector("vector: numbers")
    try:
        length = math.hypot(*vector)
    except OverflowError:
        raise UnusableVector("vector: numbers") from None
    # Without a length that single precision holds it has no direction: every cosine would be NaN.
    if not 1e-30 < length < 1e30:
        raise UnusableVector("vector: numbers")
    return vector
