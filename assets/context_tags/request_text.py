"""What a posted text and its placeMeta must be to be taken into the inbox. Reasons never hold the text."""

import hashlib
import hmac
import json
import math

MOST_CHARACTERS = 20_000
MOST_META_BYTES = 4_000
MOST_META_DEPTH = 32


def problem_of(text: str) -> str | None:
    """Why the text cannot be taken: `empty` (white space only), `too_long`, `not_storable`; None if it can.

    Postgres takes no NUL, and a lone surrogate has no UTF-8 form. Nothing is repaired here: the keyed hash
    and the vector are to be of the text as the application has it.
    """
    if len(text) > MOST_CHARACTERS:
        return "too_long"
    if not text.strip():
        return "empty"
    return None if is_storable(text) else "not_storable"


def is_storable(text: str) -> bool:
    """Whether Postgres takes the text as it is, in a text column as in jsonb."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def place_meta_problem(value: object) -> str | None:
    """Why a parsed placeMeta cannot be stored as jsonb, None if it can; None itself means that none was sent.

    `not_an_object`, `too_deep` (more than 32 levels), `not_finite`, `not_storable`, `not_json` (a value that
    no JSON text holds), `too_large` (more than 4,000 bytes as compact UTF-8).
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        return "not_an_object"
    return _first_problem_within(value) or _size_problem(value)


def keyed_hash(text: str, key: bytes) -> str:
    """HMAC-SHA256 of the text in hex: tells two texts apart without saying what a short one was."""
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _first_problem_within(value: object) -> str | None:
    # Walked without recursion: the depth is the sender's choice.
    waiting: list[tuple[object, int]] = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, dict | list):
            if depth > MOST_META_DEPTH:
                return "too_deep"
            inside = [*part.keys(), *part.values()] if isinstance(part, dict) else part
            waiting.extend((one, depth + 1) for one in inside)
        elif isinstance(part, str):
            if not is_storable(part):
                return "not_storable"
        elif isinstance(part, float):
            if not math.isfinite(part):
                return "not_finite"
        elif part is not None and not isinstance(part, int):
            return "not_json"
    return None


def _size_problem(value: dict[object, object]) -> str | None:
    try:
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # An integer of more digits than Python writes out, so of thousands of bytes.
        return "too_large"
    return "too_large" if len(written.encode()) > MOST_META_BYTES else None
