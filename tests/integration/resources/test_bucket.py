"""Listing, reading and writing, at the local stack's bucket."""

import hashlib
import tracemalloc
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from resources.bucket import (
    Bucket,
    BucketRefused,
    BucketResource,
    ObjectGone,
    ObjectReplaced,
    ObjectTooLarge,
    StoredObject,
)
from resources.errors import ServiceUnavailable
from tests.integration.bucket_fixture import BucketAddress, running_bucket
from tests.integration.raw_files.faulty_bucket import Fault, faulty_bucket

# As many folders as objects, so that both take three pages.
MANY = [f"many/{number:04}/a.json" for number in range(2_100)]
ODD_KEYS = [
    "odd/a file with spaces.json",
    "odd/100%.json",
    "odd/%2F is no slash.json",
    "odd/a+b.json",
    "odd/date=2026-01-30, twice=yes.json",
    "odd/'single' \"double\" `back`.json",
    "odd/<xml>&amp;.json",
    "odd/question?mark#hash.json",
    "odd/semi;colon:at@star*.json",
    "odd/back\\slash.json",
    "odd//double//slash.json",
    "odd/./dots/../stay.json",
    "odd/국가=한국/분류=뉴스.json",
    "odd/emoji 🍚.json",
    "odd/ä/é.json",
    "odd/trailing/",
]


@pytest.fixture(scope="module")
def bucket_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketAddress]:
    with running_bucket(tmp_path_factory.mktemp("bucket"), MANY) as address:
        yield address


@pytest.fixture(scope="module")
def bucket(bucket_server: BucketAddress) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bucket_server.variables().items():
            patch.setenv(name, value)
        with BucketResource(endpoint_url=bucket_server.url, bucket=bucket_server.bucket).open() as opened:
            yield opened


def put(bucket: Bucket, key: str, body: bytes) -> None:
    bucket.put(key, body, "application/json")


def listed(bucket: Bucket, key: str) -> StoredObject:
    """The one object of that key."""
    (found,) = (one for one in bucket.objects(key) if one.key == key)
    return found


def content(bucket: Bucket, found: StoredObject) -> bytes:
    with bucket.read(found.key, found.etag) as stream:
        return stream.read()


def test_a_listing_of_several_pages_gives_every_object_once_and_in_order(bucket: Bucket) -> None:
    before = bucket.requests
    assert [found.key for found in bucket.objects("many/")] == MANY
    assert bucket.requests - before == 3


def test_who_stops_early_asks_for_no_further_page(bucket: Bucket) -> None:
    before = bucket.requests
    assert [found.key for found in islice(bucket.objects("many/"), 1_000)] == MANY[:1_000]
    assert bucket.requests - before == 1
    assert len(list(islice(bucket.objects("many/"), 1_001))) == 1_001
    assert bucket.requests - before == 3


def test_a_listing_that_is_not_begun_asks_for_nothing(bucket: Bucket) -> None:
    before = bucket.requests
    bucket.objects("many/")
    assert bucket.requests == before


def test_a_listing_starts_after_the_given_key_and_stays_within_its_prefix(bucket: Bucket) -> None:
    before = bucket.requests
    assert [found.key for found in bucket.objects("many/", start_after=MANY[500])] == MANY[501:]
    assert [found.key for found in bucket.objects("many/", start_after="many/2050/")] == MANY[2_050:]
    assert [found.key for found in bucket.objects("many/20", start_after="many/0")] == MANY[2_000:]
    assert not list(bucket.objects("many/", start_after="many/3"))
    assert bucket.requests - before == 2 + 1 + 1 + 1


def test_folders_are_found_over_all_pages(bucket: Bucket) -> None:
    before = bucket.requests
    assert bucket.folders("many/") == [key.removesuffix("a.json") for key in MANY]
    assert bucket.requests - before == 3


def test_eight_threads_share_a_client(bucket: Bucket) -> None:
    keys = [f"shared/{number:03}.json" for number in range(160)]
    before = bucket.requests
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: put(bucket, key, key.encode()), keys))
        read = list(pool.map(lambda key: bucket.read_small(key, 100), keys))
    assert read == [key.encode() for key in keys]
    assert bucket.requests - before == 2 * len(keys)
    assert [found.key for found in bucket.objects("shared/")] == keys


def test_a_listing_that_breaks_between_two_pages_fails(bucket_server: BucketAddress, bucket: Bucket) -> None:
    with faulty_bucket(bucket_server.url) as proxy, BucketResource(endpoint_url=proxy.url).open() as bucket:
        proxy.fail_next(1, Fault.SLOW_DOWN, after=1)
        keys = bucket.objects("many/")
        assert len(list(islice(keys, 1_000))) == 1_000
        with pytest.raises(ServiceUnavailable):
            next(keys)
        proxy.fail_next(1, Fault.DROPPED, after=2)
        with pytest.raises(ServiceUnavailable):
            bucket.folders("many/")


def test_only_what_lies_below_a_further_slash_is_a_folder(bucket: Bucket) -> None:
    for key in ("level/", "level/file.json", "level/one/", "level/two/deep/file.json", "level-2/file.json"):
        put(bucket, key, b"")
    assert bucket.folders("level/") == ["level/one/", "level/two/"]
    assert bucket.folders("level") == ["level-2/", "level/"]
    assert bucket.folders("no such level/") == []


def test_a_folder_placeholder_is_listed_as_the_empty_object_that_it_is(bucket: Bucket) -> None:
    put(bucket, "holder/", b"")
    put(bucket, "holder/file.json", b"{}")
    assert [(found.key, found.size) for found in bucket.objects("holder/")] == [
        ("holder/", 0),
        ("holder/file.json", 2),
    ]


def test_odd_keys_come_back_as_they_were_given(bucket: Bucket) -> None:
    for key in ODD_KEYS:
        put(bucket, key, key.encode())
    found = list(bucket.objects("odd/"))
    assert [one.key for one in found] == sorted(ODD_KEYS, key=str.encode)
    for one in found:
        assert content(bucket, one) == one.key.encode()
        assert bucket.read_small(one.key, 1_000) == one.key.encode()
    assert bucket.folders("odd/국가=한국") == ["odd/국가=한국/"]
    after = "odd/a file with spaces.json"
    assert next(bucket.objects("odd/", after)).key == "odd/a+b.json"


def test_composed_and_decomposed_korean_are_two_keys(bucket: Bucket) -> None:
    composed, decomposed = (unicodedata.normalize(form, "form/뉴스.json") for form in ("NFC", "NFD"))
    put(bucket, composed, b"composed")
    put(bucket, decomposed, b"decomposed")
    assert {found.key for found in bucket.objects("form/")} == {composed, decomposed}
    assert bucket.read_small(composed, 100) == b"composed"
    assert bucket.read_small(decomposed, 100) == b"decomposed"


def test_a_listed_object_has_its_size_its_etag_without_quotes_and_its_time_in_utc(bucket: Bucket) -> None:
    put(bucket, "one/file.json", b"some content")
    found = listed(bucket, "one/file.json")
    assert (found.size, found.etag) == (12, hashlib.md5(b"some content").hexdigest())
    assert found.modified.tzinfo is UTC
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=1)


def test_an_object_replaced_after_the_listing_is_not_read(bucket: Bucket) -> None:
    put(bucket, "replaced.json", b"old")
    found = listed(bucket, "replaced.json")
    put(bucket, "replaced.json", b"new")
    with pytest.raises(ObjectReplaced, match=r"replaced\.json"):
        content(bucket, found)
    assert content(bucket, listed(bucket, "replaced.json")) == b"new"


def test_an_object_that_is_gone_is_told_from_one_that_is_empty(bucket: Bucket) -> None:
    put(bucket, "empty.json", b"")
    assert content(bucket, listed(bucket, "empty.json")) == b""
    assert bucket.read_small("empty.json", 0) == b""
    with pytest.raises(ObjectGone, match=r"gone\.json"), bucket.read("gone.json", "0" * 32):
        pass
    assert bucket.read_small("gone.json", 100) is None


def test_a_small_read_refuses_what_is_larger(bucket: Bucket) -> None:
    put(bucket, "small.json", b"12345")
    assert bucket.read_small("small.json", 5) == b"12345"
    with pytest.raises(ObjectTooLarge, match="more than 4 bytes"):
        bucket.read_small("small.json", 4)


def test_a_large_object_is_streamed_in_flat_memory(bucket: Bucket) -> None:
    megabytes = 30
    block = hashlib.sha256(b"block").digest() * (1_000_000 // 32)
    put(bucket, "large.json", block * megabytes)
    found = listed(bucket, "large.json")
    digest, size = hashlib.sha256(), 0
    tracemalloc.start()
    try:
        with bucket.read(found.key, found.etag) as stream:
            while chunk := stream.read(100_000):
                digest.update(chunk)
                size += len(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (size, digest.digest()) == (found.size, hashlib.sha256(block * megabytes).digest())
    assert peak < 2_000_000


def test_a_read_gives_as_many_bytes_as_asked_for_and_may_end_half_way(bucket: Bucket) -> None:
    body = bytes(range(256)) * 4_000
    put(bucket, "half.json", body)
    found = listed(bucket, "half.json")
    for sizes in ([1, 70_000, 131_072, 3], [found.size, 5]):
        with bucket.read(found.key, found.etag) as stream:
            parts = [stream.read(size) for size in sizes]
        assert b"".join(parts) == body[: sum(sizes)]
        assert [len(part) for part in parts[:-1]] == sizes[:-1]
    assert content(bucket, found) == body


def test_what_is_written_replaces_what_was_there_with_its_content_type(bucket: Bucket) -> None:
    bucket.put("report/summary.json", b"{}", "text/plain")
    bucket.put("report/summary.json", b'{"day": 1}', "application/json")
    assert bucket.read_small("report/summary.json", 100) == b'{"day": 1}'
    answer = bucket._client.head_object(Bucket=bucket.name, Key="report/summary.json")
    assert answer["ContentType"] == "application/json"


def test_a_bucket_that_is_not_there_is_named_with_its_setting(
    bucket: Bucket, bucket_server: BucketAddress
) -> None:
    for name in ("not-there", "Not A Name"):
        with (
            BucketResource(endpoint_url=bucket_server.url, bucket=name).open() as other,
            pytest.raises(BucketRefused, match="S3_BUCKET"),
        ):
            other.folders("")
