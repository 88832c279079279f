"""The quote of context_tags: requests in the inbox that wait for their vector, their keywords, or both."""

import math
from collections.abc import Mapping

import psycopg

from assets.context_tags.prompt import SCHEMA_NAME
from operations import quote_store
from operations.call_pricing import (
    BYTES_A_TOKEN,
    GUESSED_SECONDS,
    CallSize,
    Manner,
    Measured,
    priced,
    size_of,
)
from operations.quote_answer import Work
from operations.quote_parts import Parts
from operations.quote_request import QuoteRequest
from orchestration.settings import Settings
from resources.embeddings import MAX_INPUTS, MAX_TOKENS
from resources.model_table import model_named

GUESS = (900, 80)
"""Tokens in and out of a judgement about ten candidates."""
WAITING = "waiting"


def parts_of(connection: psycopg.Connection, settings: Settings, request: QuoteRequest) -> Parts:
    """Both stages, and why no more is redone."""
    span = {"first": request.first_day, "last": request.last_day}
    to_embed, to_judge, text_bytes = quote_store.contexts(connection, span)
    older = quote_store.contexts_of_older_presets(connection, span)
    notes = ["at most one judgement a context: none is asked where no keyword comes near"]
    if older or request.redo:
        notes.append(
            f"{older:,} contexts were tagged by an older version of the keywords: nothing here does them "
            "again; core may set them back to PENDING"
        )
    if request.mode == "batch":
        notes.append("contexts are asked at once only, since somebody waits for each")
    works = [
        _embedding(settings, to_embed, text_bytes),
        _judging(
            settings,
            to_judge,
            quote_store.calls_of_pipeline(connection, request.pipeline),
            quote_store.seconds_a_call(connection),
        ),
    ]
    return Parts(works, [], notes, (settings.openai_embedding_model, settings.openai_model))


def _embedding(settings: Settings, contexts: int, text_bytes: int) -> Work:
    """Many texts go in one call, so tokens are of the texts and not of earlier calls."""
    model = model_named(settings.openai_embedding_model, settings.model_prices)
    calls = max(math.ceil(contexts / MAX_INPUTS), math.ceil(text_bytes / MAX_TOKENS))
    tokens = math.ceil(text_bytes / BYTES_A_TOKEN)
    return Work(
        what="embed",
        model=model.name,
        items={WAITING: contexts},
        calls=calls,
        input_tokens=tokens,
        usd=model.cost_usd(tokens, 0, 0),
        most_usd=model.cost_usd(text_bytes, 0, 0),
        seconds=calls * GUESSED_SECONDS,
        basis="a token for each syllable, or for three letters, of the texts",
    )


def _judging(
    settings: Settings,
    contexts: int,
    calls: Mapping[str, quote_store.PipelineCalls],
    seconds: Mapping[tuple[str, str], float],
) -> Work:
    model = settings.priced_model()
    before = calls.get(model.name)
    measured: list[Measured] = []
    if before is not None and before.calls:
        tokens = (before.input_tokens, before.cached_tokens, before.output_tokens)
        measured = [Measured("judge", model.name, before.calls, *(n / before.calls for n in tokens))]
    size: CallSize = size_of("judge", model.name, measured, GUESS)
    manner = Manner(
        model=model,
        seconds=seconds.get((model.name, SCHEMA_NAME), GUESSED_SECONDS),
        at_once=settings.ai_concurrency,
        most_output_tokens=settings.openai_max_output_tokens,
    )
    return priced("judge", {WAITING: contexts}, size, manner)
