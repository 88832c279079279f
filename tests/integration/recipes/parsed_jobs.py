"""Jobs that are parsed and wait to be stored, and an embedding that a test decides on."""

import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import sql

from assets.recipes.persist import Persisted, persist
from assets.recipes.statuses import Status
from tests.integration.recipes.job_records import DAY, MINE, Mongo, put_job

MODEL = "text-embedding-3-small"
ORIGIN = "https://recipes.example"
DIMENSIONS = 1_536

ROW = {
    "RCP_SEQ": "31",
    "RCP_NM": "두부찜",
    "RCP_WAY2": "찌기",
    "RCP_PAT2": "반찬",
    "INFO_ENG": "120",
    "ATT_FILE_NO_MK": "/uploadimg/cook/31.png",
    "MANUAL01": "1. 두부를 썬다.a",
    "MANUAL02": "2. 찜기에서 찐다.",
    "RCP_NA_TIP": "약한 불에서 찐다.",
}


def used(name: str, **fields: Any) -> dict[str, Any]:
    """One ingredient of a parsed recipe."""
    return {"name": name, "canonical_name": None, "category": None, "quantity": "1", "unit": "개", **fields}


def parsed(*ingredients: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
    """What a model has read, as it is kept in a job."""
    return {
        "title": "모델이 붙인 이름",
        "description": "부드러운 두부찜이에요.",
        "category": "찜",
        "servings": 2,
        "difficulty": 1,
        "cooking_time_minutes": 20,
        "tips": "모델의 도움말",
        "ingredients": [used(one) if isinstance(one, str) else one for one in ingredients],
        "parse_confidence": "high",
        "parse_issues": [],
        **fields,
    }


def put_parsed(db: Mongo, job_id: str, *ingredients: str | dict[str, Any], **fields: Any) -> str:
    """A parsed job with these ingredients; `fields` go to the job."""
    given = {"raw_data": {**ROW, "RCP_SEQ": job_id}, "retrieved_data": parsed(*ingredients), **fields}
    return put_job(db, Status.PARSE_RETRIEVED, job_id, **given)


class Embedding:
    """A direction of its own for each name, or one at a given cosine to that of another."""

    def __init__(self, alike: Mapping[str, tuple[str, float]] | None = None) -> None:
        self.calls: list[list[str]] = []
        self._alike = alike or {}

    def __call__(self, names: Sequence[str]) -> dict[str, list[float]]:
        self.calls.append(list(names))
        return {name: self.vector(name) for name in names}

    def vector(self, name: str) -> list[float]:
        other, cosine = self._alike.get(name, (name, 1.0))
        vector = [0.0] * DIMENSIONS
        vector[self._axis(name)] = math.sqrt(1 - cosine**2)
        vector[self._axis(other)] += cosine
        return vector

    def _axis(self, name: str) -> int:
        """By the name alone: a run in another process gives it the same."""
        return int.from_bytes(sha256(name.encode()).digest()) % DIMENSIONS


def persist_all(
    db: Mongo,
    connection: psycopg.Connection,
    embed: Any = None,
    claimed_by: str = MINE,
    job_ids: Sequence[str] | None = None,
) -> Persisted:
    """Stores the parsed jobs of the day, or those named."""
    return persist(db, connection, DAY, claimed_by, ORIGIN, MODEL, embed or Embedding(), job_ids)


def ingredients_of(connection: psycopg.Connection, job_id: str) -> list[tuple[Any, ...]]:
    """Name, ingredient's name and method of each of a recipe's ingredients, in order."""
    return connection.execute(
        """
        SELECT used.name, ingredient.name, match_method
        FROM recipe.recipe_ingredient AS used JOIN recipe.recipe ON recipe.id = recipe_id
        LEFT JOIN recipe.ingredient ON ingredient.id = ingredient_id
        WHERE source_recipe_id = %s ORDER BY position
        """,
        (job_id,),
    ).fetchall()


def ingredient_names(connection: psycopg.Connection) -> list[str]:
    """All known ingredients, in the order in which they came."""
    return [name for (name,) in connection.execute("SELECT name FROM recipe.ingredient ORDER BY id")]


def row_counts(connection: psycopg.Connection) -> dict[str, int]:
    """How many rows the tables of recipes have."""
    tables = ("recipe", "step", "recipe_ingredient", "ingredient", "category", "ingredient_embedding")
    counts = {}
    for table in tables:
        statement = sql.SQL("SELECT count(*) FROM recipe.{}").format(sql.Identifier(table))
        (counts[table],) = connection.execute(statement).fetchone() or (0,)
    return counts
