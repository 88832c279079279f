"""What the person on call is told of a recipe, and what the command prints of it."""

import argparse
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from assets.recipes import batch_store, job_store
from assets.recipes.models import BatchIntent, BatchKind
from assets.recipes.statuses import FINISHED_AS, Status
from local_stack.mongo_server import MongoServer
from operations import why_command
from operations.why import why
from orchestration.settings import Settings
from resources.errors import ServiceNotConfigured
from resources.item_history import NOBODY, ItemHistory
from tests.integration.mongo_fixture import running_mongo
from tests.integration.recipes.job_records import DAY, MINE, NOON, put_job

Mongo = Database[dict[str, Any]]
ALL_ON: dict[str, Any] = {"granary_pipelines": ("recipes",)}


@pytest.fixture(scope="module")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture
def db(mongo_server: MongoServer) -> Iterator[Mongo]:
    with MongoClient[dict[str, Any]](mongo_server.address, tz_aware=True) as client:
        database = client[f"test_{uuid.uuid4().hex[:12]}"]
        job_store.ensure_indexes(database)
        batch_store.ensure_indexes(database)
        yield database
        client.drop_database(database)


@pytest.fixture
def connection(
    connect: Callable[..., psycopg.Connection], monkeypatch: pytest.MonkeyPatch
) -> psycopg.Connection:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return connect(NOON.isoformat())


def told(connection: psycopg.Connection, db: Mongo, name: str = "job", **settings: Any) -> ItemHistory:
    found = why("recipe", name, connection, db, Settings(**{**ALL_ON, **settings}))
    assert found is not None
    return found


def set_clock(connection: psycopg.Connection, after_noon: timedelta) -> None:
    moment = (NOON + after_noon).isoformat()
    connection.execute("SELECT set_config('granary.now', %s, false)", (moment,))


def a_batch(db: Mongo, **columns: Any) -> None:
    """A parse batch at the provider since noon."""
    intent = BatchIntent("plan-1", BatchKind.PARSE, DAY, 1, "x", 4, 9, 100, "gpt-4o-mini", NOON, MINE, ())
    batch_store.plan(db, intent)
    batch_store.mark_submitted(db, "plan-1", MINE, "batch_9", NOON)
    db[batch_store.BATCHES].update_one({"_id": "plan-1"}, {"$set": columns or {"last_status": "in_progress"}})


@pytest.mark.parametrize("status", list(Status))
def test_every_status_says_what_comes_next(connection: psycopg.Connection, db: Mongo, status: Status) -> None:
    put_job(db, status, error_message="cut off", claimed_by=MINE, claimed_at=NOON)
    history = told(connection, db)
    assert (history.waits_for == "nothing") == (status == Status.EMBED_RETRIEVED)
    if status in FINISHED_AS:
        assert (history.who, history.due_at) == (NOBODY, NOON + timedelta(minutes=10))
    if status == Status.FAILED:
        assert '"job_ids":["job"]' in history.who
    assert "두부찌개" not in "\n".join(history.lines())  # the source's row is not told


def test_a_recipe_in_a_batch_waits_for_the_provider(connection: psycopg.Connection, db: Mongo) -> None:
    put_job(db, Status.PARSE_SUBMITTED, parse_batch_id="batch_9")
    a_batch(db)
    history = told(connection, db)
    assert "the provider's batch_9 (4 lines) to be parsed, last in_progress" in history.waits_for
    assert history.due_at == NOON + timedelta(hours=24)
    set_clock(connection, timedelta(hours=27))
    assert "A batch is stuck" in told(connection, db).who


def test_a_dead_runs_batch_is_looked_for_and_not_sent_twice(
    connection: psycopg.Connection, db: Mongo
) -> None:
    put_job(db, Status.PARSE_SUBMITTING, claimed_by="run-1:0", intent_id="plan-2")
    intent = BatchIntent("plan-2", BatchKind.PARSE, DAY, 1, "x", 4, 9, 100, "gpt-4o-mini", NOON, MINE, ())
    batch_store.plan(db, intent)
    assert told(connection, db).who == NOBODY
    set_clock(connection, timedelta(minutes=11))
    assert "nothing is sent twice" in told(connection, db).waits_for


def test_a_line_costs_its_share_of_the_batch(connection: psycopg.Connection, db: Mongo) -> None:
    put_job(db, Status.PARSE_RETRIEVED, parse_batch_id="batch_9")
    a_batch(db, state="retrieved", usage={"input": 1_000_000, "cached": 0, "output": 0})
    # Half of 0.15 USD a million, for one of four lines.
    assert told(connection, db).cost.startswith("0.018750 USD")


def test_a_full_queue_stands_before_what_is_to_be_sent(connection: psycopg.Connection, db: Mongo) -> None:
    put_job(db, Status.FETCHED)
    a_batch(db, estimated_tokens=2_000)
    assert "MAX_ENQUEUED_TOKENS" in told(connection, db, max_enqueued_tokens=2_000).waits_for
    assert told(connection, db).who.startswith("the sensor recipe_batches")


def test_a_recipe_is_found_by_its_source_id_too(connection: psycopg.Connection, db: Mongo) -> None:
    put_job(db, Status.FETCHED, source_id="31")
    assert told(connection, db, "31") == told(connection, db, "job")
    assert why("recipe", "32", connection, db, Settings(**ALL_ON)) is None
    with pytest.raises(ServiceNotConfigured, match="MONGODB_URI"):
        why("recipe", "31", connection, None, Settings(**ALL_ON))


def test_the_command_prints_json_and_says_what_it_looked_for(
    database_url: str,
    mongo_server: MongoServer,
    db: Mongo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_job(db, Status.FETCHED, source_id="31")
    for name, value in {
        "DATABASE_URL": database_url,
        "MONGODB_URI": mongo_server.address,
        "MONGODB_DATABASE": db.name,
        "GRANARY_PIPELINES": "recipes",
    }.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    why_command.add_to(parser.add_subparsers())
    arguments = parser.parse_args(["why", "recipe", "31", "--json"])
    assert arguments.func(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["id"], answer["due_now"]) == ("recipe", "31", True)
    arguments = parser.parse_args(["why", "member", "31"])
    assert arguments.func(arguments) == 1
    assert capsys.readouterr().err == "no member '31' is known; looked for a member's id, a positive number\n"
