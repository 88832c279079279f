"""Recipes that are done lose what was fetched for them, and are still known as unchanged."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from assets.recipes import job_store
from assets.recipes.fetch_store import store_fetched
from assets.recipes.models import FetchCounts, FetchedRow
from assets.recipes.statuses import Status
from operations.retention import Purged, purge_all, recipe_parts
from resources.errors import ServiceUnavailable
from resources.mongo import MongoResource
from tests.integration.mongo_fixture import running_mongo
from tests.integration.recipes.job_records import NOON, SOURCE, put_job, record

LATER = NOON + timedelta(days=181)
Mongo = Database[dict[str, Any]]


@pytest.fixture(scope="module")
def mongo_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_mongo(Path(tmp_path_factory.mktemp("mongo"))) as server:
        yield server.address


@pytest.fixture
def mongo(mongo_address: str) -> MongoResource:
    return MongoResource(uri=mongo_address, database=f"test_{uuid.uuid4().hex[:12]}")


@pytest.fixture
def db(mongo: MongoResource) -> Iterator[Mongo]:
    with MongoClient[dict[str, Any]](mongo.uri, tz_aware=True) as client:
        database = client[mongo.database]
        job_store.ensure_indexes(database)
        yield database


@pytest.fixture
def purge(mongo: MongoResource, connect: Callable[..., psycopg.Connection]) -> Callable[[], list[Purged]]:
    """What 180 days leave at LATER by the database's clock."""
    return lambda: purge_all(recipe_parts(mongo.connect, lambda: connect(at=LATER.isoformat()), 180))


def done(db: Mongo, job_id: str, at: datetime = NOON, **fields: Any) -> str:
    return put_job(
        db,
        Status.EMBED_RETRIEVED,
        job_id,
        embed_retrieved_at=at,
        retrieved_data={"title": "두부찌개"},
        **fields,
    )


def test_what_is_done_for_long_loses_its_payloads_and_is_still_known_as_unchanged(
    db: Mongo, purge: Callable[[], list[Purged]]
) -> None:
    for number in range(1_200):  # more than a portion
        done(db, f"job-{number}")
    assert purge() == [Purged("recipe_payloads", 1_200)]
    emptied = record(db, "job-7")
    assert not {"raw_data", "retrieved_data"} & emptied.keys()
    assert (emptied["status"], emptied["raw_hash"]) == ("embed_retrieved", "h")
    same = FetchedRow("job-7", {"RCP_NM": "두부찌개"}, "h")
    assert store_fetched(db, SOURCE, "2026-09-01", [same], LATER) == FetchCounts(0, 0, 1)
    assert purge() == [Purged("recipe_payloads", 0)]


def test_one_that_the_source_edits_afterwards_starts_anew_with_its_new_row(
    db: Mongo, purge: Callable[[], list[Purged]]
) -> None:
    done(db, "job")
    purge()
    edited = FetchedRow("job", {"RCP_NM": "순두부찌개"}, "another")
    assert store_fetched(db, SOURCE, "2026-09-01", [edited], LATER) == FetchCounts(0, 1, 0)
    again = record(db)
    assert (again["status"], again["raw_data"]) == ("fetched", {"RCP_NM": "순두부찌개"})


@pytest.mark.parametrize("status", [status for status in Status if status != Status.EMBED_RETRIEVED])
def test_what_is_not_done_keeps_what_it_needs(
    db: Mongo, purge: Callable[[], list[Purged]], status: Status
) -> None:
    put_job(db, status, embed_retrieved_at=NOON, retrieved_data={"title": "두부찌개"})
    assert purge() == [Purged("recipe_payloads", 0)]
    assert {"raw_data", "retrieved_data"} <= record(db).keys()


def test_a_young_one_keeps_its_payloads(db: Mongo, purge: Callable[[], list[Purged]]) -> None:
    done(db, "job", at=LATER - timedelta(days=179))
    assert purge() == [Purged("recipe_payloads", 0)]


def test_a_mongodb_that_is_away_is_told_and_stops_nobody(connect: Callable[..., psycopg.Connection]) -> None:
    class Away(MongoResource):
        def connect(self) -> Any:
            raise ServiceUnavailable("MongoDB at MONGODB_URI does not answer")

    (told,) = purge_all(recipe_parts(Away().connect, lambda: connect(at=str(datetime.now(UTC))), 180))
    assert told == Purged("recipe_payloads", 0, error="MongoDB at MONGODB_URI does not answer")
