"""Raw files that are large, deep, cut or generated: read in little memory or unreadable, and nothing else."""

import io
import json
import time
import tracemalloc
import unicodedata
from collections.abc import Callable
from typing import BinaryIO, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.raw_files.raw_document import (
    ItemCounts,
    RawDocumentUnreadable,
    RawItem,
    domains_in,
    items_in,
)
from tests.bad_inputs import bad_inputs


class Stream:
    """A file whose every `read` is answered by a function of the position."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read, self._position = read, 0

    def read(self, size: int = -1) -> bytes:
        block = self._read(self._position, size)
        self._position += len(block)
        return block


def stream(read: Callable[[int, int], bytes]) -> BinaryIO:
    return cast(BinaryIO, Stream(read))


def test_a_file_may_come_in_blocks_of_any_size() -> None:
    document = '\ufeff{"items": [{"url": "https://한글.한국/", "title": "금리 인상"}]}'.encode()
    found = list(items_in(stream(lambda position, size: document[position : position + 1])))
    assert found == [RawItem("xn--bj0bj06e.xn--3e0b707e", "금리 인상", None, None)]


@pytest.mark.parametrize(
    ("escaped", "title"),
    [
        (r"\ud83d\ude00", "\U0001f600"),
        (r"x\ud83d", "x\ufffd"),
        (r"\ude00x", "\ufffdx"),
        (r"\ud83d\uac00", "\ufffd가"),
        (r"\ud83d\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd"),
        (r"\uD83Dx\uDE00", "\ufffdx\ufffd"),
        (r"\\ude00", r"\ude00"),
        (r"\\\ude00", "\\\ufffd"),
        (r"\\ud83d\ude00", "\\ud83d\ufffd"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_half_a_character_is_replaced_wherever_the_file_was_cut(escaped: str, title: str, size: int) -> None:
    document = f'[{{"url": "a-shop.test", "{escaped}": 1, "title": "{escaped}"}}]'.encode()
    blocks = stream(lambda position, _: document[position : position + size])
    assert list(items_in(blocks)) == [RawItem("a-shop.test", title, None, None)]


@pytest.mark.parametrize(
    "fault", [ConnectionResetError("reset"), ValueError("closed"), SystemError("x"), UnicodeError("x")]
)
@pytest.mark.parametrize("begins", [b"", b"[", b'["a-shop.test", "b'])
def test_a_fault_of_the_connection_is_not_taken_for_one_of_the_file(fault: Exception, begins: bytes) -> None:
    def read(position: int, size: int) -> bytes:
        if position < len(begins):
            return begins[position:]
        raise fault

    with pytest.raises(type(fault)) as raised:
        list(domains_in(stream(read)))
    assert raised.value is fault


@pytest.mark.parametrize("pair", ["[]", "{}"])
@pytest.mark.parametrize("where", ["a list", "a field", "a key"])
def test_nesting_of_any_depth_is_passed_over(pair: str, where: str) -> None:
    opened = b"[" if pair == "[]" else b'{"x":'
    deep = opened * 100_000 + b"1" + pair[1:].encode() * 100_000
    document = {
        "a list": b"[" + deep + b', "a-shop.test"]',
        "a field": b'[{"title":' + deep + b', "url": "a-shop.test"}]',
        "a key": b'{"x":' + deep + b', "items": ["a-shop.test"]}',
    }
    assert list(domains_in(io.BytesIO(document[where]))) == ["a-shop.test"]
    with pytest.raises(RawDocumentUnreadable, match="broken JSON"):
        list(domains_in(io.BytesIO(opened * 100_000)))


@pytest.mark.parametrize("letter", ["x", "가"])
def test_a_title_of_ten_megabytes_is_cut_and_costs_no_minutes(letter: str) -> None:
    title = letter * (10_000_000 // len(letter.encode()))
    document = json.dumps([{"url": "a-shop.test", "title": title}], ensure_ascii=False).encode()
    started = time.process_time()
    (item,) = items_in(io.BytesIO(document))
    assert item.title == letter * 500
    # Measured: 0.2 to 1.3 s. Handed to the parser in small pieces, it took 15.
    assert time.process_time() - started < 5


def test_a_value_without_end_is_not_collected() -> None:
    endless = stream(lambda position, size: b'["' if position == 0 else b"x" * size)
    with pytest.raises(RawDocumentUnreadable, match="more than 16 MiB in one value"):
        list(domains_in(endless))


def test_a_hundred_megabytes_are_read_in_a_few() -> None:
    entries = 12
    entry = (
        b'{"url": "https://www.shop-%02d.test/", "title": "'
        + b"t" * 20_000
        + b'", "more": [{"x": [1, {}]}]},'
    )
    block = b"".join(entry % number for number in range(entries))
    blocks = 100_000_000 // len(block)

    def read(position: int, size: int) -> bytes:
        number = position // len(block)
        begin, end = (b'{"items": [', b'"a-shop.test"]}')
        if position == 0:
            return begin + b" " * (len(block) - len(begin))
        if number <= blocks:
            return block
        return end if position == (blocks + 1) * len(block) else b""

    list(items_in(io.BytesIO(b"[]")))  # what is imported and compiled once
    tracemalloc.start()
    found = sum(1 for _ in items_in(stream(read)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == blocks * entries + 1
    assert peak < 3_000_000


TEXT = st.text(st.characters(), max_size=20)  # lone surrogates included
NAMES = st.sampled_from(["url", "domain", "link", "title", "description", "rank", "items", "domains"]) | TEXT
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS | st.just("https://www.a-shop.test/"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
PIECES = [
    *"[]{},:",
    '"',
    "\\",
    "\\ud800",
    '"items"',
    '"domains"',
    '"url":',
    '"a-shop.test"',
    "1e5",
    "-",
    "nul",
    "가",
]
DOCUMENTS = (
    st.binary(max_size=200)
    | st.builds(lambda value, escaped: json.dumps(value, ensure_ascii=escaped), VALUES, st.booleans()).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
    | st.builds(
        lambda pieces, encoding: "".join(pieces).encode(encoding, "replace"),
        st.lists(st.sampled_from(PIECES) | TEXT, max_size=20),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp949"]),
    )
)


@bad_inputs
@given(document=DOCUMENTS, cut=st.just(10_000) | st.integers(0, 200))
@example(document=b'[{"url": "a-shop.test", "rank": 1e400}]', cut=400)
def test_any_bytes_are_read_or_unreadable(document: bytes, cut: int) -> None:
    counts = ItemCounts()
    try:
        found = list(items_in(io.BytesIO(document[:cut]), counts))
    except RawDocumentUnreadable:
        return
    assert len(found) == counts.items - counts.rejected
    for item in found:
        assert item.domain.isascii()
        assert item.rank is None or 0 <= item.rank < 2**31
        for text in (item.title, item.description):
            assert text is None or (text and "\x00" not in text and unicodedata.is_normalized("NFC", text))
            (text or "").encode()


@bad_inputs
@given(entries=st.lists(VALUES, max_size=4), name=st.sampled_from(["items", "domains", None]), beside=VALUES)
def test_every_entry_is_counted_whatever_stands_around_the_list(
    entries: list[object], name: str | None, beside: object
) -> None:
    document = entries if name is None else {"before": beside, name: entries, "after": beside}
    counts = ItemCounts()
    list(items_in(io.BytesIO(json.dumps(document).encode()), counts))
    assert counts.items == len(entries)
