"""Near-duplicate articles: one wire story printed by many presses, found by MinHash.

A signature is small enough to be stored with its article, so that a day's articles are compared without
reading their bodies again.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

SIMILARITY_THRESHOLD = 0.85
PERMUTATIONS = 128
SIGNATURE_BYTES = PERMUTATIONS * 4

Signature: TypeAlias = bytes

_SHINGLE_WORDS = 3
_WORD = re.compile(r"\w+")
_BATCH = 8192  # shingles at a time: 128 permutations of them are 8 MB, however long the text
_NO_WORDS: Signature = b"\xff" * SIGNATURE_BYTES


def _derived(label: str) -> NDArray[np.uint64]:
    """128 fixed 64-bit numbers, the same with every version of numpy and on every machine."""
    digests = (hashlib.sha256(f"{label} {n}".encode()).digest()[:8] for n in range(PERMUTATIONS))
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[:, None]


_FACTORS = _derived("factor") | np.uint64(1)
_OFFSETS = _derived("offset")


def signature(text: str) -> Signature:
    """The 512-byte MinHash of a cleaned body: 128 numbers of 32 bits, little-endian.

    Taken over shingles of three words, without case and punctuation; a text of one or two words is a
    single shingle. Text without any word is like nothing, not even like another of its kind.
    Deterministic across processes and platforms.
    """
    smallest = np.full(PERMUTATIONS, np.iinfo(np.uint32).max, dtype=np.uint32)
    shingles = _shingle_hashes(text)
    while batch := b"".join(islice(shingles, _BATCH)):
        hashes = np.frombuffer(batch, dtype="<u8").astype(np.uint64)
        # Multiply, add and shift modulo 2^64 stands for a permutation.
        permuted = ((hashes * _FACTORS + _OFFSETS) >> np.uint64(32)).astype(np.uint32)
        np.minimum(smallest, permuted.min(axis=1), out=smallest)
    return smallest.astype("<u4").tobytes()


def similarity(a: Signature, b: Signature) -> float:
    """The estimated Jaccard similarity of two texts' shingles, 0.0 to 1.0; `ValueError` for a wrong length.

    The standard error is sqrt(J(1-J)/128): 0.032 at a similarity of 0.85, 0.044 at most.
    """
    return float(_similarities(a, [b])[0])


def most_similar(
    signature: Signature, others: Sequence[tuple[int, Signature]], threshold: float = SIMILARITY_THRESHOLD
) -> tuple[int, float] | None:
    """The id and similarity of the most similar of `others`, the first of equals; None below the threshold.

    Same error as `similarity`.
    """
    if not others:
        return None
    similarities = _similarities(signature, [other for _, other in others])
    best = int(similarities.argmax())
    return (others[best][0], float(similarities[best])) if similarities[best] >= threshold else None


def _shingle_hashes(text: str) -> Iterator[bytes]:
    words = _WORD.findall(text.casefold())
    size = min(_SHINGLE_WORDS, len(words))
    for start in range(len(words) - size + 1 if words else 0):
        yield hashlib.blake2b(
            " ".join(words[start : start + size]).encode(errors="surrogatepass"), digest_size=8
        ).digest()


def _similarities(one: Signature, others: Sequence[Signature]) -> NDArray[np.float64]:
    if any(len(other) != SIGNATURE_BYTES for other in (one, *others)):
        raise ValueError(f"a signature has {SIGNATURE_BYTES} bytes")
    if one == _NO_WORDS:
        return np.zeros(len(others))
    rows = np.frombuffer(b"".join(others), dtype="<u4").reshape(-1, PERMUTATIONS)
    equal = rows == np.frombuffer(one, dtype="<u4")
    return np.asarray(equal.mean(axis=1), dtype=np.float64)
