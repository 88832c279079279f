"""Decompression that ends at a limit."""

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.bounded_body import read_body
from resources.errors import FetchFailed
from resources.fetch_errors import FetchRefused
from tests.bad_inputs import bad_inputs

TEXT = b"<title>Granary</title>" * 50


def raw_deflate(body: bytes) -> bytes:
    squeezer = zlib.compressobj(wbits=-15)
    return squeezer.compress(body) + squeezer.flush()


ENCODED = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "X-Gzip ": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate": raw_deflate(TEXT),
}


def bytewise(body: bytes) -> Iterator[bytes]:
    return (body[n : n + 1] for n in range(len(body)))


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_body_is_read_whole_in_pieces_of_any_size(encoding: str) -> None:
    assert read_body([ENCODED[encoding]], encoding, 10_000) == (TEXT, False)
    assert read_body(bytewise(ENCODED[encoding]), encoding, 10_000) == (TEXT, False)


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_body_is_cut_at_the_limit_and_says_so(encoding: str) -> None:
    assert read_body([ENCODED[encoding]], encoding, len(TEXT)) == (TEXT, False)
    assert read_body([ENCODED[encoding]], encoding, len(TEXT) - 1) == (TEXT[:-1], True)


def test_a_bomb_never_unfolds_in_memory() -> None:
    squeezer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(squeezer.compress(bytes(1_000_000)) for _ in range(100)) + squeezer.flush()
    tracemalloc.start()
    try:
        body, truncated = read_body([bomb], "gzip", 1_000_000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(body), truncated) == (1_000_000, True)
    assert most < 5_000_000


def test_no_chunk_is_taken_after_the_limit() -> None:
    def endless() -> Iterator[bytes]:
        yield from (b"x" * 400 for _ in range(3))
        raise AssertionError("taken on")

    assert read_body(endless(), "", 1_000) == (b"x" * 1_000, True)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_encoding_nobody_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(FetchRefused, match="encoding"):
        read_body([TEXT], encoding, 10_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_damaged_body_is_a_failed_fetch_and_an_empty_one_is_empty(encoding: str) -> None:
    with pytest.raises(FetchFailed, match="not"):
        read_body([TEXT], encoding, 10_000)
    with pytest.raises(FetchFailed, match="breaks off"):
        read_body([ENCODED[encoding][:-9]], encoding, 10_000)
    assert read_body([], encoding, 10_000) == (b"", False)


@bad_inputs
@given(st.lists(st.binary(max_size=50), max_size=8), st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_are_a_body_or_a_failed_fetch(chunks: list[bytes], encoding: str) -> None:
    try:
        body, _ = read_body(chunks, encoding, 100)
        assert len(body) <= 100
    except FetchFailed:
        pass
