"""Planned batches: by which of their states a batch exists, who may move it, and how its jobs follow."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError

from assets.recipes import batch_store, job_store, repair_store
from assets.recipes.batch_store import BATCHES
from assets.recipes.models import BatchIntent, BatchKind, IntentState
from assets.recipes.statuses import Status
from tests.integration.recipes.job_records import (
    DAY,
    MINE,
    NOON,
    OTHERS,
    Mongo,
    after_noon,
    put_job,
    put_jobs,
    record,
    statuses,
)

INTENDED, UPLOADED, SUBMITTED, RETRIEVED, ABANDONED, FAILED = IntentState
OPEN = {INTENDED, UPLOADED}


def an_intent(intent_id: str = "intent", **fields: Any) -> BatchIntent:
    return replace(
        BatchIntent(
            id=intent_id,
            kind=BatchKind.PARSE,
            run_id=DAY,
            shard=0,
            lines_sha256="0" * 64,
            line_count=2,
            byte_count=900,
            estimated_tokens=1_000,
            model="gpt-4o-mini",
            created_at=NOON,
            claimed_by=MINE,
        ),
        **fields,
    )


def put_intent(db: Mongo, state: IntentState, intent_id: str = "intent", **fields: Any) -> str:
    """An intent in a state, held by MINE since noon, whatever the state."""
    batch = {} if state in OPEN or state == ABANDONED else {"batch_id": f"batch-of-{intent_id}"}
    batch_store.plan(db, an_intent(intent_id))
    db[BATCHES].update_one({"_id": intent_id}, {"$set": {"state": state.value, **batch, **fields}})
    return intent_id


def stored(db: Mongo, intent_id: str = "intent") -> BatchIntent:
    intent = batch_store.get(db, intent_id)
    assert intent is not None
    return intent


Move = Callable[[Mongo, str, str], bool]
MOVES: list[tuple[str, Move, set[IntentState], IntentState | None]] = [
    ("renew", lambda db, i, who: batch_store.renew(db, i, who, NOON), {*OPEN, SUBMITTED}, None),
    (
        "upload",
        lambda db, i, who: batch_store.mark_uploaded(db, i, who, "file-1", NOON),
        {INTENDED},
        UPLOADED,
    ),
    ("submit", lambda db, i, who: batch_store.mark_submitted(db, i, who, "batch-1", NOON), OPEN, SUBMITTED),
    ("abandon", lambda db, i, who: batch_store.abandon(db, i, who, "full", NOON), OPEN, ABANDONED),
    ("retrieve", lambda db, i, who: batch_store.mark_retrieved(db, i, who, NOON), {SUBMITTED}, RETRIEVED),
    ("fail", lambda db, i, who: batch_store.mark_failed(db, i, who, "bad", NOON), {SUBMITTED}, FAILED),
]


@pytest.mark.parametrize(("name", "move", "allowed", "to"), MOVES, ids=[name for name, *_ in MOVES])
def test_a_move_happens_from_its_states_for_its_holder_alone(
    name: str, move: Move, allowed: set[IntentState], to: IntentState | None, db: Mongo
) -> None:
    for state in IntentState:
        intent_id = put_intent(db, state, state.value)
        before = stored(db, intent_id)
        assert not move(db, intent_id, OTHERS)
        assert stored(db, intent_id) == before
        assert move(db, intent_id, MINE) == (state in allowed)
        after = stored(db, intent_id)
        assert after.state == ((to or state) if state in allowed else state)
        if state not in allowed:
            assert after == before
        db[BATCHES].delete_one({"_id": intent_id})


def test_a_plan_is_read_back_as_it_was_made_and_holds_its_jobs(db: Mongo) -> None:
    ids = put_jobs(db, "ab", Status.PARSE_SUBMITTING)
    intent = an_intent(job_ids=tuple(ids), ingredient_ids=(3,))
    assert batch_store.plan(db, intent)
    assert stored(db) == replace(intent, claimed_at=NOON)
    assert record(db, "a")["intent_id"] == "intent"
    assert batch_store.get(db, "unknown") is None


def test_a_plan_with_a_job_that_was_lost_is_no_plan_and_frees_the_others(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING, "mine")
    put_job(db, Status.PARSE_SUBMITTING, "lost", claimed_by=OTHERS)
    put_job(db, Status.FETCHED, "released")
    put_job(db, Status.PARSE_SUBMITTING, "in-another", intent_id="another")
    before = statuses(db)
    assert not batch_store.plan(db, an_intent(job_ids=tuple(before)))
    assert stored(db).state == ABANDONED
    assert statuses(db) == {**before, "mine": "fetched"}
    assert record(db, "mine")["retry_count"] == record(db, "mine")["releases"] == 0
    assert record(db, "in-another")["intent_id"] == "another"


def test_from_plan_to_results_all_facts_are_kept(db: Mongo) -> None:
    put_jobs(db, "ab", Status.PARSE_SUBMITTING)
    batch_store.plan(db, an_intent(job_ids=("a", "b")))
    assert batch_store.mark_uploaded(db, "intent", MINE, "file-1", after_noon(1))
    assert batch_store.mark_submitted(db, "intent", MINE, "batch-1", after_noon(2))
    assert stored(db).claimed_by is None
    assert batch_store.settle_jobs(db, "intent", after_noon(3)) == 2
    assert batch_store.settle_jobs(db, "intent", after_noon(4)) == 0
    job = record(db, "a")
    assert (job["status"], job["parse_batch_id"]) == ("parse_submitted", "batch-1")
    assert job["parse_submitted_at"] == after_noon(2)
    assert not {"claimed_by", "claimed_at", "intent_id"} & set(job)
    assert batch_store.note_status(db, "intent", "in_progress")
    assert batch_store.take(db, "intent", OTHERS, after_noon(5)) is not None
    counts, usage = {"completed": 2}, {"input": 10, "output": 5}
    assert batch_store.mark_retrieved(db, "intent", OTHERS, after_noon(6), "completed", counts, usage)
    assert not batch_store.note_status(db, "intent", "in_progress")
    end = stored(db)
    assert (end.state, end.input_file_id, end.batch_id) == (RETRIEVED, "file-1", "batch-1")
    assert (end.submitted_at, end.last_status) == (after_noon(2), "completed")
    assert (end.counts, end.usage, end.claimed_by) == (counts, usage, None)


def test_an_embedding_batch_moves_the_jobs_of_its_stage(db: Mongo) -> None:
    put_job(db, Status.EMBED_SUBMITTING, parse_batch_id="batch-1")
    batch_store.plan(db, an_intent(kind=BatchKind.EMBED, job_ids=("job",)))
    batch_store.mark_submitted(db, "intent", MINE, "batch-2", NOON)
    assert batch_store.settle_jobs(db, "intent", NOON) == 1
    job = record(db)
    assert (job["status"], job["parse_batch_id"], job["embed_batch_id"]) == (
        "embed_submitted",
        "batch-1",
        "batch-2",
    )


def test_a_batch_belongs_to_one_intent(db: Mongo) -> None:
    for intent_id in ("a", "b"):
        put_intent(db, INTENDED, intent_id)
    assert batch_store.mark_submitted(db, "a", MINE, "batch-1", NOON)
    with pytest.raises(DuplicateKeyError, match="one_intent_per_batch"):
        batch_store.mark_submitted(db, "b", MINE, "batch-1", NOON)
    assert stored(db, "b").state == INTENDED


def test_the_jobs_of_an_open_intent_are_nobodys_to_free(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING)
    batch_store.plan(db, an_intent(job_ids=("job",)))
    assert repair_store.release_dead(db, after_noon(9_000)) == (0, 0, 0)
    assert batch_store.settle_jobs(db, "intent", after_noon(9_000)) == 0
    assert batch_store.settle_ended(db, after_noon(9_000)) == 0
    assert statuses(db) == {"job": "parse_submitting"}


def test_the_jobs_of_an_abandoned_intent_are_free_as_if_never_claimed(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING)
    batch_store.plan(db, an_intent(job_ids=("job",)))
    assert batch_store.abandon(db, "intent", MINE, "the queue is full", NOON)
    assert batch_store.settle_jobs(db, "intent", NOON) == 1
    job = record(db)
    assert (job["status"], job["retry_count"], job["releases"]) == ("fetched", 0, 0)
    assert not {"claimed_by", "claimed_at", "intent_id", "parse_batch_id"} & set(job)


@pytest.mark.parametrize(
    ("releases", "retries", "left"),
    [(0, 0, ("fetched", 1, 0)), (2, 0, ("fetched", 3, 1)), (2, 2, ("failed", 3, 3))],
)
def test_an_intent_whose_run_died_counts_from_the_third_time(
    releases: int, retries: int, left: tuple[str, int, int], db: Mongo
) -> None:
    put_job(db, Status.PARSE_SUBMITTING, releases=releases, retry_count=retries)
    batch_store.plan(db, an_intent(job_ids=("job",)))
    assert batch_store.abandon(db, "intent", MINE, "no such batch", NOON, died=True)
    assert [batch_store.settle_jobs(db, "intent", NOON) for _ in range(2)] == [1, 0]
    job = record(db)
    assert (job["status"], job["releases"], job["retry_count"]) == left
    assert "intent_id" not in job


def test_a_run_that_lost_its_intent_neither_creates_nor_moves_anything(db: Mongo) -> None:
    """The first run stalls before the creation; the second finds no batch, abandons and sends anew."""
    put_job(db, Status.PARSE_SUBMITTING)
    batch_store.plan(db, an_intent(job_ids=("job",)))
    batch_store.mark_uploaded(db, "intent", MINE, "file-1", NOON)
    later = after_noon(601)
    assert batch_store.take(db, "intent", OTHERS, after_noon(600)) is None
    taken = batch_store.take(db, "intent", OTHERS, later)
    assert taken is not None and (taken.claimed_by, taken.input_file_id) == (OTHERS, "file-1")
    assert not batch_store.renew(db, "intent", MINE, later)
    assert not batch_store.mark_submitted(db, "intent", MINE, "batch-1", later)
    assert batch_store.abandon(db, "intent", OTHERS, "no such batch", later, died=True)
    assert batch_store.settle_jobs(db, "intent", later) == 1
    steps = (Status.FETCHED, Status.PARSE_SUBMITTING)
    assert len(job_store.claim(db, DAY, *steps, OTHERS, later, 9)) == 1
    assert batch_store.plan(db, an_intent("second", job_ids=("job",), claimed_by=OTHERS, created_at=later))
    assert not batch_store.mark_submitted(db, "intent", MINE, "batch-1", later)
    assert batch_store.settle_jobs(db, "intent", later) == 0
    assert record(db)["intent_id"] == "second"


@pytest.mark.parametrize("state", IntentState)
def test_an_intent_is_taken_by_one_run_while_it_has_not_ended(state: IntentState, db: Mongo) -> None:
    put_intent(db, state)
    later = after_noon(601)
    takers = [batch_store.take(db, "intent", f"run-{n}:0", later) for n in range(2, 5)]
    if state not in {*OPEN, SUBMITTED}:
        assert takers == [None, None, None]
        return
    assert [taken is not None for taken in takers] == [True, False, False]
    assert stored(db).claimed_by == "run-2:0"
    assert batch_store.take(db, "intent", "run-2:0", later) is not None
    assert not batch_store.renew(db, "intent", MINE, later)
    assert batch_store.release_claims(db, "run-2:") == 1
    assert not batch_store.renew(db, "intent", "run-2:0", later)
    assert batch_store.take(db, "intent", "run-3:0", later) is not None


def test_a_release_frees_what_such_runs_hold_and_has_not_ended(db: Mongo) -> None:
    for state in IntentState:
        put_intent(db, state, state.value)
    put_intent(db, INTENDED, "of-another", claimed_by="run-10:0")
    assert batch_store.release_claims(db, "run-1:") == 3
    assert batch_store.release_claims(db, ".*") == 0
    free = {one["_id"] for one in db[BATCHES].find({"claimed_by": None})}
    assert free == {"intended", "uploaded", "submitted"}
    assert [intent.id for intent in batch_store.dead_intents(db, NOON)] == ["intended", "uploaded"]


def test_dead_intents_are_those_that_nobody_renews(db: Mongo) -> None:
    for intent_id in ("stale", "renewed"):
        put_intent(db, UPLOADED, intent_id)
    put_intent(db, SUBMITTED, "a-batch")
    batch_store.renew(db, "renewed", MINE, after_noon(300))
    assert batch_store.dead_intents(db, after_noon(600)) == []
    assert [intent.id for intent in batch_store.dead_intents(db, after_noon(601))] == ["stale"]
    assert [intent.id for intent in batch_store.dead_intents(db, after_noon(61), 60)] == ["stale"]


def test_jobs_that_a_dead_run_left_between_two_writes_follow_later(db: Mongo) -> None:
    for job_id, state in {"a": SUBMITTED, "b": ABANDONED, "c": RETRIEVED, "d": INTENDED}.items():
        put_job(db, Status.PARSE_SUBMITTING, job_id, intent_id=job_id)
        put_intent(db, state, job_id)
    assert batch_store.settle_ended(db, after_noon(1)) == 3
    assert statuses(db) == {"a": "parse_submitted", "b": "fetched", "c": "fetched", "d": "parse_submitting"}
    assert record(db, "a")["parse_batch_id"] == "batch-of-a"
    assert batch_store.settle_ended(db, after_noon(2)) == 0


def test_who_takes_a_batch_finds_all_of_its_jobs(db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTING, intent_id="intent")
    put_intent(db, SUBMITTED)
    assert batch_store.take(db, "intent", OTHERS, after_noon(601)) is not None
    steps = (Status.PARSE_SUBMITTED, Status.PARSE_RETRIEVING)
    claimed = job_store.claim(db, DAY, *steps, OTHERS, NOON, 9, batch_id="batch-of-intent")
    assert [job.id for job in claimed] == ["job"]


@pytest.mark.parametrize("state", [RETRIEVED, FAILED])
@pytest.mark.parametrize(
    ("status", "field", "back_at"),
    [
        (Status.PARSE_SUBMITTED, "parse_batch_id", "fetched"),
        (Status.EMBED_SUBMITTED, "embed_batch_id", "persisted"),
    ],
)
def test_a_job_that_waits_for_a_batch_that_has_ended_is_asked_again(
    status: Status, field: str, back_at: str, state: IntentState, db: Mongo
) -> None:
    put_intent(db, state, "ended")
    put_intent(db, SUBMITTED, "running")
    for name in ("ended", "running"):
        put_job(db, status, name, **{field: f"batch-of-{name}"})
    assert batch_store.settle_ended(db, NOON) == 1
    assert statuses(db) == {"ended": back_at, "running": status.value}
    assert (record(db, "ended")["retry_count"], field in record(db, "ended")) == (0, False)


def test_lists_are_by_state_kind_and_partition_oldest_first(db: Mongo) -> None:
    put_intent(db, UPLOADED, "c", shard=1)
    put_intent(db, INTENDED, "b")
    put_intent(db, INTENDED, "other-day", run_id="2026-03-01")
    put_intent(db, INTENDED, "embed", kind="embed")
    put_intent(db, SUBMITTED, "s2", created_at=after_noon(5), estimated_tokens=70)
    put_intent(db, SUBMITTED, "s1", kind="embed", model="text-embedding-3-small", estimated_tokens=8)
    put_intent(db, RETRIEVED, "r")
    assert [intent.id for intent in batch_store.open_intents(db, DAY, BatchKind.PARSE)] == ["b", "c"]
    assert [intent.id for intent in batch_store.open_batches(db)] == ["s1", "s2"]
    assert [intent.id for intent in batch_store.open_batches(db, BatchKind.PARSE)] == ["s2"]
    assert batch_store.enqueued_tokens(db) == 78
    assert batch_store.enqueued_tokens(db, "text-embedding-3-small") == 8
    assert batch_store.enqueued_tokens(db, "unknown") == 0


def test_an_intent_of_fifty_thousand_lines_fits_in_a_document(db: Mongo) -> None:
    ids = tuple(f"{n:024}" for n in range(50_000))
    put_intent(db, INTENDED, job_ids=list(ids), ingredient_ids=[])
    assert stored(db).job_ids == ids
