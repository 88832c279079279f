"""What the API may answer to a batch, and runs that come between: nothing is sent twice, nothing is lost."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_store, batch_submission, recipe_store
from assets.recipes.job_store import JOBS
from assets.recipes.models import BatchKind
from resources import gate
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
    ledger,
    money,
    states,
)
from tests.integration.recipes.job_records import DAY, Mongo
from tests.integration.resources.batching import late_upload
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


def test_an_upload_that_is_carried_out_after_its_run_gave_it_up_is_deleted_too(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 2)
    api.fault(endpoint="files/upload", times=1, status=503)
    runs.submit()
    (given_up,) = intents(db)
    (name,) = given_up["files_left"]

    late_upload(api, name)
    assert runs.submit().lines == 2
    assert len(files(api.url)) == 1 and name not in files(api.url)
    assert [one["files_left"] for one in intents(db) if one.get("files_left")] == []


def test_an_upload_that_never_comes_is_not_looked_for_for_ever(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    fetched(db, 2)
    api.fault(endpoint="files/upload", times=1, status=503)
    runs.submit()
    runs.submit(run="run-2:0", connection=later(connect, 11))
    assert [one["files_left"] for one in intents(db) if one.get("files_left")] == []


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


@pytest.mark.parametrize("step", ["mark_uploaded", "renew"])
def test_a_file_whose_intent_was_given_up_meanwhile_is_deleted_and_no_batch_is_created(
    db: Mongo,
    runs: Runs,
    api: StandIn,
    connect: Callable[..., psycopg.Connection],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    fetched(db, 2)
    real, then = getattr(batch_store, step), later(connect, 11)

    def given_up(*args: Any) -> bool:
        monkeypatch.setattr(batch_store, step, real)
        assert len(files(api.url)) == 1
        (intent,) = batch_store.open_intents(db, DAY, BatchKind.PARSE)
        taken = batch_store.take(db, intent.id, "run-2:0", recipe_store.now(then))
        assert taken and batch_store.abandon(db, intent.id, "run-2:0", "none", recipe_store.now(then))
        lost: bool = real(*args)
        return lost

    monkeypatch.setattr(batch_store, step, given_up)
    sent = runs.submit()
    assert (sent.reason, created(api), files(api.url)) == ("CLAIMS_LOST", [], [])


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
