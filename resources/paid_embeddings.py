"""Vectors of texts at once, with their money: reserved before each request, settled after it."""

from collections.abc import Sequence
from decimal import Decimal

import psycopg

from resources import spending
from resources.api_failure import ApiFailure
from resources.counters import Counts
from resources.embeddings import EmbeddingResource
from resources.model_gate import ModelGate
from resources.spending import Usage


def embed_texts(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    pipeline: str,
    texts: Sequence[str],
    cap_usd: Decimal | None,
    gate: ModelGate | None = None,
) -> list[list[float]]:
    """One vector a text, in their order. Raises SpendingCapReached before a call, and ApiFailure.

    A `gate` is told that it asks; what the answer means for the gate is the caller's to say.
    """
    vectors: list[list[float]] = []
    for part in embeddings.requests_of(texts):
        reservation = spending.reserve(
            connection, embeddings.priced_model, embeddings.most_input_tokens(part), 0, cap_usd
        )
        if gate is not None:
            gate.asks()
        try:
            found, usage = embeddings.embed(part)
        except ApiFailure as failure:
            if not failure.may_have_been_charged:
                spending.settle(connection, pipeline, embeddings.model, reservation, Usage())
            raise
        with connection.transaction():
            spending.settle(connection, pipeline, embeddings.model, reservation, usage)
            counts = Counts()
            counts.add("ai_cost_usd_total", float(usage.cost_usd), pipeline=pipeline, model=embeddings.model)
            counts.write(connection)
        vectors.extend(found)
    return vectors
