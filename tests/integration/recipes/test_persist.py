"""Persist: parsed jobs become recipes, one transaction each."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from assets.recipes import persist as persist_module
from assets.recipes import recipe_store
from assets.recipes.persist import Persisted
from assets.recipes.statuses import Status
from resources.counters import value
from tests.integration.recipes.job_records import DAY, MINE, SOURCE, Mongo, put_job, record, statuses
from tests.integration.recipes.parsed_jobs import (
    ORIGIN,
    Embedding,
    ingredient_names,
    ingredients_of,
    parsed,
    persist_all,
    put_parsed,
    row_counts,
    used,
)

NOTHING = dict.fromkeys(
    ("recipe", "step", "recipe_ingredient", "ingredient", "category", "ingredient_embedding"), 0
)


def the_recipe(connection: psycopg.Connection) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT recipe.*, category.name AS category FROM recipe.recipe LEFT JOIN recipe.category "
            "ON category.id = category_id"
        )
        (only,) = cursor.fetchall()
        return only


def test_a_recipe_has_the_sources_fields_and_the_models_for_the_rest(
    db: Mongo, connection: psycopg.Connection
) -> None:
    put_parsed(db, "31", "두부")
    assert persist_all(db, connection) == Persisted(stored=1, published=1)
    recipe = the_recipe(connection)
    assert (recipe["source"], recipe["source_recipe_id"], str(recipe["run_id"])) == (SOURCE, "31", DAY)
    assert (recipe["title"], recipe["cooking_method"], recipe["tips"]) == (
        "두부찜",
        "찌기",
        "약한 불에서 찐다.",
    )
    assert (recipe["nutrition"], recipe["image_url"]) == ({"kcal": 120.0}, f"{ORIGIN}/uploadimg/cook/31.png")
    assert (recipe["description"], recipe["category"]) == ("부드러운 두부찜이에요.", "찜")
    assert (recipe["servings"], recipe["difficulty"], recipe["cooking_time_minutes"]) == (2, 1, 20)
    steps = connection.execute("SELECT position, content, image_url FROM recipe.step ORDER BY 1").fetchall()
    assert steps == [(1, "두부를 썬다.", None), (2, "찜기에서 찐다.", None)]


def test_the_job_is_finished_with_the_ingredients_that_have_no_vector(
    db: Mongo, connection: psycopg.Connection
) -> None:
    put_parsed(db, "31", "두부", "소금")
    persist_all(db, connection, lambda _: {})
    job = record(db, "31")
    assert (job["status"], job["retry_count"]) == (Status.PERSISTED, 0)
    assert job["persisted_at"] is not None and "claimed_by" not in job
    ids = [id_ for (id_,) in connection.execute("SELECT id FROM recipe.ingredient ORDER BY id")]
    assert job["new_ingredient_ids"] == ids and len(ids) == 2


def test_amounts_are_stored_as_they_are_written(db: Mongo, connection: psycopg.Connection) -> None:
    lines = [
        used("두부", quantity="2/3", unit="모", note="100g"),
        used("소금", quantity="약간", unit=None, optional=True),
    ]
    put_parsed(db, "31", *lines)
    persist_all(db, connection)
    stored = connection.execute(
        "SELECT position, name, quantity, unit, optional, note FROM recipe.recipe_ingredient ORDER BY 1"
    ).fetchall()
    assert stored == [(1, "두부", "2/3", "모", False, "100g"), (2, "소금", "약간", None, True, None)]


def test_nothing_to_store_is_no_error_and_asks_nothing(db: Mongo, connection: psycopg.Connection) -> None:
    put_parsed(db, "other-day", "두부", run_id="2026-03-03")
    put_job(db, Status.FETCHED, "earlier")
    embed = Embedding()
    assert persist_all(db, connection, embed) == Persisted()
    assert (embed.calls, row_counts(connection)) == ([], NOTHING)


def test_jobs_that_were_not_named_stay(db: Mongo, connection: psycopg.Connection) -> None:
    for job_id in ("a", "b"):
        put_parsed(db, job_id, "두부")
    assert persist_all(db, connection, job_ids=["b"]).stored == 1
    assert statuses(db) == {"a": Status.PARSE_RETRIEVED, "b": Status.PERSISTED}


def test_a_recipe_that_comes_again_is_replaced_with_its_steps_and_ingredients(
    db: Mongo, connect: Callable[..., psycopg.Connection]
) -> None:
    put_parsed(db, "31", "두부", "소금")
    persist_all(db, connect("2026-03-02 12:00+09:00"))
    connection = connect("2026-03-09 12:00+09:00")
    first = the_recipe(connection)
    again = {
        "status": Status.PARSE_RETRIEVED.value,
        "run_id": DAY,
        "raw_data": {"RCP_NM": "두부조림", "MANUAL01": "조린다."},
        "retrieved_data": parsed("간장", "두부", servings=None, parse_confidence="low"),
    }
    db["recipe_ingestion_jobs"].update_one({"_id": "31"}, {"$set": again})
    assert persist_all(db, connection) == Persisted(stored=1, published=0)
    recipe = the_recipe(connection)
    assert recipe["id"] == first["id"] and recipe["created_at"] == first["created_at"] < recipe["updated_at"]
    assert (recipe["title"], recipe["cooking_method"], recipe["nutrition"]) == ("두부조림", None, {})
    assert recipe["raw_hash"] != first["raw_hash"] and not recipe["is_published"]
    assert [name for name, _, _ in ingredients_of(connection, "31")] == ["간장", "두부"]
    assert connection.execute("SELECT content FROM recipe.step").fetchall() == [("조린다.",)]
    assert ingredient_names(connection) == ["두부", "소금", "간장"]


def test_categories_are_found_or_made_by_their_kind(db: Mongo, connection: psycopg.Connection) -> None:
    both = parsed(used("두부", category="찜"), used("소금", category="양념"), category="찜")
    put_parsed(db, "a", retrieved_data=both)
    put_parsed(db, "b", retrieved_data=both)
    put_parsed(db, "c", retrieved_data=parsed(used("간장", category=" "), category=None))
    persist_all(db, connection)
    assert recipe_store.categories(connection, "recipe") == ["반찬", "찜"]
    assert recipe_store.categories(connection, "ingredient") == ["양념", "찜"]
    assert row_counts(connection)["category"] == 4


@pytest.mark.parametrize(("confidence", "published"), [("high", True), ("medium", False), ("low", False)])
def test_only_high_confidence_is_published(
    db: Mongo, connection: psycopg.Connection, confidence: str, published: bool
) -> None:
    put_parsed(db, "31", retrieved_data=parsed("두부", parse_confidence=confidence, parse_issues=["양"]))
    assert persist_all(db, connection).published == published
    recipe = the_recipe(connection)
    assert (recipe["is_published"], recipe["parse_issues"]) == (published, ["양"])


def test_nobody_else_can_publish_a_recipe_of_less_confidence(
    db: Mongo, connection: psycopg.Connection
) -> None:
    put_parsed(db, "31", retrieved_data=parsed("두부", parse_confidence="medium"))
    persist_all(db, connection)
    with pytest.raises(psycopg.errors.CheckViolation, match="published_only_with_high_confidence"):
        connection.execute("UPDATE recipe.recipe SET is_published = true")


def test_an_error_in_the_middle_leaves_nothing_and_gives_the_job_back(
    db: Mongo, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in ("a", "b", "c"):
        put_parsed(db, job_id, f"재료{job_id}")
    real = recipe_store.replace_ingredients

    def second_breaks(*arguments: Any) -> None:
        real(*arguments)
        if row_counts(connection)["recipe"] == 2:
            raise RuntimeError("broken")

    monkeypatch.setattr(recipe_store, "replace_ingredients", second_breaks)
    with pytest.raises(RuntimeError, match="broken"):
        persist_all(db, connection)
    counts = row_counts(connection)
    assert (counts["recipe"], counts["step"], counts["ingredient"]) == (1, 2, 1)
    waiting = {"b": Status.PARSE_RETRIEVED, "c": Status.PARSE_RETRIEVED}
    assert statuses(db) == {"a": Status.PERSISTED, **waiting}
    assert record(db, "b")["retry_count"] == record(db, "c")["retry_count"] == 0
    success = {"stage": "persist", "outcome": "success"}
    assert value(connection, "recipe_ingestion_stage_total", success) == 1

    monkeypatch.setattr(recipe_store, "replace_ingredients", real)
    assert persist_all(db, connection).stored == 2
    assert row_counts(connection)["recipe"] == 3


def test_what_no_column_takes_fails_its_job_alone(db: Mongo, connection: psycopg.Connection) -> None:
    connection.execute("ALTER TABLE recipe.recipe_ingredient ADD CHECK (note <> 'refused')")
    put_parsed(db, "a", "두부")
    put_parsed(db, "check", used("새로운재료", note="refused"))
    put_parsed(db, "nul", "새로운재료", source_id="nul\x00")
    put_parsed(db, "shape", retrieved_data={"title": "두부찜", "ingredients": "두부"})
    put_parsed(db, "none", retrieved_data=None)
    put_parsed(db, "z", "새로운재료", "소금")
    outcome = persist_all(db, connection)
    reasons = {"check": "not storable: CheckViolation", "nul": "not storable: DataError"}
    no_recipe = dict.fromkeys(("shape", "none"), "retrieved_data is no parsed recipe")
    assert (outcome.stored, outcome.failed) == (2, {**reasons, **no_recipe})
    # One try a run: the next run tries again, and the third fails the job for good.
    back = dict.fromkeys(outcome.failed, Status.PARSE_RETRIEVED)
    assert statuses(db) == {"a": Status.PERSISTED, "z": Status.PERSISTED, **back}
    persist_all(db, connection)
    persist_all(db, connection)
    assert set(statuses(db).values()) == {Status.PERSISTED, Status.FAILED}
    job = record(db, "nul")
    assert (job["retry_count"], job["error_message"]) == (3, "not storable: DataError")
    # What the failed transaction had added is forgotten, not referred to.
    assert [name for _, name, _ in ingredients_of(connection, "z")] == ["새로운재료", "소금"]


def test_what_was_stored_is_counted(db: Mongo, connection: psycopg.Connection) -> None:
    put_parsed(db, "a", "두부", "소금")
    put_parsed(db, "b", retrieved_data=parsed("두부", parse_confidence="low"))
    put_parsed(db, "nul", "두부", source_id="nul\x00")
    persist_all(db, connection)

    def counted(name: str, **labels: str) -> float:
        return value(connection, f"recipe_ingestion_{name}_total", labels)

    assert counted("stage", stage="persist", outcome="success") == 2
    assert counted("stage", stage="persist", outcome="failed") == 1
    assert counted("parse_confidence", level="high") == counted("parse_confidence", level="low") == 1
    assert counted("ingredient_match", match_method="new") == 2
    assert counted("ingredient_match", match_method="exact") == 1


def test_names_are_embedded_in_one_request_before_any_transaction(
    db: Mongo, connection: psycopg.Connection
) -> None:
    put_parsed(db, "known", "두부")
    persist_all(db, connection)
    put_parsed(db, "a", "소금", "두부", used("계란"))
    put_parsed(db, "b", "소금 ", "간장", used("콩물", canonical_name="두부"))
    embedding = Embedding()

    def embed(names: list[str]) -> dict[str, list[float]]:
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert row_counts(connection)["recipe"] == 1
        return embedding(names)

    assert persist_all(db, connection, embed).stored == 2
    assert [sorted(call) for call in embedding.calls] == [["간장", "계란", "소금"]]
    assert row_counts(connection)["ingredient_embedding"] == 4


def test_each_chunk_asks_once_and_for_new_names_only(
    db: Mongo, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persist_module, "CHUNK", 2)
    for job_id, names in {
        "a": ["두부"],
        "b": ["소금"],
        "c": ["두부", "간장"],
        "d": ["소금"],
        "e": ["간장"],
    }.items():
        put_parsed(db, job_id, *names)
    embed = Embedding()
    assert persist_all(db, connection, embed).stored == 5
    assert embed.calls == [["두부", "소금"], ["간장"]]


def test_an_embedding_that_fails_gives_the_chunk_back_uncounted(
    db: Mongo, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(persist_module, "CHUNK", 2)
    for job_id in ("a", "b", "c", "d"):
        put_parsed(db, job_id, f"재료{job_id}")
    embedding = Embedding()

    def embed(names: list[str]) -> dict[str, list[float]]:
        if embedding.calls:
            raise ConnectionError("not there")
        return embedding(names)

    with pytest.raises(ConnectionError):
        persist_all(db, connection, embed)
    stored, waiting = Status.PERSISTED, Status.PARSE_RETRIEVED
    assert statuses(db) == {"a": stored, "b": stored, "c": waiting, "d": waiting}
    assert all(record(db, one)["retry_count"] == record(db, one)["releases"] == 0 for one in "cd")
    assert not any("claimed_by" in record(db, one) for one in "cd")


def test_a_run_that_was_given_up_and_wakes_stores_nothing(
    db: Mongo, connection: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    put_parsed(db, "31", "두부", "옛재료")
    others = connect()
    newer = {"retrieved_data": parsed("새재료"), "raw_data": {"RCP_NM": "고친 두부찜"}}

    def embed(names: list[str]) -> dict[str, list[float]]:
        """Meanwhile: declared dead, the recipe edited, parsed and stored by another run."""
        back = {"$set": {**newer, "status": Status.PARSE_RETRIEVED.value}, "$unset": {"claimed_by": ""}}
        db["recipe_ingestion_jobs"].update_one({"_id": "31"}, back)
        assert persist_all(db, others, claimed_by="another:0").stored == 1
        return Embedding()(names)

    assert persist_all(db, connection, embed, claimed_by=MINE) == Persisted()
    assert the_recipe(connection)["title"] == "고친 두부찜"
    assert ingredients_of(connection, "31") == [("새재료", "새재료", "new")]
    assert ingredient_names(connection) == ["새재료"]
    assert statuses(db) == {"31": Status.PERSISTED}
