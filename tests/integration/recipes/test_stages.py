"""The six stages as Dagster runs them: the source document's verification table, and what stages tell."""

import re
from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.recipes.job_store import JOBS
from assets.recipes.statuses import Status
from local_stack.recipe_api.recipes import recipe_rows
from resources.recipe_api import RecipeApiResource
from tests.integration.recipes.batch_runs import (
    batch_id_of,
    counter,
    created,
    jobs_of,
    ledger,
    persisted,
    states,
)
from tests.integration.recipes.job_records import Mongo, put_jobs, statuses
from tests.integration.recipes.parsed_jobs import put_parsed
from tests.integration.recipes.recipe_runs import DAY, RecipeRuns, Services
from tests.integration.resources.scripted_server import always, answer, scripted

FETCHED = 5
ALL_DONE = [FETCHED, 0, 0]


def items(metadata: dict[str, Any]) -> list[int]:
    """Done, waiting, failed."""
    return [metadata[f"items_{what}"] for what in ("done", "waiting", "failed")]


def count(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM recipe.{table}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


def finds_itself(runs: RecipeRuns) -> bool:
    (check,) = runs.run("recipes_embedded").get_asset_check_evaluations()
    assert check.check_name == "known_recipe_finds_itself"
    return bool(check.passed)


# --- the six scenarios --------------------------------------------------------------------------------------


def test_1_fetch_brings_fetched_records_and_tells_what_the_topic_told(
    dagster_runs: RecipeRuns, db: Mongo
) -> None:
    result = dagster_runs.run("recipes_fetch", {"recipe_jobs": {"limit": FETCHED}}, only=["recipe_jobs"])
    told = dagster_runs.metadata(result, "recipe_jobs")
    assert states(db) == {"fetched": FETCHED} and {job["run_id"] for job in jobs_of(db)} == {DAY}
    assert (told["runId"], told["fetchedCount"]) == (DAY, FETCHED)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*\+00:00", told["triggeredAt"])
    assert items(told) == ALL_DONE
    assert dagster_runs.tick() == [("recipes_parse_submit", DAY)]


def test_2_parse_submit_follows_and_records_the_batch_that_each_recipe_is_in(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    told = dagster_runs.metadata(dagster_runs.fetch(), "recipe_parse_batches")
    assert states(db) == {"parse_submitted": FETCHED}
    assert batch_id_of(jobs_of(db)) == set(created(services.openai))
    assert all(job["parse_submitted_at"] for job in jobs_of(db))
    assert items(told) == ALL_DONE


def test_3_to_5_what_was_read_is_kept_stored_and_sent_to_be_embedded(
    dagster_runs: RecipeRuns, db: Mongo, services: Services, connection: psycopg.Connection
) -> None:
    dagster_runs.fetch()
    services.openai.post("batches/advance")
    result = dagster_runs.run("recipes_parsed")

    told = dagster_runs.metadata(result, "recipe_parse_results")
    assert items(told) == ALL_DONE and told["pass_good"] == FETCHED and told["pass_input_tokens"] > 0
    titles = {row["RCP_NM"] for row in recipe_rows()[:FETCHED]}
    assert {job["retrieved_data"]["title"] for job in jobs_of(db)} == titles

    told = dagster_runs.metadata(result, "recipes")
    assert items(told) == ALL_DONE and told["stopped_by"] == "nothing"
    assert count(connection, "recipe") == told["recipes"] == told["pass_stored"] == FETCHED
    matched = sum(amount for name, amount in told.items() if name.startswith("matched_"))
    assert count(connection, "recipe_ingredient") == matched > FETCHED

    told = dagster_runs.metadata(result, "recipe_embedding_batches")
    assert items(told) == ALL_DONE and states(db) == {"embed_submitted": FETCHED}
    assert batch_id_of(jobs_of(db), "embed_batch_id") == {created(services.openai)[-1]}
    for stage in ("parse_retrieved", "persisted", "embed_submitted"):
        assert all(job[f"{stage}_at"] for job in jobs_of(db))


def test_6_embed_retrieve_stores_vectors_by_which_a_recipe_finds_itself(
    dagster_runs: RecipeRuns, db: Mongo, services: Services, connection: psycopg.Connection
) -> None:
    assert dagster_runs.fetch().success
    assert dagster_runs.follow() == [("recipes_parsed", True), ("recipes_embedded", True)]
    assert states(db) == {"embed_retrieved": FETCHED}
    assert count(connection, "recipe_embedding") == FETCHED
    assert len(created(services.openai)) == 2
    assert finds_itself(dagster_runs) is True

    connection.execute("UPDATE recipe.recipe_embedding SET embedding_model = 'another'")
    assert finds_itself(dagster_runs) is False


# --- what runs do with nothing, with little, and again ------------------------------------------------------


def test_with_nothing_to_claim_every_stage_succeeds_and_asks_nothing(
    dagster_runs: RecipeRuns, services: Services
) -> None:
    for job in ("recipes_parse_submit", "recipes_parsed", "recipes_embedded"):
        result = dagster_runs.run(job)
        assert result.success
        for event in result.get_asset_materialization_events():
            told = event.materialization.metadata
            assert items({name: entry.value for name, entry in told.items()}) == [0, 0, 0]
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
    assert services.openai.get("ledger")["entries"] == []


def test_a_stage_takes_only_the_named_records(
    dagster_runs: RecipeRuns, db: Mongo, connection: psycopg.Connection
) -> None:
    put_jobs(db, ["new", "other new"], Status.FETCHED, run_id=DAY)
    for job_id in ("read", "other read"):
        put_parsed(db, job_id, "두부", run_id=DAY)
    stored, other = persisted(db, connection, "두부찜", "무조림")
    db[JOBS].update_many({}, {"$set": {"run_id": DAY}})
    named = {"recipes": "read", "recipe_embedding_batches": stored}
    assert dagster_runs.run(
        "recipes_parsed", {asset: {"job_ids": [job_id]} for asset, job_id in named.items()}
    ).success
    assert dagster_runs.run("recipes_parse_submit", {"recipe_parse_batches": {"job_ids": ["new"]}}).success
    assert statuses(db) == {
        "new": "parse_submitted",
        "other new": "fetched",
        "read": "persisted",
        "other read": "parse_retrieved",
        stored: "embed_submitted",
        other: "persisted",
    }


def test_by_force_every_known_recipe_starts_anew(dagster_runs: RecipeRuns, db: Mongo) -> None:
    known = {"limit": FETCHED, "sweep": True}
    dagster_runs.run("recipes_fetch", {"recipe_jobs": {"limit": FETCHED}}, only=["recipe_jobs"])
    db[JOBS].update_many({}, {"$set": {"status": Status.PERSISTED.value}})
    dagster_runs.run("recipes_fetch", {"recipe_jobs": known}, only=["recipe_jobs"])
    assert states(db) == {"persisted": FETCHED, "fetched": FETCHED}
    result = dagster_runs.run(
        "recipes_fetch", {"recipe_jobs": {**known, "force": True}}, only=["recipe_jobs"]
    )
    assert dagster_runs.metadata(result, "recipe_jobs")["fetchedCount"] == 3 * FETCHED
    assert states(db) == {"fetched": 3 * FETCHED}


# --- failures, and metrics ----------------------------------------------------------------------------------


def test_a_refused_key_fails_at_once_and_names_its_setting(services: Services, db: Mongo) -> None:
    wrong = RecipeApiResource(base_url=services.source.url, api_key="a-canary-of-a-key")
    runs = RecipeRuns(services, recipe_api=wrong)
    result = runs.fetch()
    assert not result.success
    kinds = [event.event_type for event in result.all_events]
    assert kinds.count(dg.DagsterEventType.STEP_FAILURE) == 1
    assert dg.DagsterEventType.STEP_UP_FOR_RETRY not in kinds
    assert "set RECIPE_API_KEY to a key" in runs.told() and "a-canary-of-a-key" not in runs.told()
    assert db[JOBS].count_documents({}) == 0 and services.openai.get("ledger")["entries"] == []


@pytest.mark.parametrize(("status", "code"), [(429, "insufficient_quota"), (500, None)])
def test_names_that_cannot_be_embedded_leave_their_recipes_waiting_and_fail_no_step(
    status: int, code: str | None, dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    put_parsed(db, "read", "두부", run_id=DAY)
    services.openai.fault(endpoint="embeddings", status=status, code=code)
    result = dagster_runs.run("recipes_parsed")
    assert result.success and states(db) == {"parse_retrieved": 1}
    told = dagster_runs.metadata(result, "recipes")
    assert told["stopped_by"] == ("QUOTA" if code else "server_error")
    assert items(told) == [0, 1, 0]
    assert len(ledger(services.openai, "embeddings")) == 1
    # Behind a shut gate nothing is asked; what may pass is tried again.
    assert dagster_runs.run("recipes_parsed").success
    assert len(ledger(services.openai, "embeddings")) == (1 if code else 2)


def test_a_name_that_the_api_cannot_embed_keeps_no_recipe_back(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    put_parsed(db, "read", "두부", run_id=DAY)
    services.openai.fault(endpoint="embeddings", status=400, code="invalid_value")
    assert dagster_runs.run("recipes_parsed", only=["recipes"]).success
    assert states(db) == {"persisted": 1}


def test_every_stage_counts_and_pushes_its_metrics_under_their_names(
    services: Services, connection: psycopg.Connection
) -> None:
    services.openai.fault(content="not_json", times=1)
    with scripted(always(answer(200))) as gateway:
        runs = RecipeRuns(services, pushgateway_url=gateway.url)
        assert runs.fetch().success
        assert all(succeeded for _, succeeded in runs.follow())
        requests = list(gateway.requests)
    pushed: dict[str, dict[str, float]] = {}  # the last of each group stands, as in the gateway
    for head, _, body in (request.partition("\r\n\r\n") for request in requests):
        (stage,) = re.findall(r"^POST /metrics/job/recipe_ingestion/stage/(\S+) ", head)
        lines = [line.rpartition(" ") for line in body.split("\n") if line and not line.startswith("#")]
        pushed[stage] = {name: float(value) for name, _, value in lines}

    total, latency = "recipe_ingestion_stage_total", "recipe_ingestion_stage_latency_ms"
    for stage, outcomes in {
        "fetch": {"success": FETCHED},
        "parse-submit": {"success": FETCHED + 1},
        "parse-retrieve": {"success": FETCHED, "failed": 1},
        "persist": {"success": FETCHED},
        "embed-submit": {"success": FETCHED},
        "embed-retrieve": {"success": FETCHED},
    }.items():
        of_stage = pushed.pop(stage)
        for outcome, amount in outcomes.items():
            assert of_stage.pop(f'{total}{{outcome="{outcome}",stage="{stage}"}}') == amount
            assert counter(connection, total, stage=stage, outcome=outcome) == amount
        assert of_stage.pop(f'{latency}_count{{stage="{stage}"}}') > 0
        assert of_stage.pop(f'{latency}_sum{{stage="{stage}"}}') > 0
        own = {
            "persist": {
                "recipe_ingestion_parse_confidence_total": "level",
                "recipe_ingestion_ingredient_match_total": "match_method",
            },
            "parse-retrieve": {"recipe_ingestion_llm_tokens_total": "token_type"},
        }.get(stage, {})
        assert {re.sub(r'="\w+"', "", name) for name in of_stage} == {
            f"{name}{{{label}}}" for name, label in own.items()
        }
        if stage == "parse-retrieve":
            name = "recipe_ingestion_llm_tokens_total"
            used = {kind: of_stage[f'{name}{{token_type="{kind}"}}'] for kind in ("input", "output", "total")}
            assert used["total"] == used["input"] + used["output"] > 0
    assert pushed == {}
