"""Batches that ask for vectors: of the documents of recipes, and of ingredients that are new with them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import psycopg

from assets.recipes import batch_store, embedding_store, recipe_store
from assets.recipes.batch_kinds import EMBED, INGREDIENT, Line, Read, Stages, Written
from assets.recipes.document import document_hash, document_of
from assets.recipes.embedding import UnusableVector, embedding_request, vector_of
from assets.recipes.models import BatchIntent, BatchKind, Job
from assets.recipes.recipe_store import RecipeToEmbed, RecipeVector
from resources.batch_lines import Body, request_line

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

MOST_INGREDIENTS = 1_000
"""With the jobs of one claim; what is left goes with the next."""


class EmbedContent:
    """What embedding batches ask and read, by one model."""

    stages: Stages = EMBED

    def __init__(self, db: "Mongo", connection: psycopg.Connection, model: str) -> None:
        self._db = db
        self._connection = connection
        self._model = model
        self._jobs: dict[str, Job] = {}

    def write(self, jobs: Sequence[Job], claimed_by: str) -> Written:
        """A line for each recipe whose document has no vector of this model, and for new ingredients.

        The ingredients are the caller's until they are planned: no two batches ask for the same.
        """
        written = Written()
        recipes = self._recipes_of(jobs)
        for job in jobs:
            recipe = recipes.get((job.source, job.source_id))
            if recipe is None:
                written.unusable[job.id] = "no recipe"
                continue
            text = _document(recipe)
            hash_ = document_hash(text)
            if (recipe.document_hash, recipe.embedding_model) == (hash_, self._model):
                written.skipped.append(job.id)
                continue
            self._jobs[job.id] = job
            written.lines.append(self._line(job.id, text, hash_))
        new = sorted({id_ for job in jobs for id_ in job.new_ingredient_ids})
        names = embedding_store.claim_ingredients(
            self._connection, new, claimed_by, self._model, self._open_batches, MOST_INGREDIENTS
        )
        written.lines += [self._line(f"{INGREDIENT}{id_}", name) for id_, name in sorted(names.items())]
        return written

    def planned(self, intent: BatchIntent, lines: Sequence[Line]) -> None:
        """The ingredients are the intent's, and it is written down which document each recipe sends."""
        embedding_store.hand_over_ingredients(
            self._connection, intent.ingredient_ids, str(intent.claimed_by), intent.id
        )
        jobs = [(self._jobs.pop(line.custom_id), line) for line in lines if line.document_hash]
        sent = [(job.source, job.source_id, line.document_hash) for job, line in jobs]
        embedding_store.note_sent_documents(self._connection, intent.id, sent)

    def given_up(self, holder: str) -> None:
        """The holder's ingredients may go with another batch."""
        embedding_store.free_ingredients(self._connection, holder)

    def read(self, intent: BatchIntent, jobs: Sequence[Job], bodies: Mapping[str, Body]) -> Read:
        """Stores the vectors with the documents that they are of.

        Out of date: recipes that are no longer what was sent.
        """
        read = Read()
        vectors: list[RecipeVector] = []
        recipes = self._recipes_of(jobs)
        sent = embedding_store.sent_documents(
            self._connection, intent.id, [one.id for one in recipes.values()]
        )
        for job in jobs:
            recipe = recipes.get((job.source, job.source_id))
            text = _document(recipe) if recipe else ""
            if recipe is None or sent.get(recipe.id) != document_hash(text):
                read.outdated.append(job.id)
                continue
            try:
                vector = vector_of(bodies[job.id])
            except UnusableVector as unusable:
                read.unusable[job.id] = str(unusable)
                continue
            vectors.append(RecipeVector(recipe.id, vector, text, sent[recipe.id], recipe.updated_at))
            read.good.append((job.id, {}))
        recipe_store.store_recipe_vectors(self._connection, vectors, intent.model)
        return read

    def read_ingredients(self, intent: BatchIntent, bodies: Mapping[int, Body]) -> dict[int, str]:
        """Stores the vectors; the reasons of those that are none."""
        vectors, unusable = {}, {}
        for id_, body in bodies.items():
            try:
                vectors[id_] = vector_of(body)
            except UnusableVector as reason:
                unusable[id_] = str(reason)
        recipe_store.store_ingredient_vectors(self._connection, vectors.items(), intent.model)
        return unusable

    def _line(self, custom_id: str, text: str, hash_: str = "") -> tuple[Line, bytes]:
        data = request_line(custom_id, EMBED.endpoint, embedding_request(text, self._model))
        return Line(custom_id, len(data), EMBED.most_output_tokens, hash_), data

    def _recipes_of(self, jobs: Iterable[Job]) -> dict[tuple[str, str], RecipeToEmbed]:
        by_source: dict[str, list[str]] = {}
        for job in jobs:
            by_source.setdefault(job.source, []).append(job.source_id)
        return {
            (one.source, one.source_recipe_id): one
            for source, ids in by_source.items()
            for one in recipe_store.recipes_to_embed(self._connection, source, ids)
        }

    @cached_property
    def _open_batches(self) -> list[str]:
        return [intent.id for intent in batch_store.open_batches(self._db, BatchKind.EMBED)]


def _document(recipe: RecipeToEmbed) -> str:
    return document_of(
        title=recipe.title,
        description=recipe.description,
        category=recipe.category,
        cooking_time_minutes=recipe.cooking_time_minutes,
        difficulty=recipe.difficulty,
        servings=recipe.servings,
        cooking_method=recipe.cooking_method,
        nutrition=recipe.nutrition,
        ingredients=recipe.ingredients,
        steps=recipe.steps,
    )
