"""Vectors of a few texts at once, over OpenAI's API or any server that speaks it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from resources.openai_api import OpenAiResource, usage_of
from resources.spending import Usage

MAX_INPUTS = 2_048
MAX_TOKENS = 300_000


class EmbeddingResource(OpenAiResource):
    """One embedding model. A call is made by exactly one `embed` or `embed_unchecked`."""

    dimensions: int = Field(default=1_536, description="Of every vector column; another number fits none.")

    def most_input_tokens(self, texts: Sequence[str]) -> int:
        """An estimate that is never below the real count: no tokenizer makes more tokens than bytes."""
        return sum(map(_most_tokens, texts))

    @staticmethod
    def requests_of(texts: Sequence[str]) -> Iterator[list[str]]:
        """The texts in their order, in parts that one `embed` takes."""
        part: list[str] = []
        tokens = 0
        for text in texts:
            more = _most_tokens(text)
            if part and (len(part) == MAX_INPUTS or tokens + more > MAX_TOKENS):
                yield part
                part, tokens = [], 0
            part.append(text)
            tokens += more
        if part:
            yield part

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """One vector of `dimensions` finite numbers for each text, in their order, by one request.

        No text, no request. Raises ValueError for more than one request takes (see `requests_of`) and for
        an empty text, ApiFailure for what the API refuses, ApiUnavailable for what may pass, such as vectors
        that are none.
        """
        vectors, usage = self.embed_unchecked(texts)
        with self._failures():
            for vector in vectors:
                # Without a length that single precision holds it has no direction: every cosine would be NaN.
                if len(vector) != self.dimensions or not 1e-30 < math.hypot(*vector) < 1e30:
                    raise ValueError("no vector")
        return vectors, usage

    def embed_unchecked(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """As `embed`, but the numbers may be any, and as many as the API gave: the caller looks at each."""
        if not texts:
            return [], Usage()
        if not all(texts):
            raise ValueError("an empty text has no vector")
        if len(texts) > 1 and len(list(self.requests_of(texts))) > 1:
            raise ValueError(f"{len(texts)} texts are too much for one request")
        model = self.priced_model
        with self._failures():
            answer = self._open_client().embeddings.create(
                model=self.model, input=list(texts), dimensions=self.dimensions
            )
            return _by_index(answer.data, len(texts)), usage_of(answer.usage, model)


def _by_index(entries: Any, wanted: int) -> list[list[float]]:
    by_index = {entry.index: entry.embedding for entry in entries}
    if len(entries) != wanted or sorted(by_index) != list(range(wanted)):
        raise ValueError("not one vector for each text")
    return [[float(number) for number in by_index[index]] for index in range(wanted)]


def _most_tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
