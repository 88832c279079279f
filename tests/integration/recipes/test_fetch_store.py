"""What a fetch makes of rows: new ones, edited ones, and those that it knows."""

from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError

from assets.recipes import fetch_store, job_store
from assets.recipes.job_store import JOBS
from assets.recipes.models import FetchCounts
from assets.recipes.statuses import Status
from tests.integration.recipes.job_records import (
    DAY,
    MINE,
    NOON,
    SOURCE,
    Mongo,
    a_row,
    after_noon,
    put_job,
    record,
    statuses,
)

NEXT_DAY = "2026-03-03"


def test_an_unknown_row_becomes_a_job(db: Mongo) -> None:
    assert fetch_store.store_fetched(db, SOURCE, DAY, [a_row("17")], NOON) == FetchCounts(1, 0, 0)
    (stored,) = db[JOBS].find()
    assert len(stored.pop("_id")) == 24
    assert stored == {
        "source": SOURCE,
        "source_id": "17",
        "run_id": DAY,
        "status": "fetched",
        "retry_count": 0,
        "releases": 0,
        "raw_data": {"RCP_SEQ": "17", "RCP_NM": "두부찌개"},
        "raw_hash": "h",
        "fetched_at": NOON,
    }


@pytest.mark.parametrize("status", Status)
def test_a_known_row_is_left_alone_whatever_its_job_is_at(status: Status, db: Mongo) -> None:
    put_job(db, status, retrieved_data={"title": "찌개"})
    before = record(db)
    counts = fetch_store.store_fetched(db, SOURCE, NEXT_DAY, [a_row("job", RCP_NM="x")], after_noon(9))
    assert counts == FetchCounts(0, 0, 1)
    assert record(db) == before


@pytest.mark.parametrize("status", Status)
def test_by_force_a_known_row_restarts_its_job_edited_or_not(status: Status, db: Mongo) -> None:
    put_job(db, status, retry_count=2, retrieved_data={"title": "찌개"}, parse_batch_id="batch_1")
    rows = [a_row("job"), a_row("new")]
    counts = fetch_store.store_fetched(db, SOURCE, NEXT_DAY, rows, after_noon(9), force=True)
    assert counts == FetchCounts(1, 1, 0)
    restarted = record(db)
    assert (restarted["status"], restarted["run_id"], restarted["retry_count"]) == ("fetched", NEXT_DAY, 0)
    assert not {"retrieved_data", "parse_batch_id", "claimed_by"} & set(restarted)


@pytest.mark.parametrize("status", Status)
def test_an_edited_row_restarts_its_job_whatever_it_is_at(status: Status, db: Mongo) -> None:
    stamps = [f"{stage}_at" for stage in ("parse_submitted", "parse_retrieved", "persisted", "failed")]
    stamps += ["embed_submitted_at", "embed_retrieved_at"]
    put_job(
        db,
        status,
        retry_count=2,
        releases=2,
        retrieved_data={"title": "찌개"},
        parse_batch_id="batch-1",
        embed_batch_id="batch-2",
        intent_id="intent",
        new_ingredient_ids=[1],
        error_message="length",
        **dict.fromkeys(stamps, NOON),
    )
    edited = a_row("job", "other", RCP_NM="순두부찌개")
    assert fetch_store.store_fetched(db, SOURCE, NEXT_DAY, [edited], after_noon(9)) == FetchCounts(0, 1, 0)
    assert record(db) == {
        "_id": "job",
        "source": SOURCE,
        "source_id": "job",
        "run_id": NEXT_DAY,
        "status": "fetched",
        "retry_count": 0,
        "releases": 0,
        "raw_data": {"RCP_SEQ": "job", "RCP_NM": "순두부찌개"},
        "raw_hash": "other",
        "fetched_at": after_noon(9),
    }


def test_a_result_of_the_text_before_the_edit_is_not_stored(db: Mongo) -> None:
    put_job(db, Status.PARSE_RETRIEVING)
    fetch_store.store_fetched(db, SOURCE, NEXT_DAY, [a_row("job", "other")], NOON)
    late = {"retrieved_data": {"title": "이전 글"}}
    steps = (Status.PARSE_RETRIEVING, Status.PARSE_RETRIEVED)
    assert job_store.finish_each(db, [("job", late)], *steps, MINE, NOON) == 0
    assert "retrieved_data" not in record(db)


def test_the_same_id_of_two_sources_is_two_recipes(db: Mongo) -> None:
    for source in ("a", "b"):
        assert fetch_store.store_fetched(db, source, DAY, [a_row("1", source)], NOON).new == 1
    assert db[JOBS].count_documents({"source_id": "1"}) == 2


def test_of_a_row_that_comes_twice_the_last_one_counts(db: Mongo) -> None:
    rows = [a_row("1", "old"), a_row("2"), a_row("1", "new")]
    assert fetch_store.store_fetched(db, SOURCE, DAY, rows, NOON) == FetchCounts(2, 0, 0)
    assert [job["raw_hash"] for job in db[JOBS].find().sort("source_id")] == ["new", "h"]
    assert fetch_store.store_fetched(db, SOURCE, DAY, [], NOON) == FetchCounts(0, 0, 0)


def test_two_fetches_of_the_same_new_rows_make_one_job_each(
    db: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one stores all of its own between the first one's look and its writing."""
    insert = fetch_store._insert
    stored: list[bool] = []

    def insert_after_the_other(*arguments: Any) -> set[str]:
        if not stored:
            stored.append(True)
            rows = [a_row("same"), a_row("edited", "newer")]
            assert fetch_store.store_fetched(db, SOURCE, DAY, rows, NOON) == FetchCounts(2, 0, 0)
        return insert(*arguments)

    monkeypatch.setattr(fetch_store, "_insert", insert_after_the_other)
    rows = [a_row("same"), a_row("edited", "older"), a_row("mine")]
    assert fetch_store.store_fetched(db, SOURCE, DAY, rows, NOON) == FetchCounts(1, 1, 1)
    assert sorted(job["source_id"] for job in db[JOBS].find()) == ["edited", "mine", "same"]


def test_a_job_that_exists_twice_is_refused_by_the_index(db: Mongo) -> None:
    put_job(db, Status.FETCHED)
    with pytest.raises(DuplicateKeyError, match="one_job_per_recipe"):
        db[JOBS].insert_one({"source": SOURCE, "source_id": "job"})
    assert list(statuses(db)) == ["job"]


def test_the_cursor_begins_at_zero_and_keeps_to_its_source(db: Mongo) -> None:
    assert fetch_store.cursor(db, SOURCE) == 0
    assert fetch_store.move_cursor(db, SOURCE, 100)
    assert fetch_store.move_cursor(db, SOURCE, 180, frm=100)
    assert (fetch_store.cursor(db, SOURCE), fetch_store.cursor(db, "other")) == (180, 0)


@pytest.mark.parametrize("seen", [0, 100])
def test_a_late_fetch_does_not_undo_a_restart_from_the_first_row(seen: int, db: Mongo) -> None:
    fetch_store.move_cursor(db, SOURCE, 900)
    assert not fetch_store.move_cursor(db, SOURCE, 200, frm=seen)
    assert fetch_store.cursor(db, SOURCE) == 900
    assert fetch_store.move_cursor(db, SOURCE, 0)
    assert fetch_store.move_cursor(db, SOURCE, 100, frm=0)
    assert fetch_store.cursor(db, SOURCE) == 100


def test_the_first_move_may_be_from_zero_and_from_nowhere_else(db: Mongo) -> None:
    assert not fetch_store.move_cursor(db, SOURCE, 200, frm=100)
    assert fetch_store.cursor(db, SOURCE) == 0
    assert fetch_store.move_cursor(db, SOURCE, 100, frm=0)
    assert fetch_store.cursor(db, SOURCE) == 100
