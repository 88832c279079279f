"""The lines of batch files: requests written and split into files, results read and sorted into good and bad.

Lines end at b"\\n" and nowhere else: a text may hold U+2028 and other marks at which `splitlines` cuts.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, BinaryIO

MAX_LINES = 50_000
MAX_BYTES = 200_000_000

Body = dict[str, Any]

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_MOST_TOKENS = 10**9
_UNFINISHED = ("length", "content_filter")


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that were charged; the cached ones are among the input."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One line of a result file: its body where it is good, else the reason, which never holds content.

    `line_id` is the provider's name of the request, or "": a line written twice was charged once. `code` is
    what a refusing response names beside its status, or "".
    """

    custom_id: str
    body: Body | None
    reason: str
    usage: TokenUsage
    line_id: str
    code: str = ""


@dataclass(slots=True)
class BatchResults:
    """Both files of a batch. No custom_id is in `good` and in `bad`.

    `unreadable` counts the lines that name no request, `doubled` those of a request that another line
    named before. Reasons: error:<code>, status:<number>, finish:length, finish:content_filter, refused,
    empty, unreadable. `usage` is that of all lines, bad ones too: they are paid for.
    """

    good: dict[str, Body] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    doubled: int = 0
    usage: TokenUsage = TokenUsage()


@dataclass(frozen=True, slots=True)
class Shard:
    """One written file; `number` counts from 1, `sha256` is that of its bytes."""

    number: int
    custom_ids: tuple[str, ...]
    bytes: int
    sha256: str


def read_results(output: bytes | BinaryIO | None, errors: bytes | BinaryIO | None) -> BatchResults:
    """What the output and the error file say of each request; the order of lines does not matter.

    Of a request with several lines the first good one counts, else the first. Never raises for content.
    """
    results = BatchResults()
    charged: set[str] = set()
    for source in (output, errors):
        for line in read_lines(source):
            if line is None:
                results.unreadable += 1
                continue
            if line.line_id not in charged:
                results.usage += line.usage
            if line.line_id:
                charged.add(line.line_id)
            _sort_in(results, line)
    return results


def read_lines(source: bytes | BinaryIO | None) -> Iterator[ResultLine | None]:
    """The lines of one file as they come, None for one that names no request; blank ones are left out."""
    lines: Iterable[bytes] = BytesIO(source or b"") if source is None or isinstance(source, bytes) else source
    for raw in lines:
        if stripped := raw.strip():
            yield _read_line(stripped)


def content_of(body: Mapping[str, Any]) -> str:
    """The text of a good chat completion. Raises ValueError for another body."""
    content = _message(body).get("content")
    if not isinstance(content, str):
        raise ValueError("the body is no chat completion with a text")
    return content


def request_line(custom_id: str, url: str, body: Mapping[str, Any]) -> bytes:
    """One line of an input file: UTF-8 with its newline, and no other mark that ends a line anywhere.

    Halves of a surrogate pair are joined, lone ones become U+FFFD. Raises ValueError for NaN and infinity.
    """
    request = {"custom_id": custom_id, "method": "POST", "url": url, "body": dict(body)}
    text = json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.translate(_LINE_BREAKS).encode() + b"\n"


def write_shards(
    lines: Iterable[tuple[str, bytes]],
    open_shard: Callable[[int], BinaryIO],
    max_lines: int = MAX_LINES,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Shard]:
    """Writes (custom_id, line) pairs in order into as few files as the limits allow, one line in memory.

    Each file is closed before its shard is yielded; without lines none is opened. Raises ValueError for a
    line that fits no file: the shards yielded before are whole, the file at hand is not.
    """
    waiting = iter(lines)
    following = next(waiting, None)
    number = 0
    while following is not None:
        number += 1
        custom_ids: list[str] = []
        size, digest = 0, hashlib.sha256()
        with open_shard(number) as file:
            while following is not None and len(custom_ids) < max_lines:
                custom_id, line = following
                if len(line) > max_bytes:
                    raise ValueError(f"the line of {custom_id} has {len(line)} bytes, above {max_bytes}")
                if custom_ids and size + len(line) > max_bytes:
                    break
                file.write(line)
                digest.update(line)
                custom_ids.append(custom_id)
                size += len(line)
                following = next(waiting, None)
        yield Shard(number, tuple(custom_ids), size, digest.hexdigest())


def emptied(file: BinaryIO) -> BinaryIO:
    """The file to write from its start, nothing in it; closing what is given leaves `file` open.

    So lines are written and read in a file without a name, which a killed run cannot leave behind.
    """
    file.seek(0)
    file.truncate()
    return os.fdopen(os.dup(file.fileno()), "wb")


def hash_of(lines: Iterable[bytes]) -> str:
    """The SHA-256 of the lines one after the other, as hex: that of a shard with these lines."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def _sort_in(results: BatchResults, line: ResultLine) -> None:
    seen = line.custom_id in results.good or line.custom_id in results.bad
    results.doubled += seen
    if line.body is None:
        if not seen:
            results.bad[line.custom_id] = line.reason
    elif line.custom_id not in results.good:
        results.good[line.custom_id] = line.body
        results.bad.pop(line.custom_id, None)


def _read_line(raw: bytes) -> ResultLine | None:
    try:
        line = json.loads(raw.decode("utf-8-sig"), strict=False)
    except (ValueError, RecursionError):
        return None
    custom_id = line.get("custom_id") if isinstance(line, dict) else None
    if not isinstance(custom_id, str) or not custom_id or _SURROGATE.search(custom_id):
        return None
    response = line.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    line_id = line.get("id")
    reason = _error_of(line.get("error")) or _reason_of_response(response)
    return ResultLine(
        custom_id=custom_id,
        body=body if reason is None else None,
        reason=reason or "",
        usage=_usage_of(body),
        line_id=line_id if isinstance(line_id, str) else "",
        code=_code_of(body) if reason else "",
    )


def _error_of(error: Any) -> str | None:
    if error is None:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return f"error:{code}" if isinstance(code, str) and _CODE.fullmatch(code) else "error:unknown"


def _code_of(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    named = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
    return next((one for one in named if isinstance(one, str) and _CODE.fullmatch(one)), "")


def _reason_of_response(response: Any) -> str | None:
    """Why a response is of no use, None where it is good."""
    status = response.get("status_code") if isinstance(response, dict) else None
    if not isinstance(status, int) or not 100 <= status <= 999:
        return "unreadable"
    if status != 200:
        return f"status:{status}"
    body = response["body"] if isinstance(response.get("body"), dict) else {}
    if "choices" in body:
        return _reason_of_completion(body)
    if not isinstance(body.get("data"), list):
        return "unreadable"
    first = next(iter(body["data"]), None)
    return None if isinstance(first, dict) and first.get("embedding") else "empty"


def _reason_of_completion(body: Body) -> str | None:
    finish = _choice(body).get("finish_reason")
    if finish in _UNFINISHED:
        return f"finish:{finish}"
    message = _message(body)
    if not message:
        return "unreadable"
    # Servers that speak the same protocol also write "" for no refusal.
    if message.get("refusal") not in (None, ""):
        return "refused"
    content = message.get("content")
    return None if isinstance(content, str) and content.strip() else "empty"


def _choice(body: Mapping[str, Any]) -> Body:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def _message(body: Mapping[str, Any]) -> Body:
    message = _choice(body).get("message")
    return message if isinstance(message, dict) else {}


def _usage_of(body: Any) -> TokenUsage:
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return TokenUsage()
    details = usage.get("prompt_tokens_details")
    return TokenUsage(
        _tokens(usage.get("prompt_tokens")),
        _tokens(details.get("cached_tokens")) if isinstance(details, dict) else 0,
        _tokens(usage.get("completion_tokens")),
    )


def _tokens(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
