"""What goes wrong with a bucket, and that one request is one attempt."""

import time
import traceback
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pytest

from resources.bucket import Bucket, BucketRefused, BucketResource
from resources.errors import ServiceError, ServiceNotConfigured, ServiceUnavailable
from tests.integration.bucket_fixture import BucketAddress, running_bucket
from tests.integration.raw_files.faulty_bucket import Fault, FaultyBucket, faulty_bucket
from tests.integration.resources.scripted_server import always, answer, scripted, unused_address

KEY = "raw/file.json"
CONTENT = b"0123456789" * 100_000
TRANSIENT = [
    Fault.SLOW_DOWN,
    Fault.INTERNAL_ERROR,
    Fault.TOO_MANY_REQUESTS,
    Fault.REQUEST_TIMEOUT,
    Fault.DROPPED,
    Fault.HANG,
    Fault.WEB_PAGE,
    Fault.EMPTY_ANSWER,
    Fault.BROKEN_XML,
]
SETTING_BY_REFUSAL = {
    Fault.UNKNOWN_KEY: "AWS_ACCESS_KEY_ID",
    Fault.WRONG_SECRET: "AWS_SECRET_ACCESS_KEY",
    Fault.EXPIRED_SESSION: "AWS_SESSION_TOKEN",
    Fault.ACCESS_DENIED: "the right to list, read and write S3_BUCKET",
    Fault.WRONG_CLOCK: "clock",
    Fault.NO_SUCH_BUCKET: "S3_BUCKET",
    Fault.OTHER_REGION: "AWS_DEFAULT_REGION",
    Fault.MOVED: "S3_ENDPOINT_URL leads elsewhere",
    Fault.OTHER_REFUSAL: "S3_ENDPOINT_URL",
    Fault.GATEWAY_404: "S3_ENDPOINT_URL",
}
ASKING: dict[str, Callable[[Bucket], object]] = {
    "folders": lambda bucket: bucket.folders("raw/"),
    "objects": lambda bucket: list(bucket.objects("raw/")),
    "read": lambda bucket: bucket.read(KEY, "0" * 32).__enter__(),
    "read_small": lambda bucket: bucket.read_small(KEY, 2_000_000),
    "put": lambda bucket: bucket.put("new.json", b"{}", "application/json"),
}
asking = pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING.keys())


@pytest.fixture(scope="module")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketAddress]:
    with running_bucket(tmp_path_factory.mktemp("bucket")) as address:
        yield address


@pytest.fixture(autouse=True, scope="module")
def credentials(bucket_server: BucketAddress) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bucket_server.variables().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def served_proxy(bucket_server: BucketAddress) -> Iterator[FaultyBucket]:
    with faulty_bucket(bucket_server.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bucket(served_proxy: FaultyBucket, credentials: None) -> Iterator[Bucket]:
    """The bucket behind the proxy, with one object in it."""
    with BucketResource(endpoint_url=served_proxy.url).open() as opened:
        opened.put(KEY, CONTENT, "application/json")
        yield opened


@pytest.fixture(scope="module")
def impatient(bucket: Bucket, served_proxy: FaultyBucket) -> Iterator[Bucket]:
    """The same with half a second of patience, for what must fail anyway."""
    with BucketResource(endpoint_url=served_proxy.url, timeout_seconds=0.5).open() as opened:
        yield opened


@pytest.fixture
def proxy(served_proxy: FaultyBucket, bucket: Bucket) -> FaultyBucket:
    served_proxy.reset()
    return served_proxy


@asking
@pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: fault.name)
def test_a_fault_that_may_pass_is_not_tried_again(
    fault: Fault, ask: Callable[[Bucket], object], impatient: Bucket, proxy: FaultyBucket
) -> None:
    proxy.fail_next(5, fault)
    with pytest.raises(ServiceUnavailable):
        ask(impatient)
    assert len(proxy.requests) == 1


def test_the_sdks_own_settings_do_not_bring_its_retries_back(
    proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    with BucketResource(endpoint_url=proxy.url).open() as bucket:
        proxy.reset()
        proxy.fail_next(5, Fault.INTERNAL_ERROR)
        with pytest.raises(ServiceUnavailable):
            bucket.folders("")
        assert (len(proxy.requests), bucket.requests) == (1, 1)


def test_silence_is_waited_for_no_longer_than_the_time_out(impatient: Bucket, proxy: FaultyBucket) -> None:
    proxy.fail_next(1, Fault.HANG)
    started = time.monotonic()
    with pytest.raises(ServiceUnavailable, match="ReadTimeoutError"):
        impatient.folders("")
    assert 0.4 < time.monotonic() - started < 5


@asking
@pytest.mark.parametrize("fault", SETTING_BY_REFUSAL, ids=lambda fault: fault.name)
def test_a_refusal_names_the_setting_and_no_secret(
    fault: Fault, ask: Callable[[Bucket], object], bucket: Bucket, proxy: FaultyBucket
) -> None:
    proxy.fail_next(5, fault)
    with pytest.raises(BucketRefused, match=SETTING_BY_REFUSAL[fault]) as refused:
        ask(bucket)
    assert len(proxy.requests) == 1
    _expect_discreet(refused.value)


def _expect_discreet(error: ServiceError) -> None:
    shown = "".join(traceback.format_exception(error))
    for word in ("granary-test-secret", "GRANARYTESTKEY", "QUOTED", "list-type", "X-Amz", "Signature="):
        assert word not in shown


def test_without_a_region_r2s_is_asked_for(proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local stack's bucket is in another one, and says so."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    resource = BucketResource(endpoint_url=proxy.url)
    with resource.open() as other, pytest.raises(BucketRefused, match="AWS_DEFAULT_REGION"):
        other.folders("")
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
@pytest.mark.parametrize("value", [None, "", " "])
def test_a_missing_credential_is_named(
    missing: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(missing)
    if value is not None:
        monkeypatch.setenv(missing, value)
    resource = BucketResource(endpoint_url="http://127.0.0.1:1")
    with pytest.raises(BucketRefused, match=f"^{missing} not set: .*make up"), resource.open():
        pass


@pytest.mark.parametrize("value", ["two\nlines", "a b", "열쇠", "a\x7fb"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_a_credential_that_fits_no_header_is_named_and_not_shown(
    name: str, value: str, proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BucketRefused, match=name) as refused, BucketResource(endpoint_url=proxy.url).open():
        pass
    assert value not in str(refused.value)


def test_a_line_end_around_a_credential_does_no_harm(
    bucket: Bucket, proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "GRANARYTESTKEY\n")
    with BucketResource(endpoint_url=proxy.url).open() as other:
        assert other.folders("") == ["raw/"]


def test_without_an_address_the_remedy_is_named() -> None:
    wanted = pytest.raises(ServiceNotConfigured, match=r"S3_ENDPOINT_URL is not set: .*make up")
    with wanted, BucketResource().open():
        pass


@pytest.mark.parametrize("url", ["minio:9000", "http://", "http://user:secret@"])
def test_an_address_that_is_none_is_named_and_not_shown(url: str) -> None:
    resource = BucketResource(endpoint_url=url)
    with pytest.raises(ServiceNotConfigured, match="S3_ENDPOINT_URL must") as refused, resource.open():
        pass
    assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_an_unknown_profile_of_the_sdk_is_named(proxy: FaultyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-somebody-else")
    with (
        pytest.raises(ServiceNotConfigured, match="AWS_PROFILE"),
        BucketResource(endpoint_url=proxy.url).open(),
    ):
        pass


def test_an_address_where_nothing_listens_is_unavailable() -> None:
    with BucketResource(endpoint_url=f"http://{unused_address()}").open() as bucket:
        with pytest.raises(ServiceUnavailable, match=r"S3_ENDPOINT_URL does not answer.*make up") as failed:
            list(bucket.objects("raw/"))
        _expect_discreet(failed.value)


@pytest.mark.parametrize("fault", [Fault.TRUNCATED_BODY, Fault.STALLED_BODY], ids=lambda fault: fault.name)
def test_a_body_that_does_not_end_never_looks_ended(
    fault: Fault, bucket: Bucket, proxy: FaultyBucket
) -> None:
    (found,) = bucket.objects("raw/")
    proxy.fail_next(1, fault)
    resource = BucketResource(endpoint_url=proxy.url, timeout_seconds=2)
    with resource.open() as other, other.read(found.key, found.etag) as stream:
        read = _read_until_it_fails(stream)
        assert CONTENT.startswith(read)
        assert len(read) <= len(CONTENT) // 2
        for _ in range(2):
            with pytest.raises(ServiceUnavailable):
                stream.read(10_000)
    with bucket.read(found.key, found.etag) as stream:
        assert stream.read() == CONTENT


def test_a_body_without_a_length_never_looks_ended_either() -> None:
    head = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n'
    with (
        scripted(always(head, b"5\r\n01234\r\n")) as server,
        BucketResource(endpoint_url=server.url).open() as bucket,
        bucket.read(KEY, "1") as stream,
    ):
        assert _read_until_it_fails(stream) in (b"", b"01234")
        with pytest.raises(ServiceUnavailable):
            stream.read(10_000)


def _read_until_it_fails(stream: BinaryIO) -> bytes:
    read = b""
    try:
        while chunk := stream.read(10_000):
            read += chunk
    except ServiceUnavailable:
        return read
    pytest.fail("the stream ended like one that was read to its end")


@pytest.mark.parametrize("fault", [Fault.TRUNCATED_BODY, Fault.STALLED_BODY], ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", ["objects", "folders", "read", "read_small"])
def test_half_an_answer_is_none(name: str, fault: Fault, impatient: Bucket, proxy: FaultyBucket) -> None:
    proxy.fail_next(1, fault)
    with pytest.raises(ServiceUnavailable):
        ASKING[name](impatient)


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        ("<IsTruncated>true</IsTruncated>", 1),
        ("<IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken>", 2),
        ("<IsTruncated>false</IsTruncated><Contents><Size>many</Size></Contents>", 1),
        ("<IsTruncated>false</IsTruncated><Contents><LastModified>once</LastModified></Contents>", 1),
    ],
)
def test_a_listing_that_cannot_be_read_fails_and_does_not_go_round(content: str, asked: int) -> None:
    page = f"<ListBucketResult>{content}</ListBucketResult>".encode()
    with (
        scripted(always(answer(200, page))) as server,
        BucketResource(endpoint_url=server.url).open() as bucket,
    ):
        with pytest.raises(ServiceUnavailable):
            bucket.folders("")
        assert len(server.requests) == asked


def test_a_client_whose_requests_failed_goes_on_when_the_bucket_is_back(
    bucket: Bucket, proxy: FaultyBucket
) -> None:
    proxy.fail_next(2, Fault.DROPPED)
    for _ in range(2):
        with pytest.raises(ServiceUnavailable):
            bucket.folders("")
    assert bucket.folders("") == ["raw/"]


def test_a_fault_may_be_kept_for_some_requests_only(bucket: Bucket, proxy: FaultyBucket) -> None:
    proxy.fail_next(
        1, Fault.ACCESS_DENIED, when=lambda method, path: method == "GET" and KEY in path, after=1
    )
    assert bucket.folders("") == ["raw/"]
    assert bucket.read_small(KEY, 2_000_000) == CONTENT
    with pytest.raises(BucketRefused):
        bucket.read_small(KEY, 2_000_000)
    assert bucket.read_small(KEY, 2_000_000) == CONTENT
