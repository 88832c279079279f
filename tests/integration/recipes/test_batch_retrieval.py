"""What batches have answered becomes the jobs' results: each line once, whatever the files look like."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_retrieval
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    Runs,
    assert_settled,
    counter,
    created,
    fetched,
    files,
    intents,
    jobs_of,
    money,
    stage_total,
    states,
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


def tokens(connection: psycopg.Connection) -> dict[str, float]:
    name = "recipe_ingestion_llm_tokens_total"
    return {one: counter(connection, name, token_type=one) for one in ("input", "output", "total")}


def retries(db: Mongo) -> Counter[int]:
    return Counter(job["retry_count"] for job in jobs_of(db))


def errors(db: Mongo) -> Counter[str]:
    return Counter(job["error_message"] for job in jobs_of(db) if "error_message" in job)


def test_a_completed_batch_becomes_parsed_recipes(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 5)
    runs.submit()
    assert runs.retrieve().under_way == 1 and states(db) == {"parse_submitted": 5}
    api.post("batches/advance")
    taken = runs.retrieve()
    assert (taken.batches, taken.good, taken.failed, taken.reason) == (1, 5, 0, None)
    assert states(db) == {"parse_retrieved": 5}
    for job in jobs_of(db):
        assert job["retrieved_data"]["title"] == job["raw_data"]["RCP_NM"].strip()
        assert job["retrieved_data"]["ingredients"] and "claimed_by" not in job
        assert job["parse_retrieved_at"] is not None
    (intent,) = intents(db)
    assert (intent["state"], intent["last_status"]) == ("retrieved", "completed")
    assert intent["counts"] == {"good": 5, "bad": 0, "unknown": 0, "doubled": 0, "unreadable": 0}
    assert intent["usage"]["input"] == tokens(runs.connection)["input"] == taken.input_tokens > 0
    assert_settled(runs.connection, api)
    assert files(api.url) == [] and stage_total(runs.connection, "parse-retrieve", "success") == 5
    calls = len(api.get("ledger")["entries"])
    again = runs.retrieve(run="run-2:0")
    assert (again.batches, again.good) == (0, 0) and len(api.get("ledger")["entries"]) == calls


def test_both_files_are_read_and_bad_lines_go_back_with_a_reason(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_retrieval, "CHUNK", 3)
    fetched(db, 20)
    api.fault(
        error_share=0.25,
        missing_share=0.2,
        duplicate_lines=3,
        unknown_lines=2,
        shuffle=True,
        u2028=True,
        times=1,
    )
    runs.submit()
    api.post("batches/advance")
    taken = runs.retrieve()
    assert 5 < taken.good < 18 and taken.good + taken.failed == 20
    assert (taken.unknown, taken.doubled, taken.unreadable) == (2, 3, 0)
    assert states(db) == {"parse_retrieved": taken.good, "fetched": taken.failed}
    assert retries(db) == {0: taken.good, 1: taken.failed}
    assert set(errors(db)) == {"status:500", "missing"}
    assert not any("parse_batch_id" in job for job in jobs_of(db) if job["status"] == "fetched")
    assert stage_total(runs.connection, "parse-retrieve", "failed") == taken.failed
    assert_settled(runs.connection, api)
    api.clear_faults()
    assert runs.submit().lines == taken.failed, "only what is unfinished is sent again"
    api.post("batches/advance")
    runs.retrieve()
    assert states(db) == {"parse_retrieved": 20}
    assert_settled(runs.connection, api)


@pytest.mark.parametrize("empty_file_ids", [False, True])
def test_a_completed_batch_may_hold_only_failed_lines(
    db: Mongo, runs: Runs, api: StandIn, empty_file_ids: bool
) -> None:
    fetched(db, 3)
    api.fault(error_share=1.0, empty_file_ids=empty_file_ids, times=1)
    runs.submit()
    api.post("batches/advance")
    assert runs.retrieve().failed == 3
    assert states(db) == {"fetched": 3} and errors(db) == {"status:500": 3}
    assert_settled(runs.connection, api)


@pytest.mark.parametrize(
    ("status", "reasons"), [("expired", {"error:batch_expired"}), ("cancelled", {"cancelled"})]
)
def test_a_batch_that_did_not_finish_delivers_what_it_has(
    db: Mongo, runs: Runs, api: StandIn, status: str, reasons: set[str]
) -> None:
    fetched(db, 12)
    api.fault(batch_status=status, times=1)
    runs.submit()
    api.post("batches/advance")
    taken = runs.retrieve()
    assert 1 < taken.good < 11
    assert states(db) == {"parse_retrieved": taken.good, "fetched": 12 - taken.good}
    assert set(errors(db)) == reasons
    assert intents(db)[0]["last_status"] == status
    assert_settled(runs.connection, api)


def test_a_failed_batch_counts_a_retry_for_all_and_costs_nothing(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    for attempt in (1, 2, 3):
        api.fault(batch_status="failed", times=1)
        assert runs.submit().lines == 3
        api.post("batches/advance")
        assert runs.retrieve().failed == 3 and retries(db) == {attempt: 3}
    assert states(db) == {"failed": 3} and errors(db) == {"batch:server_error": 3}
    assert [(one["state"], one["error"]) for one in intents(db)] == [("failed", "server_error")] * 3
    assert money(runs.connection) == {"reserved": 0, "spent": 0} and files(api.url) == []
    assert runs.submit().lines == 0


def test_a_batch_that_failed_for_a_full_queue_counts_nothing(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    api.fault(token_limit_exceeded=True, times=1)
    runs.submit()
    api.post("batches/advance")
    taken = runs.retrieve()
    assert (taken.failed, taken.sent_again) == (0, 3)
    assert states(db) == {"fetched": 3} and retries(db) == {0: 3}
    assert not any("parse_batch_id" in job or "parse_submitted_at" in job for job in jobs_of(db))
    assert money(runs.connection)["reserved"] == 0 and files(api.url) == []
    assert runs.submit().reason == "token_limit_exceeded", "a queue that is full is not asked at once again"


def test_a_batch_that_failed_for_everyone_shuts_the_gate_and_counts_nothing(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(db, 3)
    api.fault(batch_status="failed", times=1)
    runs.submit()
    api.post("batches/advance")
    monkeypatch.setattr("resources.batch_state.safe_code", lambda code: code.replace("server_error", QUOTA))
    assert runs.retrieve().sent_again == 3
    assert states(db) == {"fetched": 3} and retries(db) == {0: 3}
    assert runs.connection.execute("SELECT reason FROM granary.api_gate").fetchall() == [("QUOTA",)]
    assert money(runs.connection)["reserved"] == 0
    assert runs.submit().reason == "QUOTA"


QUOTA = "insufficient_quota"


def test_a_batch_that_the_api_does_not_know_counts_a_retry(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    runs.submit()
    api.post("reset", batches=True)
    assert runs.retrieve().failed == 3
    assert states(db) == {"fetched": 3} and errors(db) == {"batch:unknown": 3}
    assert intents(db)[0]["state"] == "failed"
    # It may have been charged: what was set aside stays so for the day.
    assert money(runs.connection)["reserved"] > 0 == money(runs.connection)["spent"]


def test_results_that_are_gone_leave_their_jobs_to_be_asked_again_and_their_money_reserved(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 3)
    api.fault(endpoint="chat/completions", status=500, times=1)
    runs.submit()
    api.post("batches/advance")
    with runs.resource().open() as opened:
        done = opened.look(created(api)[0])
        assert done and done.output_file_id
        opened.delete_file(done.output_file_id)
    taken = runs.retrieve()
    assert (taken.good, taken.failed) == (0, 3) and states(db) == {"fetched": 3}
    assert errors(db) == {"status:500": 1, "missing": 2}
    assert money(runs.connection)["reserved"] > 0 == money(runs.connection)["spent"]


def test_a_status_that_nobody_knows_is_under_way_and_warned_about_once(
    db: Mongo, runs: Runs, api: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    fetched(db, 2)
    api.fault(shown_in_progress="paused", times=1)
    runs.submit()
    api.post("batches/advance", to="in_progress")
    assert [runs.retrieve().under_way for _ in range(2)] == [1, 1]
    assert len([one for one in caplog.records if "unknown status paused" in one.getMessage()]) == 1
    api.post("batches/advance")
    assert runs.retrieve().good == 2


def test_answers_that_are_no_recipe_go_back_with_their_reasons(db: Mongo, runs: Runs, api: StandIn) -> None:
    faults: dict[str, dict[str, Any]] = {
        "finish:length": {"content": "truncated"},
        "refused": {"content": "refusal"},
        "finish:content_filter": {"content": "content_filter"},
        "unusable: no JSON": {"content": "not_json"},
        "unusable: no JSON object": {"raw": "[]"},
        "unusable: ingredients: missing": {"raw": '{"title": "찜"}'},
        "empty": {"raw": ""},
    }
    ids = fetched(db, len(faults) + 1)
    for fault in faults.values():
        api.fault(endpoint="chat/completions", times=1, **fault)
    runs.submit()
    api.post("batches/advance")
    taken = runs.retrieve()
    assert (taken.good, taken.failed) == (1, len(faults))
    reasons = {job["_id"]: job.get("error_message") for job in jobs_of(db)}
    assert reasons == dict(zip(ids, [*faults, None], strict=True))
    assert_settled(runs.connection, api)


def test_answers_with_small_faults_are_recipes_all_the_same(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 4)
    for content in ("markdown_fence", "number_for_text", "nul", "lone_surrogate"):
        api.fault(endpoint="chat/completions", content=content, times=1)
    runs.submit()
    api.post("batches/advance")
    assert runs.retrieve().good == 4
    stored = [job["retrieved_data"] for job in jobs_of(db)]
    assert "\\u0000" not in json.dumps(stored) and json.dumps(stored, ensure_ascii=False).encode()
    assert "0.5" in [one["quantity"] for one in stored[1]["ingredients"]]
