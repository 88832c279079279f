"""The quote of recipes: records that are still to be parsed and embedded, days still to be fetched."""

import math
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assets.recipes.batch_kinds import EMBED, PARSE
from assets.recipes.fetch import MOST_ROWS_A_CALL
from assets.recipes.models import BatchKind
from assets.recipes.statuses import Status
from operations import quote_store, recipes_progress_store
from operations.call_pricing import BATCH_SECONDS, Manner, Measured, priced, size_of
from operations.quote_answer import HostWork, Work
from operations.quote_parts import Parts
from operations.quote_request import QuoteRequest
from orchestration.settings import Settings
from resources.model_table import model_named

if TYPE_CHECKING:
    from pymongo.database import Database

TO_PARSE = (Status.FETCHED, Status.PARSE_SUBMITTING)
PARSING = (Status.PARSE_SUBMITTED, Status.PARSE_RETRIEVING)
TO_EMBED = (Status.PARSE_RETRIEVED, Status.PERSISTING, Status.PERSISTED, Status.EMBED_SUBMITTING)
GUESSES = {"parse": (2_200, 1_100), "embed": (500, 0)}
"""Tokens in and out of a recipe of ordinary length."""
GUESSED_INGREDIENTS = 1.5
"""New names of ingredients that come with a recipe, before they are known."""
SECONDS_A_FETCH = 2.0
WAITING, FOLLOWING, NOT_FETCHED = "waiting", "once parsed", "of days not fetched yet"


def parts_of(
    db: "Database[dict[str, Any]]",
    settings: Settings,
    request: QuoteRequest,
    clock: quote_store.Clock,
) -> Parts:
    """Both kinds of batches, the fetches, and what is to be known beside them."""
    by_day = recipes_progress_store.jobs_by_day_and_status(db, request.first_day, request.last_day)
    tokens = recipes_progress_store.batch_tokens(db, clock.now)
    new_days = request.days - len(by_day)
    fetches = _fetches(settings, new_days)
    new = new_days * settings.fetch_limit if fetches else 0
    parse = {WAITING: _count(by_day, TO_PARSE), NOT_FETCHED: new}
    follow = _count(by_day, (*TO_PARSE, *PARSING))
    embed = {WAITING: _count(by_day, TO_EMBED), FOLLOWING: follow, NOT_FETCHED: new}
    works = [
        _batch("parse", parse, settings.openai_batch_model, PARSE.most_output_tokens, settings, tokens),
        _batch("embed", embed, settings.openai_embedding_model, EMBED.most_output_tokens, settings, tokens),
    ]
    models = (settings.openai_batch_model, settings.openai_embedding_model)
    return Parts(works, fetches, _notes(by_day, request, settings, new_days, bool(fetches)), models)


def _batch(
    kind: str,
    items: Mapping[str, int],
    model_name: str,
    most_output_tokens: int,
    settings: Settings,
    tokens: list[recipes_progress_store.BatchTokens],
) -> Work:
    """A line a recipe; to embed also one a new ingredient, whose few tokens are in the recipe's average."""
    measured = [
        Measured(one.kind, one.model, recipes, *(n / recipes for n in one[4:]))
        for one in tokens
        if (recipes := one.lines - one.ingredients) > 0
    ]
    manner = Manner(
        model=model_named(model_name, settings.model_prices).in_batch(),
        seconds=0,
        at_once=1,
        most_output_tokens=most_output_tokens,
        repeats=_ingredients_a_recipe(tokens) if kind == BatchKind.EMBED else 0,
    )
    work = priced(kind, items, size_of(kind, model_name, measured, GUESSES[kind]), manner)
    return Work(**{**vars(work), "seconds": BATCH_SECONDS if work.calls else 0})


def _ingredients_a_recipe(tokens: list[recipes_progress_store.BatchTokens]) -> float:
    embedded = [one for one in tokens if one.kind == BatchKind.EMBED]
    recipes = sum(one.lines - one.ingredients for one in embedded)
    return sum(one.ingredients for one in embedded) / recipes if recipes > 0 else GUESSED_INGREDIENTS


def _fetches(settings: Settings, days: int) -> list[HostWork]:
    if not settings.recipe_api_base_url or not days:
        return []
    requests = days * math.ceil(settings.fetch_limit / MOST_ROWS_A_CALL)
    return [
        HostWork(
            host=urlsplit(settings.recipe_api_base_url).netloc,
            requests=requests,
            seconds=requests * SECONDS_A_FETCH,
            basis=f"{settings.fetch_limit:,} recipes a day (FETCH_LIMIT), {MOST_ROWS_A_CALL:,} a request",
        )
    ]


def _notes(
    by_day: Mapping[date, Mapping[str, int]],
    request: QuoteRequest,
    settings: Settings,
    new_days: int,
    is_fetched: bool,
) -> list[str]:
    notes = [
        "recipes are asked in batches only, at batch prices; a batch is over within 24 hours, and embedding "
        "follows parsing",
        f"at most {settings.max_enqueued_tokens:,} tokens wait in batches at once (MAX_ENQUEUED_TOKENS)",
    ]
    if new_days and is_fetched:
        notes.append(
            f"{new_days:,} days have no job records: each fetches the next {settings.fetch_limit:,} recipes "
            "behind the cursor, fewer where the source ends"
        )
    elif new_days:
        notes.append("RECIPE_API_BASE_URL is not set: days without job records count nothing")
    if under_way := _count(by_day, (*PARSING, Status.EMBED_SUBMITTED, Status.EMBED_RETRIEVING)):
        notes.append(f"{under_way:,} recipes are in batches already and paid from their reservations")
    if failed := _count(by_day, (Status.FAILED,)):
        notes.append(f"{failed:,} are failed and not counted: they wait for the job recipes_requeue_failed")
    if request.redo:
        notes.append("recipes have no redo: what starts anew is decided by recipe_jobs with force: true")
    return notes


def _count(by_day: Mapping[date, Mapping[str, int]], statuses: tuple[Status, ...]) -> int:
    return sum(jobs.get(status, 0) for jobs in by_day.values() for status in statuses)
