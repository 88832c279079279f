"""What becomes of the jobs of dead runs, and of those that failed for good."""

from typing import Any

import pytest

from assets.recipes import job_store, repair_store
from assets.recipes.models import ReleaseCounts
from assets.recipes.statuses import RELEASED_TO, Status
from tests.integration.recipes.job_records import (
    MINE,
    NOON,
    Mongo,
    after_noon,
    put_job,
    put_jobs,
    record,
    statuses,
)

LONG_AFTER = after_noon(3_600)


@pytest.mark.parametrize("status", [Status.PARSE_RETRIEVING, Status.EMBED_RETRIEVING])
def test_a_batch_that_is_paid_for_is_kept(status: Status, db: Mongo) -> None:
    sent: dict[str, Any] = {
        "parse_batch_id": "batch-1",
        "parse_submitted_at": NOON,
        "embed_batch_id": "batch-2",
    }
    put_job(db, status, **sent)
    assert repair_store.release_dead(db, LONG_AFTER) == ReleaseCounts(1, 0, 0)
    stored = record(db)
    assert stored["status"] == RELEASED_TO[status]
    assert {name: stored[name] for name in sent} == sent
    assert (stored["retry_count"], stored["releases"]) == (0, 1)
    assert "claimed_by" not in stored and "claimed_at" not in stored


@pytest.mark.parametrize("status", RELEASED_TO)
def test_the_third_death_counts_as_a_retry_and_each_one_after_it(status: Status, db: Mongo) -> None:
    put_job(db, status, parse_batch_id="batch-1")
    claimed_again = {"$set": {"status": status.value, "claimed_by": MINE, "claimed_at": NOON}}
    seen = []
    for _ in range(5):
        db[job_store.JOBS].update_one({"_id": "job"}, claimed_again)
        counts = repair_store.release_dead(db, LONG_AFTER)
        stored = record(db)
        seen.append((counts, stored["status"], stored["retry_count"]))
    free = RELEASED_TO[status].value
    assert seen == [
        ((1, 0, 0), free, 0),
        ((1, 0, 0), free, 0),
        ((0, 1, 0), free, 1),
        ((0, 1, 0), free, 2),
        ((0, 0, 1), "failed", 3),
    ]
    assert record(db)["failed_at"] == LONG_AFTER


def test_a_run_that_is_known_to_be_dead_loses_its_jobs_at_once_and_no_other_does(db: Mongo) -> None:
    held = {"a": "run-1:0", "b": "run-1:1", "c": "run-10:0", "d": "other-run-1:0"}
    for job_id, claimed_by in held.items():
        put_job(db, Status.PERSISTING, job_id, claimed_by=claimed_by)
    assert repair_store.release_dead(db, NOON, claimed_by_prefix="run-1:") == ReleaseCounts(2, 0, 0)
    assert statuses(db) == {
        "a": "parse_retrieved",
        "b": "parse_retrieved",
        "c": "persisting",
        "d": "persisting",
    }
    assert repair_store.release_dead(db, NOON, claimed_by_prefix=".*") == ReleaseCounts(0, 0, 0)


def test_a_run_that_was_released_and_comes_back_ends_nothing(db: Mongo) -> None:
    put_job(db, Status.PERSISTING)
    repair_store.release_dead(db, LONG_AFTER)
    steps = (Status.PERSISTING, Status.PERSISTED)
    assert job_store.renew(db, ["job"], MINE, LONG_AFTER) == 0
    assert job_store.finish(db, ["job"], *steps, MINE, {}, LONG_AFTER) == 0
    (taken,) = job_store.claim(db, None, Status.PARSE_RETRIEVED, Status.PERSISTING, "run-2:0", LONG_AFTER, 1)
    assert job_store.finish(db, ["job"], *steps, MINE, {}, LONG_AFTER) == 0
    assert job_store.fail_lines(db, {"job": "late"}, Status.PERSISTING, MINE, LONG_AFTER) == (0, 0)
    assert job_store.finish(db, [taken.id], *steps, "run-2:0", {}, LONG_AFTER) == 1


def test_a_claim_that_was_renewed_after_the_look_is_not_released(db: Mongo) -> None:
    put_job(db, Status.PERSISTING)
    job_store.renew(db, ["job"], MINE, after_noon(3_000))
    assert repair_store.release_dead(db, LONG_AFTER, lease_seconds=600) == ReleaseCounts(0, 0, 0)
    assert repair_store.release_dead(db, LONG_AFTER, lease_seconds=599) == ReleaseCounts(1, 0, 0)


def test_a_job_of_a_planned_batch_is_left_to_its_intent(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING, "planned", intent_id="intent")
    put_job(db, Status.PARSE_SUBMITTING, "only-claimed")
    assert repair_store.release_dead(db, NOON, claimed_by_prefix=MINE) == ReleaseCounts(1, 0, 0)
    assert repair_store.release_dead(db, LONG_AFTER) == ReleaseCounts(0, 0, 0)
    assert statuses(db) == {"planned": "parse_submitting", "only-claimed": "fetched"}


def test_a_failed_job_begins_anew_at_its_last_result(db: Mongo) -> None:
    failed = {"retry_count": 3, "releases": 2, "failed_at": NOON, "error_message": "length"}
    put_job(db, Status.FAILED, "never-parsed", **failed)
    put_job(db, Status.FAILED, "never-stored", retrieved_data={"title": "찌개"}, **failed)
    stored = {"retrieved_data": {"title": "찌개"}, "persisted_at": NOON}
    put_job(db, Status.FAILED, "never-embedded", **stored, **failed)
    assert repair_store.requeue_failed(db) == 3
    assert statuses(db) == {
        "never-parsed": "fetched",
        "never-stored": "parse_retrieved",
        "never-embedded": "persisted",
    }
    for job_id in statuses(db):
        job = record(db, job_id)
        assert (job["retry_count"], job["releases"]) == (0, 0)
        assert not {"failed_at", "error_message"} & set(job)
    assert record(db, "never-embedded")["persisted_at"] == NOON


def test_a_requeue_by_id_takes_those_and_no_other(db: Mongo) -> None:
    put_jobs(db, "abc", Status.FAILED)
    put_job(db, Status.PERSISTED, "d")
    assert repair_store.requeue_failed(db, ["a", "c", "d", "unknown"]) == 2
    assert statuses(db) == {"a": "fetched", "b": "failed", "c": "fetched", "d": "persisted"}
    assert repair_store.requeue_failed(db, []) == 0
