"""Statements on recipes, ingredients and their vectors, on a given Postgres connection.

Opens no connection and ends no transaction of the caller's. Job records are in `job_store.py`, batches in
`batch_store.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from assets.recipes.merge import Recipe
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "recipes.sql")

Vector = Sequence[float]


@dataclass(frozen=True)
class MatchedIngredient:
    """One line of a recipe's ingredients with what it was recognised as."""

    name: str
    quantity: str | None
    unit: str | None
    optional: bool
    note: str | None
    ingredient_id: int | None
    review_id: int | None
    match_method: str
    match_score: float


@dataclass(frozen=True)
class Review:
    """Whether a name means the candidate: PENDING, APPROVED or REJECTED."""

    id: int
    status: str
    candidate_id: int


@dataclass(frozen=True)
class RecipeToEmbed:
    """What a recipe's document is made of, and of which document its vector is (None: it has none)."""

    id: int
    source: str
    source_recipe_id: str
    title: str
    description: str
    category: str | None
    cooking_time_minutes: int
    difficulty: int
    servings: int | None
    cooking_method: str | None
    nutrition: dict[str, float]
    updated_at: datetime
    ingredients: list[str]
    steps: list[str]
    document_hash: str | None
    embedding_model: str | None


@dataclass(frozen=True)
class RecipeVector:
    """A recipe's vector with the document that it is of."""

    recipe_id: int
    vector: Vector
    text: str
    hash: str
    source_updated_at: datetime


@dataclass(frozen=True)
class SimilarRecipe:
    """A search's result; `similarity` is the cosine."""

    id: int
    title: str
    similarity: float


def now(connection: psycopg.Connection) -> datetime:
    """The database's clock, which Mongo's records are stamped with too."""
    row = connection.execute(SQL["now"]).fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


def one_at_a_time(connection: psycopg.Connection) -> None:
    """Until the transaction ends, no other adds ingredients or categories."""
    connection.execute(SQL["one_at_a_time"])


def known_names(connection: psycopg.Connection, after: int = 0) -> dict[int, str]:
    """The names of the ingredients with an id above `after`."""
    return dict(connection.execute(SQL["known_names"], {"after": after}).fetchall())


def known_aliases(connection: psycopg.Connection) -> dict[str, int]:
    """The aliases (normalised) with what they stand for."""
    return dict(connection.execute(SQL["known_aliases"]).fetchall())


def categories(connection: psycopg.Connection, kind: str) -> list[str]:
    """The names of the categories of recipes (`recipe`) or ingredients (`ingredient`)."""
    return [name for (name,) in connection.execute(SQL["categories"], {"kind": kind})]


def category_id(connection: psycopg.Connection, kind: str, name: str | None) -> int | None:
    """The category's id, made where it is new."""
    return None if not name else _only(connection.execute(SQL["category"], {"kind": kind, "name": name}))


def upsert_recipe(
    connection: psycopg.Connection,
    source: str,
    source_recipe_id: str,
    run_id: str,
    raw_hash: str,
    recipe: Recipe,
) -> int:
    """Stores the recipe with its steps, in the place of what was there; its id. Ingredients come after."""
    fields: dict[str, Any] = {
        "source": source,
        "source_recipe_id": source_recipe_id,
        "run_id": run_id,
        "raw_hash": raw_hash,
        "title": recipe.title,
        "description": recipe.description,
        "category_id": category_id(connection, "recipe", recipe.category),
        "servings": recipe.servings,
        "difficulty": recipe.difficulty,
        "cooking_time_minutes": recipe.cooking_time_minutes,
        "cooking_method": recipe.cooking_method,
        "nutrition": Jsonb(recipe.nutrition),
        "image_url": recipe.image_url,
        "tips": recipe.tips,
        "parse_confidence": recipe.parse_confidence,
        "parse_issues": list(recipe.parse_issues),
        "is_published": recipe.is_published,
    }
    recipe_id = _only(connection.execute(SQL["upsert_recipe"], fields))
    connection.execute(SQL["delete_steps"], {"recipe_id": recipe_id})
    steps = [{"position": position, **asdict(step)} for position, step in enumerate(recipe.steps, 1)]
    connection.execute(SQL["add_steps"], {"recipe_id": recipe_id, "steps": Jsonb(steps)})
    return recipe_id


def replace_ingredients(
    connection: psycopg.Connection, recipe_id: int, ingredients: Sequence[MatchedIngredient]
) -> None:
    """The recipe's ingredients as a set, in their order."""
    connection.execute(SQL["delete_ingredients"], {"recipe_id": recipe_id})
    rows = [{"position": position, **asdict(one)} for position, one in enumerate(ingredients, 1)]
    connection.execute(SQL["add_recipe_ingredients"], {"recipe_id": recipe_id, "ingredients": Jsonb(rows)})


def add_ingredient(
    connection: psycopg.Connection, name: str, normalised: str, category: str | None
) -> tuple[int, bool]:
    """The ingredient's id, and whether it was made just now."""
    row = connection.execute(
        SQL["add_ingredient"],
        {
            "name": name,
            "normalised": normalised,
            "category_id": category_id(connection, "ingredient", category),
        },
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def ask_for_review(
    connection: psycopg.Connection, name: str, normalised: str, candidate_id: int, score: float
) -> Review:
    """The review of this name: one that was asked for or decided before stays as it is."""
    row = connection.execute(
        SQL["ask_for_review"],
        {"name": name, "normalised": normalised, "candidate_id": candidate_id, "score": score},
    ).fetchone()
    assert row is not None
    return Review(*row)


def decide_review(connection: psycopg.Connection, review_id: int, approved: bool) -> bool:
    """Approved: the name is an alias of the candidate. Rejected: it is an ingredient of its own.

    False where the review is unknown or decided already. One transaction of the caller.
    """
    one_at_a_time(connection)
    status = "APPROVED" if approved else "REJECTED"
    row = connection.execute(SQL["decide_review"], {"id": review_id, "status": status}).fetchone()
    if row is None:
        return False
    name, normalised, candidate_id = row
    if approved:
        ingredient_id, method = candidate_id, "alias"
        connection.execute(SQL["add_alias"], {"normalised": normalised, "ingredient_id": ingredient_id})
    else:
        (ingredient_id, _), method = add_ingredient(connection, name, normalised, None), "new"
    connection.execute(
        SQL["settle_reviewed"], {"id": review_id, "ingredient_id": ingredient_id, "method": method}
    )
    return True


def reviews_waiting(connection: psycopg.Connection, limit: int) -> list[tuple[int, str, str, float]]:
    """Id, name, the candidate's name and their similarity."""
    return list(connection.execute(SQL["reviews_waiting"], {"limit": limit}).fetchall())


def nearest_ingredients(
    connection: psycopg.Connection, vector: Vector, model: str
) -> dict[int, Sequence[float]]:
    """The three known ingredients nearest to the vector, with their own."""
    parameters = {"vector": _as_vector(connection, vector), "model": model}
    return {id_: near.to_numpy() for id_, near in _search(connection, "nearest_ingredients", parameters)}


def store_ingredient_vectors(
    connection: psycopg.Connection, vectors: Iterable[tuple[int, Vector]], model: str
) -> None:
    """Keeps the ingredients' vectors."""
    rows = [
        {"ingredient_id": id_, "vector": _as_vector(connection, vector), "model": model}
        for id_, vector in vectors
    ]
    with connection.cursor() as cursor:
        cursor.executemany(SQL["store_ingredient_embedding"], rows)


def ingredients_without_vector(connection: psycopg.Connection, recipe_id: int) -> list[int]:
    """Those of the recipe's ingredients that have none yet."""
    rows = connection.execute(SQL["ingredients_without_embedding"], {"recipe_id": recipe_id})
    return [id_ for (id_,) in rows]


def recipes_to_embed(
    connection: psycopg.Connection, source: str, source_recipe_ids: Sequence[str]
) -> list[RecipeToEmbed]:
    """The stored recipes of a source with what their documents are made of."""
    with connection.cursor(row_factory=class_row(RecipeToEmbed)) as cursor:
        return cursor.execute(
            SQL["recipes_to_embed"], {"source": source, "ids": list(source_recipe_ids)}
        ).fetchall()


def store_recipe_vectors(connection: psycopg.Connection, vectors: Iterable[RecipeVector], model: str) -> None:
    """Keeps the vectors; one of an older recipe never replaces one of a newer."""
    rows = [{**vars(one), "vector": _as_vector(connection, one.vector), "model": model} for one in vectors]
    with connection.cursor() as cursor:
        cursor.executemany(SQL["store_recipe_embedding"], rows)


def recipes_similar_to_vector(
    connection: psycopg.Connection, vector: Vector, model: str, k: int, published_only: bool = True
) -> list[SimilarRecipe]:
    """The k recipes nearest to the vector, nearest first."""
    parameters = {
        "vector": _as_vector(connection, vector),
        "model": model,
        "k": k,
        "published_only": published_only,
    }
    return [SimilarRecipe(*row) for row in _search(connection, "similar_to_vector", parameters)]


def recipes_like(connection: psycopg.Connection, recipe_id: int, k: int) -> list[SimilarRecipe]:
    """The k published recipes nearest to this one, nearest first; none where it has no vector."""
    rows = _search(connection, "similar_to_recipe", {"recipe_id": recipe_id, "k": k})
    return [SimilarRecipe(*row) for row in rows]


def counts_of_run(connection: psycopg.Connection, run_id: str) -> tuple[int, int, int]:
    """Recipes of a run's day that are stored, published and embedded."""
    row = connection.execute(SQL["counts_of_run"], {"run_id": run_id}).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def match_methods_of_run(connection: psycopg.Connection, run_id: str) -> Mapping[str, int]:
    """How the ingredients of a run's recipes were recognised."""
    return dict(connection.execute(SQL["match_methods_of_run"], {"run_id": run_id}).fetchall())


def sample_of_run(connection: psycopg.Connection, run_id: str) -> tuple[int, list[float]] | None:
    """A recipe of the run that has a vector, with it; None where there is none."""
    row = connection.execute(SQL["sample_of_run"], {"run_id": run_id}).fetchone()
    return None if row is None else (row[0], row[1])


def room_today(connection: psycopg.Connection, cap_usd: Decimal | None) -> Decimal | None:
    """USD that the day's cap leaves for reservations, below zero where it was lowered; None without a cap."""
    row = connection.execute(SQL["room_today"], {"cap": cap_usd}).fetchone()
    assert row is not None
    room: Decimal | None = row[0]
    return room


def _search(
    connection: psycopg.Connection, statement: str, parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    with connection.transaction():
        connection.execute(SQL["search_on"])
        return connection.execute(SQL[statement], parameters).fetchall()


def _as_vector(connection: psycopg.Connection, vector: Vector) -> Any:
    """As pgvector sends it in binary; registered once a connection."""
    import numpy as np
    from pgvector.psycopg import register_vector

    if connection.adapters.types.get("vector") is None:
        register_vector(connection)
    return np.asarray(vector, dtype=np.float32)


def _only(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])
