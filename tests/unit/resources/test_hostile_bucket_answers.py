"""Generated answers of a bucket: what was asked for, or one of the bucket's own errors."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast
from unittest.mock import patch

import pytest
from botocore.awsrequest import AWSResponse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from resources.bucket import Bucket, BucketResource, StoredObject
from resources.errors import ServiceError
from tests.bad_inputs import bad_inputs

SECRET = "canary-bucket-secret"
KEYS = {"AWS_ACCESS_KEY_ID": "canary-key", "AWS_SECRET_ACCESS_KEY": SECRET}
MOST_BYTES = 100

bad_answers = settings(bad_inputs, suppress_health_check=[*HealthCheck])

TEXT = st.text(max_size=8)
ODD = st.sampled_from(
    [
        *("", " ", "\n", "true", "false", "True", "0", "-1", "1.5", "1e9", "nan", "9" * 30, "٣"),
        *("2026-11-30T00:00:00.000Z", "2026-11-30", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:59"),
        *("0001-01-01T00:00:00+23:59", "1e400", "-99999999999999", "Mon, 30 Nov 2026 12:00:00 GMT"),
        *("raw/a.json", "raw/", "%zz", "%00", "raw/%EA%B0", "&#0;", "&#xD800;", "&none;", "&amp;", '"etag"'),
        *("<Key>x</Key>", "<![CDATA[x]]>", "<!-- x", "]]>", "</Contents>"),
    ]
)
FIELDS = ("Key", "ETag", "Size", "LastModified", "StorageClass", "Owner", "Prefix", "ChecksumAlgorithm")
RIGHT = {
    "Key": "raw/a",
    "ETag": '"e"',
    "Size": "5",
    "LastModified": "2026-11-30T00:00:00.000Z",
    "Prefix": "raw/",
}


def element(name: str, inside: str) -> str:
    return f"<{name}>{inside}</{name}>"


def entries(name: str) -> st.SearchStrategy[str]:
    """Entries with their fields, some of them odd, twice or left out."""
    right = st.sampled_from(FIELDS).map(lambda one: element(one, RIGHT.get(one, "x")))
    odd = st.builds(element, st.sampled_from(FIELDS) | st.just("X"), ODD | TEXT)
    whole = "".join(element(one, RIGHT[one]) for one in ("Key", "ETag", "Size", "LastModified", "Prefix"))
    return (st.lists(right | odd, max_size=6).map("".join) | st.just(whole)).map(lambda x: element(name, x))


PARTS = (
    entries("Contents")
    | entries("CommonPrefixes")
    | st.builds(
        element,
        st.sampled_from(["IsTruncated", "NextContinuationToken", "EncodingType", "KeyCount", "Name"]),
        ODD | TEXT | st.just("url"),
    )
    | st.sampled_from(["<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated>"])
    | ODD
    | TEXT
)
HEADS = st.sampled_from(
    [
        "",
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<?xml version="1.0" encoding="utf-16"?>',
        '<?xml version="1.0" encoding="no-such-encoding"?>',
        '<?xml version="1.0" encoding="euc-kr"?>',
        '<?xml version="1.1"?>',
        '<!DOCTYPE x [<!ENTITY none SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY none "&a;&a;&a;&a;">]>',
        "\ufeff",
    ]
)
ROOTS = st.sampled_from(["ListBucketResult", "ListBucketResult", "ListBucketResult", "Error", "html", "x:y"])
PAGES = st.builds(
    lambda head, root, parts, end, encoding: f"{head}<{root}>{''.join(parts)}{end.format(root)}".encode(
        encoding, "replace"
    ),
    HEADS,
    ROOTS,
    st.lists(PARTS, max_size=8),
    st.sampled_from(["</{}>", "</{}>", "</{}>", "", "</x>"]),
    st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "cp949", "latin-1"]),
)
ERRORS = st.builds(
    lambda code, message: element("Error", element("Code", code) + element("Message", message)).encode(
        "utf-8", "replace"
    ),
    st.sampled_from(["NoSuchKey", "SlowDown", "AccessDenied", "PermanentRedirect", f"x {SECRET}"])
    | ODD
    | TEXT,
    st.just(SECRET) | TEXT,
)
DEEP = b"<ListBucketResult>" + b"<Contents>" * 2_000
BODIES = PAGES | PAGES | PAGES | ERRORS | st.binary(max_size=60) | st.just(DEEP)
STATUSES = st.just(200) | st.sampled_from([200, 204, 206, 301, 307, 400, 403, 404, 412, 429, 500, 503, 599])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "ETag": st.sampled_from(['"e"', "", "e", "가", '"']),
        "Content-Length": st.sampled_from(["0", "5", "-1", "x", "9" * 30]),
        "Last-Modified": ODD.filter(str.isascii),
        "Content-Type": st.sampled_from(["application/xml", "text/html; charset=none", ""]),
        "x-amz-meta-x": ODD.filter(str.isascii),
        "x-amz-delete-marker": st.sampled_from(["true", "x"]),
        "x-amz-missing-meta": ODD.filter(str.isascii),
        "x-amz-bucket-region": st.sampled_from(["", "eu-west-1", "http://[::1"]),
    },
)


class Raw(io.BytesIO):
    """The body as the HTTP library gives it."""

    def stream(self, amount: int = 65_536, decode_content: bool | None = None) -> Iterator[bytes]:
        yield self.read()


class Answering:
    """A bucket whose every request is answered with what stands here."""

    def __init__(self) -> None:
        self.status, self.headers, self.body, self.asked = 200, dict[str, str](), b"", 0
        resource = BucketResource(endpoint_url="http://bucket.test", bucket="granary")
        with patch.dict(os.environ, KEYS):
            self._opened = resource.open()
            self.bucket: Bucket = self._opened.__enter__()
        events: Any = self.bucket._client.meta.events
        events.register("before-send.s3", self._answered)

    def _answered(self, request: Any, **_: Any) -> AWSResponse:
        self.asked += 1
        return AWSResponse(request.url, self.status, cast(Any, self.headers), Raw(self.body))

    def close(self) -> None:
        self._opened.__exit__(None, None, None)


@pytest.fixture(scope="module")
def answering() -> Iterator[Answering]:
    one = Answering()  # making a client takes longer than asking it
    yield one
    one.close()


@contextmanager
def discreet_or_right() -> Iterator[None]:
    """What may be raised is one of the bucket's own errors, without a secret."""
    try:
        yield
    except ServiceError as error:
        told = str(error)
        assert SECRET not in told and "canary-key" not in told and len(told) < 500


ENDLESS = (
    b"<ListBucketResult><IsTruncated>true</IsTruncated>"
    b"<NextContinuationToken>x</NextContinuationToken></ListBucketResult>"
)


def page_of(inside: str) -> bytes:
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{inside}</ListBucketResult>".encode()


WITH_TWO_KEYS = (
    "<Contents><Key>a</Key><Key>b</Key><ETag>e</ETag><Size>5</Size>"
    "<LastModified>2026-11-30T00:00:00Z</LastModified></Contents>"
)


@bad_answers
@given(status=STATUSES, headers=HEADERS, body=BODIES)
@example(status=200, headers={}, body=DEEP)
@example(status=200, headers={}, body=ENDLESS)
@example(status=200, headers={}, body=page_of("<Contents><Size>5</Size></Contents>"))
@example(status=200, headers={}, body=page_of("<CommonPrefixes><X>raw/</X></CommonPrefixes>"))
@example(
    status=200,
    headers={},
    body=page_of("<CommonPrefixes><Prefix>a/</Prefix><Prefix>b/</Prefix></CommonPrefixes>"),
)
@example(status=200, headers={}, body=page_of(WITH_TWO_KEYS))
def test_a_listing_is_one_or_an_error_of_the_buckets(
    answering: Answering, status: int, headers: dict[str, str], body: bytes
) -> None:
    answering.status, answering.headers, answering.body, answering.asked = status, headers, body, 0
    with discreet_or_right():
        for one in answering.bucket.objects("raw/"):
            assert isinstance(one, StoredObject) and isinstance(one.key, str) and isinstance(one.etag, str)
            assert type(one.size) is int and one.modified.utcoffset() == timedelta(0)
        assert answering.asked == 1
    with discreet_or_right():
        assert all(isinstance(folder, str) for folder in answering.bucket.folders("raw/"))


@bad_answers
@given(status=STATUSES, headers=HEADERS, body=BODIES)
@example(status=400, headers={}, body=b"<Error><Code/></Error>")
@example(status=400, headers={}, body=b"<Error><Code><X>y</X></Code></Error>")
@example(status=200, headers={}, body=b"\xff")
@example(status=200, headers={"Last-Modified": "1e400"}, body=b"x")
def test_an_object_is_read_or_an_error_of_the_buckets(
    answering: Answering, status: int, headers: dict[str, str], body: bytes
) -> None:
    answering.status, answering.headers, answering.body = status, headers, body
    with discreet_or_right():
        small = answering.bucket.read_small("raw/a", MOST_BYTES)
        assert small is None or (small == body and len(small) <= MOST_BYTES)
    with discreet_or_right():
        answering.bucket.put("raw/a", b"{}", "application/json")
    with discreet_or_right(), answering.bucket.read("raw/a", "e") as stream:
        assert stream.read() == body
