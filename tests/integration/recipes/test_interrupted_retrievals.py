"""Retrievals that break off or meet another run: nothing is lost, stored or paid for twice."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_ending, batch_retrieval, batch_store, job_store, recipe_store
from assets.recipes.job_store import JOBS
from resources import batch_spending
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    CHAT_MODEL,
    Runs,
    assert_settled,
    created,
    fetched,
    files,
    intents,
    jobs_of,
    ledger,
    money,
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


def retries(db: Mongo) -> Counter[int]:
    return Counter(job["retry_count"] for job in jobs_of(db))


def test_a_download_that_breaks_off_leaves_all_for_the_next_run(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 3)
    runs.submit()
    api.post("batches/advance")
    api.fault(endpoint="files/content", status=503, times=1)
    taken = runs.retrieve()
    assert taken.reason is not None and states(db) == {"parse_submitted": 3}
    assert runs.retrieve(run="run-2:0").good == 3
    assert_settled(runs.connection, api)


def test_one_batch_that_fails_does_not_keep_the_others(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 4)
    runs.submit(limits={"max_lines": 2})
    api.post("batches/advance")
    api.fault(endpoint="files/content", status=503, times=1)
    taken = runs.retrieve()
    assert (taken.good, taken.batches) == (2, 1) and taken.reason is not None


def test_a_refused_key_shuts_the_gate_and_results_wait_for_it(db: Mongo, runs: Runs, api: StandIn) -> None:
    fetched(db, 2)
    runs.submit()
    api.post("batches/advance")
    api.fault(endpoint="batches/get", status=401, code="invalid_api_key", times=1)
    assert runs.retrieve().reason == "AUTH"
    calls = len(api.get("ledger")["entries"])
    assert runs.retrieve().reason == "AUTH" and len(api.get("ledger")["entries"]) == calls
    assert states(db) == {"parse_submitted": 2}


@pytest.mark.parametrize("reason", ["QUOTA", "BUDGET"])
def test_what_is_paid_for_is_taken_in_also_while_the_gate_is_shut(
    db: Mongo, runs: Runs, api: StandIn, reason: str
) -> None:
    fetched(db, 2)
    runs.submit()
    api.post("batches/advance")
    runs.connection.execute(
        "INSERT INTO granary.api_gate SELECT provider_key, %s, %s, '', now(), now() + interval '1 hour' "
        "FROM (VALUES (%s)) AS key (provider_key)",
        (CHAT_MODEL, reason, runs.gate_key().provider_key),
    )
    assert runs.submit().reason == reason
    assert runs.retrieve().good == 2


def test_files_that_cannot_be_deleted_now_are_deleted_by_a_later_run(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    fetched(db, 2)
    runs.submit()
    api.post("batches/advance")
    api.fault(endpoint="files/delete", status=500)
    assert runs.retrieve().good == 2 and len(files(api.url)) == 2
    assert intents(db)[0]["state"] == "retrieved"
    api.clear_faults()
    runs.retrieve(run="run-2:0")
    assert files(api.url) == []


@pytest.mark.parametrize(
    ("when", "owner", "name"),
    [
        ("before", job_store, "finish_each"),
        ("before", job_store, "fail_lines"),
        ("after", batch_spending, "settle"),
        ("after", batch_store, "mark_retrieved"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_interrupted_retrieval_is_taken_up_by_the_next_run(
    db: Mongo,
    runs: Runs,
    api: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    owner: Any,
    name: str,
) -> None:
    monkeypatch.setattr(batch_retrieval, "CHUNK", 2)
    fetched(db, 5)
    api.fault(endpoint="chat/completions", status=500, times=1)
    runs.submit()
    api.post("batches/advance")
    real = getattr(owner, name)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            real(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        runs.retrieve()
    monkeypatch.setattr(owner, name, real)
    runs.retrieve(run="run-2:0")
    assert states(db) == {"parse_retrieved": 4, "fetched": 1} and retries(db) == {0: 4, 1: 1}
    assert intents(db)[0]["state"] == "retrieved" and files(api.url) == []
    assert_settled(runs.connection, api)


def test_a_second_run_leaves_a_batch_alone_that_the_first_is_at(
    db: Mongo, runs: Runs, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched(db, 3)
    runs.submit()
    api.post("batches/advance")
    real = batch_ending.claimed

    def second_run(*args: Any) -> Any:
        monkeypatch.setattr(batch_ending, "claimed", real)
        assert runs.retrieve(run="run-2:0").good == 0
        return real(*args)

    monkeypatch.setattr(batch_ending, "claimed", second_run)
    assert runs.retrieve().good == 3
    assert len(ledger(api, "files/content")) == 1
    assert_settled(runs.connection, api)


def test_a_run_that_has_lost_its_batch_stores_nothing_more(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection], monkeypatch: Any
) -> None:
    monkeypatch.setattr(batch_retrieval, "CHUNK", 2)
    fetched(db, 4)
    runs.submit()
    api.post("batches/advance")
    real, asked = batch_store.renew, []
    (at,) = runs.connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    then = connect(at=at)

    def lost(*args: Any) -> bool:
        asked.append(args)
        if len(asked) == 2:
            assert runs.retrieve(run="run-2:0", connection=then).good == 2
        return real(*args)

    monkeypatch.setattr(batch_store, "renew", lost)
    taken = runs.retrieve()
    assert (taken.good, taken.held, taken.batches) == (2, 1, 0)
    assert states(db) == {"parse_retrieved": 4}
    assert_settled(runs.connection, api)


def test_a_batch_whose_jobs_a_dead_run_holds_is_kept_until_they_are_free(
    db: Mongo, runs: Runs, api: StandIn, connect: Callable[..., psycopg.Connection]
) -> None:
    ids = fetched(db, 2)
    runs.submit()
    api.post("batches/advance")
    now = recipe_store.now(runs.connection)
    claim = {"status": "parse_retrieving", "claimed_by": "run-0:0", "claimed_at": now}
    db[JOBS].update_one({"_id": ids[0]}, {"$set": claim})
    taken = runs.retrieve()
    assert (taken.good, taken.held, intents(db)[0]["state"]) == (1, 1, "submitted")
    assert money(runs.connection)["reserved"] > 0
    (at,) = runs.connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    assert runs.retrieve(run="run-2:0", connection=connect(at=at)).good == 1
    assert_settled(runs.connection, api)


def test_a_job_that_was_restarted_takes_no_answer_of_its_old_batch(
    db: Mongo, runs: Runs, api: StandIn
) -> None:
    ids = fetched(db, 2)
    runs.submit()
    old = created(api)[0]
    db[JOBS].update_one(
        {"_id": ids[0]}, {"$set": {"status": "fetched"}, "$unset": {"parse_batch_id": "", "intent_id": ""}}
    )
    runs.submit()
    api.post("batches/advance", id=old)
    assert runs.retrieve().good == 1
    assert [job["status"] for job in jobs_of(db)] == ["parse_submitted", "parse_retrieved"]
