"""Vectors asked for at once, outside a batch: of names that no spelling tells, and of what is searched."""

import logging
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import psycopg

from assets.recipes import batch_store
from assets.recipes.batch_room import BUDGET
from assets.recipes.recipe_store import SimilarRecipe, Vector, recipes_similar_to_vector
from resources.api_failure import FAIL, ApiFailure
from resources.embeddings import EmbeddingResource
from resources.errors import SpendingCapReached
from resources.model_gate import ModelGate
from resources.paid_embeddings import embed_texts

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

log = logging.getLogger("granary.recipes")

PIPELINE = "recipes"


class NotEmbedded(Exception):
    """No vector can be had now; the message is the reason, such as QUOTA, BUDGET or the API's code."""


def embed_names(
    db: "Mongo",
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    gate: ModelGate,
    names: Sequence[str],
    cap_usd: Decimal | None,
) -> dict[str, Vector]:
    """The names' vectors, asked for where the gate lets them pass. Raises NotEmbedded.

    None where the API takes one of the texts for unusable: these names are then known by their spelling only.
    """
    if shut := gate.pass_():
        raise NotEmbedded(shut.reason)
    try:
        vectors = embed_texts(connection, embeddings, PIPELINE, names, cap_usd, gate)
    except SpendingCapReached as reached:
        gate.asked_nothing()
        if not batch_store.open_batches(db):  # one that ends may give money back
            gate.shut(BUDGET, str(reached))
        raise NotEmbedded(BUDGET) from None
    except ApiFailure as failure:
        if failure.verdict.effect == FAIL:
            gate.answered()
            log.warning("%d names of ingredients have no vector: %s", len(names), failure.code)
            return {}
        gate.shut_for(failure)
        gate.asked_nothing()
        raise NotEmbedded(failure.verdict.reason or failure.code) from None
    gate.answered()
    return dict(zip(names, vectors, strict=True))


def recipes_similar_to(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    text: str,
    k: int,
    cap_usd: Decimal | None,
) -> list[SimilarRecipe]:
    """The k published recipes nearest to what the text says, nearest first. Raises as `embed_texts`."""
    (vector,) = embed_texts(connection, embeddings, PIPELINE, [text], cap_usd)
    return recipes_similar_to_vector(connection, vector, embeddings.model, k)
