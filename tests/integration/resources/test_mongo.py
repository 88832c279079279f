"""The connection to MongoDB: what it gives, and that every failure names its remedy and no address."""

import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
from pymongo.errors import (
    AutoReconnect,
    CursorNotFound,
    DuplicateKeyError,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from local_stack.mongo_server import MongoServer
from resources import mongo
from resources.errors import ServiceNotConfigured, ServiceUnavailable
from resources.mongo import MongoResource, mongo_failures
from tests.integration.mongo_fixture import running_mongo
from tests.integration.resources.scripted_server import unused_address


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as running:
        yield running


def test_the_database_is_the_one_named_and_its_times_are_aware(server: MongoServer) -> None:
    moment = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
    with MongoResource(uri=server.address, database="elsewhere").connect() as db:
        assert db.name == "elsewhere"
        db.things.insert_one({"at": moment})
        assert [found["at"] for found in db.things.find()] == [moment]


def test_the_address_is_read_from_the_environment_when_it_is_used(
    server: MongoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    resource = MongoResource()
    with pytest.raises(ServiceNotConfigured, match=r"MONGODB_URI is not set: .*make up"), resource.connect():
        pass
    monkeypatch.setenv("MONGODB_URI", server.address)
    with resource.connect() as db:
        assert db.client.admin.command("ping")["ok"] == 1


def test_a_connection_ends_with_its_block(server: MongoServer) -> None:
    with MongoResource(uri=server.address).connect() as db:
        pass
    with pytest.raises(InvalidOperation):
        db.command("ping")


@pytest.mark.parametrize(
    "uri",
    [
        "granary-secret",
        "postgresql://user:granary-secret@host/name",
        "mongodb://user:granary-secret@",
        "mongodb://user:granary-secret@host:port/",
        "mongodb://user:granary-secret@host:99999999/",
        "mongodb://user:granary@secret@host/",
        "mongodb://user:granary-secret@host/?tls=true&tlsInsecure=true&tlsAllowInvalidHostnames=true",
    ],
)
def test_an_address_that_is_none_is_named_and_not_shown(uri: str) -> None:
    with (
        pytest.raises(ServiceNotConfigured, match="MONGODB_URI is no") as refused,
        MongoResource(uri=uri).connect(),
    ):
        pytest.fail("it connected")
    assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_a_database_that_cannot_be_is_named(server: MongoServer) -> None:
    with (
        pytest.raises(ServiceNotConfigured, match="MONGODB_DATABASE"),
        MongoResource(uri=server.address, database="a b").connect(),
    ):
        pytest.fail("it connected")


def test_where_nothing_listens_it_is_unavailable_within_the_time_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mongo, "SELECTION_SECONDS", 0.2)
    uri = f"mongodb://{unused_address()}/?appname=granary-secret"
    with (
        pytest.raises(ServiceUnavailable, match=r"ServerSelectionTimeoutError.*make up") as failed,
        MongoResource(uri=uri).connect(),
    ):
        pytest.fail("it connected")
    assert "secret" not in "".join(traceback.format_exception(failed.value))
    assert "127.0.0.1" not in str(failed.value)


def test_a_server_that_goes_away_under_a_run_is_unavailable(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo, "SELECTION_SECONDS", 0.2)
    leaving = ExitStack()
    server = leaving.enter_context(running_mongo(tmp_path_factory.mktemp("leaving")))

    def use() -> None:
        with MongoResource(uri=server.address).connect() as db:
            leaving.close()
            db.things.insert_one({})

    with pytest.raises(ServiceUnavailable, match="MONGODB_URI does not answer"):
        use()


@pytest.mark.parametrize(
    "failure",
    [
        AutoReconnect("host-secret"),
        NetworkTimeout("host-secret"),
        ServerSelectionTimeoutError("host-secret"),
        CursorNotFound("host-secret", 43),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_what_may_pass_is_unavailable(failure: Exception) -> None:
    with pytest.raises(ServiceUnavailable, match=type(failure).__name__) as raised, mongo_failures():
        raise failure
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("code", [13, 18, 8000])
def test_a_user_without_access_is_named_by_its_setting(code: int) -> None:
    with pytest.raises(ServiceNotConfigured, match="MONGODB_URI: set a user") as raised, mongo_failures():
        raise OperationFailure("bad auth for secret", code)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("error", [DuplicateKeyError("taken"), OperationFailure("no", 2), ValueError("own")])
def test_what_is_no_failure_of_the_service_passes(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, mongo_failures():
        raise error
    assert raised.value is error


def test_a_failure_inside_the_block_is_translated_too(server: MongoServer) -> None:
    with pytest.raises(ServiceUnavailable), MongoResource(uri=server.address).connect():
        raise AutoReconnect("gone")
