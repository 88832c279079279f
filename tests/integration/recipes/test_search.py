"""Vectors of recipes: kept with the document that they are of, and searched."""

import math
import random
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import psycopg
import pytest
from psycopg import sql

from assets.recipes import recipe_store
from assets.recipes.document import document_hash, document_of
from assets.recipes.recipe_store import RecipeToEmbed, RecipeVector, SimilarRecipe
from local_stack.postgres import EmbeddedPostgres
from tests.integration.conftest import TEMPLATE
from tests.integration.recipes.job_records import SOURCE, Mongo
from tests.integration.recipes.parsed_jobs import (
    DIMENSIONS,
    MODEL,
    parsed,
    persist_all,
    put_parsed,
    used,
)

NOON = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
MANY = 3_000
PUBLISHED_EVERY = 100


def towards(degrees: float) -> list[float]:
    """A direction so far from the first axis."""
    angle = math.radians(degrees)
    return [math.cos(angle), math.sin(angle)] + [0.0] * (DIMENSIONS - 2)


def cosine(degrees: float) -> float:
    return round(math.cos(math.radians(degrees)), 6)


def add_recipe(connection: psycopg.Connection, name: str, published: bool = True) -> int:
    row = connection.execute(
        """
        INSERT INTO recipe.recipe (source, source_recipe_id, run_id, raw_hash, title, description,
                                   difficulty, cooking_time_minutes, parse_confidence, is_published,
                                   created_at, updated_at)
        VALUES (%s, %s, '2026-03-02', '', %s, '', 1, 20, 'high', %s, granary.now(), granary.now())
        RETURNING id
        """,
        (SOURCE, name, name, published),
    ).fetchone()
    assert row is not None
    return int(row[0])


def vector_of(
    recipe_id: int, degrees: float, at: datetime = NOON, text: str = "요리: 두부찜"
) -> RecipeVector:
    return RecipeVector(recipe_id, towards(degrees), text, document_hash(text), at)


def add(connection: psycopg.Connection, name: str, degrees: float, published: bool = True) -> int:
    recipe_id = add_recipe(connection, name, published)
    recipe_store.store_recipe_vectors(connection, [vector_of(recipe_id, degrees)], MODEL)
    return recipe_id


def found(results: list[SimilarRecipe]) -> list[tuple[str, float]]:
    return [(one.title, round(one.similarity, 6)) for one in results]


def search(
    connection: psycopg.Connection, k: int = 10, published_only: bool = True
) -> list[tuple[str, float]]:
    return found(recipe_store.recipes_similar_to_vector(connection, towards(0), MODEL, k, published_only))


def document(recipe: RecipeToEmbed) -> str:
    return document_of(
        recipe.title,
        recipe.description,
        recipe.category,
        recipe.cooking_time_minutes,
        recipe.difficulty,
        recipe.servings,
        recipe.cooking_method,
        recipe.nutrition,
        recipe.ingredients,
        recipe.steps,
    )


def test_the_nearest_recipes_come_first_with_their_cosine(connection: psycopg.Connection) -> None:
    for name, degrees in (("멀다", 80), ("가깝다", 5), ("그 다음", 30)):
        add(connection, name, degrees)
    assert search(connection) == [("가깝다", cosine(5)), ("그 다음", cosine(30)), ("멀다", cosine(80))]
    assert search(connection, k=1) == [("가깝다", cosine(5))]


def test_what_is_not_published_is_found_on_request_alone(connection: psycopg.Connection) -> None:
    add(connection, "보인다", 30)
    hidden = add(connection, "숨은 것", 5, published=False)
    assert [title for title, _ in search(connection)] == ["보인다"]
    assert [title for title, _ in search(connection, published_only=False)] == ["숨은 것", "보인다"]
    assert found(recipe_store.recipes_like(connection, hidden, 5)) == [("보인다", cosine(25))]


def test_vectors_of_another_model_are_not_compared(connection: psycopg.Connection) -> None:
    add(connection, "이 모델", 30)
    other = add_recipe(connection, "다른 모델")
    recipe_store.store_recipe_vectors(connection, [vector_of(other, 0)], "another")
    assert [title for title, _ in search(connection)] == ["이 모델"]
    assert recipe_store.recipes_like(connection, other, 5) == []


def test_recipes_like_one_are_the_others(connection: psycopg.Connection) -> None:
    first = add(connection, "이것", 10)
    add(connection, "비슷한 것", 20)
    add(connection, "먼 것", 70)
    assert found(recipe_store.recipes_like(connection, first, 5)) == [
        ("비슷한 것", cosine(10)),
        ("먼 것", cosine(60)),
    ]
    assert recipe_store.recipes_like(connection, add_recipe(connection, "벡터 없음"), 5) == []


def test_a_search_leaves_the_session_as_it_was(connection: psycopg.Connection) -> None:
    add(connection, "두부찜", 5)
    search(connection)
    assert connection.execute("SHOW hnsw.iterative_scan").fetchone() == ("off",)


def test_an_older_vector_never_replaces_a_newer(connection: psycopg.Connection) -> None:
    recipe_id = add_recipe(connection, "두부찜")

    def store(degrees: float, minutes: int) -> tuple[float, int, datetime]:
        at = NOON + timedelta(minutes=minutes)
        recipe_store.store_recipe_vectors(connection, [vector_of(recipe_id, degrees, at)], MODEL)
        row = connection.execute("SELECT version, source_updated_at FROM recipe.recipe_embedding").fetchone()
        assert row is not None
        return search(connection)[0][1], row[0], row[1]

    assert store(10, 5) == (cosine(10), 1, NOON + timedelta(minutes=5))
    assert store(80, 4) == (cosine(10), 1, NOON + timedelta(minutes=5))
    assert store(20, 5) == (cosine(20), 2, NOON + timedelta(minutes=5))
    assert store(30, 6) == (cosine(30), 3, NOON + timedelta(minutes=6))


def test_a_vector_is_stored_exactly_as_single_precision_has_it(connection: psycopg.Connection) -> None:
    numbers = np.random.default_rng(7).standard_normal(DIMENSIONS)
    recipe_id = add_recipe(connection, "두부찜")
    vector = RecipeVector(recipe_id, numbers.tolist(), "요리: 두부찜", document_hash("요리: 두부찜"), NOON)
    recipe_store.store_recipe_vectors(connection, [vector], MODEL)
    stored = connection.execute("SELECT embedding, document_text FROM recipe.recipe_embedding").fetchone()
    assert stored is not None and stored[1] == "요리: 두부찜"
    assert np.array_equal(stored[0].to_numpy(), numbers.astype(np.float32))


def test_vectors_go_to_the_server_in_binary(
    connect: Callable[..., psycopg.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pgvector.psycopg.vector as pgvector_psycopg

    connection = connect()
    recipe_id = add_recipe(connection, "두부찜")

    def refused(*_: object) -> None:
        raise AssertionError("a vector was written as text")

    monkeypatch.setattr(pgvector_psycopg.VectorDumper, "dump", refused)
    recipe_store.store_recipe_vectors(connection, [vector_of(recipe_id, 10)], MODEL)
    connection.execute(
        "INSERT INTO recipe.ingredient (name, normalised, created_at) VALUES ('두부', '두부', now())"
    )
    (tofu,) = recipe_store.known_names(connection)
    recipe_store.store_ingredient_vectors(connection, [(tofu, towards(10))], MODEL)
    assert search(connection) == [("두부찜", cosine(10))]


@pytest.mark.parametrize("wrong", [[1.0, 2.0], []], ids=["short", "empty"])
def test_a_vector_of_another_length_is_refused(connection: psycopg.Connection, wrong: list[float]) -> None:
    recipe_id = add_recipe(connection, "두부찜")
    with pytest.raises(psycopg.DataError):
        recipe_store.store_recipe_vectors(
            connection, [RecipeVector(recipe_id, wrong, "두부", document_hash("두부"), NOON)], MODEL
        )
    assert search(connection) == []


def test_a_stored_recipe_gives_the_same_document_until_it_is_changed(
    db: Mongo, connection: psycopg.Connection
) -> None:
    def only() -> RecipeToEmbed:
        (recipe,) = recipe_store.recipes_to_embed(connection, SOURCE, ["31", "not-there"])
        return recipe

    def persist_again(**fields: object) -> RecipeToEmbed:
        lines = [used("두부", quantity="2/3", unit="모"), used("소금", quantity="약간", unit=None)]
        again = {"status": "parse_retrieved", "retrieved_data": parsed(*lines, **fields)}
        db["recipe_ingestion_jobs"].update_one({"_id": "31"}, {"$set": again})
        persist_all(db, connection)
        return only()

    put_parsed(db, "31")
    first = persist_again()
    assert (first.ingredients, first.steps) == (
        ["두부 2/3 모", "소금 약간"],
        ["두부를 썬다.", "찜기에서 찐다."],
    )
    assert (first.category, first.nutrition, first.document_hash) == ("찜", {"kcal": 120.0}, None)
    text = document(first)
    stored = RecipeVector(first.id, towards(5), text, document_hash(text), first.updated_at)
    recipe_store.store_recipe_vectors(connection, [stored], MODEL)

    second = persist_again()
    assert second.updated_at > first.updated_at
    assert (second.document_hash, second.embedding_model) == (document_hash(document(second)), MODEL)
    third = persist_again(servings=4)
    assert third.document_hash != document_hash(document(third))


def test_a_run_is_counted_by_what_became_of_it(connection: psycopg.Connection) -> None:
    assert recipe_store.counts_of_run(connection, "2026-03-02") == (0, 0, 0)
    assert recipe_store.sample_of_run(connection, "2026-03-02") is None
    add_recipe(connection, "벡터 없음", published=False)
    embedded = add(connection, "두부찜", 5)
    assert recipe_store.counts_of_run(connection, "2026-03-02") == (2, 1, 1)
    assert recipe_store.counts_of_run(connection, "2026-03-03") == (0, 0, 0)
    recipe_id, vector = recipe_store.sample_of_run(connection, "2026-03-02") or (None, [])
    assert recipe_id == embedded and vector == pytest.approx(towards(5), abs=1e-6)


@pytest.fixture(scope="module")
def many_recipes(postgres_server: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """Some thousand recipes around the first axis, of which every hundredth is published."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(TEMPLATE))
        )
        with psycopg.connect(postgres_server.dsn(name), autocommit=True) as connection:
            _fill(connection)
            yield connection
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _fill(connection: psycopg.Connection) -> None:
    # The index is made once over all rows, as the migration has it: that is quicker than row by row.
    (index,) = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'recipe_embedding_hnsw'"
    ).fetchone() or ("",)
    connection.execute("DROP INDEX recipe.recipe_embedding_hnsw")
    ids = [
        id_
        for (id_,) in connection.execute(
            """
        INSERT INTO recipe.recipe (source, source_recipe_id, run_id, raw_hash, title, description,
                                   difficulty, cooking_time_minutes, parse_confidence, is_published,
                                   created_at, updated_at)
        SELECT 'many', n, '2026-03-02', '', n, '', 1, 20, 'high', n %% %s = 0, now(), now()
        FROM generate_series(1, %s) AS n ORDER BY n RETURNING id
        """,
            (PUBLISHED_EVERY, MANY),
        )
    ]
    degrees = [89 * number / MANY for number in range(MANY)]
    random.Random(7).shuffle(ids)
    vectors = (vector_of(id_, angle) for id_, angle in zip(ids, degrees, strict=True))
    recipe_store.store_recipe_vectors(connection, vectors, MODEL)
    connection.execute(index)
    connection.execute("ANALYZE recipe.recipe")
    connection.execute("ANALYZE recipe.recipe_embedding")


@pytest.mark.parametrize("statement", ["similar_to_vector", "similar_to_recipe"])
def test_a_search_among_thousands_uses_the_index(many_recipes: psycopg.Connection, statement: str) -> None:
    parameters = {
        "vector": np.asarray(towards(0), dtype=np.float32),
        "model": MODEL,
        "k": 10,
        "published_only": False,
        "recipe_id": 1,
    }
    with many_recipes.transaction(force_rollback=True):
        many_recipes.execute("UPDATE recipe.recipe SET is_published = true")
        many_recipes.execute("ANALYZE recipe.recipe")
        rows = many_recipes.execute(b"EXPLAIN " + recipe_store.SQL[statement], parameters)
        plan = "\n".join(line for (line,) in rows)
    assert "Index Scan using recipe_embedding_hnsw" in plan


@pytest.fixture
def by_the_index(many_recipes: psycopg.Connection) -> Iterator[None]:
    """Keeps the planner from reading all rows where few would be left: among more it would not either."""
    for setting in ("enable_seqscan", "enable_sort"):
        many_recipes.execute("SELECT set_config(%s, 'off', false)", (setting,))
    yield
    many_recipes.execute("RESET ALL")


@pytest.mark.parametrize(("k", "published_only"), [(10, False), (100, False), (10, True), (30, True)])
def test_a_search_among_thousands_finds_as_many_as_were_asked_for(
    many_recipes: psycopg.Connection, by_the_index: None, k: int, published_only: bool
) -> None:
    nearest = recipe_store.recipes_similar_to_vector(many_recipes, towards(0), MODEL, k, published_only)
    exact = many_recipes.execute(
        "SELECT recipe.id FROM recipe.recipe_embedding JOIN recipe.recipe ON recipe.id = recipe_id "
        "WHERE is_published OR NOT %s ORDER BY (embedding <=> %s) + 0 LIMIT %s",
        (published_only, np.asarray(towards(0), dtype=np.float32), k),
    ).fetchall()
    ids = [one.id for one in nearest]
    assert len(ids) == k and [one.similarity for one in nearest] == sorted(
        (one.similarity for one in nearest), reverse=True
    )
    assert len(set(ids) & {id_ for (id_,) in exact}) >= 0.9 * k


def test_recipes_like_one_of_thousands_are_as_many_as_were_asked_for(
    many_recipes: psycopg.Connection, by_the_index: None
) -> None:
    assert len(recipe_store.recipes_like(many_recipes, 1, 20)) == 20
