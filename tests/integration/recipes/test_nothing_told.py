"""No row, no recipe, no vector and no key is told: in no event, metadata, log, alarm or kept error."""

import logging
from typing import Any

import psycopg
import pytest

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from local_stack.recipe_api.recipes import recipe_rows
from tests.integration.recipes.batch_runs import jobs_of
from tests.integration.recipes.job_records import Mongo
from tests.integration.recipes.recipe_runs import RecipeRuns, Services
from tests.integration.resources.asking import KEY

CANARY = "kanarienvogel"  # ASCII: no way of writing it down hides it
FIELDS = ("RCP_NM", "RCP_PARTS_DTLS", "MANUAL01", "HASH_TAG", "RCP_NA_TIP", "RCP_WAY2")
REFUSAL = {"status": 400, "message": f"what is that: {CANARY} {KEY}"}
FAULTS: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "answers of no use": [{"content": what, "times": 1} for what in ("not_json", "refusal", "nul")],
    "a refused batch": [{"endpoint": "batches/create", **REFUSAL}],
    "a refused key": [{"endpoint": "files", **REFUSAL, "status": 401}],
    "refused names, and vectors that are none": [
        {"endpoint": "embeddings", "times": 1, **REFUSAL},
        {"vector": "nan", "times": 1},
    ],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_text_and_no_key_is_told(
    fault: str,
    services: Services,
    db: Mongo,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = RecipeRuns(services)
    for row in recipe_rows()[:2]:
        texts = {name: f"{CANARY} {row[name]}" for name in FIELDS}
        services.source.post("edit", seq=row["RCP_SEQ"], fields=texts)
    for one in FAULTS[fault]:
        services.openai.fault(**one)
    # The driver of MongoDB writes down whole commands at DEBUG; ours and OpenAI's may be looked at closely.
    for name, level in ((None, logging.INFO), ("granary", logging.DEBUG), ("openai", logging.DEBUG)):
        caplog.set_level(level, name)
    runs.fetch(limit=2)
    runs.follow()
    told = runs.told() + caplog.text + stored_for_operators(db, connection)
    assert len(told) > 10_000 and all(CANARY in job["raw_data"]["RCP_NM"] for job in jobs_of(db))
    password = services.database_url.split(":")[2].split("@")[0]
    for secret in (CANARY, KEY, password):
        assert secret not in told
    if fault == "nothing":
        assert len(first_numbers(connection)) == 2
        assert not any(number in told for number in first_numbers(connection))


def stored_for_operators(db: Mongo, connection: psycopg.Connection) -> str:
    """What the tables for operators say, and the errors of records and batches."""
    rows = [
        connection.execute(f"SELECT string_agg(row::text, ' ') FROM {table} AS row").fetchone()  # noqa: S608
        for table in ("granary.alert", "granary.api_gate", "granary.counter", "granary.batch_reservation")
    ]
    errors = [job.get("error_message") for job in db[JOBS].find({}, {"error_message": 1})]
    return f"{rows} {errors} {list(db[BATCHES].find())}"


def first_numbers(connection: psycopg.Connection) -> list[str]:
    """How each stored vector begins."""
    rows = connection.execute("SELECT embedding::real[] FROM recipe.recipe_embedding")
    return [str(vector[0])[:8] for (vector,) in rows]
