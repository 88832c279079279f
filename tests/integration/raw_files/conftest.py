"""A bucket of its own for each test, on one server a session."""

import uuid
from collections.abc import Iterator
from functools import cache

import boto3
import botocore.session
import dagster as dg
import pytest

from tests.integration.bucket_fixture import BucketAddress, running_bucket
from tests.integration.raw_files.raw_runs import RawRuns, Store
from tests.integration.raw_files.ticks import Ticks
from tests.integration.stand_ins import front_pages


@pytest.fixture(scope="session")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketAddress]:
    with running_bucket(tmp_path_factory.mktemp("raw_bucket")) as address:
        yield address


@pytest.fixture
def store(bucket_server: BucketAddress, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty bucket."""
    for name, value in bucket_server.variables().items():
        monkeypatch.setenv(name, value)
    client = boto3.session.Session().client("s3", endpoint_url=bucket_server.url)
    name = f"test-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return Store(bucket_server.url, name, client)


@pytest.fixture(scope="session")
def sites() -> Iterator[str]:
    """Where the invented front pages are served, as LOCAL_TEST_SITES takes it."""
    with front_pages() as served:
        yield served.url.removeprefix("http://")


@pytest.fixture
def runs(database_url: str, store: Store, sites: str) -> RawRuns:
    return RawRuns(database_url, store, sites)


@pytest.fixture(scope="session", autouse=True)
def _service_models_are_read_once() -> Iterator[None]:
    """Each client reads its service's description anew, which takes longer than most of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="session")
def kept_instance() -> Iterator[dg.DagsterInstance]:
    """One on disk: a tick's context opens it again, which an ephemeral one does not allow."""
    with dg.instance_for_test() as one:
        yield one


@pytest.fixture
def instance(kept_instance: dg.DagsterInstance) -> Iterator[dg.DagsterInstance]:
    """Without runs, sources and schedules."""
    yield kept_instance
    kept_instance.wipe()
    assert kept_instance.schedule_storage is not None
    kept_instance.schedule_storage.wipe()


@pytest.fixture
def ticks(instance: dg.DagsterInstance, database_url: str, store: Store) -> Ticks:
    return Ticks(instance, database_url, store)
