"""What an answer of the bucket means, as errors that say who must act. None holds a secret or an address."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from resources.errors import ServiceError, ServiceUnavailable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

HOW_TO_START = "start the local stack with `make up` and load its addresses with `. .local/env`"

_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_RIGHTS = f"give the key of {_KEYS} the right to list, read and write S3_BUCKET, or use another key"
_REGION = "S3_BUCKET is in another region: set AWS_DEFAULT_REGION and S3_ENDPOINT_URL to the bucket's"
_NAME = f"S3_BUCKET names no bucket of this account: correct it or make the bucket; locally, {HOW_TO_START}"
_MOVED = "S3_ENDPOINT_URL leads elsewhere: set the address that it leads to, with https:// if it has that"
_SESSION = f"AWS_SESSION_TOKEN has expired or does not fit {_KEYS}: renew all three"
_REMEDY_BY_CODE = {
    "InvalidAccessKeyId": f"AWS_ACCESS_KEY_ID is not known there: set {_KEYS} of a key that is",
    "SignatureDoesNotMatch": f"AWS_SECRET_ACCESS_KEY is not the one of AWS_ACCESS_KEY_ID: set {_KEYS} anew",
    "ExpiredToken": _SESSION,
    "InvalidToken": _SESSION,
    "AccessDenied": _RIGHTS,
    "NoSuchBucket": _NAME,
    "InvalidBucketName": _NAME,
    "PermanentRedirect": _REGION,
    "TemporaryRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "RequestTimeTooSkewed": "the clock of this machine is wrong: set it",
}
_TRANSIENT_CODES = frozenset({"SlowDown", "RequestTimeout", "Throttling", "ThrottlingException"})
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
# What the SDK raises over an answer that is none, such as a size of letters, or a code made of elements.
_NOT_WHAT_WAS_ASKED = (ValueError, OverflowError, RuntimeError, TypeError, AttributeError, LookupError)
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class BucketRefused(ServiceError):
    """Permanent: the bucket turns every request down until a setting is changed; the message names it."""


class ObjectReplaced(ServiceError):
    """The object has another ETag than the one that was asked for."""


class ObjectGone(ServiceError):
    """There is no object with this key (any more)."""


class ObjectTooLarge(ServiceError):
    """The object holds more bytes than the caller reads at once."""


@contextmanager
def translated(key: str = "") -> Iterator[None]:
    """The SDK's failures as ours. None of its words are kept: they quote addresses with their queries.

    With a `key` also ObjectReplaced and ObjectGone.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        raise _failure_of_answer(error, key) from None
    except (ResponseParserError, *_NOT_WHAT_WAS_ASKED):
        raise unreadable() from None
    except (ConnectionError, HTTPClientError, HTTPError) as error:  # the last: a refusal that breaks off
        raise ServiceUnavailable(
            f"the bucket at S3_ENDPOINT_URL does not answer ({type(error).__name__}): {HOW_TO_START}"
        ) from None
    except BotoCoreError as error:  # refused by the SDK itself: nothing was sent
        raise BucketRefused(f"the request cannot be made ({type(error).__name__}): {_NAME}") from None


def _failure_of_answer(error: "ClientError", key: str) -> ServiceError:
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    code = error.response["Error"].get("Code", "")
    if not isinstance(code, str) or not _CODE.fullmatch(code):  # an empty element is None
        code = str(status)
    if status >= 500 or status in _TRANSIENT_STATUSES or code in _TRANSIENT_CODES:
        return ServiceUnavailable(f"the bucket asks for patience ({code}, status {status})")
    if key and status == 412:
        return ObjectReplaced(f"{key!r} was replaced after it was listed")
    if key and code == "NoSuchKey":
        return ObjectGone(f"{key!r} is not there")
    other = _MOVED if status < 400 else f"check S3_ENDPOINT_URL, S3_BUCKET, {_KEYS}"
    remedy = _REMEDY_BY_CODE.get(code, other)
    return BucketRefused(f"the bucket refuses ({code}, status {status}): {remedy}")


def unreadable() -> ServiceUnavailable:
    """The error of an answer that is none, such as a gateway's page with status 200."""
    return ServiceUnavailable(
        "the answer is not what a bucket answers; if it stays so, S3_ENDPOINT_URL is wrong"
    )
