"""What reading raw files and writing reports rely on in a bucket of S3, R2 or another server."""

import unicodedata
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from resources.bucket import Bucket, BucketRefused, BucketResource, ObjectGone, ObjectReplaced, StoredObject
from tests.contract.named_services import SERVICES

# Not among them: what some servers refuse (`..`, `//`, a slash at the end), and no source of ours writes.
KEYS = [
    "100%.json",
    "%2F is no slash.json",
    "a file with spaces.json",
    "a+b.json",
    "date=2026-01-30, twice=yes.json",
    "question?mark#hash&amp.json",
    "국가=한국/분류=뉴스.json",
    "emoji 🍚.json",
]


@contextmanager
def pages_of(bucket: Bucket, keys: int) -> Iterator[None]:
    """Listings come in pages of so few keys: a thousand would cost a thousand writes."""
    events = bucket._client.meta.events

    def shorten(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = keys

    events.register("before-parameter-build.s3.ListObjectsV2", shorten)
    try:
        yield
    finally:
        events.unregister("before-parameter-build.s3.ListObjectsV2", shorten)


def put(bucket: Bucket, *keys: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: bucket.put(key, key.encode(), "application/json"), keys))


def listed(bucket: Bucket, key: str) -> StoredObject:
    (found,) = (one for one in bucket.objects(key) if one.key == key)
    return found


def content(bucket: Bucket, found: StoredObject) -> bytes:
    with bucket.read(found.key, found.etag) as stream:
        return stream.read()


def test_a_listing_of_several_pages_gives_every_object_once_and_in_order(bucket: Bucket, prefix: str) -> None:
    keys = [f"{prefix}{number:02}.json" for number in range(8)]
    put(bucket, *keys)
    with pages_of(bucket, 3):
        before = bucket.requests
        assert [found.key for found in bucket.objects(prefix)] == keys
        assert bucket.requests - before == 3
        assert [found.key for found in bucket.objects(prefix, start_after=keys[1])] == keys[2:]
        assert not list(bucket.objects(prefix, start_after=keys[-1]))


def test_folders_are_found_over_all_pages_and_objects_are_none(bucket: Bucket, prefix: str) -> None:
    folders = [f"{prefix}day-{number}/" for number in range(5)]
    put(bucket, *(f"{folder}{name}.json" for folder in folders for name in "ab"), f"{prefix}summary.json")
    with pages_of(bucket, 2):
        assert bucket.folders(prefix) == folders
    assert bucket.folders(f"{prefix}no such level/") == []


def test_keys_come_back_as_they_were_given_in_the_order_of_their_bytes(bucket: Bucket, prefix: str) -> None:
    keys = [prefix + key for key in KEYS]
    put(bucket, *keys)
    found = list(bucket.objects(prefix))
    assert [one.key for one in found] == sorted(keys, key=str.encode)
    assert [content(bucket, one) for one in found] == [one.key.encode() for one in found]
    assert bucket.folders(f"{prefix}국가=한국") == [f"{prefix}국가=한국/"]
    after = f"{prefix}a file with spaces.json"
    assert next(bucket.objects(prefix, after)).key == f"{prefix}a+b.json"


def test_composed_and_decomposed_korean_are_two_keys(bucket: Bucket, prefix: str) -> None:
    keys = [prefix + unicodedata.normalize(form, "뉴스.json") for form in ("NFC", "NFD")]
    put(bucket, *keys)
    assert {found.key for found in bucket.objects(prefix)} == set(keys)
    assert [bucket.read_small(key, 100) for key in keys] == [key.encode() for key in keys]


def test_what_was_written_is_listed_and_read_at_once(bucket: Bucket, prefix: str) -> None:
    key = f"{prefix}summary.json"
    for number in range(5):
        bucket.put(key, b"x" * number, "application/json")
        assert listed(bucket, key).size == number
        assert bucket.read_small(key, 100) == b"x" * number
    assert bucket._client.head_object(Bucket=bucket.name, Key=key)["ContentType"] == "application/json"


def test_an_object_replaced_after_the_listing_is_known_by_its_etag_and_not_read(
    bucket: Bucket, prefix: str
) -> None:
    put(bucket, f"{prefix}a.json")
    found = listed(bucket, f"{prefix}a.json")
    assert abs(datetime.now(UTC) - found.modified) < timedelta(minutes=10)
    bucket.put(found.key, b"new", "application/json")
    with pytest.raises(ObjectReplaced):
        content(bucket, found)
    again = listed(bucket, found.key)
    assert (content(bucket, again), again.etag != found.etag, '"' in again.etag) == (b"new", True, False)


def test_an_object_that_is_gone_is_told_from_one_that_is_empty(bucket: Bucket, prefix: str) -> None:
    bucket.put(f"{prefix}empty.json", b"", "application/json")
    assert content(bucket, listed(bucket, f"{prefix}empty.json")) == b""
    assert bucket.read_small(f"{prefix}gone.json", 100) is None
    with pytest.raises(ObjectGone), bucket.read(f"{prefix}gone.json", "0" * 32):
        pass


def test_a_large_object_is_read_in_parts_and_may_be_left_half_way(bucket: Bucket, prefix: str) -> None:
    body = bytes(range(256)) * 20_000
    bucket.put(f"{prefix}large.json", body, "application/json")
    found = listed(bucket, f"{prefix}large.json")
    with bucket.read(found.key, found.etag) as stream:
        assert stream.read(1_000_003) == body[:1_000_003]
    assert content(bucket, found) == body


def test_a_bucket_that_is_not_there_is_named_with_its_setting(bucket: Bucket) -> None:
    url = bucket._client.meta.endpoint_url
    missing = f"granary-contract-{uuid.uuid4().hex[:12]}"
    with (
        BucketResource(endpoint_url=url, bucket=missing).open() as other,
        pytest.raises(BucketRefused, match="S3_BUCKET"),
    ):
        other.folders("")


@pytest.mark.skipif(not SERVICES.s3_endpoint_url, reason="the stand-in takes any key")
def test_a_wrong_secret_is_refused_and_named_by_its_setting(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0" * 40)
    url = bucket._client.meta.endpoint_url
    with (
        BucketResource(endpoint_url=url, bucket=bucket.name).open() as other,
        pytest.raises(BucketRefused, match="AWS_SECRET_ACCESS_KEY"),
    ):
        other.folders("")
