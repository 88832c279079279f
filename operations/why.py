"""Why an item is where it is: its history, and what stands in the way of what it waits for."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg

from operations.obstacles import Obstacles
from orchestration.settings import Settings
from resources.errors import ModelHasNoPrice, ServiceNotConfigured
from resources.item_history import ItemHistory, shown
from resources.model_table import model_named

if TYPE_CHECKING:
    from pymongo.database import Database

PIPELINES = {
    "article": "economy_news",
    "context": "context_tags",
    "member": "recommendations",
    "raw-file": "raw_files",
    "recipe": "recipes",
}
"""The pipeline of each kind of item."""


def why(
    kind: str,
    identifier: str,
    connection: psycopg.Connection,
    mongo_db: "Database[dict[str, Any]] | None",
    settings: Settings,
) -> ItemHistory | None:
    """The item's history, as of one moment; None where nothing is known of it.

    Nothing is written. `connection` is in autocommit mode. Raises ValueError for another kind than those of
    PIPELINES, ServiceNotConfigured for a recipe without MongoDB.
    """
    if kind not in PIPELINES:
        raise ValueError(f"{shown(kind)} is no kind; there are {', '.join(PIPELINES)}")
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        history = _history(kind, identifier, connection, mongo_db, settings)
        if history is None:
            return None
        obstacles = Obstacles(
            connection,
            settings,
            PIPELINES[kind],
            history.as_of,
            history.zone,
            mongo_db if kind == "recipe" else None,
        )
        return replace(history, waits=obstacles.put_before(history.waits))


def looked_for(kind: str, identifier: str) -> str:
    """One line that says what was looked for and not found."""
    from assets.context_tags import history_store as contexts
    from assets.economy_news import history_store as articles
    from assets.raw_files import history_store as files
    from assets.recipes import history_store as recipes
    from assets.recommendations import history_store as members

    stores = {
        "article": articles,
        "context": contexts,
        "member": members,
        "raw-file": files,
        "recipe": recipes,
    }
    return f"no {kind} {shown(identifier)!r} is known; looked for {stores[kind].LOOKED_FOR}"


def _history(
    kind: str,
    identifier: str,
    connection: psycopg.Connection,
    mongo_db: "Database[dict[str, Any]] | None",
    settings: Settings,
) -> ItemHistory | None:
    if not _is_text(identifier):
        return None
    match kind:
        case "article":
            return _article(connection, identifier, settings)
        case "context":
            from assets.context_tags.history_store import ContextFacts, context_history

            facts = ContextFacts(
                settings.embedding_profile,
                settings.context_processing_expiry_seconds,
                settings.context_own_state,
            )
            return context_history(connection, identifier, facts)
        case "member":
            from assets.recommendations.history_store import member_history

            return member_history(connection, identifier)
        case "raw-file":
            from assets.raw_files.history_store import file_history

            return file_history(connection, identifier, settings.raw_catch_up_days)
        case _:
            return _recipe(connection, identifier, mongo_db, settings)


def _is_text(identifier: str) -> bool:
    """Whether a database takes it: a shell may hand over bytes that are no UTF-8, the UI a NUL."""
    try:
        identifier.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in identifier


def _article(connection: psycopg.Connection, identifier: str, settings: Settings) -> ItemHistory | None:
    from assets.economy_news.history_store import article_history
    from assets.economy_news.job_history_store import NewsFacts
    from assets.economy_news.result_kinds import KINDS

    facts = NewsFacts(
        prompt_versions={job_type: kind.prompt.version for job_type, kind in KINDS.items()},
        model=settings.openai_model,
        min_characters=settings.min_content_length_for_ai,
        skip_duplicates=settings.skip_duplicates,
        max_retries=settings.ai_max_retries,
    )
    return article_history(connection, identifier, facts)


def _recipe(
    connection: psycopg.Connection,
    identifier: str,
    mongo_db: "Database[dict[str, Any]] | None",
    settings: Settings,
) -> ItemHistory | None:
    from assets.recipes.history_store import recipe_history

    if mongo_db is None:
        raise ServiceNotConfigured("MONGODB_URI is not set: the job records of recipes are in MongoDB")

    def price(model: str, usage: Mapping[str, int]) -> Decimal | None:
        try:
            priced = model_named(model, settings.model_prices).in_batch()
        except ModelHasNoPrice:
            return None
        return priced.cost_usd(usage.get("input", 0), usage.get("cached", 0), usage.get("output", 0))

    return recipe_history(mongo_db, connection, identifier, price)
