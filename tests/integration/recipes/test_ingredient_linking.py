"""What the names in recipes are recognised as, and what people decide of those that may be alike."""

from typing import Any

import psycopg
import pytest

from assets.recipes import recipe_store
from tests.integration.recipes.job_records import Mongo, statuses
from tests.integration.recipes.parsed_jobs import (
    MODEL,
    Embedding,
    ingredient_names,
    ingredients_of,
    parsed,
    persist_all,
    put_parsed,
    used,
)

Used = dict[str, Any]

LONG = "유기농무농약국산햇콩으로만든단단한부침용두부"
LONG_WITH_A_TYPO = LONG.replace("단단한", "단딴한")


def store(
    db: Mongo, connection: psycopg.Connection, job_id: str, *names: str | Used, embed: Embedding | None = None
) -> list[tuple[str, str | None, str]]:
    """Persists one recipe with these ingredients; name, ingredient and method of each."""
    put_parsed(db, job_id, *names)
    assert persist_all(db, connection, embed, job_ids=[job_id]).stored == 1
    return ingredients_of(connection, job_id)


def scores(connection: psycopg.Connection, job_id: str) -> list[float]:
    rows = connection.execute(
        "SELECT match_score FROM recipe.recipe_ingredient JOIN recipe.recipe ON recipe.id = recipe_id "
        "WHERE source_recipe_id = %s ORDER BY position",
        (job_id,),
    )
    return [score for (score,) in rows]


def reviews(connection: psycopg.Connection) -> list[tuple[int, str, str, str]]:
    """Id, name, candidate and status."""
    return connection.execute(
        "SELECT review.id, review.name, candidate.name, status FROM recipe.ingredient_review AS review "
        "JOIN recipe.ingredient AS candidate ON candidate.id = candidate_id ORDER BY review.id"
    ).fetchall()


def decide(connection: psycopg.Connection, review_id: int, approved: bool) -> bool:
    with connection.transaction():
        return recipe_store.decide_review(connection, review_id, approved)


def test_each_name_is_recognised_by_the_first_way_that_tells_it(
    db: Mongo, connection: psycopg.Connection
) -> None:
    assert [method for _, _, method in store(db, connection, "known", "달걀", "시금치", LONG, "콩나물")] == [
        "new"
    ] * 4
    alike = {"시금치잎사귀": ("시금치", 0.93), "숙주": ("콩나물", 0.87), "미역": ("콩나물", 0.84)}
    found = store(
        db,
        connection,
        "31",
        "달걀(특란) 2개",
        "계란",
        LONG_WITH_A_TYPO,
        "시금치잎사귀",
        "숙주",
        "미역",
        embed=Embedding(alike),
    )
    assert found == [
        ("달걀(특란) 2개", "달걀", "exact"),
        ("계란", "달걀", "alias"),
        (LONG_WITH_A_TYPO, LONG, "fuzzy"),
        ("시금치잎사귀", "시금치", "vector"),
        ("숙주", None, "review"),
        ("미역", "미역", "new"),
    ]
    assert scores(connection, "31") == pytest.approx([1, 1, 1 - 1 / len(LONG), 0.93, 0.87, 0], abs=1e-5)
    assert recipe_store.match_methods_of_run(connection, "2026-03-02") == {
        "alias": 1,
        "exact": 1,
        "fuzzy": 1,
        "new": 5,
        "review": 1,
        "vector": 1,
    }


def test_the_models_canonical_name_and_the_table_count_as_aliases(
    db: Mongo, connection: psycopg.Connection
) -> None:
    store(db, connection, "known", "두부")
    (tofu,) = recipe_store.known_names(connection)
    connection.execute("INSERT INTO recipe.ingredient_alias VALUES ('콩물덩이', %s)", (tofu,))
    put_parsed(db, "31", used("부침용 두부", canonical_name="두부"), used("콩물덩이"))
    persist_all(db, connection)
    assert ingredients_of(connection, "31") == [
        ("부침용 두부", "두부", "alias"),
        ("콩물덩이", "두부", "alias"),
    ]


@pytest.mark.parametrize(
    ("one", "other"), [("설탕", "흑설탕"), ("무", "무순"), ("국간장", "진간장"), ("우유", "두유")]
)
def test_names_that_share_syllables_are_different_foods(
    db: Mongo, connection: psycopg.Connection, one: str, other: str
) -> None:
    assert store(db, connection, "together", one, other) == [(one, one, "new"), (other, other, "new")]
    assert store(db, connection, "later", other, one) == [(other, other, "exact"), (one, one, "exact")]
    assert ingredient_names(connection) == [one, other]


@pytest.mark.parametrize(("one", "other"), [("계란", "달걀"), ("쇠고기", "소고기"), ("소고기", "쇠고기")])
def test_two_words_for_the_same_food_are_one_ingredient(
    db: Mongo, connection: psycopg.Connection, one: str, other: str
) -> None:
    assert store(db, connection, "together", one, other) == [(one, one, "new"), (other, one, "alias")]
    assert ingredient_names(connection) == [one]


def test_new_names_of_one_recipe_are_compared_with_each_other(
    db: Mongo, connection: psycopg.Connection
) -> None:
    embed = Embedding({"시금치잎사귀": ("시금치", 0.95)})
    again = used("시금치", quantity="2", unit="단")
    found = store(db, connection, "31", "시금치", "시금치잎사귀", again, embed=embed)
    assert [method for _, _, method in found] == ["new", "vector", "exact"]
    assert ingredient_names(connection) == ["시금치"]


def test_a_name_without_a_vector_is_an_ingredient_all_the_same(
    db: Mongo, connection: psycopg.Connection
) -> None:
    put_parsed(db, "31", "두부", "100g")
    assert persist_all(db, connection, lambda _: {}).stored == 1
    assert store(db, connection, "later", "두부", "100g") == [
        ("두부", "두부", "exact"),
        ("100g", "100g", "exact"),
    ]


def test_vectors_of_another_model_are_not_compared(db: Mongo, connection: psycopg.Connection) -> None:
    store(db, connection, "known", "시금치")
    connection.execute("UPDATE recipe.ingredient_embedding SET embedding_model = 'another'")
    found = store(db, connection, "31", "시금치잎사귀", embed=Embedding({"시금치잎사귀": ("시금치", 0.99)}))
    assert found == [("시금치잎사귀", "시금치잎사귀", "new")]


def test_a_name_in_review_waits_with_all_its_recipes(db: Mongo, connection: psycopg.Connection) -> None:
    embed = Embedding({"숙주": ("콩나물", 0.87)})
    store(db, connection, "known", "콩나물")
    for job_id in ("a", "b"):
        assert store(db, connection, job_id, "숙주", embed=embed) == [("숙주", None, "review")]
    ((review_id, *rest),) = reviews(connection)
    assert rest == ["숙주", "콩나물", "PENDING"]
    ((waiting, name, candidate, score),) = recipe_store.reviews_waiting(connection, 10)
    assert (waiting, name, candidate, round(score, 5)) == (review_id, "숙주", "콩나물", 0.87)
    assert ingredient_names(connection) == ["콩나물"]


@pytest.mark.parametrize(
    ("approved", "ingredient", "method", "later"),
    [(True, "콩나물", "alias", "alias"), (False, "숙주", "new", "exact")],
    ids=["approved", "rejected"],
)
def test_a_decision_settles_the_recipes_that_wait_and_those_that_come(
    db: Mongo, connection: psycopg.Connection, approved: bool, ingredient: str, method: str, later: str
) -> None:
    embed = Embedding({"숙주": ("콩나물", 0.87)})
    store(db, connection, "known", "콩나물")
    for job_id in ("a", "b"):
        store(db, connection, job_id, "숙주", embed=embed)
    ((review_id, *_),) = reviews(connection)

    assert decide(connection, review_id, approved)
    for job_id in ("a", "b"):
        assert ingredients_of(connection, job_id) == [("숙주", ingredient, method)]
    assert recipe_store.reviews_waiting(connection, 10) == []
    embed.calls.clear()
    assert store(db, connection, "c", "숙주(다듬은 것)", embed=embed) == [
        ("숙주(다듬은 것)", ingredient, later)
    ]
    assert embed.calls == []

    assert not decide(connection, review_id, not approved)
    assert not decide(connection, review_id + 1, True)
    assert ingredients_of(connection, "a") == [("숙주", ingredient, method)]


@pytest.mark.parametrize(
    ("approved", "expected"), [(True, ("숙주", "콩나물", "alias")), (False, ("숙주", "숙주", "exact"))]
)
def test_a_decision_during_a_run_holds_although_another_candidate_is_nearer_now(
    db: Mongo, connection: psycopg.Connection, approved: bool, expected: tuple[str, str, str]
) -> None:
    store(db, connection, "known", "콩나물")
    store(db, connection, "a", "숙주", embed=Embedding({"숙주": ("콩나물", 0.86)}))
    store(db, connection, "more", "녹두")
    nearer = Embedding({"숙주": ("녹두", 0.89)})

    def embed(names: list[str]) -> dict[str, list[float]]:
        ((review_id, *_),) = reviews(connection)
        decide(connection, review_id, approved)
        return nearer(names)

    put_parsed(db, "b", "숙주")
    persist_all(db, connection, embed)
    assert ingredients_of(connection, "b") == [expected]
    assert len(reviews(connection)) == 1
    assert set(statuses(db).values()) == {"persisted"}


def test_a_recipe_whose_name_is_no_longer_in_review_frees_it(
    db: Mongo, connection: psycopg.Connection
) -> None:
    store(db, connection, "known", "콩나물")
    store(db, connection, "a", "숙주", embed=Embedding({"숙주": ("콩나물", 0.87)}))
    changed = {"status": "parse_retrieved", "retrieved_data": parsed("두부")}
    db["recipe_ingestion_jobs"].update_one({"_id": "a"}, {"$set": changed})
    persist_all(db, connection)
    ((review_id, *_),) = reviews(connection)
    assert decide(connection, review_id, True)
    assert ingredients_of(connection, "a") == [("두부", "두부", "new")]


def test_a_line_has_an_ingredient_or_a_review_by_its_constraint(
    db: Mongo, connection: psycopg.Connection
) -> None:
    store(db, connection, "a", "두부")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE recipe.recipe_ingredient SET ingredient_id = NULL")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE recipe.recipe_ingredient SET match_method = 'guessed'")


def test_the_vectors_of_new_ingredients_are_kept_with_their_model(
    db: Mongo, connection: psycopg.Connection
) -> None:
    embed = Embedding()
    store(db, connection, "a", "두부", embed=embed)
    (tofu,) = recipe_store.known_names(connection)
    near = recipe_store.nearest_ingredients(connection, embed.vector("두부"), MODEL)
    assert list(near) == [tofu] and list(near[tofu]) == embed.vector("두부")
    assert recipe_store.nearest_ingredients(connection, embed.vector("두부"), "another") == {}
