"""What the recipes' job records rely on in MongoDB."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import ReturnDocument, UpdateMany, UpdateOne
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from assets.recipes import batch_store, job_store

Mongo = Database[dict[str, Any]]
NOON = datetime(2026, 3, 2, 3, 0, 0, 123_000, tzinfo=UTC)


def job(number: int, **fields: Any) -> dict[str, Any]:
    return {"_id": f"{number:024x}", "source": "a", "source_id": str(number), "status": "fetched", **fields}


def statuses(jobs: Any) -> list[str]:
    return [one["status"] for one in jobs.find().sort("_id", 1)]


def test_workers_that_claim_at_once_get_every_job_exactly_once(jobs: Any) -> None:
    jobs.insert_many([job(number) for number in range(200)])

    def claim(worker: int) -> int:
        mine = 0
        while seen := [one["_id"] for one in jobs.find({"status": "fetched"}, {"_id": 1}).limit(20)]:
            change = {"$set": {"status": "parse_submitting", "claimed_by": worker}}
            mine += jobs.update_many({"_id": {"$in": seen}, "status": "fetched"}, change).matched_count
        return mine

    with ThreadPoolExecutor(4) as workers:
        claimed = list(workers.map(claim, range(4)))
    assert sum(claimed) == 200
    assert [jobs.count_documents({"claimed_by": worker}) for worker in range(4)] == claimed


def test_a_write_counts_what_fits_its_precondition_changed_or_not(jobs: Any) -> None:
    jobs.insert_many([job(number) for number in range(3)])
    unchanged = jobs.update_many({"status": "fetched"}, {"$set": {"status": "fetched"}})
    assert (unchanged.matched_count, unchanged.modified_count) == (3, 0)
    change = {"$set": {"status": "parse_submitted"}, "$inc": {"tries": 1}}
    where = {"_id": job(1)["_id"], "status": "fetched"}
    assert [jobs.update_one(where, change).matched_count for _ in range(2)] == [1, 0]
    assert jobs.find_one({"_id": job(1)["_id"]})["tries"] == 1


@pytest.mark.parametrize("how", ["insert", "update", "upsert"])
def test_a_second_document_of_a_unique_key_is_refused(jobs: Any, how: str) -> None:
    jobs.insert_many([job(1), job(2)])
    attempts: dict[str, Callable[[], Any]] = {
        "insert": lambda: jobs.insert_one({**job(3), "source_id": "1"}),
        "update": lambda: jobs.update_one({"source_id": "2"}, {"$set": {"source_id": "1"}}),
        "upsert": lambda: jobs.update_one(
            {"source": "a", "source_id": "1", "status": "x"}, {"$set": {"n": 1}}, upsert=True
        ),
    }
    with pytest.raises(DuplicateKeyError) as refused:
        attempts[how]()
    assert refused.value.code == 11000
    assert sorted(jobs.distinct("source_id")) == ["1", "2"]


def test_unordered_upserts_insert_what_is_missing_and_say_which(jobs: Any) -> None:
    jobs.insert_one(job(1, title="kept"))

    def upsert(number: int, id_: str) -> UpdateOne:
        fresh = {"$setOnInsert": {"_id": id_, "title": "두부찌개"}}
        return UpdateOne({"source": "a", "source_id": str(number)}, fresh, upsert=True)

    result = jobs.bulk_write([upsert(1, "x"), upsert(2, "y"), upsert(3, "z")], ordered=False).bulk_api_result
    assert [one["index"] for one in result["upserted"]] == [1, 2]
    assert jobs.find_one({"source_id": "1"})["title"] == "kept"
    # An id that is taken fails its own line alone.
    with pytest.raises(BulkWriteError) as failed:
        jobs.bulk_write([upsert(4, "y"), upsert(5, "v")], ordered=False)
    details = failed.value.details
    assert [(one["index"], one["code"]) for one in details["writeErrors"]] == [(0, 11000)]
    assert [one["index"] for one in details["upserted"]] == [1]


def test_fetches_that_insert_the_same_rows_at_once_make_one_job_of_each(jobs: Any) -> None:
    def fetch(worker: int) -> tuple[int, set[int]]:
        writes = [
            UpdateOne(
                {"source": "a", "source_id": str(number)},
                {"$setOnInsert": {"_id": f"{worker}-{number}"}},
                upsert=True,
            )
            for number in range(100)
        ]
        try:
            details = jobs.bulk_write(writes, ordered=False).bulk_api_result
        except BulkWriteError as error:
            details = error.details
        return len(details["upserted"]), {one["code"] for one in details["writeErrors"]}

    with ThreadPoolExecutor(4) as workers:
        fetched = list(workers.map(fetch, range(4)))
    assert sum(upserted for upserted, _ in fetched) == jobs.count_documents({}) == 100
    assert set().union(*(codes for _, codes in fetched)) <= {11000}


def test_a_bulk_of_updates_counts_all_that_they_matched(jobs: Any) -> None:
    jobs.insert_many([job(number, tries=number) for number in range(6)])
    writes = [
        UpdateMany({"tries": {"$gte": 4}}, {"$set": {"status": "failed"}}),
        UpdateMany({"tries": {"$lt": 2}}, {"$set": {"status": "waiting"}, "$unset": {"source": ""}}),
    ]
    assert jobs.bulk_write(writes, ordered=False).matched_count == 4
    assert statuses(jobs) == ["waiting", "waiting", "fetched", "fetched", "failed", "failed"]
    assert "source" not in jobs.find_one({"tries": 0})


def test_a_partial_unique_index_binds_only_the_documents_that_have_the_field(mongo: Mongo) -> None:
    batch_store.ensure_indexes(mongo)
    batches = mongo[batch_store.BATCHES]
    batches.insert_many([{"_id": "1"}, {"_id": "2"}, {"_id": "3", "batch_id": "batch_a"}])
    with pytest.raises(DuplicateKeyError):
        batches.update_one({"_id": "1"}, {"$set": {"batch_id": "batch_a"}})
    assert batches.count_documents({"batch_id": {"$exists": True}}) == 1
    batches.drop()


def test_our_indexes_are_made_and_made_again_and_another_of_the_name_is_refused(mongo: Mongo) -> None:
    for _ in range(2):
        job_store.ensure_indexes(mongo)
        batch_store.ensure_indexes(mongo)
    jobs = mongo[job_store.JOBS]
    assert len(jobs.index_information()) == 1 + 6
    with pytest.raises(OperationFailure) as refused:
        jobs.create_index("status", name="one_job_per_recipe")
    assert refused.value.code in (85, 86)


def test_one_of_two_takes_a_batch_and_gets_it_as_it_is_afterwards(jobs: Any) -> None:
    jobs.insert_many([job(1, claimed_at=NOON), job(2)])
    free = {"$or": [{"claimed_by": None}, {"claimed_at": {"$lt": NOON - timedelta(minutes=5)}}]}

    def take(by: str) -> Any:
        where = {"_id": job(1)["_id"], **free}
        change = {"$set": {"claimed_by": by, "claimed_at": NOON}}
        return jobs.find_one_and_update(where, change, return_document=ReturnDocument.AFTER)

    assert take("one")["claimed_by"] == "one"
    assert take("two") is None


def test_a_field_that_is_missing_is_found_as_null(jobs: Any) -> None:
    jobs.insert_many([job(1), job(2, intent_id=None), job(3, intent_id="7")])
    found = {
        "null": {"intent_id": None},
        "not null": {"intent_id": {"$ne": None}},
        "prefix": {"intent_id": {"$regex": "^7"}},
        "less": {"releases": {"$lt": 1}},
    }
    assert {name: jobs.count_documents(where) for name, where in found.items()} == {
        "null": 2,
        "not null": 1,
        "prefix": 1,
        "less": 0,
    }


def test_the_newest_is_found_and_whether_anything_came_after_it(jobs: Any) -> None:
    later = NOON + timedelta(milliseconds=1)
    jobs.insert_many([job(2, ended_at=later), job(1, ended_at=NOON), job(3), job(4, ended_at=None)])
    assert jobs.find_one({}, sort=[("ended_at", -1)])["ended_at"] == later
    assert [one["source_id"] for one in jobs.find({"ended_at": {"$gt": NOON}})] == ["2"]
    assert jobs.find_one({"ended_at": {"$gt": later}}, {"_id": 1}) is None
    ended = {"ended_at": {"$lt": NOON + timedelta(days=1)}}
    in_order = jobs.find(ended).sort([("status", 1), ("ended_at", 1)])
    assert [one["source_id"] for one in in_order] == ["1", "2"]


def test_the_start_of_a_name_is_taken_by_its_letters(jobs: Any) -> None:
    names = ["a-1.b:0", "a-1xb:0", "x a-1.b:0"]
    jobs.insert_many([job(number, claimed_by=name) for number, name in enumerate(names)])
    held = {"claimed_by": {"$regex": f"^{re.escape('a-1.b')}"}}
    # Without the fields that are named.
    found = list(jobs.find(held, {"claimed_by": 0, "status": 0}))
    assert found == [{"_id": job(0)["_id"], "source": "a", "source_id": "0"}]


def test_a_place_moves_only_from_where_it_is_seen(jobs: Any) -> None:
    def move(to: int, frm: int, upsert: bool = False) -> Any:
        return jobs.update_one({"_id": "a", "at": frm}, {"$set": {"at": to}}, upsert=upsert)

    assert move(5, 0, upsert=True).upserted_id == "a"
    with pytest.raises(DuplicateKeyError):
        move(7, 0, upsert=True)
    assert [move(9, 7).matched_count, move(9, 5).matched_count] == [0, 1]
    assert jobs.find_one({"_id": "a"}) == {"_id": "a", "at": 9}


def test_lists_get_and_lose_their_members_once(jobs: Any) -> None:
    jobs.insert_one(job(1))
    for _ in range(2):
        jobs.update_one({}, {"$addToSet": {"files_left": {"$each": ["x", "y"]}}})
    assert jobs.find_one()["files_left"] == ["x", "y"]
    jobs.update_one({}, {"$pull": {"files_left": "x"}})
    assert jobs.find_one({"files_left": "y"})["files_left"] == ["y"]
    assert jobs.count_documents({"files_left.0": {"$exists": True}}) == 1
    jobs.update_one({}, {"$pull": {"files_left": "y"}})
    assert jobs.count_documents({"files_left.0": {"$exists": True}}) == 0


def test_sums_are_grouped_as_the_reports_ask(jobs: Any) -> None:
    jobs.insert_many([job(number, tokens=number, at=NOON + timedelta(hours=number)) for number in range(4)])
    jobs.update_one({"source_id": "3"}, {"$set": {"status": "failed", "ids": [1, 2]}})
    sums: dict[str, Any] = {"jobs": {"$sum": 1}, "tokens": {"$sum": "$tokens"}, "oldest": {"$min": "$at"}}
    steps = [{"$match": {"source": "a"}}, {"$group": {"_id": "$status", **sums}}, {"$sort": {"_id": 1}}]
    assert list(jobs.aggregate(steps)) == [
        {"_id": "failed", "jobs": 1, "tokens": 3, "oldest": NOON + timedelta(hours=3)},
        {"_id": "fetched", "jobs": 3, "tokens": 3, "oldest": NOON},
    ]
    sized = [{"$match": {"ids": {"$ne": None}}}, {"$group": {"_id": None, "n": {"$sum": {"$size": "$ids"}}}}]
    assert list(jobs.aggregate(sized)) == [{"_id": None, "n": 2}]
    by_both = {"$group": {"_id": {"of": "$source", "status": "$status"}, "jobs": {"$sum": 1}}}
    counts = {(row["_id"]["of"], row["_id"]["status"]): row["jobs"] for row in jobs.aggregate([by_both])}
    assert counts == {("a", "failed"): 1, ("a", "fetched"): 3}
    assert sorted(jobs.distinct("source_id", {"status": "fetched"})) == ["0", "1", "2"]


def test_a_few_thousand_come_in_the_order_asked_for_over_several_answers(jobs: Any) -> None:
    jobs.insert_many([job(number) for number in reversed(range(2_500))])
    found = jobs.find({"status": "fetched"}, {"_id": 1}, batch_size=500).sort("_id", 1)
    assert [one["_id"] for one in found] == [job(number)["_id"] for number in range(2_500)]


def test_texts_times_and_large_documents_come_back_as_they_were(jobs: Any) -> None:
    stored = job(1, raw={"글": "두부 🍚\u2028", "n": [1, 2.5, None, True]}, at=NOON, text="x" * 12_000_000)
    jobs.insert_one(stored)
    assert jobs.find_one() == stored
