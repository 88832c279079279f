"""What the open API of recipes answered: a page of rows, or an error that says who must act.

The codes are those of Korea's food-safety open API (README.md, "Fetch"). "Could not read" is never
"empty": only INFO-200, or a page that says so itself, has no rows.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import quote

from assets.recipes.open_api_text import CodeReport, report_in_markup, text_of

SERVICE = "COOKRCP01"
KEY_SETTING = "RECIPE_API_KEY"
ADDRESS_SETTING = "RECIPE_API_BASE_URL"
LIMIT_SETTING = "FETCH_LIMIT"

_MOST_ID_CHARACTERS = 64
_FIELD_NAME = re.compile(r"[A-Za-z0-9_]{1,60}")
_CODE = re.compile(r"[A-Za-z0-9_-]{1,20}")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Kind(Enum):
    """What a code asks of us."""

    OK = "ok"
    NO_DATA = "no data"
    REFUSED = "a person must change a setting or the code"
    RETRY = "ask again"
    RETRY_LATER = "ask again when the quota is new"


_OURS = "Granary made a wrong request; please report it"
_KEY = f"set {KEY_SETTING} to a key of the service {SERVICE}"

KNOWN_CODES: dict[str, tuple[Kind, str]] = {
    "INFO-000": (Kind.OK, "ok"),
    "INFO-200": (Kind.NO_DATA, "no data"),
    "INFO-100": (Kind.REFUSED, f"the key is not valid: {_KEY}"),
    "INFO-400": (Kind.REFUSED, f"the key has no right to the service: {_KEY}"),
    "INFO-300": (Kind.RETRY_LATER, "the key's calls are spent"),
    "ERROR-300": (Kind.REFUSED, f"the address lacks a part: check {ADDRESS_SETTING} and {KEY_SETTING}"),
    "ERROR-301": (Kind.REFUSED, f"the file type is not accepted: check {ADDRESS_SETTING}"),
    "ERROR-310": (Kind.REFUSED, f"the service {SERVICE} is not found: check {ADDRESS_SETTING}"),
    "ERROR-331": (Kind.REFUSED, f"the start position is wrong: {_OURS}"),
    "ERROR-332": (Kind.REFUSED, f"the end position is wrong: check {LIMIT_SETTING}"),
    "ERROR-334": (Kind.REFUSED, f"the end lies before the start: check {LIMIT_SETTING}"),
    "ERROR-336": (Kind.REFUSED, f"more than 1000 rows in one call: lower {LIMIT_SETTING}"),
    "ERROR-500": (Kind.RETRY, "the API's server failed"),
    "ERROR-601": (Kind.RETRY, "the API's database failed"),
    # The gateway in front of such services answers with numbers of its own, as XML.
    "1": (Kind.RETRY, "the gateway failed"),
    "2": (Kind.RETRY, "the gateway's database failed"),
    "4": (Kind.RETRY, "the gateway could not reach the service"),
    "5": (Kind.RETRY, "the gateway waited too long for the service"),
    "10": (Kind.REFUSED, f"a part of the address is wrong: check {ADDRESS_SETTING}"),
    "11": (Kind.REFUSED, f"the address lacks a part: check {ADDRESS_SETTING} and {KEY_SETTING}"),
    "12": (Kind.REFUSED, f"the gateway knows no such service: check {ADDRESS_SETTING}"),
    "20": (Kind.REFUSED, f"the key has no right to the service: {_KEY}"),
    "21": (Kind.REFUSED, f"the key is suspended: {_KEY}"),
    "22": (Kind.RETRY_LATER, "the key's calls are spent"),
    "30": (Kind.REFUSED, f"the key is not registered: {_KEY}"),
    "31": (Kind.REFUSED, f"the key has expired: {_KEY}"),
    "32": (Kind.REFUSED, "the key is not registered for this machine's IP address: register the address"),
    "99": (Kind.RETRY, "the gateway failed"),
}


class OpenApiError(Exception):
    """Base of what `read_answer` raises. Messages are ours alone: an answer may repeat the key."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code


class OpenApiRefused(OpenApiError):
    """Permanent: our request or key is wrong; the message says which, and what to change."""


class OpenApiUnavailable(OpenApiError):
    """Transient. `retry_later`: the quota is spent, so that a retry within minutes would fail as well."""

    def __init__(self, message: str, code: str, retry_later: bool) -> None:
        super().__init__(message, code)
        self.retry_later = retry_later


class OpenApiUnreadable(OpenApiError):
    """The answer is none that the API is known to give; nothing is known about what it holds."""


@dataclass(frozen=True, slots=True)
class RecipePage:
    """The rows of one call, in the API's order, each with an RCP_SEQ that no other has.

    `received` counts the rows as they came, and so says how far the cursor may move: `unusable` ones
    (without an RCP_SEQ) and repeated ones are among them. `total` is the number of all recipes, where given.
    """

    code: str
    message: str
    rows: list[dict[str, str]]
    total: int | None = None
    received: int = 0
    unusable: int = 0


def source_url(base: str, key: str, start: int, end: int) -> str:
    """The address of the rows `start` to `end`, both included, from 1. Holds the key: never to be logged."""
    return f"{base.rstrip('/')}/api/{quote(key, safe='', errors='replace')}/{SERVICE}/json/{start}/{end}"


def read_answer(body: bytes) -> RecipePage:
    """The page that the body of an answer with status 200 holds.

    Values are text without NUL and lone surrogates; null, true, false and nested values become "".
    Raises OpenApiRefused, OpenApiUnavailable, OpenApiUnreadable.
    """
    text = text_of(body).strip()
    if text.startswith("<"):
        report = report_in_markup(text)
        if report is None:
            raise OpenApiUnreadable("the answer is a page of HTML or XML, and no error report of the API")
        return _without_rows(report)
    holder = _holder(text)
    result = holder.get("RESULT")
    if not isinstance(result, dict):
        raise OpenApiUnreadable("the answer is JSON without RESULT")
    report = CodeReport(_as_text(result.get("CODE")).strip(), _as_text(result.get("MSG")))
    if _kind(report.code) is not Kind.OK:
        return _without_rows(report)
    return _page(report, holder)


def _holder(text: str) -> dict[str, Any]:
    try:
        # Numbers stay as they are written ("12.50"), and raw line breaks in a text are let pass.
        answer = json.loads(text, strict=False, parse_int=str, parse_float=str, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise OpenApiUnreadable("the answer is not JSON, or was cut off") from None
    if not isinstance(answer, dict):
        raise OpenApiUnreadable("the answer is JSON, but no object")
    holder = answer.get(SERVICE, answer)
    if not isinstance(holder, dict):
        raise OpenApiUnreadable(f"{SERVICE} in the answer is no object")
    return holder


def _kind(code: str) -> Kind:
    known = KNOWN_CODES.get(code)
    if known is None:
        shown = code if _CODE.fullmatch(code) else None
        raise OpenApiUnreadable("the answer has an unknown code" if code else "the answer has no code", shown)
    return known[0]


def _without_rows(report: CodeReport) -> RecipePage:
    kind = _kind(report.code)
    remedy = KNOWN_CODES[report.code][1]
    if kind is Kind.NO_DATA:
        return RecipePage(report.code, report.message, [])
    if kind is Kind.REFUSED:
        raise OpenApiRefused(remedy, report.code)
    if kind is Kind.OK:
        raise OpenApiUnreadable("the answer says ok, but not as JSON", report.code)
    raise OpenApiUnavailable(remedy, report.code, retry_later=kind is Kind.RETRY_LATER)


def _page(report: CodeReport, holder: dict[str, Any]) -> RecipePage:
    received = holder.get("row")
    if not isinstance(received, list):
        raise OpenApiUnreadable("the answer says ok, but has no list of rows", report.code)
    # A later row of the same recipe takes the place of the earlier one.
    usable = [row for row in map(_row, received) if row is not None]
    rows = {row["RCP_SEQ"]: row for row in usable}
    # One bad row at the end of the list must not stop the cursor for ever; a whole page is another format.
    if not usable and len(received) > 1:
        raise OpenApiUnreadable(f"none of the {len(received)} rows has an RCP_SEQ", report.code)
    return RecipePage(
        code=report.code,
        message=report.message,
        rows=list(rows.values()),
        total=_count(holder.get("total_count")),
        received=len(received),
        unusable=len(received) - len(usable),
    )


def _row(given: Any) -> dict[str, str] | None:
    if not isinstance(given, dict):
        return None
    row = dict(_fields(given.items()))
    row["RCP_SEQ"] = row.get("RCP_SEQ", "").strip()
    return row if 0 < len(row["RCP_SEQ"]) <= _MOST_ID_CHARACTERS else None


def _fields(given: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, str]]:
    """The fields whose names a document store accepts; the API's own are all of this form."""
    return ((name, _as_text(value)) for name, value in given if _FIELD_NAME.fullmatch(name))


def _as_text(value: Any) -> str:
    return _SURROGATES.sub("\ufffd", value.replace("\x00", "")) if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    text = _as_text(value).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
