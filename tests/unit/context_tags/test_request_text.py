"""Which texts and placeMetas are taken."""

import hashlib
import hmac
import json
import math
from typing import Any

import pytest

from assets.context_tags.request_text import MOST_META_BYTES, keyed_hash, place_meta_problem, problem_of

KEY = b"0123456789abcdef"


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("혼자 산책했다", None),
        (" 산책 ", None),
        ("😀", None),
        ("가" * 20_000, None),
        ("가" * 20_001, "too_long"),
        (" " * 20_001, "too_long"),
        ("", "empty"),
        (" \n\t\u3000\u2028\u00a0", "empty"),
        ("산책\x00", "not_storable"),
        ("산책\ud83d", "not_storable"),
        ("\udc00산책", "not_storable"),
    ],
)
def test_a_text_is_taken_or_says_why_not(text: str, problem: str | None) -> None:
    assert problem_of(text) == problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, None),
        ({}, None),
        ({"name": "성수동 카페", "at": [37.5, 127.0], "open": True, "floor": 2, "note": None}, None),
        ({"a": "\\u0000"}, None),
        ([], "not_an_object"),
        ("text", "not_an_object"),
        (7, "not_an_object"),
        (False, "not_an_object"),
        ({"a": math.nan}, "not_finite"),
        ({"a": [{"b": -math.inf}]}, "not_finite"),
        ({"a": "x\x00"}, "not_storable"),
        ({"a\ud800": 1}, "not_storable"),
        ({"a": [["\udfff"]]}, "not_storable"),
        ({"a": {1, 2}}, "not_json"),
        ({"a": b"x"}, "not_json"),
        ({"a": 10**5_000}, "too_large"),
        (nested(32), None),
        (nested(33), "too_deep"),
        (nested(100_000), "too_deep"),
    ],
    ids=lambda value: ascii(value)[:20] if not isinstance(value, dict) or len(value) != 1 else "one key",
)
def test_a_place_meta_is_taken_or_says_why_not(value: Any, problem: str | None) -> None:
    assert place_meta_problem(value) == problem


def test_a_place_meta_is_measured_in_bytes_of_compact_json() -> None:
    room = MOST_META_BYTES - len(json.dumps({"a": ""}, separators=(",", ":")))
    assert place_meta_problem({"a": "가" * (room // 3)}) is None
    assert place_meta_problem({"a": "x" * room}) is None
    assert place_meta_problem({"a": "x" * (room + 1)}) == "too_large"
    assert place_meta_problem({"a": "가" * (room // 3 + 1)}) == "too_large"


def test_the_hash_tells_texts_and_keys_apart() -> None:
    assert keyed_hash("산책", KEY) == hmac.new(KEY, "산책".encode(), hashlib.sha256).hexdigest()
    assert len({keyed_hash("산책", KEY), keyed_hash("산책 ", KEY), keyed_hash("산책", KEY + b"g")}) == 3


def test_a_text_that_cannot_be_stored_still_has_a_hash() -> None:
    assert len(keyed_hash("끝\ud83d\x00", KEY)) == 64
