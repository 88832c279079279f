"""Bodies that are decompressed no further than a limit: a bomb never unfolds in memory."""

import zlib
from collections.abc import Iterable

from resources.errors import FetchFailed
from resources.fetch_errors import FetchRefused

ACCEPT_ENCODING = "gzip, deflate"

_GZIP, _ZLIB, _RAW = 31, 15, -15


def read_body(chunks: Iterable[bytes], content_encoding: str, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the decompressed body, and whether there was more.

    Stops taking chunks when it knows. Raises FetchRefused for an encoding that was not asked for and
    FetchFailed for a compressed body that is damaged or breaks off.
    """
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return _plain(chunks, limit)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise FetchRefused(f"it answers in the encoding {encoding[:40]!r}")
    try:
        return _decompressed(chunks, encoding, limit)
    except zlib.error:
        raise FetchFailed(f"the body is not {encoding}") from None


def _plain(chunks: Iterable[bytes], limit: int) -> tuple[bytes, bool]:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > limit:
            return bytes(body[:limit]), True
    return bytes(body), False


def _decompressed(chunks: Iterable[bytes], encoding: str, limit: int) -> tuple[bytes, bool]:
    body = bytearray()
    decompressor = None
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        if decompressor is None:
            if len(waiting) < 2:
                continue
            decompressor = zlib.decompressobj(_window_bits(encoding, waiting))
        body += decompressor.decompress(waiting, limit + 1 - len(body))
        if len(body) > limit:
            return bytes(body[:limit]), True
        if decompressor.eof:
            return bytes(body), False
        waiting = decompressor.unconsumed_tail
    if decompressor is None and not waiting:
        return b"", False
    raise FetchFailed("the compressed body breaks off")


def _window_bits(encoding: str, start: bytes) -> int:
    """`deflate` should mean zlib (RFC 9110), yet some servers send it without zlib's two bytes."""
    if encoding != "deflate":
        return _GZIP
    is_zlib = start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return _ZLIB if is_zlib else _RAW
