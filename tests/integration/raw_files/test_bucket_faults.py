"""A bucket that fails in the middle of the work: nothing is lost, nothing is blamed on the file."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import dagster as dg
import psycopg
import pytest

from assets.raw_files.file_processing import process_files
from assets.raw_files.scan import scan_days, scan_partition
from assets.raw_files.store import forget_processing
from orchestration.failures import failures_by_owner
from resources.bucket import Bucket, BucketRefused, BucketResource
from resources.errors import ServiceUnavailable
from tests.integration.bucket_fixture import BucketAddress
from tests.integration.raw_files.faulty_bucket import Fault, FaultyBucket, faulty_bucket
from tests.integration.raw_files.outcomes import assert_files_are_right
from tests.integration.raw_files.raw_runs import DAY, RawRuns, Store, document, raw_path
from tests.integration.raw_files.work_runs import NEWS, look_at, process

# Enough for a busy machine; little where the bucket stays silent anyway.
PATIENCE_SECONDS = {"patient": 10.0, "impatient": 1.0}
SILENT = {Fault.HANG, Fault.STALLED_BODY}
TRANSIENT = [Fault.SLOW_DOWN, Fault.DROPPED, Fault.HANG, Fault.WEB_PAGE]
SETTING_BY_REFUSAL = {
    Fault.UNKNOWN_KEY: "AWS_ACCESS_KEY_ID",
    Fault.WRONG_SECRET: "AWS_SECRET_ACCESS_KEY",
}
SHORT = b'{"items": ["gaon-market.test"]}'
MANY = tuple(f"site-{number}.test" for number in range(20_000))

transient = pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: fault.name)
refusal = pytest.mark.parametrize("fault", SETTING_BY_REFUSAL, ids=lambda fault: fault.name)


@pytest.fixture(scope="module")
def served_proxy(bucket_server: BucketAddress) -> Iterator[FaultyBucket]:
    with faulty_bucket(bucket_server.url) as proxy:
        yield proxy


@pytest.fixture
def proxy(served_proxy: FaultyBucket) -> FaultyBucket:
    """Between the pipeline and the bucket; `store` puts files into the bucket past it."""
    served_proxy.reset()
    return served_proxy


@pytest.fixture(scope="module")
def opened(served_proxy: FaultyBucket, bucket_server: BucketAddress) -> Iterator[dict[str, Bucket]]:
    """By patience: a client takes a tenth of a second to make."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in bucket_server.variables().items():
            patch.setenv(name, value)
        yield {
            name: stack.enter_context(
                BucketResource(endpoint_url=served_proxy.url, timeout_seconds=seconds).open()
            )
            for name, seconds in PATIENCE_SECONDS.items()
        }


@pytest.fixture
def bucket(
    opened: dict[str, Bucket], store: Store, proxy: FaultyBucket, request: pytest.FixtureRequest
) -> Bucket:
    """The test's bucket behind the proxy."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    chosen = opened["impatient" if parameters.get("fault") in SILENT else "patient"]
    chosen.name = store.name
    return chosen


def reading(key: str) -> Callable[[str, str], bool]:
    return lambda method, path: method == "GET" and unquote(urlsplit(path).path).endswith(key)


def put(method: str, path: str) -> bool:
    return method == "PUT"


def next_page(method: str, path: str) -> bool:
    return "continuation-token=" in path


def ledger(connection: psycopg.Connection) -> dict[str, tuple[str, int, str | None]]:
    rows = connection.execute("SELECT key, status, attempts, reason FROM raw.file")
    return {key: (status, attempts, reason) for key, status, attempts, reason in rows}


def sightings(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT * FROM raw.domain_sighting").rowcount


@transient
def test_a_bucket_that_fails_during_the_listing_leaves_it_for_five_minutes_later(
    fault: Fault, bucket: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, "kr/sports"), document("nuri-sports.test"))
    proxy.fail_next(1, fault, after=3)

    with pytest.raises(ServiceUnavailable):
        look_at(connection, bucket)

    assert ledger(connection) == {}
    due = connection.execute("SELECT scanned_at, due_at - granary.now() FROM raw.pass").fetchone()
    assert due is not None and due[0] is None
    assert timedelta(minutes=4) < due[1] <= timedelta(minutes=5)
    assert connection.execute("SELECT kind FROM raw.failure_log").fetchall() == [("SCAN",)]

    found = look_at(connection, bucket)
    assert found is not None and len(found.to_do()) == 2
    assert len(ledger(connection)) == 2


@transient
def test_a_bucket_that_fails_at_a_file_leaves_it_waiting(
    fault: Fault, bucket: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(2), document("hanbit-news.test"))
    proxy.fail_next(1, fault, reading(raw_path(2)))

    with pytest.raises(ServiceUnavailable):
        process(connection, bucket)

    assert ledger(connection) == {raw_path(1): ("PROCESSED", 1, None), raw_path(2): ("PENDING", 0, None)}
    assert f"{raw_path(1)}.success" in store.keys("raw/")
    assert process(connection, bucket).processed == 1
    assert_files_are_right(connection, store)


@pytest.mark.parametrize(
    ("fault", "body"),
    [
        pytest.param(Fault.TRUNCATED_BODY, document(*MANY), id="half of a document"),
        pytest.param(Fault.TRUNCATED_BODY, SHORT.ljust(2 * len(SHORT)), id="a document without its blanks"),
        pytest.param(Fault.STALLED_BODY, document(*MANY), id="silence"),
    ],
)
def test_a_body_that_breaks_off_is_not_taken_for_a_broken_file(
    fault: Fault,
    body: bytes,
    bucket: Bucket,
    proxy: FaultyBucket,
    store: Store,
    connection: psycopg.Connection,
) -> None:
    store.put(raw_path(1), document("hanbit-news.test"))
    process(connection, bucket)
    store.put(raw_path(1), body)
    proxy.fail_next(1, fault, reading(raw_path(1)))

    with pytest.raises(ServiceUnavailable, match="broke off"):
        process(connection, bucket)

    assert ledger(connection) == {raw_path(1): ("PENDING", 0, None)}
    assert sightings(connection) == 1
    process(connection, bucket)
    assert_files_are_right(connection, store)


def test_a_marker_that_could_not_be_written_is_written_later(
    bucket: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    proxy.fail_next(1, Fault.SLOW_DOWN, put)

    with pytest.raises(ServiceUnavailable):
        process(connection, bucket)

    assert ledger(connection) == {raw_path(1): ("PROCESSED", 1, None)}
    found = scan_days(connection, bucket, DAY, DAY)
    assert (found.to_do(), found.new_files_on(DAY)) == ([NEWS], 0)
    assert process(connection, bucket, run_id="run-2").processed == 0
    assert_files_are_right(connection, store)


def test_a_file_processed_again_by_force_has_its_marker_written_anew(
    bucket: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    process(connection, bucket)
    forget_processing(connection, [raw_path(1)])
    proxy.fail_next(1, Fault.SLOW_DOWN, put)

    with pytest.raises(ServiceUnavailable):
        process(connection, bucket, run_id="forced")
    process(connection, bucket, run_id="next")

    assert connection.execute("SELECT run_id FROM raw.file").fetchall() == [("forced",)]
    assert_files_are_right(connection, store)


@refusal
def test_a_refused_key_stops_the_files_at_the_first_request(
    fault: Fault, bucket: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(2), document("hanbit-news.test"))
    scan_partition(connection, bucket, NEWS)
    proxy.reset()
    proxy.fail_next(10, fault)

    with pytest.raises(BucketRefused, match=SETTING_BY_REFUSAL[fault]):
        process_files(connection, bucket, NEWS, "run-1")

    assert len(proxy.requests) == 1
    assert set(ledger(connection).values()) == {("PENDING", 0, None)}


@refusal
def test_a_refused_key_stops_the_look_and_an_alarm_names_where_to_read_on(
    fault: Fault, bucket: Bucket, proxy: FaultyBucket, connection: psycopg.Connection
) -> None:
    proxy.fail_next(10, fault)

    with pytest.raises(BucketRefused, match=SETTING_BY_REFUSAL[fault]):
        look_at(connection, bucket)

    assert len(proxy.requests) == 1
    assert connection.execute("SELECT due_at FROM raw.pass").fetchall() == [(None,)]
    (error,) = connection.execute("SELECT error FROM raw.failure_log").fetchone() or ("",)
    assert SETTING_BY_REFUSAL[fault] in error
    assert connection.execute("SELECT cause FROM granary.alert").fetchall() == [("raw_files:scan",)]


def test_a_missing_key_is_named_before_anything_is_asked(
    proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")

    with (
        pytest.raises(BucketRefused, match="AWS_SECRET_ACCESS_KEY"),
        BucketResource(endpoint_url=proxy.url).open(),
    ):
        pass

    assert proxy.requests == []


class FirstTry:
    """What `failures_by_owner` asks of a step's context."""

    retry_number = 0


def test_the_step_asks_for_a_later_try_where_the_bucket_is_away(
    bucket: Bucket, proxy: FaultyBucket, connection: psycopg.Connection
) -> None:
    proxy.fail_next(1, Fault.SLOW_DOWN)

    with (
        pytest.raises(dg.RetryRequested) as asked,
        failures_by_owner(cast(dg.AssetExecutionContext, FirstTry())),
    ):
        process(connection, bucket)

    assert asked.value.max_retries == 3


def test_the_step_fails_at_once_and_for_good_where_the_bucket_refuses(
    database_url: str, store: Store, proxy: FaultyBucket
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    proxy.fail_next(10, Fault.WRONG_SECRET)

    result = RawRuns(database_url, store, bucket_url=proxy.url).run()

    (failed,) = result.get_step_failure_events()
    assert "AWS_SECRET_ACCESS_KEY" in str(failed.step_failure_data.error)
    assert not [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert len(proxy.requests) == 1


@pytest.fixture
def two_keys_a_page(bucket: Bucket) -> Iterator[Bucket]:
    """A bucket whose listings come in pages of two keys."""

    def ask_for_two(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = 2

    events = bucket._client.meta.events
    events.register("before-parameter-build.s3.ListObjectsV2", ask_for_two)
    yield bucket
    events.unregister("before-parameter-build.s3.ListObjectsV2", ask_for_two)


@pytest.mark.parametrize(
    "fault",
    [Fault.SLOW_DOWN, Fault.WEB_PAGE, Fault.TRUNCATED_BODY],
    ids=lambda fault: fault.name,
)
def test_a_listing_that_breaks_on_its_second_page_records_nothing(
    fault: Fault, two_keys_a_page: Bucket, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    for number in range(1, 6):
        store.put(raw_path(number), document("gaon-market.test"))
    proxy.fail_next(1, fault, next_page)

    with pytest.raises(ServiceUnavailable):
        scan_days(connection, two_keys_a_page, DAY, DAY)
    proxy.fail_next(1, fault, next_page)
    with pytest.raises(ServiceUnavailable):
        scan_partition(connection, two_keys_a_page, NEWS)

    assert ledger(connection) == {}
    assert len(scan_days(connection, two_keys_a_page, DAY, DAY).unprocessed[NEWS]) == 5
