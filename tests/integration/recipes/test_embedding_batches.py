"""Recipes and new ingredients are embedded by batches: a vector stands with the text that it is of."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from assets.recipes import recipe_store
from assets.recipes.job_store import JOBS
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    EMBEDDING_MODEL,
    Runs,
    counter,
    files,
    intents,
    jobs_of,
    money,
    persisted,
    stage_total,
    states,
    uploaded,
)
from tests.integration.recipes.job_records import Mongo
from tests.integration.stand_ins import StandIn


@pytest.fixture
def api(openai_api: StandIn) -> Iterator[StandIn]:
    with batch_runs.no_batches(openai_api) as fresh:
        yield fresh


@pytest.fixture
def runs(db: Mongo, connection: psycopg.Connection, api: StandIn) -> Runs:
    return Runs(db, connection, api.url)


def later(connect: Callable[..., psycopg.Connection], minutes: int) -> psycopg.Connection:
    """A connection whose clock is ahead."""
    (at,) = connect().execute("SELECT (now() + make_interval(mins => %s))::text", (minutes,)).fetchone() or (
        "",
    )
    return connect(at=at)


def tokens(connection: psycopg.Connection) -> dict[str, float]:
    name = "recipe_ingestion_llm_tokens_total"
    return {one: counter(connection, name, token_type=one) for one in ("input", "output", "total")}


def retries(db: Mongo) -> Counter[int]:
    return Counter(job["retry_count"] for job in jobs_of(db))


def errors(db: Mongo) -> Counter[str]:
    return Counter(job["error_message"] for job in jobs_of(db) if "error_message" in job)


def embedding_lines(api: StandIn) -> list[dict[str, Any]]:
    return [json.loads(line) for one in uploaded(api.url) for line in one.split(b"\n") if line]


def test_recipes_and_their_new_ingredients_are_one_batch(db: Mongo, runs: Runs, api: StandIn) -> None:
    ids = persisted(db, runs.connection, "두부찜", "무조림")
    sent = runs.submit("embed")
    assert (sent.batches, sent.lines, states(db)) == (1, 4, {"embed_submitted": 2})
    lines = {line["custom_id"]: line["body"] for line in embedding_lines(api)}
    ingredients = sorted(one for one in lines if one.startswith("ingredient:"))
    assert sorted(lines) == sorted([*ids, *ingredients]) and len(ingredients) == 2
    assert lines[ids[0]]["input"].startswith("요리: 두부찜\n설명: 두부찜이에요")
    assert lines[ingredients[0]]["input"] == "두부찜"
    fixed = {"model": EMBEDDING_MODEL, "dimensions": 1536, "encoding_format": "float"}
    assert all({**body, "input": ""} == {**fixed, "input": ""} for body in lines.values())
    (intent,) = intents(db)
    assert intent["job_ids"] == ids and len(intent["ingredient_ids"]) == 2


def test_an_unchanged_document_is_not_embedded_again(db: Mongo, runs: Runs, api: StandIn) -> None:
    persisted(db, runs.connection, "두부찜", "무조림")
    runs.submit("embed")
    api.post("batches/advance")
    runs.retrieve("embed")
    batch_runs.store_recipe(runs.connection, "job-002", "무생채")
    db[JOBS].update_many({}, {"$set": {"status": "persisted"}})
    sent = runs.submit("embed")
    assert (sent.skipped, sent.lines) == (1, 1)
    assert Counter(states(db)) == {"embed_retrieved": 1, "embed_submitted": 1}
    assert stage_total(runs.connection, "embed-submit", "skipped") == 1


def test_where_only_ingredients_are_left_they_are_a_batch_of_their_own(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    persisted(db, runs.connection, "두부찜")
    runs.submit("embed")
    api.post("batches/advance")
    runs.retrieve("embed")
    new, _ = recipe_store.add_ingredient(runs.connection, "연두부", "연두부", None)
    db[JOBS].update_many({}, {"$set": {"status": "persisted", "new_ingredient_ids": [new]}})
    sent = runs.submit("embed")
    assert (sent.skipped, sent.lines, states(db)) == (1, 1, {"embed_retrieved": 1})
    api.post("batches/advance")
    assert runs.retrieve("embed").ingredients == 1


def test_two_open_batches_never_ask_for_the_same_ingredient(db: Mongo, runs: Runs, api: StandIn) -> None:
    ids = persisted(db, runs.connection, "두부찜", "무조림")
    shared = jobs_of(db)[0]["new_ingredient_ids"]
    db[JOBS].update_many({}, {"$set": {"new_ingredient_ids": shared}})
    for job_id in ids:
        runs.submit("embed", limits={"job_ids": [job_id]})
    asked = [one["custom_id"] for one in embedding_lines(api)]
    assert sorted(asked) == sorted([*ids, f"ingredient:{shared[0]}"])


def test_ingredients_of_a_batch_that_was_not_created_go_with_the_next(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    persisted(db, runs.connection, "두부찜")
    api.fault(endpoint="batches/create", status=429, code="rate_limit_exceeded", times=1)
    assert runs.submit("embed").lines == 0
    sent = runs.submit("embed")
    assert (sent.lines, states(db)) == (2, {"embed_submitted": 1})


def test_ingredients_that_a_dead_run_held_are_free_after_an_hour(
    db: Mongo, runs: Runs, connect: Callable[..., psycopg.Connection]
) -> None:
    persisted(db, runs.connection, "두부찜")
    runs.connection.execute(
        "UPDATE recipe.ingredient SET embedding_intent = 'run-0:0', embedding_claimed_at = granary.now()"
    )
    assert runs.submit("embed", connection=later(connect, 59)).lines == 1
    db[JOBS].update_many({}, {"$set": {"status": "persisted"}})
    assert runs.submit("embed", connection=later(connect, 61)).lines == 2


def test_an_open_batch_keeps_its_ingredients_however_long_it_takes(
    db: Mongo, runs: Runs, connect: Callable[..., psycopg.Connection]
) -> None:
    persisted(db, runs.connection, "두부찜")
    runs.submit("embed")
    db[JOBS].update_many({}, {"$set": {"status": "persisted"}})
    assert runs.submit("embed", connection=later(connect, 600)).lines == 1


def test_a_job_whose_recipe_is_gone_counts_a_retry(db: Mongo, runs: Runs) -> None:
    persisted(db, runs.connection, "두부찜", "무조림")
    runs.connection.execute("DELETE FROM recipe.recipe WHERE title = '두부찜'")
    sent = runs.submit("embed")
    assert (sent.unusable, states(db)) == (1, {"persisted": 1, "embed_submitted": 1})


def vectors(connection: psycopg.Connection) -> list[Any]:
    return connection.execute(
        "SELECT title, document_text, embedding_model, source_updated_at = recipe.updated_at "
        "FROM recipe.recipe_embedding JOIN recipe.recipe ON recipe.id = recipe_id ORDER BY title"
    ).fetchall()


def test_vectors_are_stored_with_the_documents_that_they_are_of(db: Mongo, runs: Runs, api: StandIn) -> None:
    persisted(db, runs.connection, "두부찜", "무조림")
    runs.submit("embed")
    api.post("batches/advance")
    taken = runs.retrieve("embed")
    assert (taken.good, taken.ingredients, taken.failed) == (2, 2, 0)
    assert states(db) == {"embed_retrieved": 2}
    stored = vectors(runs.connection)
    assert [(one[0], one[2:]) for one in stored] == [
        ("두부찜", (EMBEDDING_MODEL, True)),
        ("무조림", (EMBEDDING_MODEL, True)),
    ]
    assert all(text.startswith(f"요리: {title}\n") for title, text, *_ in stored)
    (recipe_id,) = runs.connection.execute(
        "SELECT id FROM recipe.recipe WHERE title = '무조림'"
    ).fetchone() or (0,)
    (known,) = runs.connection.execute(
        "SELECT embedding::text FROM recipe.recipe_embedding WHERE recipe_id = %s", (recipe_id,)
    ).fetchone() or ("",)
    (first, *_) = recipe_store.recipes_similar_to_vector(
        runs.connection, json.loads(known), EMBEDDING_MODEL, 2
    )
    assert first.id == recipe_id and first.similarity == pytest.approx(1, abs=1e-5)
    asked = runs.connection.execute(
        "SELECT count(*), count(embedding_intent) FROM recipe.ingredient"
    ).fetchone()
    assert asked == (2, 0)
    assert money(runs.connection)["reserved"] == 0 < money(runs.connection)["spent"]
    assert tokens(runs.connection)["total"] == 0 and files(api.url) == []


def test_vectors_that_are_none_go_back(db: Mongo, runs: Runs, api: StandIn) -> None:
    kinds = {"두부찜": "short", "감자전": "zero", "가지볶음": "nan", "콩나물국": "missing"}
    persisted(db, runs.connection, *kinds, "무조림")
    for title, vector in kinds.items():
        api.fault(endpoint="embeddings", vector=vector, contains=title)
    runs.submit("embed")
    api.post("batches/advance")
    taken = runs.retrieve("embed")
    assert (taken.good, taken.ingredients, taken.failed) == (1, 1, 4)
    assert states(db) == {"embed_retrieved": 1, "persisted": 4} and retries(db) == {0: 1, 1: 4}
    assert set(errors(db)) == {"vector: length", "vector: numbers", "empty"}
    assert [title for title, *_ in vectors(runs.connection)] == ["무조림"]
    api.clear_faults()
    assert runs.submit("embed").lines == 8, "the recipes, and the ingredients whose vectors were none"
    api.post("batches/advance")
    runs.retrieve("embed")
    assert states(db) == {"embed_retrieved": 5}
    known = "SELECT count(*) FROM recipe.ingredient JOIN recipe.ingredient_embedding ON ingredient_id = id"
    assert runs.connection.execute(known).fetchone() == (5,)


def test_a_recipe_that_changed_meanwhile_is_sent_anew_and_no_retry_counts(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    persisted(db, runs.connection, "두부찜", "무조림")
    runs.submit("embed")
    api.post("batches/advance")
    batch_runs.store_recipe(runs.connection, "job-001", "두부전")
    taken = runs.retrieve("embed")
    assert (taken.good, taken.sent_again, taken.failed) == (1, 1, 0)
    assert [title for title, *_ in vectors(runs.connection)] == ["무조림"]
    assert states(db) == {"embed_retrieved": 1, "persisted": 1} and retries(db) == {0: 2}
    assert "embed_batch_id" not in jobs_of(db)[0]
    runs.submit("embed")
    api.post("batches/advance")
    runs.retrieve("embed")
    assert [title for title, *_ in vectors(runs.connection)] == ["두부전", "무조림"]


def test_an_interrupted_storing_of_vectors_is_taken_up_again(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    persisted(db, runs.connection, "두부찜", "무조림")
    runs.submit("embed")
    api.post("batches/advance")

    def interrupted(*_: Any) -> None:
        raise psycopg.OperationalError("the server closed the connection")

    real = recipe_store.store_recipe_vectors
    monkeypatch.setattr(recipe_store, "store_recipe_vectors", interrupted)
    with pytest.raises(psycopg.OperationalError):
        runs.retrieve("embed")
    monkeypatch.setattr(recipe_store, "store_recipe_vectors", real)
    assert states(db) == {"embed_submitted": 2} and vectors(runs.connection) == []
    assert runs.retrieve("embed", run="run-2:0").good == 2
    assert len(vectors(runs.connection)) == 2
