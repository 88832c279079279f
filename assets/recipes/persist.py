"""Persist: parsed jobs become recipes in Postgres, one transaction a recipe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg
from pydantic import ValidationError

from assets.recipes import job_store, recipe_store
from assets.recipes.ingredient_linking import Embed, IngredientLinking
from assets.recipes.merge import Recipe, merged
from assets.recipes.models import Job
from assets.recipes.parsed_recipe import ParsedRecipe
from assets.recipes.recipe_row import raw_hash, read_row
from assets.recipes.statuses import Status
from resources.counters import Counts

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

CHUNK = 50
STAGE = "persist"
# What no column takes is the recipe's own fault, and not the chunk's.
NOT_STORABLE = (psycopg.DataError, psycopg.IntegrityError)


@dataclass
class Persisted:
    """What a run stored, and the jobs that could not be, with the reason of each."""

    stored: int = 0
    published: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def persist(
    db: "Mongo",
    connection: psycopg.Connection,
    run_id: str,
    claimed_by: str,
    image_origin: str,
    embedding_model: str,
    embed: Embed,
    job_ids: Sequence[str] | None = None,
    now: Callable[[psycopg.Connection], datetime] = recipe_store.now,
) -> Persisted:
    """Stores every parsed job of the run's day, or those named. Nothing to claim is no error.

    Raises what `embed` raises, with its chunk given back.
    """
    outcome = Persisted()
    try:
        _persist_all(
            db, connection, run_id, claimed_by, image_origin, embedding_model, embed, job_ids, outcome, now
        )
    finally:
        # At the end: what is claimable again at once would be tried three times by this run.
        _fail(db, connection, outcome.failed, claimed_by, now)
    return outcome


def _persist_all(
    db: "Mongo",
    connection: psycopg.Connection,
    run_id: str,
    claimed_by: str,
    image_origin: str,
    embedding_model: str,
    embed: Embed,
    job_ids: Sequence[str] | None,
    outcome: Persisted,
    now: Callable[[psycopg.Connection], datetime],
) -> None:
    linking: IngredientLinking | None = None
    while jobs := job_store.claim(
        db,
        run_id,
        Status.PARSE_RETRIEVED,
        Status.PERSISTING,
        claimed_by,
        now(connection),
        limit=CHUNK,
        job_ids=job_ids,
    ):
        linking = linking or IngredientLinking(connection, embedding_model)
        try:
            whole = list(job_store.jobs(db, [job.id for job in jobs], ("raw_data", "retrieved_data")))
            _persist_chunk(db, connection, whole, claimed_by, image_origin, linking, embed, outcome, now)
        except BaseException:
            # Those of the chunk that are finished are no longer this claim's, and stay.
            ids = [job.id for job in jobs if job.id not in outcome.failed]
            job_store.give_back(db, ids, Status.PERSISTING, Status.PARSE_RETRIEVED, claimed_by)
            raise


def _persist_chunk(
    db: "Mongo",
    connection: psycopg.Connection,
    jobs: Sequence[Job],
    claimed_by: str,
    image_origin: str,
    linking: IngredientLinking,
    embed: Embed,
    outcome: Persisted,
    now: Callable[[psycopg.Connection], datetime],
) -> None:
    recipes, failed = _recipes_of(jobs, image_origin)
    outcome.failed.update(failed)
    linking.embed_unknown((one for recipe in recipes.values() for one in recipe.ingredients), embed)
    for job in jobs:
        if job.id in outcome.failed:
            continue
        try:
            new_ids = _store(db, connection, job, recipes[job.id], claimed_by, linking, now)
        except NOT_STORABLE as error:
            outcome.failed[job.id] = f"not storable: {type(error).__name__}"
            linking.forget()
            continue
        if new_ids is None:
            linking.forget()
            continue
        sets = {"new_ingredient_ids": new_ids}
        job_store.finish(db, [job.id], Status.PERSISTING, Status.PERSISTED, claimed_by, sets, now(connection))
        outcome.stored += 1
        outcome.published += recipes[job.id].is_published


def _fail(
    db: "Mongo",
    connection: psycopg.Connection,
    failed: Mapping[str, str],
    claimed_by: str,
    now: Callable[[psycopg.Connection], datetime],
) -> None:
    if not failed:
        return
    counts = Counts()
    counts.add("recipe_ingestion_stage_total", len(failed), stage=STAGE, outcome="failed")
    counts.write(connection)
    job_store.fail_lines(db, failed, Status.PERSISTING, claimed_by, now(connection))


def _recipes_of(jobs: Sequence[Job], image_origin: str) -> tuple[dict[str, Recipe], dict[str, str]]:
    """The recipes by job, and the reasons of those that are none."""
    recipes, failed = {}, {}
    for job in jobs:
        try:
            parsed = ParsedRecipe.model_validate(job.retrieved_data)
        except ValidationError:
            failed[job.id] = "retrieved_data is no parsed recipe"
            continue
        recipes[job.id] = merged(read_row(job.raw_data or {}, image_origin), parsed)
    return recipes, failed


def _store(
    db: "Mongo",
    connection: psycopg.Connection,
    job: Job,
    recipe: Recipe,
    claimed_by: str,
    linking: IngredientLinking,
    now: Callable[[psycopg.Connection], datetime],
) -> list[int] | None:
    """The recipe with its ingredients in one transaction; its ingredients that have no vector yet.

    None, and nothing stored, where the job is no longer the caller's.
    """
    counts = Counts()
    is_ours = False
    with connection.transaction():
        linking.take_turn()
        recipe_id = recipe_store.upsert_recipe(
            connection, job.source, job.source_id, job.run_id, raw_hash(job.raw_data or {}), recipe
        )
        ingredients = [linking.link(one) for one in recipe.ingredients]
        recipe_store.replace_ingredients(connection, recipe_id, ingredients)
        for one in ingredients:
            counts.add("recipe_ingestion_ingredient_match_total", match_method=one.match_method)
        counts.add("recipe_ingestion_parse_confidence_total", level=recipe.parse_confidence)
        counts.add("recipe_ingestion_stage_total", stage=STAGE, outcome="success")
        counts.write(connection)
        # Last of all: a run that was given up and wakes here must not overwrite what was stored since.
        is_ours = job_store.renew(db, [job.id], claimed_by, now(connection)) > 0
        if not is_ours:
            raise psycopg.Rollback
    return recipe_store.ingredients_without_vector(connection, recipe_id) if is_ours else None
