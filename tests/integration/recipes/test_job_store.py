"""Claims and finishes of job records: who holds a job, and what stays on it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo import MongoClient

from assets.recipes import job_report, job_store
from assets.recipes.job_store import JOBS
from assets.recipes.models import Job, WaitingWork
from assets.recipes.statuses import Status
from local_stack.mongo_server import MongoServer
from tests.integration.recipes.job_records import (
    DAY,
    MINE,
    NOON,
    OTHERS,
    SOURCE,
    Mongo,
    after_noon,
    put_job,
    put_jobs,
    record,
    statuses,
)
from tests.integration.recipes.round_trips import RoundTrips


def claim(db: Mongo, claimed_by: str = MINE, limit: int = 100, **which: Any) -> list[Job]:
    return job_store.claim(db, DAY, Status.FETCHED, Status.PARSE_SUBMITTING, claimed_by, NOON, limit, **which)


def test_a_claim_keeps_to_its_partition_and_its_limit_oldest_first(db: Mongo) -> None:
    put_jobs(db, ["c", "a", "b"], Status.FETCHED)
    put_job(db, Status.FETCHED, "other-day", run_id="2026-03-01")
    put_job(db, Status.PARSE_SUBMITTED, "later")
    assert [job.id for job in claim(db, limit=2)] == ["a", "b"]
    assert [job.id for job in claim(db, OTHERS, limit=2)] == ["c"]
    assert claim(db) == []
    assert claim(db, limit=0) == []
    assert statuses(db) == {
        **dict.fromkeys("abc", "parse_submitting"),
        "other-day": "fetched",
        "later": "parse_submitted",
    }


def test_a_claim_of_given_ids_takes_no_other(db: Mongo) -> None:
    put_jobs(db, ["a", "b", "c"], Status.FETCHED)
    assert [job.id for job in claim(db, job_ids=["c", "unknown", "a"])] == ["a", "c"]
    assert claim(db, job_ids=[]) == []
    assert statuses(db)["b"] == "fetched"


def test_a_claim_of_a_batch_leaves_what_was_restarted_and_sent_again(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTED, "still-there", parse_batch_id="batch-1")
    put_job(db, Status.PARSE_SUBMITTED, "sent-again", parse_batch_id="batch-2")
    ids = ["still-there", "sent-again"]
    claimed = job_store.claim(
        db, DAY, Status.PARSE_SUBMITTED, Status.PARSE_RETRIEVING, MINE, NOON, 10, ids, "batch-1"
    )
    assert [job.id for job in claimed] == ["still-there"]
    assert statuses(db)["sent-again"] == "parse_submitted"


def test_a_claim_tells_what_the_job_is_but_not_its_texts(db: Mongo) -> None:
    put_job(db, Status.FETCHED, retry_count=2, new_ingredient_ids=[4, 7], retrieved_data={"title": "찌개"})
    (job,) = claim(db)
    assert job == Job(
        "job", SOURCE, "job", DAY, Status.PARSE_SUBMITTING, retry_count=2, new_ingredient_ids=(4, 7)
    )
    stored = record(db)
    assert (stored["claimed_by"], stored["claimed_at"]) == (MINE, NOON)


def test_four_runs_that_claim_at_once_share_the_jobs_exactly(
    db: Mongo, mongo_server: MongoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four look at the same jobs first: none has written when the last has read."""
    ids = put_jobs(db, [f"{n:04}" for n in range(400)], Status.FETCHED)
    monkeypatch.setattr(job_store, "CHUNK", 25)
    all_have_read = threading.Barrier(4)
    take, waited = job_store._take, threading.local()

    def take_when_all_have_read(*arguments: Any) -> list[Job]:
        if not getattr(waited, "once", False):
            waited.once = True
            all_have_read.wait(timeout=20)
        return take(*arguments)

    monkeypatch.setattr(job_store, "_take", take_when_all_have_read)

    def claim_in_a_run(run: int) -> list[str]:
        with MongoClient[dict[str, Any]](mongo_server.address, tz_aware=True) as client:
            return [job.id for job in claim(client[db.name], f"run-{run}:0", limit=150)]

    with ThreadPoolExecutor(4) as runs:
        claims = list(runs.map(claim_in_a_run, range(4)))
    assert sorted(job_id for claimed in claims for job_id in claimed) == ids
    assert all(len(claimed) <= 150 for claimed in claims)
    for run, claimed in enumerate(claims):
        held = db[JOBS].find({"claimed_by": f"run-{run}:0"}, {"_id": 1})
        assert sorted(job["_id"] for job in held) == sorted(claimed)


def test_a_claim_that_lost_what_it_saw_takes_what_is_left(db: Mongo, monkeypatch: pytest.MonkeyPatch) -> None:
    put_jobs(db, "abcd", Status.FETCHED)
    take = job_store._take
    lost: list[bool] = []

    def lose_the_first(*arguments: Any) -> list[Job]:
        if not lost:
            lost.append(True)
            claim(db, OTHERS, limit=2)
        return take(*arguments)

    monkeypatch.setattr(job_store, "_take", lose_the_first)
    assert [job.id for job in claim(db, limit=2)] == ["c", "d"]


def test_a_finish_stores_its_fields_its_time_and_ends_the_claim(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING, error_message="an earlier try", intent_id="intent")
    sets = {"parse_batch_id": "batch-1"}
    done = job_store.finish(
        db, ["job", "unknown"], Status.PARSE_SUBMITTING, Status.PARSE_SUBMITTED, MINE, sets, after_noon(5)
    )
    assert done == 1
    stored = record(db)
    assert (stored["status"], stored["parse_batch_id"]) == ("parse_submitted", "batch-1")
    assert stored["parse_submitted_at"] == after_noon(5)
    assert not {"claimed_by", "claimed_at", "error_message", "intent_id"} & set(stored)


def test_each_job_gets_its_own_result_and_only_while_it_is_held(db: Mongo) -> None:
    put_jobs(db, "ab", Status.PARSE_RETRIEVING)
    put_job(db, Status.PARSE_RETRIEVING, "c", claimed_by=OTHERS)
    results = ((job_id, {"retrieved_data": {"title": job_id}}) for job_id in "abc")
    done = job_store.finish_each(
        db, results, Status.PARSE_RETRIEVING, Status.PARSE_RETRIEVED, MINE, after_noon(9)
    )
    assert done == 2
    assert [record(db, job_id)["retrieved_data"]["title"] for job_id in "ab"] == ["a", "b"]
    assert record(db, "a")["parse_retrieved_at"] == after_noon(9)
    assert "retrieved_data" not in record(db, "c")


def test_a_result_as_large_as_a_message_may_be_is_stored(db: Mongo) -> None:
    ids = put_jobs(db, [f"{n}" for n in range(6)], Status.PARSE_RETRIEVING)
    texts = ((job_id, {"retrieved_data": {"tips": "두부" * 1_600_000}}) for job_id in ids)
    assert job_store.finish_each(db, texts, Status.PARSE_RETRIEVING, Status.PARSE_RETRIEVED, MINE, NOON) == 6


FALLS: list[tuple[Status, str, set[str]]] = [
    (Status.PARSE_RETRIEVING, "fetched", {"parse_batch_id", "parse_submitted_at"}),
    (Status.PERSISTING, "parse_retrieved", set()),
    (Status.EMBED_RETRIEVING, "persisted", {"embed_batch_id", "embed_submitted_at"}),
]


@pytest.mark.parametrize(("status", "back_at", "forgotten"), FALLS)
def test_a_failed_line_returns_twice_and_fails_the_third_time(
    status: Status, back_at: str, forgotten: set[str], db: Mongo
) -> None:
    sent = {
        "parse_batch_id": "batch-1",
        "parse_submitted_at": NOON,
        "embed_batch_id": "batch-2",
        "embed_submitted_at": NOON,
    }
    for tries, job_id in enumerate("abc"):
        put_job(db, status, job_id, retry_count=tries, **sent)
    errors = {"a": "length", "b": "length", "c": "x" * 9_000 + "\ud800", "unknown": "length"}
    assert job_store.fail_lines(db, errors, status, MINE, after_noon(7)) == (2, 1)
    a, b, c = (record(db, job_id) for job_id in "abc")
    assert [(job["status"], job["retry_count"]) for job in (a, b, c)] == [
        (back_at, 1),
        (back_at, 2),
        ("failed", 3),
    ]
    assert (a["error_message"], c["error_message"]) == ("length", "x" * 500)
    assert c["failed_at"] == after_noon(7) and "failed_at" not in b
    for job in (a, b, c):
        assert set(sent) - set(job) == forgotten
        assert "claimed_by" not in job


def test_a_reason_that_cannot_be_encoded_fails_its_own_line_only(db: Mongo) -> None:
    put_jobs(db, "ab", Status.PERSISTING)
    assert job_store.fail_lines(db, {"a": "\ud800", "b": "\0"}, Status.PERSISTING, MINE, NOON) == (2, 0)
    assert (record(db, "a")["error_message"], record(db, "b")["error_message"]) == ("?", "\0")


def test_what_is_given_back_is_as_if_never_claimed(db: Mongo) -> None:
    put_job(db, Status.PARSE_RETRIEVING, parse_batch_id="batch-1", retry_count=1)
    before = record(db)
    assert job_store.give_back(db, ["job"], Status.PARSE_RETRIEVING, Status.PARSE_SUBMITTED, MINE) == 1
    for field in ("claimed_by", "claimed_at"):
        del before[field]
    assert record(db) == {**before, "status": "parse_submitted"}


def test_jobs_come_in_the_order_asked_with_the_fields_asked(db: Mongo) -> None:
    put_jobs(db, "abc", Status.PARSE_RETRIEVED, retrieved_data={"title": "찌개"})
    found = list(job_store.jobs(db, ["c", "unknown", "a"], ["raw_data"]))
    assert [job.id for job in found] == ["c", "a"]
    assert found[0].raw_data == {"RCP_NM": "두부찌개"} and found[0].retrieved_data is None
    (both,) = job_store.jobs(db, ["b"], ["raw_data", "retrieved_data"])
    assert both.retrieved_data == {"title": "찌개"}
    assert next(job_store.jobs(db, ["b"])).raw_data is None


def test_the_report_counts_every_status_and_what_waits_for_a_run(db: Mongo) -> None:
    put_jobs(db, "ab", Status.FETCHED)
    put_job(db, Status.PERSISTED, "c")
    put_job(db, Status.PARSE_RETRIEVED, "d", run_id="2026-03-01")
    put_job(db, Status.PARSE_SUBMITTED, "waits-for-its-batch")
    put_job(db, Status.PERSISTING, "held")
    put_job(db, Status.FAILED, "failed")
    assert job_report.work_waiting(db) == [
        WaitingWork("2026-03-01", Status.PARSE_RETRIEVED, 1),
        WaitingWork(DAY, Status.FETCHED, 2),
        WaitingWork(DAY, Status.PERSISTED, 1),
    ]
    counts = job_report.counts_by_status(db, DAY)
    assert list(counts) == list(Status)
    assert {status.value: n for status, n in counts.items() if n} == {
        "fetched": 2,
        "parse_submitted": 1,
        "persisting": 1,
        "persisted": 1,
        "failed": 1,
    }
    assert job_report.counts_by_status(db)[Status.PARSE_RETRIEVED] == 1
    assert sum(job_report.counts_by_status(db, "1999-01-01").values()) == 0


STATEMENTS: dict[str, Callable[[Mongo, list[str]], object]] = {
    "renew": lambda db, ids: job_store.renew(db, ids, MINE, NOON),
    "give_back": lambda db, ids: job_store.give_back(
        db, ids, Status.PERSISTING, Status.PARSE_RETRIEVED, MINE
    ),
    "finish": lambda db, ids: job_store.finish(db, ids, Status.PERSISTING, Status.PERSISTED, MINE, {}, NOON),
    "finish_each": lambda db, ids: job_store.finish_each(
        db, ((job_id, {"n": 1}) for job_id in ids), Status.PERSISTING, Status.PERSISTED, MINE, NOON
    ),
    "jobs": lambda db, ids: list(job_store.jobs(db, ids, ["raw_data"])),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_asks_once_for_each_chunk(
    name: str, db: Mongo, round_trips: RoundTrips, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = put_jobs(db, [f"{n:03}" for n in range(250)], Status.PERSISTING)
    monkeypatch.setattr(job_store, "CHUNK", 100)
    with round_trips.counted() as sent:
        STATEMENTS[name](db, ids)
    assert sent.total() == 3
