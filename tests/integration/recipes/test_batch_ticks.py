"""Ticks of the sensor over real databases and the stand-in: what they see, ask, free and leave alone."""

from datetime import timedelta

import dagster as dg
import psycopg
import pytest

from assets.recipes import batch_submission
from assets.recipes.batch_store import BATCHES
from assets.recipes.models import IntentState
from assets.recipes.rules import RecipeRules
from assets.recipes.statuses import Status
from resources import gate, mongo
from resources.errors import ServiceNotConfigured, ServiceUnavailable
from resources.mongo import MongoResource
from sensors import recipes
from sensors.recipes import lock_of_day
from tests.integration.recipes.batch_runs import CHAT_MODEL, created, ledger, states
from tests.integration.recipes.job_records import Mongo, put_jobs
from tests.integration.recipes.recipe_runs import DAY, QUIET, RecipeRuns, Services
from tests.integration.resources.scripted_server import unused_address

NOTHING = "0 batches are open and none is over; nothing waits"
SUBMIT, PARSED, EMBEDDED = "recipes_parse_submit", "recipes_parsed", "recipes_embedded"


def due_probes(connection: psycopg.Connection) -> None:
    """Every shut gate may be probed now."""
    connection.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")


def shut_gates(connection: psycopg.Connection) -> dict[str, str]:
    """The reasons by model."""
    return dict(connection.execute("SELECT model, reason FROM granary.api_gate"))


def alarms(connection: psycopg.Connection) -> list[str]:
    """What stands."""
    rows = connection.execute("SELECT cause FROM granary.alert WHERE cleared_at IS NULL")
    return [cause for (cause,) in rows]


def test_an_idle_tick_asks_the_api_nothing(dagster_runs: RecipeRuns, services: Services) -> None:
    assert dagster_runs.tick() == NOTHING
    assert services.openai.get("ledger")["entries"] == []


def test_a_tick_looks_at_all_open_batches_with_one_list_call(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    for day in ("2026-11-25", "2026-11-26", DAY):
        put_jobs(db, [f"job of {day}"], Status.FETCHED, run_id=day)
        assert dagster_runs.run(SUBMIT, day=day).success
    _, second, _ = created(services.openai)
    assert dagster_runs.tick() == "3 batches are open and none is over; nothing waits"
    services.openai.post("batches/advance", id=second)
    assert dagster_runs.tick() == [(PARSED, "2026-11-26")]
    services.openai.post("batches/advance")
    assert dagster_runs.tick() == [(PARSED, day) for day in ("2026-11-25", "2026-11-26", DAY)]
    assert len(ledger(services.openai, "batches/list")) == 3
    assert ledger(services.openai, "batches/get") == []


def test_a_batch_that_the_api_does_not_know_is_over(dagster_runs: RecipeRuns, db: Mongo) -> None:
    assert dagster_runs.fetch().success
    db[BATCHES].update_one({}, {"$set": {"batch_id": "batch_of_nobody"}})
    assert dagster_runs.tick() == [(PARSED, DAY)]


def test_a_day_with_a_live_run_is_left_to_it(dagster_runs: RecipeRuns, db: Mongo) -> None:
    put_jobs(db, ["job"], Status.FETCHED, run_id=DAY)
    dagster_runs.instance.create_run_for_job(
        dagster_runs.defs.resolve_job_def("recipes_fetch"),
        run_config=QUIET,
        status=dg.DagsterRunStatus.STARTED,
        tags={"lock": lock_of_day(DAY)},
    )
    assert str(dagster_runs.tick()).startswith("what is over or waits has a live run")


@pytest.mark.parametrize("breaks", ["the API", "our own code"])
def test_a_day_whose_run_could_not_go_on_rests_a_while(
    breaks: str,
    dagster_runs: RecipeRuns,
    db: Mongo,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_jobs(db, ["job"], Status.FETCHED, run_id=DAY)
    if breaks == "the API":
        services.openai.fault(endpoint="files/upload", status=500)
    else:
        monkeypatch.setattr(batch_submission, "waits_for", lambda *_: 1 / 0)
    tags = {"lock": lock_of_day(DAY)}
    assert dagster_runs.run(SUBMIT, tags=tags).success is (breaks == "the API")
    monkeypatch.undo()
    assert str(dagster_runs.tick()).startswith("what is over or waits has a live run, rests,")
    monkeypatch.setattr(recipes, "REST", timedelta(0))
    assert dagster_runs.tick() == [(SUBMIT, DAY)]


def test_a_batch_that_a_run_is_taking_in_is_not_over_for_another(
    dagster_runs: RecipeRuns, db: Mongo, services: Services, connection: psycopg.Connection
) -> None:
    assert dagster_runs.fetch().success
    services.openai.post("batches/advance")
    (now,) = connection.execute("SELECT granary.now()").fetchone() or (None,)
    db[BATCHES].update_one({}, {"$set": {"claimed_by": "dead:0", "claimed_at": now}})
    assert dagster_runs.tick() == "1 batches are open and none is over; nothing waits"


# --- dead runs ----------------------------------------------------------------------------------------------


def test_an_intent_of_a_dead_run_starts_a_run_that_finds_its_batch(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    services.openai.fault(endpoint="batches/create", drop="after", times=1)
    assert dagster_runs.fetch().success
    assert states(db) == {"parse_submitting": 5}
    assert dagster_runs.tick() == NOTHING  # its lease has not run out
    db[BATCHES].update_one({}, {"$unset": {"claimed_by": "", "claimed_at": ""}})
    assert dagster_runs.follow() == [(SUBMIT, True), (PARSED, True), (EMBEDDED, True)]
    assert states(db) == {"embed_retrieved": 5} and len(created(services.openai)) == 2


@pytest.mark.parametrize(
    ("left", "job"),
    [
        (Status.PARSE_SUBMITTING, SUBMIT),
        (Status.PERSISTING, PARSED),
        (Status.EMBED_SUBMITTING, PARSED),
    ],
)
def test_what_a_dead_run_held_too_long_starts_the_run_that_goes_on(
    left: Status, job: str, dagster_runs: RecipeRuns, db: Mongo
) -> None:
    put_jobs(db, ["job"], left, run_id=DAY)  # held since a noon long ago
    assert dagster_runs.tick() == [(job, DAY)]


def test_jobs_that_a_dead_run_left_behind_an_abandoned_intent_are_sent(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    services.openai.fault(endpoint="batches/create", drop="before", times=1)
    assert dagster_runs.fetch().success
    gone = {"state": IntentState.ABANDONED.value, "error": "no batch was created", "died": True}
    db[BATCHES].update_one({}, {"$set": gone})
    assert dagster_runs.tick() == [(SUBMIT, DAY)]
    assert states(db) == {"fetched": 5}


# --- the gate, the queue and the cap ------------------------------------------------------------------------


def test_the_gate_of_one_model_does_not_keep_the_other_back(
    dagster_runs: RecipeRuns, db: Mongo, connection: psycopg.Connection
) -> None:
    put_jobs(db, ["new"], Status.FETCHED, run_id=DAY)
    put_jobs(db, ["stored"], Status.PERSISTED, run_id="2026-11-26")
    key = dagster_runs.resources["embed_batches"].gate_key
    gate.shut(connection, key, "QUOTA", "no money", 30)
    assert dagster_runs.tick() == [(SUBMIT, DAY)]
    due_probes(connection)
    assert dagster_runs.tick() == [(PARSED, "2026-11-26"), (SUBMIT, DAY)]


def test_a_list_that_cannot_be_read_is_not_taken_for_an_empty_one(
    dagster_runs: RecipeRuns, db: Mongo, services: Services
) -> None:
    assert dagster_runs.fetch().success
    put_jobs(db, ["waits"], Status.FETCHED, run_id=DAY)
    services.openai.fault(endpoint="batches/list", status=500)
    said = (
        "what is over or waits has a live run, rests, or must wait; embed: server_error; parse: server_error"
    )
    assert dagster_runs.tick() == said
    services.openai.clear_faults()
    assert dagster_runs.tick() == [(SUBMIT, DAY)]


def test_a_refused_key_shuts_the_gate_and_a_tick_after_its_change_opens_it(
    services: Services, db: Mongo, connection: psycopg.Connection
) -> None:
    runs = RecipeRuns(services)
    assert runs.fetch().success
    services.openai.post("batches/advance")
    services.openai.fault(endpoint="batches/list", status=401, code="invalid_api_key")
    assert "parse: AUTH" in str(runs.tick())
    assert shut_gates(connection) == {CHAT_MODEL: "AUTH"} and alarms(connection) == [f"gate:{CHAT_MODEL}"]
    asked = len(ledger(services.openai, "batches/list"))
    assert "parse: AUTH" in str(runs.tick()) and len(ledger(services.openai, "batches/list")) == asked

    services.openai.clear_faults()
    due_probes(connection)
    assert runs.tick() == [(PARSED, DAY)]
    assert shut_gates(connection) == {} and alarms(connection) == []


def test_no_run_starts_for_what_has_no_room_in_the_queue_until_a_batch_ends(
    services: Services, db: Mongo
) -> None:
    runs = RecipeRuns(services, recipe_rules=RecipeRules(max_enqueued_tokens=1))
    assert runs.fetch(limit=2).success
    assert states(db) == {"parse_submitted": 1, "fetched": 1}  # one goes alone where nothing is open
    assert runs.tick() == (
        "what is over or waits has a live run, rests, or must wait; parse: MAX_ENQUEUED_TOKENS"
    )
    assert len(ledger(services.openai, "batches/create")) == 1
    assert all(succeeded for _, succeeded in runs.follow())
    assert states(db) == {"embed_retrieved": 2}


def test_a_spent_cap_is_told_once_and_starts_no_more_runs(
    services: Services, db: Mongo, connection: psycopg.Connection
) -> None:
    runs = RecipeRuns(services, recipe_rules=RecipeRules(daily_spending_cap_usd="0.000001"))
    put_jobs(db, ["job"], Status.FETCHED, run_id=DAY)
    assert runs.tick() == [(SUBMIT, DAY)]  # whoever finds the cap spent says so
    assert runs.run(SUBMIT).success
    assert alarms(connection) == [f"gate:{CHAT_MODEL}"] and states(db) == {"fetched": 1}
    assert "parse: BUDGET" in str(runs.tick())
    assert ledger(services.openai, "files/upload") == []


# --- MongoDB that is not there ------------------------------------------------------------------------------


def test_without_an_address_of_mongodb_the_tick_fails_and_names_the_setting(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    with pytest.raises(ServiceNotConfigured, match="MONGODB_URI is not set"):
        RecipeRuns(services, mongo=MongoResource()).tick()


def test_where_mongodb_is_away_the_tick_fails_and_the_next_goes_on(
    services: Services, db: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo, "SELECTION_SECONDS", 1)
    away = MongoResource(uri=f"mongodb://{unused_address()}/")
    with pytest.raises(ServiceUnavailable, match="MongoDB at MONGODB_URI does not answer"):
        RecipeRuns(services, mongo=away).tick()
    put_jobs(db, ["job"], Status.FETCHED, run_id=DAY)
    assert RecipeRuns(services).tick() == [(SUBMIT, DAY)]
