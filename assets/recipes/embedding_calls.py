"""Vectors asked for at once, outside a batch: of names that no spelling tells, and of what is searched."""

from collections.abc import Sequence
from decimal import Decimal

import psycopg

from assets.recipes.recipe_store import SimilarRecipe, Vector, recipes_similar_to_vector
from resources import spending
from resources.api_failure import ApiFailure
from resources.embeddings import EmbeddingResource
from resources.spending import Usage

PIPELINE = "recipes"


def embed_texts(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    texts: Sequence[str],
    cap_usd: Decimal | None,
) -> list[Vector]:
    """One vector a text, in their order. Raises SpendingCapReached before a call, and ApiFailure."""
    vectors: list[Vector] = []
    for part in embeddings.requests_of(texts):
        reservation = spending.reserve(
            connection, embeddings.priced_model, embeddings.most_input_tokens(part), 0, cap_usd
        )
        try:
            found, usage = embeddings.embed(part)
        except ApiFailure as failure:
            if not failure.may_have_been_charged:
                spending.settle(connection, PIPELINE, embeddings.model, reservation, Usage())
            raise
        spending.settle(connection, PIPELINE, embeddings.model, reservation, usage)
        vectors.extend(found)
    return vectors


def recipes_similar_to(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    text: str,
    k: int,
    cap_usd: Decimal | None,
) -> list[SimilarRecipe]:
    """The k published recipes nearest to what the text says, nearest first. Raises as `embed_texts`."""
    (vector,) = embed_texts(connection, embeddings, [text], cap_usd)
    return recipes_similar_to_vector(connection, vector, embeddings.model, k)
