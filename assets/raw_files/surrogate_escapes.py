"""Surrogate escapes of JSON: `\\ud83d\\ude00` together are one character, and one without the other is none.

The grammar of JSON allows a lone one, and whoever cuts a text in two writes them. The parser does not take
them: yajl refuses the file for a second half, and joins a first half with whatever escape comes after it.
"""

import re
from collections.abc import Iterable, Iterator

# All that is as it should be, from one backslash to the next. Possessive: nothing is gone through twice.
_SOUND = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_LONE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_REPLACEMENT = rb"\ufffd"
_PAIR_BYTES = 12


def without_lone_surrogates(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same JSON with U+FFFD, escaped, for every escape of half a character; its length is kept.

    `blocks` may be cut anywhere, also inside an escape. What is no escape at all is left to the parser.
    """
    rest = b""
    for block in blocks:
        if rest or b"\\" in block:
            block, rest = _mend(rest + block, is_last=False)
        yield block
    yield _mend(rest, is_last=True)[0]


def _mend(text: bytes, is_last: bool) -> tuple[bytes, bytes]:
    """The text mended, and its end that may be the first part of an escape, unless it is the last."""
    mended = bytearray()
    begin = 0
    while True:
        sound = _SOUND.match(text, begin)
        end = sound.end() if sound else begin
        mended += text[begin:end]
        left = len(text) - end
        if not left or (left < _PAIR_BYTES and not is_last):
            return bytes(mended), text[end:]
        is_lone = _LONE.match(text, end) is not None
        begin = end + (len(_REPLACEMENT) if is_lone else 2)
        mended += _REPLACEMENT if is_lone else text[end:begin]
