"""The whole table: each statement against a job in each status, and with a claim that is another's."""

from collections.abc import Callable
from itertools import product

import pytest

from assets.recipes import job_store, repair_store
from assets.recipes.job_store import JOBS
from assets.recipes.statuses import Status
from tests.integration.recipes.job_model import CLAIMS, FAILURES, RELEASES
from tests.integration.recipes.job_records import (
    DAY,
    MINE,
    NOON,
    OTHERS,
    Mongo,
    after_noon,
    put_job,
    statuses,
)

Statement = Callable[[Mongo, list[str], str], object]

# Spelled out here and not taken from the module: this is the contract.
FINISHES = [
    ("parse_submitting", "parse_submitted"),
    ("parse_retrieving", "parse_retrieved"),
    ("persisting", "persisted"),
    ("embed_submitting", "embed_submitted"),
    ("embed_submitting", "embed_retrieved"),
    ("embed_retrieving", "embed_retrieved"),
]


def claiming(frm: str, to: str) -> Statement:
    return lambda db, ids, who: job_store.claim(db, DAY, Status(frm), Status(to), who, NOON, 99)


def claiming_by_id(frm: str, to: str) -> Statement:
    return lambda db, ids, who: job_store.claim(db, None, Status(frm), Status(to), who, NOON, 99, ids)


def finishing(frm: str, to: str) -> Statement:
    return lambda db, ids, who: job_store.finish(db, ids, Status(frm), Status(to), who, {"note": 1}, NOON)


def finishing_each(frm: str, to: str) -> Statement:
    return lambda db, ids, who: job_store.finish_each(
        db, ((job_id, {"note": 1}) for job_id in ids), Status(frm), Status(to), who, NOON
    )


def failing(frm: str, _: str) -> Statement:
    return lambda db, ids, who: job_store.fail_lines(db, dict.fromkeys(ids, "no"), Status(frm), who, NOON)


def giving_back(frm: str, to: str) -> Statement:
    return lambda db, ids, who: job_store.give_back(db, ids, Status(frm), Status(to), who)


HELD = [
    *((finishing, frm, to) for frm, to in FINISHES),
    *((finishing_each, frm, to) for frm, to in FINISHES),
    *((failing, frm, to) for frm, to in FAILURES.items()),
    *((giving_back, frm, to) for frm, to in RELEASES.items()),
]
ALL = [
    *((claiming, frm, to) for frm, to in CLAIMS.items()),
    *((claiming_by_id, frm, to) for frm, to in CLAIMS.items()),
    *HELD,
]
Make = Callable[[str, str], Statement]


def one_of_each(db: Mongo) -> dict[str, str]:
    for status in Status:
        put_job(db, status, status.value)
    return statuses(db)


@pytest.mark.parametrize(("make", "frm", "to"), ALL, ids=lambda value: getattr(value, "__name__", value))
def test_a_statement_moves_the_jobs_in_its_status_and_no_other(
    make: Make, frm: str, to: str, db: Mongo
) -> None:
    before = one_of_each(db)
    make(frm, to)(db, list(before), MINE)
    assert statuses(db) == {**before, frm: to}


@pytest.mark.parametrize(("make", "frm", "to"), HELD, ids=lambda value: getattr(value, "__name__", value))
def test_a_claim_of_another_run_ends_nothing(make: Make, frm: str, to: str, db: Mongo) -> None:
    one_of_each(db)
    before = list(db[JOBS].find())
    make(frm, to)(db, [job["_id"] for job in before], OTHERS)
    assert list(db[JOBS].find()) == before


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (claiming, list(CLAIMS.items())),
        (finishing, FINISHES),
        (finishing_each, FINISHES),
        (giving_back, list(RELEASES.items())),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_step_that_there_is_not_is_refused(make: Make, steps: list[tuple[str, str]], db: Mongo) -> None:
    before = one_of_each(db)
    for frm, to in product(Status, Status):
        if (frm.value, to.value) not in steps:
            with pytest.raises(ValueError, match=f"from {frm} to {to}"):
                make(frm, to)(db, list(before), MINE)
    assert statuses(db) == before


def test_only_what_a_run_holds_can_fail(db: Mongo) -> None:
    before = one_of_each(db)
    for status in set(Status) - {Status(frm) for frm in FAILURES}:
        with pytest.raises(ValueError, match=f"from {status}"):
            failing(status, "")(db, list(before), MINE)
    assert statuses(db) == before


def test_a_release_moves_what_runs_held_and_no_other(db: Mongo) -> None:
    before = one_of_each(db)
    assert repair_store.release_dead(db, after_noon(600)) == (0, 0, 0)
    assert statuses(db) == before
    assert repair_store.release_dead(db, after_noon(600.001)) == (5, 0, 0)
    assert statuses(db) == {**before, **RELEASES}


def test_a_renewal_counts_what_is_held_and_moves_nothing(db: Mongo) -> None:
    before = one_of_each(db)
    assert job_store.renew(db, list(before), OTHERS, after_noon(500)) == 0
    assert repair_store.release_dead(db, after_noon(601), lease_seconds=601) == (0, 0, 0)
    assert job_store.renew(db, list(before), MINE, after_noon(500)) == len(RELEASES)
    assert repair_store.release_dead(db, after_noon(1_100)) == (0, 0, 0)
    assert statuses(db) == before
    assert db[JOBS].count_documents({"claimed_at": {"$exists": True}}) == len(RELEASES)


def test_a_requeue_moves_what_failed_and_no_other(db: Mongo) -> None:
    before = one_of_each(db)
    assert repair_store.requeue_failed(db, list(before)) == 1
    assert statuses(db) == {**before, "failed": "fetched"}
