"""Jobs are sent as batches, each once, within the limits of files, money and queue."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import ROUND_UP, Decimal
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_queue_store, batch_store, batch_submission, recipe_store
from assets.recipes.batch_kinds import PARSE
from assets.recipes.job_store import JOBS
from assets.recipes.rules import RecipeRules
from resources.model_table import model_named
from resources.spending import KEPT_TO
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    CHAT_MODEL,
    Runs,
    batch_id_of,
    created,
    fetched,
    files,
    intents,
    jobs_of,
    money,
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
