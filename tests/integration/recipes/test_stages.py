"""The six stages as Dagster runs them: the source document's verification table, and what stages tell."""

import re
from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.recipes.job_store import JOBS
from local_stack.recipe_api.recipes import recipe_rows
from resources.recipe_api import RecipeApiResource
from tests.integration.recipes.batch_runs import batch_id_of, counter, created, jobs_of, ledger, states
from tests.integration.recipes.job_records import Mongo
from tests.integration.recipes.recipe_runs import DAY, RecipeRuns, Services
from tests.integration.resources.scripted_server import always, answer, scripted

FETCHED = 5
STAGES = {
    "recipe_jobs": "recipes_fetch",
    "recipe_parse_batches": "recipes_fetch",
    "recipe_parse_results": "recipes_parsed",
    "recipes": "recipes_parsed",
    "recipe_embedding_batches": "recipes_parsed",
    "recipe_embeddings": "recipes_embedded",
}


def run_up_to(runs: RecipeRuns, last: str) -> dict[str, Any]:
    """Runs the stages one by one, every batch ended in between; the last one's metadata."""
    for asset, job in STAGES.items():
        runs.services.openai.post("batches/advance")
        config = {"recipe_jobs": {"limit": FETCHED}} if asset == "recipe_jobs" else {}
        result = runs.run(job, config, only=[asset])
        assert result.success
        if asset == last:
            return runs.metadata(result, asset)
    raise AssertionError(last)


def items(metadata: dict[str, Any]) -> list[int]:
    """Done, waiting, failed."""
    return [metadata[f"items_{what}"] for what in ("done", "waiting", "failed")]


def count(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM recipe.{table}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


# --- the six scenarios --------------------------------------------------------------------------------------


def test_fetch_brings_fetched_records_and_tells_what_the_topic_told(
    dagster_runs: RecipeRuns, db: Mongo
) -> None:
    told = run_up_to(dagster_runs, "recipe_jobs")
    assert states(db) == {"fetched": FETCHED}
    assert {job["run_id"] for job in jobs_of(db)} == {DAY}
    assert (told["runId"], told["fetchedCount"]) == (DAY, FETCHED)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*\+00:00", told["triggeredAt"])
    assert items(told) == [FETCHED, 0, 0]
    assert dagster_runs.tick() == [("recipes_parse_submit", DAY)]


def test_parse_submit_records_the_batch_that_each_recipe_is_in(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    told = run_up_to(dagster_runs, "recipe_parse_batches")
    assert states(db) == {"parse_submitted": FETCHED}
    assert batch_id_of(jobs_of(db)) == set(created(services.openai))
    assert all(job["parse_submitted_at"] for job in jobs_of(db))
    assert items(told) == [FETCHED, 0, 0]


def test_parse_retrieve_keeps_what_was_read_and_the_next_stage_follows(
    dagster_runs: RecipeRuns, db: Mongo
) -> None:
    told = run_up_to(dagster_runs, "recipe_parse_results")
    assert states(db) == {"parse_retrieved": FETCHED}
    titles = {row["RCP_NM"] for row in recipe_rows()[:FETCHED]}
    assert {job["retrieved_data"]["title"] for job in jobs_of(db)} == titles
    assert items(told) == [FETCHED, 0, 0] and told["pass_input_tokens"] > 0
    assert dagster_runs.tick() == [("recipes_parsed", DAY)]


def test_persist_stores_the_recipes_and_the_next_stage_follows(
    dagster_runs: RecipeRuns, db: Mongo, connection: psycopg.Connection
) -> None:
    told = run_up_to(dagster_runs, "recipes")
    assert states(db) == {"persisted": FETCHED}
    assert count(connection, "recipe") == told["recipes"] == told["pass_stored"] == FETCHED
    assert count(connection, "recipe_ingredient") == sum(
        amount for name, amount in told.items() if name.startswith("matched_")
    )
    assert items(told) == [FETCHED, 0, 0] and told["stopped_by"] == "nothing"
    assert dagster_runs.tick() == [("recipes_parsed", DAY)]


def test_embed_submit_records_the_batch_that_each_recipe_is_in(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    told = run_up_to(dagster_runs, "recipe_embedding_batches")
    assert states(db) == {"embed_submitted": FETCHED}
    assert batch_id_of(jobs_of(db), "embed_batch_id") == {created(services.openai)[-1]}
    assert items(told) == [FETCHED, 0, 0]


def test_embed_retrieve_stores_vectors_by_which_a_recipe_finds_itself(
    dagster_runs: RecipeRuns, db: Mongo, connection: psycopg.Connection
) -> None:
    told = run_up_to(dagster_runs, "recipe_embeddings")
    assert states(db) == {"embed_retrieved": FETCHED}
    assert count(connection, "recipe_embedding") == FETCHED
    assert items(told) == [FETCHED, 0, 0]
    assert dagster_runs.tick() == "0 batches are open and none is over; nothing waits"
    assert finds_itself(dagster_runs) is True

    connection.execute("UPDATE recipe.recipe_embedding SET embedding_model = 'another'")
    assert finds_itself(dagster_runs) is False


def finds_itself(runs: RecipeRuns) -> bool:
    (check,) = runs.run("recipes_embedded").get_asset_check_evaluations()
    assert check.check_name == "known_recipe_finds_itself"
    return bool(check.passed)


# --- what runs do with nothing, with little, and again ------------------------------------------------------


def test_with_nothing_to_claim_every_stage_succeeds_and_asks_nothing(
    dagster_runs: RecipeRuns, services: Services
) -> None:
    for asset, job in list(STAGES.items())[1:]:
        result = dagster_runs.run(job, only=[asset])
        assert result.success
        assert items(dagster_runs.metadata(result, asset)) == [0, 0, 0]
    assert services.openai.get("ledger")["entries"] == []
    assert all(check.passed for check in result.get_asset_check_evaluations())


def test_the_jobs_run_by_the_sensor_bring_everything_to_its_end(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    assert dagster_runs.fetch().success
    assert dagster_runs.follow() == [("recipes_parsed", True), ("recipes_embedded", True)]
    assert states(db) == {"embed_retrieved": FETCHED}
    assert len(created(services.openai)) == 2


def test_a_stage_takes_only_the_named_records(dagster_runs: RecipeRuns, db: Mongo) -> None:
    run_up_to(dagster_runs, "recipe_jobs")
    ids = [job["_id"] for job in jobs_of(db)]
    for asset, job, (first, *others) in (
        ("recipe_parse_batches", "recipes_fetch", ("parse_submitted", "fetched")),
        ("recipes", "recipes_parsed", ("persisted", "parse_retrieved")),
        ("recipe_embedding_batches", "recipes_parsed", ("embed_submitted", "persisted")),
    ):
        assert dagster_runs.run(job, {asset: {"job_ids": ids[:1]}}, only=[asset]).success
        assert [one["status"] for one in jobs_of(db)] == [first, *others * (FETCHED - 1)]
        # The others come after it, so that the next stage has some of each again.
        assert dagster_runs.run(job, only=[asset]).success
        dagster_runs.services.openai.post("batches/advance")
        assert dagster_runs.run("recipes_parsed", only=["recipe_parse_results"]).success


def test_by_force_every_known_recipe_starts_anew(dagster_runs: RecipeRuns, db: Mongo) -> None:
    run_up_to(dagster_runs, "recipe_parse_results")
    assert dagster_runs.run("recipes_fetch", {"recipe_jobs": {"sweep": True}}, only=["recipe_jobs"]).success
    assert states(db)["parse_retrieved"] == FETCHED
    config = {"recipe_jobs": {"sweep": True, "force": True}}
    result = dagster_runs.run("recipes_fetch", config, only=["recipe_jobs"])
    assert dagster_runs.metadata(result, "recipe_jobs")["fetchedCount"] == len(recipe_rows())
    assert states(db) == {"fetched": len(recipe_rows())}


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
    run_up_to(dagster_runs, "recipe_parse_results")
    services.openai.fault(endpoint="embeddings", status=status, code=code)
    result = dagster_runs.run("recipes_parsed")
    assert result.success
    told = dagster_runs.metadata(result, "recipes")
    assert told["stopped_by"] == ("QUOTA" if code else "server_error")
    assert items(told) == [0, FETCHED, 0] and states(db) == {"parse_retrieved": FETCHED}
    asked = len(ledger(services.openai, "embeddings"))
    # Behind a shut gate nothing is asked; what may pass is tried again.
    assert dagster_runs.run("recipes_parsed").success
    assert len(ledger(services.openai, "embeddings")) - asked == (0 if code else 1)


def test_a_name_that_the_api_cannot_embed_keeps_no_recipe_back(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    run_up_to(dagster_runs, "recipe_parse_results")
    services.openai.fault(endpoint="embeddings", status=400, code="invalid_value")
    assert dagster_runs.run("recipes_parsed", only=["recipes"]).success
    assert states(db) == {"persisted": FETCHED}


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
