"""Jobs are sent as batches: each once, within the limits, and given back where nothing can be sent."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import ROUND_UP, Decimal
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_queue_store, batch_store, batch_submission, recipe_store
from assets.recipes.batch_kinds import PARSE
from assets.recipes.job_store import JOBS
from assets.recipes.models import BatchKind
from assets.recipes.rules import RecipeRules
from resources import gate
from resources.model_table import model_named
from resources.spending import KEPT_TO
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    CHAT_MODEL,
    EMBEDDING_MODEL,
    Runs,
    batch_id_of,
    created,
    fetched,
    files,
    intents,
    jobs_of,
    ledger,
    money,
    persisted,
    stage_total,
    states,
    uploaded,
)
from tests.integration.recipes.job_records import DAY, Mongo
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


def reasons(connection: psycopg.Connection) -> list[str]:
    return [one for (one,) in connection.execute("SELECT reason FROM granary.api_gate")]


def test_every_fetched_job_is_a_line_of_one_batch(db: Mongo, runs: Runs, api: StandIn) -> None:
    ids = fetched(db, 5)
    sent = runs.submit()
    assert (sent.batches, sent.lines, sent.reason) == (1, 5, None)
    (batch_id,) = created(api)
    assert states(db) == {"parse_submitted": 5} and batch_id_of(jobs_of(db)) == {batch_id}
    (content,) = uploaded(api.url)
    lines = [json.loads(line) for line in content.split(b"\n") if line]
    assert [line["custom_id"] for line in lines] == ids
    assert {line["body"]["model"] for line in lines} == {CHAT_MODEL}
    (intent,) = intents(db)
    assert (intent["state"], intent["batch_id"], intent["job_ids"]) == ("submitted", batch_id, ids)
    assert intent["lines_sha256"] == hashlib.sha256(content).hexdigest()
    assert (intent["line_count"], intent["byte_count"]) == (5, len(content))
    assert files(api.url) == [f"granary-{intent['_id']}.jsonl"]
    assert stage_total(runs.connection, "parse-submit", "success") == 5


def test_what_a_batch_may_cost_at_most_is_reserved(db: Mongo, runs: Runs) -> None:
    fetched(db, 3)
    runs.submit()
    (intent,) = intents(db)
    model = model_named(CHAT_MODEL, {}).in_batch()
    assert money(runs.connection) == {
        "reserved": model.most_it_can_cost_usd(intent["byte_count"], 3 * 8_192).quantize(KEPT_TO, ROUND_UP),
        "spent": 0,
    }


def test_nothing_to_send_is_no_error_and_asks_nothing(db: Mongo, runs: Runs, api: StandIn) -> None:
    sent = runs.submit()
    assert (sent.batches, sent.reason) == (0, None)
    assert api.get("ledger")["entries"] == [] and intents(db) == []


def test_a_second_run_sends_nothing_again(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    runs.submit()
    assert runs.submit(run="run-2:0").batches == 0
    assert len(created(api)) == 1


def test_only_the_named_jobs_are_sent(db: Mongo, runs: Runs) -> None:
    ids = fetched(db, 4)
    sent = runs.submit(limits={"job_ids": ids[1:3]})
    assert sent.lines == 2 and states(db) == {"fetched": 2, "parse_submitted": 2}


def test_a_job_without_a_row_counts_a_retry_and_the_others_are_sent(db: Mongo, runs: Runs) -> None:
    ids = fetched(db, 3)
    db[JOBS].update_one({"_id": ids[1]}, {"$set": {"raw_data": {}}, "$inc": {"retry_count": 2}})
    sent = runs.submit()
    assert (sent.lines, sent.unusable, sent.given_back) == (2, 1, 0)
    assert [job["status"] for job in jobs_of(db)] == ["parse_submitted", "failed", "parse_submitted"]


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_lines": 3}, {"max_bytes": 15_000}], ids=str)
def test_files_are_cut_at_the_limits_and_no_job_is_lost_or_doubled(
    db: Mongo, runs: Runs, api: StandIn, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_submission, "CLAIM_SIZE", 4)
    ids = fetched(db, 10)
    sent = runs.submit(limits=limits)
    contents = uploaded(api.url)
    assert sent.batches == len(contents) == len(created(api)) > 2
    by_file = [[json.loads(line)["custom_id"] for line in one.split(b"\n") if line] for one in contents]
    assert [one for some in by_file for one in some] == ids
    assert all(len(some) <= limits.get("max_lines", 99) for some in by_file)
    assert all(len(one) <= limits.get("max_bytes", 10**9) for one in contents)
    for intent, some in zip(intents(db), by_file, strict=True):
        assert intent["job_ids"] == some
        assert batch_id_of([one for one in jobs_of(db) if one["_id"] in some]) == {intent["batch_id"]}
    assert states(db) == {"parse_submitted": 10}


def test_a_line_that_fits_no_file_counts_a_retry(db: Mongo, runs: Runs) -> None:
    ids = fetched(db, 2)
    db[JOBS].update_one({"_id": ids[0]}, {"$set": {"raw_data.RCP_NM": "두" * 30_000}})
    sent = runs.submit(limits={"max_bytes": 40_000})
    assert (sent.lines, sent.unusable, sent.given_back) == (1, 1, 0)
    assert [job["retry_count"] for job in jobs_of(db)] == [1, 0]


def test_the_days_cap_lets_a_part_through_and_the_rest_waits_for_its_end(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 20)
    sent = runs.submit(daily_spending_cap_usd="0.03")
    assert 3 < sent.lines < 15 and (sent.batches, sent.reason) == (1, "BUDGET")
    assert states(db) == {"parse_submitted": sent.lines, "fetched": 20 - sent.lines}
    assert money(runs.connection)["reserved"] <= Decimal("0.03")
    # The open batch will give back most of it, so that nobody's gate is shut until midnight.
    assert reasons(runs.connection) == []
    assert (runs.submit(daily_spending_cap_usd="0.03").reason, len(created(api))) == ("BUDGET", 1)
    api.post("batches/advance")
    runs.retrieve()
    assert runs.submit(daily_spending_cap_usd="0.03").lines > 0


def test_without_room_for_any_line_the_gate_is_shut_for_the_day(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    assert runs.submit(daily_spending_cap_usd="0.0001").reason == "BUDGET"
    assert reasons(runs.connection) == ["BUDGET"]
    assert states(db) == {"fetched": 3} and created(api) == files(api.url) == []
    assert runs.submit(daily_spending_cap_usd="5").reason == "BUDGET"


def test_a_spent_day_with_nothing_to_send_shuts_no_gate(runs: Runs) -> None:
    assert runs.submit(daily_spending_cap_usd="0").reason is None and reasons(runs.connection) == []


def test_the_money_of_another_pipeline_can_be_what_is_missing(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(db, 3)
    # Another run takes its place in the day's row after this one had looked.
    monkeypatch.setattr(recipe_store, "room_today", lambda *_: Decimal(5))
    sent = runs.submit(daily_spending_cap_usd="0.001")
    assert (sent.reason, sent.given_back, states(db)) == ("BUDGET", 3, {"fetched": 3})
    assert [one["state"] for one in intents(db)] == ["abandoned"] and created(api) == []
    assert money(runs.connection)["reserved"] == 0


def test_the_providers_queue_is_filled_to_its_limit_and_no_further(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 12)
    sent = runs.submit(max_enqueued_tokens=14_000)
    queued = batch_store.enqueued_tokens(db, CHAT_MODEL)
    assert 1 < sent.lines < 12 and sent.reason == "MAX_ENQUEUED_TOKENS" and queued <= 14_000
    assert runs.submit(max_enqueued_tokens=14_000).lines == 0
    assert states(db) == {"parse_submitted": sent.lines, "fetched": 12 - sent.lines}
    assert reasons(runs.connection) == []


def test_a_line_above_the_whole_queue_is_sent_alone(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    sent = runs.submit(max_enqueued_tokens=1_000)
    assert (sent.batches, sent.lines, sent.reason) == (1, 1, "MAX_ENQUEUED_TOKENS")
    assert states(db) == {"parse_submitted": 1, "fetched": 2}


# --- what the API may answer --------------------------------------------------------------------------------


def test_a_full_queue_counts_nothing_and_waits_for_a_batch_to_end(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 2)
    runs.submit(limits={"max_lines": 1}, daily_spending_cap_usd="5")
    more = fetched(db, 4)
    api.fault(endpoint="batches/create", status=429, code="token_limit_exceeded", times=1)
    sent = runs.submit()
    assert (sent.reason, sent.given_back) == ("token_limit_exceeded", 2)
    assert states(db) == {"parse_submitted": 2, "fetched": 2} and len(more) == 4
    assert {job["retry_count"] for job in jobs_of(db)} == {0}
    assert [one["state"] for one in intents(db)] == ["submitted", "submitted", "abandoned"]
    assert len(files(api.url)) == 2, "the file of the batch that never was is deleted"
    assert reasons(runs.connection) == []
    before = len(ledger(api, "files/upload"))
    assert runs.submit().reason == "token_limit_exceeded" and len(ledger(api, "files/upload")) == before
    api.post("batches/advance", id=created(api)[0])
    runs.retrieve()
    assert runs.submit().lines == 2


def test_a_queue_filled_by_others_is_asked_again_after_ten_minutes(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    fetched(db, 2)
    api.fault(endpoint="batches/create", status=429, code="token_limit_exceeded", times=1)
    runs.submit()
    assert runs.submit().reason == "token_limit_exceeded"
    assert runs.submit(connection=later(connect, 11)).lines == 2


@pytest.mark.parametrize(
    ("endpoint", "reason", "fault"),
    [
        ("files/upload", "AUTH", {"status": 401, "code": "invalid_api_key"}),
        ("batches/create", "QUOTA", {"status": 429, "code": "insufficient_quota"}),
        ("batches/create", "MODEL", {"status": 404, "code": "model_not_found"}),
    ],
)
def test_what_hits_everyone_shuts_the_gate_and_gives_the_jobs_back(
    db: Mongo, runs: Runs, api: StandIn, endpoint: str, reason: str, fault: dict[str, Any]
) -> None:
    fetched(db, 3)
    api.fault(endpoint=endpoint, times=1, **fault)
    sent = runs.submit()
    assert (sent.reason, sent.given_back, states(db)) == (reason, 3, {"fetched": 3})
    assert {job["retry_count"] for job in jobs_of(db)} == {0}
    assert reasons(runs.connection) == [reason] and money(runs.connection)["reserved"] == 0
    alerts = runs.connection.execute("SELECT cause FROM granary.alert").fetchall()
    assert alerts == [(f"gate:{CHAT_MODEL}",)]
    assert created(api) == files(api.url) == []
    calls = len(api.get("ledger")["entries"])
    assert runs.submit().reason == reason and len(api.get("ledger")["entries"]) == calls


def test_the_probe_sends_a_batch_and_opens_the_gate(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    fetched(db, 3)
    api.fault(endpoint="batches/create", times=1, status=429, code="insufficient_quota")
    runs.submit()
    assert runs.submit(connection=later(connect, 31)).lines == 3
    assert reasons(runs.connection) == []
    cleared = runs.connection.execute("SELECT cleared_at FROM granary.alert").fetchone()
    assert cleared and cleared[0] is not None


def test_a_probe_with_nothing_to_send_is_due_again(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    ids = fetched(db, 1)
    api.fault(endpoint="batches/create", times=1, status=401, code="invalid_api_key")
    runs.submit()
    db[JOBS].delete_one({"_id": ids[0]})
    then = later(connect, 31)
    assert runs.submit(connection=then).reason is None
    (shut,) = then.execute("SELECT next_probe_at <= granary.now() FROM granary.api_gate").fetchall()
    assert shut == (True,)


def test_a_missing_key_shuts_the_gate_and_claims_nothing(
    db: Mongo, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fetched(db, 1)
    assert runs.submit(api_key="").reason == "AUTH"
    assert states(db) == {"fetched": 1} and reasons(runs.connection) == ["AUTH"]


def test_a_request_that_is_refused_for_its_lines_counts_a_retry(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 2)
    api.fault(endpoint="batches/create", status=400, code="invalid_request", times=1)
    sent = runs.submit()
    assert sent.reason == "invalid_request" and states(db) == {"fetched": 2}
    assert {job["retry_count"] for job in jobs_of(db)} == {1} and files(api.url) == []


@pytest.mark.parametrize("fault", [{"status": 503}, {"drop": "after"}], ids=str)
def test_an_upload_without_an_answer_gives_the_jobs_back_and_leaves_no_file(
    db: Mongo, runs: Runs, api: StandIn, fault: dict[str, Any]
) -> None:
    fetched(db, 2)
    api.fault(endpoint="files/upload", times=1, **fault)
    sent = runs.submit()
    assert sent.reason in ("status_503", "server_error", "connection_error")
    assert states(db) == {"fetched": 2} and files(api.url) == [] and money(runs.connection)["reserved"] == 0
    assert runs.submit().lines == 2
    assert {job["retry_count"] for job in jobs_of(db)} == {0}


@pytest.mark.parametrize("fault", [{"status": 500}, {"drop": "after"}, {"hang": "after"}], ids=str)
def test_a_creation_without_an_answer_is_looked_up_before_anything_is_sent_again(
    db: Mongo,
    runs: Runs,
    api: StandIn,
    fault: dict[str, Any],
    connect: Callable[..., psycopg.Connection],
) -> None:
    fetched(db, 2)
    api.fault(endpoint="batches/create", times=1, **fault)
    assert runs.submit(timeout_ms=500).reason is not None
    assert states(db) == {"parse_submitting": 2}
    # The call may still be under way: nothing is decided before the lease is over.
    assert runs.submit(run="run-2:0").settled == 0 and states(db) == {"parse_submitting": 2}
    sent = runs.submit(run="run-3:0", connection=later(connect, 11))
    assert sent.settled == 1 and states(db) == {"parse_submitted": 2}
    (batch_id,) = created(api)
    assert batch_id_of(jobs_of(db)) == {batch_id}
    assert {(job["retry_count"], job["releases"]) for job in jobs_of(db)} == {(0, 0)}
    assert len(files(api.url)) == 1


def test_what_a_dead_run_has_created_is_found_also_while_the_gate_is_shut(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    fetched(db, 2)
    api.fault(endpoint="batches/create", times=1, drop="after")
    runs.submit()
    gate.shut(runs.connection, runs.gate_key(), "QUOTA", "", probe_minutes=30)
    sent = runs.submit(run="run-2:0", connection=later(connect, 11))
    assert (sent.reason, sent.settled, states(db)) == ("QUOTA", 1, {"parse_submitted": 2})


def test_while_the_list_cannot_be_read_nothing_is_sent(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    fetched(db, 2)
    api.fault(endpoint="batches/create", times=1, drop="after")
    runs.submit()
    fetched(db, 3)
    then = later(connect, 11)
    api.fault(endpoint="batches/list", status=500)
    assert runs.submit(run="run-2:0", connection=then).lines == 0
    assert states(db) == {"parse_submitting": 2, "fetched": 1} and len(created(api)) == 1
    api.clear_faults()
    sent = runs.submit(run="run-3:0", connection=then)
    assert (sent.settled, sent.lines, states(db)) == (1, 1, {"parse_submitted": 3})


def test_an_input_file_that_is_gone_is_sent_anew(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(db, 2)
    real = batch_store.mark_uploaded

    def without_file(*args: Any) -> bool:
        with runs.resource().open() as opened:
            opened.delete_file(args[3])
        return real(*args)

    monkeypatch.setattr(batch_store, "mark_uploaded", without_file)
    assert (runs.submit().reason, states(db)) == ("input_file_gone", {"fetched": 2})
    monkeypatch.setattr(batch_store, "mark_uploaded", real)
    assert runs.submit().lines == 2 and {job["retry_count"] for job in jobs_of(db)} == {0}


# --- races --------------------------------------------------------------------------------------------------


def test_a_run_that_was_declared_dead_before_its_creation_creates_nothing(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection], monkeypatch: Any
) -> None:
    fetched(db, 2)
    real, then = batch_store.renew, later(connect, 11)

    def taken_meanwhile(*args: Any) -> bool:
        monkeypatch.setattr(batch_store, "renew", real)
        assert runs.submit(run="run-2:0", connection=then).lines == 2
        return real(*args)

    monkeypatch.setattr(batch_store, "renew", taken_meanwhile)
    sent = runs.submit()
    assert sent.reason == "CLAIMS_LOST" and len(created(api)) == 1
    assert states(db) == {"parse_submitted": 2} and batch_id_of(jobs_of(db)) == set(created(api))
    assert len(files(api.url)) == 1


def test_a_batch_that_was_created_after_its_intent_was_given_up_is_cancelled(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection], monkeypatch: Any
) -> None:
    fetched(db, 2)
    real, then = batch_store.mark_submitted, later(connect, 11)

    def found_by_nobody(*args: Any) -> bool:
        monkeypatch.setattr(batch_store, "mark_submitted", real)
        (intent,) = batch_store.open_intents(db, DAY, BatchKind.PARSE)
        taken = batch_store.take(db, intent.id, "run-2:0", recipe_store.now(then))
        assert taken and batch_store.abandon(db, intent.id, "run-2:0", "none", recipe_store.now(then))
        return real(*args)

    monkeypatch.setattr(batch_store, "mark_submitted", found_by_nobody)
    runs.submit()
    assert states(db) == {"fetched": 2}
    (cancelled,) = ledger(api, "batches/cancel")
    assert cancelled["batch_id"] == created(api)[0] and files(api.url) == []


def test_a_job_that_another_run_has_taken_keeps_its_shard_from_being_sent(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: Any
) -> None:
    ids = fetched(db, 3)
    real = batch_store.plan

    def one_is_taken(*args: Any) -> bool:
        db[JOBS].update_one({"_id": ids[0]}, {"$set": {"claimed_by": "run-2:0"}})
        return real(*args)

    monkeypatch.setattr(batch_store, "plan", one_is_taken)
    sent = runs.submit()
    assert (sent.reason, created(api), files(api.url)) == ("CLAIMS_LOST", [], [])
    assert states(db) == {"fetched": 2, "parse_submitting": 1} and money(runs.connection)["reserved"] == 0


def test_an_interrupted_run_leaves_nothing_claimed(db: Mongo, runs: Runs, monkeypatch: Any) -> None:
    fetched(db, 3)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(batch_store, "plan", interrupted)
    monkeypatch.setattr(batch_submission, "CLAIM_SIZE", 1)
    with pytest.raises(KeyboardInterrupt):
        runs.submit(limits={"max_lines": 1})
    # The first was on its way into a plan; its lease runs out.
    assert states(db) == {"fetched": 2, "parse_submitting": 1}


# --- embedding ----------------------------------------------------------------------------------------------


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


def test_a_sensor_sees_what_a_batch_would_wait_for(db: Mongo, runs: Runs, api: StandIn) -> None:
    connection, model = runs.connection, model_named(CHAT_MODEL, {}).in_batch()

    def wait(**rules: Any) -> str | None:
        now: datetime = recipe_store.now(connection)
        return batch_submission.waits_for(db, connection, PARSE, model, RecipeRules(**rules), now)

    assert wait() is None and wait(max_enqueued_tokens=1_000) is None
    assert wait(daily_spending_cap_usd="0.001") == "BUDGET" and wait(daily_spending_cap_usd="") is None
    fetched(db, 2)
    runs.submit()
    assert wait() is None and wait(max_enqueued_tokens=8_000) == "MAX_ENQUEUED_TOKENS"
    assert not batch_queue_store.is_queue_full(db, CHAT_MODEL, recipe_store.now(connection))
