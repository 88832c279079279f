"""The quote of recommendations: products without a vector of their text, members who are due."""

import math

import psycopg

from assets.recommendations.product_embedding import READ_AT_ONCE
from assets.recommendations.product_text import TEXT_VERSION
from operations import quote_store
from operations.call_pricing import BYTES_A_TOKEN, GUESSED_SECONDS
from operations.quote_answer import Work
from operations.quote_parts import Parts
from operations.quote_request import QuoteRequest
from orchestration.settings import Settings
from resources.embeddings import MAX_TOKENS
from resources.model_table import model_named


def parts_of(connection: psycopg.Connection, settings: Settings, request: QuoteRequest) -> Parts:
    """Products to embed, whatever the days; members of the days."""
    span = {"first": request.first_day, "last": request.last_day}
    due, queued = quote_store.members(connection, span)
    notes = ["products belong to no day: those that are new or changed by now are embedded once"]
    if request.redo:
        notes.append("a vector is made again only where the product's text or EMBEDDING_PROFILE is another")
    if request.mode == "batch":
        notes.append("products are embedded at once only")
    works = [
        _embedding(connection, settings),
        Work("members", "", {"queued on these days": queued, "due now": due}, basis="ranked without a model"),
    ]
    return Parts(works, [], notes, (settings.openai_embedding_model,))


def _embedding(connection: psycopg.Connection, settings: Settings) -> Work:
    products, text_bytes, calls = quote_store.products_to_embed(
        connection, settings.embedding_profile, TEXT_VERSION, READ_AT_ONCE, MAX_TOKENS
    )
    model = model_named(settings.openai_embedding_model, settings.model_prices)
    tokens = math.ceil(text_bytes / BYTES_A_TOKEN)
    return Work(
        what="embed products",
        model=model.name,
        items={"new or changed": products},
        calls=calls,
        input_tokens=tokens,
        usd=model.cost_usd(tokens, 0, 0),
        most_usd=model.cost_usd(text_bytes, 0, 0),
        seconds=calls * GUESSED_SECONDS,
        basis="a token for each syllable, or for three letters; a text that says the same is not asked",
    )
