"""The bucket of S3, R2 or the local stack: listings, streamed reads, small reads and writes.

Credentials come from the environment alone: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
where there is one. The SDK's own retries are off: a failed request is the caller's to make again.
"""

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO

import dagster as dg
from pydantic import Field

from resources.bucket_failure import (
    HOW_TO_START,
    BucketRefused,
    ObjectGone,
    ObjectReplaced,
    ObjectTooLarge,
    translated,
    unreadable,
)
from resources.errors import ServiceNotConfigured, ServiceUnavailable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectTypeDef

__all__ = [
    "Bucket",
    "BucketRefused",
    "BucketResource",
    "ObjectGone",
    "ObjectReplaced",
    "ObjectTooLarge",
    "StoredObject",
]

MOST_THREADS = 16
_STREAM_BUFFER_BYTES = 65_536
# Clients may be used by several threads, but not be made by them from one session.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class StoredObject:
    """As a listing shows it: ETag without quotes, size in bytes, `modified` aware in UTC."""

    key: str
    etag: str
    size: int
    modified: datetime


class BucketResource(dg.ConfigurableResource):
    """Where the bucket is. Knows no key."""

    endpoint_url: str = Field(default="", description="S3_ENDPOINT_URL; empty: there is no bucket.")
    bucket: str = Field(default="granary", description="S3_BUCKET.")
    timeout_seconds: float = Field(default=10.0, gt=0, description="To connect, and for each read.")

    @contextmanager
    def open(self) -> Iterator["Bucket"]:
        """The bucket for the length of a run. Asks nothing yet.

        Raises ServiceNotConfigured without a usable address, BucketRefused without credentials.
        """
        if not self.endpoint_url:
            raise ServiceNotConfigured(f"S3_ENDPOINT_URL is not set: {HOW_TO_START}, or name your own bucket")
        client = self._open_client(_credentials())
        try:
            yield Bucket(client, self.bucket)
        finally:
            client.close()

    def _open_client(self, credentials: dict[str, str]) -> "S3Client":
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=self.timeout_seconds,
            read_timeout=self.timeout_seconds,
            max_pool_connections=MOST_THREADS,
            # Not every server that speaks S3 knows the checksums that the SDK adds by default.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        region = os.environ.get("AWS_DEFAULT_REGION", "").strip() or "auto"  # R2's only one
        try:
            with _ONE_AT_A_TIME:
                return _session(os.environ.get("AWS_PROFILE", "")).client(  # type: ignore[no-any-return]
                    "s3", endpoint_url=self.endpoint_url, region_name=region, config=config, **credentials
                )
        except (BotoCoreError, ValueError) as error:  # ValueError quotes the address
            raise ServiceNotConfigured(
                f"the bucket has no usable address ({type(error).__name__}): S3_ENDPOINT_URL must be http:// "
                "or https:// with a host, AWS_DEFAULT_REGION a region, AWS_PROFILE unset or a known one"
            ) from None


class Bucket:
    """One bucket. Threads may share it, up to MOST_THREADS at once.

    Keys are whole keys exactly as stored, in whatever Unicode form. Every method raises ServiceUnavailable
    (transient: 5xx, throttled, time-out, no connection) and BucketRefused (permanent).
    """

    def __init__(self, client: "S3Client", name: str) -> None:
        self.name = name
        self._client = client
        self._lock = threading.Lock()
        self._requests = 0
        client.meta.events.register("before-send.s3", self._count)
        client.meta.events.register_last("before-parameter-build.s3", _follow_no_redirect)

    @property
    def requests(self) -> int:
        """How many HTTP requests were sent, answered or not."""
        return self._requests

    def folders(self, prefix: str) -> list[str]:
        """The whole prefixes one level below `prefix`, sorted, each ending in a slash; all pages are read.

        Objects that lie directly below `prefix` are no folders.
        """
        with translated():
            return [
                _text(common["Prefix"])
                for page in self._pages(Prefix=prefix, Delimiter="/")
                for common in page.get("CommonPrefixes", [])
            ]

    def objects(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        """The objects whose keys start with `prefix` and sort after `start_after`, in the order of UTF-8.

        A page of up to 1,000 is asked for when its first object is: who stops early asks no further.
        """
        for page in self._pages(Prefix=prefix, **({"StartAfter": start_after} if start_after else {})):
            with translated():
                found = [_stored(one) for one in page.get("Contents", [])]
            yield from found

    @contextmanager
    def read(self, key: str, etag: str) -> Iterator[BinaryIO]:
        """The object's bytes as a stream, as long as its ETag is `etag`.

        Raises ObjectReplaced and ObjectGone. A read from the stream raises ServiceUnavailable where the
        connection breaks, falls silent, or ends before the last byte.
        """
        with self._get(key, IfMatch=f'"{etag}"') as stream:
            yield stream

    def read_small(self, key: str, max_bytes: int) -> bytes | None:
        """The whole object, or None if it is not there. Raises ObjectTooLarge past `max_bytes`."""
        try:
            with self._get(key) as stream:
                content = stream.read(max_bytes + 1)
        except ObjectGone:
            return None
        if len(content) > max_bytes:
            raise ObjectTooLarge(f"{key!r} holds more than {max_bytes:,} bytes")
        return content

    def put(self, key: str, body: bytes, content_type: str) -> None:
        """Stores the object, in place of one that is there."""
        with translated(key):
            answer = self._client.put_object(Bucket=self.name, Key=key, Body=body, ContentType=content_type)
        if "ETag" not in answer:
            raise unreadable()

    def _get(self, key: str, **condition: str) -> BinaryIO:
        with translated(key):
            answer = self._client.get_object(Bucket=self.name, Key=key, **condition)  # type: ignore[arg-type]
        stream = io.BufferedReader(_ObjectStream(answer["Body"], key), _STREAM_BUFFER_BYTES)
        # A gateway's page may come with status 200 too; every object that a bucket gives has an ETag.
        if "ETag" not in answer:
            stream.close()
            raise unreadable()
        return stream

    def _pages(self, **query: str) -> Iterator["ListObjectsV2OutputTypeDef"]:
        """Not the SDK's paginator: it takes a page that is no listing for the last one, and an empty one."""
        token = ""
        while True:
            with translated():
                page = self._client.list_objects_v2(Bucket=self.name, **query)  # type: ignore[arg-type]
            if "IsTruncated" not in page:
                raise unreadable()
            yield page
            if not page["IsTruncated"]:
                return
            last, token = token, page.get("NextContinuationToken", "")
            if token in ("", last):
                raise unreadable()
            query.pop("StartAfter", None)
            query["ContinuationToken"] = token

    def _count(self, **_: Any) -> None:
        with self._lock:
            self._requests += 1


class _ObjectStream(io.RawIOBase):
    """The body of an answer, whose failures are ours. Once failed it stays so: it never looks ended."""

    def __init__(self, body: Any, key: str) -> None:
        self._body = body
        self._key = key
        self._failure: ServiceUnavailable | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        from botocore.exceptions import BotoCoreError
        from urllib3.exceptions import HTTPError

        if self._failure is None:
            try:
                return int(self._body.readinto(buffer))
            except (BotoCoreError, HTTPError, OSError) as error:
                self._failure = ServiceUnavailable(f"{self._key!r} broke off ({type(error).__name__})")
        raise self._failure from None

    def close(self) -> None:
        self._body.close()
        super().close()


def _stored(entry: "ObjectTypeDef") -> StoredObject:
    """Within `translated`, to which an entry that lacks something is no listing."""
    modified = entry["LastModified"].astimezone(UTC)
    return StoredObject(_text(entry["Key"]), _text(entry["ETag"]).strip('"'), entry["Size"], modified)


def _text(value: object) -> str:
    """Raises TypeError for the list that the SDK gives where an element stands twice."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _follow_no_redirect(context: dict[str, Any], **_: Any) -> None:
    """Has the SDK take every request for one that was redirected before.

    Otherwise it asks for the bucket's region at each redirect, and again at the redirect of that request:
    a gateway that answers http:// with the way to https:// got eighty requests, and we a RecursionError.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@cache
def _session(profile: str) -> Any:
    """One for the process: each reads the service's description anew, which takes longer than a listing."""
    import boto3

    return boto3.session.Session()


def _credentials() -> dict[str, str]:
    """As the client takes them. Not the SDK's own search: it asks the address of a cloud's machines too."""
    found = {
        name: os.environ.get(name.upper(), "").strip()
        for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    }
    missing = [name.upper() for name in list(found)[:2] if not found[name]]
    if missing:
        raise BucketRefused(f"{' and '.join(missing)} not set: {HOW_TO_START}, or name your own key")
    for name, value in found.items():
        if not value.isascii() or not value.isprintable() or " " in value:  # it goes into a header
            raise BucketRefused(f"{name.upper()} holds a character that no key has: set it anew")
    return {name: value for name, value in found.items() if value}
