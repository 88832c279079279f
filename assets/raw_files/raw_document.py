"""A raw file, read as a stream: the domains that it lists, with what it says of them.

The shapes are those of "Processing a file" in the pipeline's contract. Memory stays flat: nothing is kept
but the item being read, and what no item needs is passed over as it comes.

ijson's own `items()` is not used: it builds whatever an item holds, however large, and takes a key that
is called "items.item" for a list of items.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, BinaryIO

import ijson  # type: ignore[import-untyped,unused-ignore]

from assets.raw_files.domains import registrable_domain
from assets.raw_files.surrogate_escapes import without_lone_surrogates

TITLE_CHARACTERS = 500
DESCRIPTION_CHARACTERS = 2_000
HIGHEST_RANK = 2**31 - 1  # what Postgres' integer holds
# The parser keeps a value until it ends; without a limit, a file that is one text would be held whole.
LONGEST_VALUE_BYTES = 16 * 2**20

_LISTS = frozenset({"items", "domains"})
_ADDRESSES = ("url", "domain", "link")
_FIELDS = frozenset({*_ADDRESSES, "title", "description", "rank"})
_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})

_READ_BYTES = 2**20
# The parser gets little at a time, since a fault is only known to lie in what it got last.
_PIECE_BYTES = 1024

# What ijson says and what it is given: an event and its value.
_Event = tuple[str, Any]


class RawDocumentUnreadable(Exception):
    """The file is no raw document; the message is the reason, without anything that the file holds."""


@dataclass(frozen=True, slots=True)
class RawItem:
    """A registrable domain and what the file says of it: storable texts, and a rank of 0 or more."""

    domain: str
    title: str | None
    description: str | None
    rank: int | None


@dataclass(slots=True)
class ItemCounts:
    """How many entries the lists had, and how many of these name no registrable domain."""

    items: int = 0
    rejected: int = 0


def items_in(stream: BinaryIO, counts: ItemCounts | None = None) -> Iterator[RawItem]:
    """Every entry that names a registrable domain, in order and as often as it is listed.

    `counts` is kept up to date while reading. Of an object's addresses the first of `url`, `domain` and
    `link` that has a domain counts. Raises RawDocumentUnreadable, also after items were given: they are
    void then. What the stream's `read` raises comes through as it is.
    """
    counts = ItemCounts() if counts is None else counts
    for entry in _entries(_events(stream)):
        counts.items += 1
        item = _item(entry)
        if item is None:
            counts.rejected += 1
        else:
            yield item


def domains_in(stream: BinaryIO) -> Iterator[str]:
    """The registrable domain of every entry that has one; as `items_in`."""
    return (item.domain for item in items_in(stream))


def _item(entry: object) -> RawItem | None:
    if isinstance(entry, str):
        domain = registrable_domain(entry)
        return None if domain is None else RawItem(domain, None, None, None)
    if not isinstance(entry, dict):
        return None
    for name in _ADDRESSES:
        address = entry.get(name)
        if isinstance(address, str) and (domain := registrable_domain(address)) is not None:
            return RawItem(
                domain,
                _text(entry.get("title"), TITLE_CHARACTERS),
                _text(entry.get("description"), DESCRIPTION_CHARACTERS),
                _rank(entry.get("rank")),
            )
    return None


def _text(value: object, characters: int) -> str | None:
    """Text that Postgres takes, in NFC, cut to so many characters; None where nothing is left of it."""
    if not isinstance(value, str):
        return None
    text = value.replace("\x00", "").strip()
    if not text.isascii():
        # Cut before, since normalising a text of megabytes takes a second. Decomposed Hangul has up to
        # three characters for one.
        some = text[: characters * 4]
        whole = some.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = unicodedata.normalize("NFC", whole)
    return text[:characters].rstrip() or None


def _rank(value: object) -> int | None:
    """A whole number that a Postgres integer holds, also written as text or as 3.0; None for any other."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    # Compared first: int() of a Decimal like 1e999999 would fill the memory with zeros.
    return int(value) if 0 <= value <= HIGHEST_RANK and value == int(value) else None


def _entries(events: Iterator[_Event]) -> Iterator[object]:
    """Every entry of the document's lists: a text, a dict of the known fields, or None for anything else."""
    kind, _ = next(events)
    if kind == "start_array":
        yield from _list_entries(events)
    elif kind == "start_map":
        yield from _entries_of_object(events)
    else:
        raise RawDocumentUnreadable(f"no list of items: the document is a {kind}")
    for _ in events:  # what follows is the parser's to refuse
        pass


def _entries_of_object(events: Iterator[_Event]) -> Iterator[object]:
    found = False
    for kind, key in events:
        if kind == "end_map":
            break
        kind, _ = next(events)
        if key not in _LISTS:
            _pass_over(kind, events)
        elif kind == "start_array":
            found = True
            yield from _list_entries(events)
        else:
            raise RawDocumentUnreadable(f'no list of items: "{key}" is a {kind.removeprefix("start_")}')
    if not found:
        raise RawDocumentUnreadable('no list of items: neither "items" nor "domains"')


def _list_entries(events: Iterator[_Event]) -> Iterator[object]:
    for kind, value in events:
        if kind == "string":
            yield value
        elif kind == "start_map":
            yield _fields(events)
        elif kind == "end_array":
            return
        else:
            _pass_over(kind, events)
            yield None


def _fields(events: Iterator[_Event]) -> dict[str, object]:
    """The known fields of the object that has just begun. Of a field that stands twice the later counts."""
    fields: dict[str, object] = {}
    for kind, key in events:
        if kind == "end_map":
            break
        kind, value = next(events)
        if key in _FIELDS:
            fields[key] = value
        if kind in _STARTS:
            _pass_over(kind, events)
    return fields


def _pass_over(kind: str, events: Iterator[_Event]) -> None:
    """Reads to the end of the value that has begun with an event of this kind, however deep it is."""
    depth = 1 if kind in _STARTS else 0
    while depth:
        kind, _ = next(events)
        if kind in _STARTS:
            depth += 1
        elif kind in _ENDS:
            depth -= 1


def _events(stream: BinaryIO) -> Iterator[_Event]:
    """The parser's events. They come to an end only where the document does; else RawDocumentUnreadable."""
    found: list[_Event] = ijson.sendable_list()
    parser = ijson.basic_parse_coro(found)
    position = silent = 0
    # The parser is handed bytes, and not the stream, so that no fault of reading passes for one of JSON.
    for block in without_lone_surrogates(_utf8(stream)):
        begin = 0
        while begin < len(block):
            # An unfinished value is looked through again with every piece: 15 s for 10 MB if all were small.
            piece = block[begin : begin + max(_PIECE_BYTES, silent)]
            if not _accepts(parser.send, piece):
                raise RawDocumentUnreadable(f"broken JSON near byte {position + begin}")
            begin += len(piece)
            silent = 0 if found else silent + len(piece)
            if silent > LONGEST_VALUE_BYTES:
                raise RawDocumentUnreadable(f"more than {LONGEST_VALUE_BYTES >> 20} MiB in one value")
            yield from found
            found.clear()
        position += len(block)
    if not _accepts(parser.close):
        raise RawDocumentUnreadable("broken JSON: the file ends before the document does")
    yield from found


def _accepts(step: Callable[..., object], *block: bytes) -> bool:
    """Whether a parser or decoder goes on. Its errors quote the file, so none of them is handed on."""
    try:
        step(*block)
    # A number of thousands of digits, or with an exponent like that, is JSON but no number of Python's: the
    # first comes as SystemError out of the parser's C code, the second as decimal.InvalidOperation.
    except (ijson.JSONError, ValueError, ArithmeticError, SystemError):
        return False
    return True


def _utf8(stream: BinaryIO) -> Iterator[bytes]:
    """The file in blocks, with spaces for a byte order mark, so that positions stay those of the file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_first = blank = True
    for block in _blocks(stream):
        # No JSON has a NUL among its first bytes, unless it is UTF-16 or UTF-32.
        if not _accepts(decoder.decode, block) or (is_first and b"\x00" in block[:4]):
            raise RawDocumentUnreadable("not UTF-8")
        if is_first and block.startswith(codecs.BOM_UTF8):
            block = b"   " + block.removeprefix(codecs.BOM_UTF8)
        is_first = False
        blank = blank and not block.strip(b" \t\r\n")
        yield block
    if blank:
        raise RawDocumentUnreadable("empty file")


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """What the stream gives, the first block of four bytes at least, if there are as many."""
    first = b""
    while len(first) < 4:
        more = stream.read(_READ_BYTES)
        if not more:
            break
        first += more
    block = first
    while block:
        yield block
        block = stream.read(_READ_BYTES)
