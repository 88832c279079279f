"""Which products a member is shown: one function over plain data, which a team may replace by its own."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from assets.recommendations.catalogue import UNKNOWN, decayed, once_each, rows_of
from assets.recommendations.models import (
    Catalogue,
    Event,
    EventKind,
    GenerationType,
    MemberHistory,
    Ranked,
)

TASTE_HALF_LIFE_DAYS = 14.0
TOP_CATEGORIES = 3
BOUGHT_IS_LEFT_OUT = timedelta(days=30)

# What is too few of one is filled from the next.
_WARMEST_FIRST = (GenerationType.G2, GenerationType.G1, GenerationType.G0)
_DIGITS = 9
"""What is kept of sums in double precision, so that the order in which they were added decides nothing."""
_SINGLE_PRECISION = 1e-5
_SHORTEST_MEAN = 1e-6
_DAY = timedelta(days=1)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


def rank(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int = 20) -> list[Ranked]:
    """At most `size` products, best first: those of the wanted type, then of each colder one (README).

    Each product once, by its first row, and none that is inactive or was bought in the 30 days before
    `now`. The same data gives the same list, whatever the order of its rows; equal scores go by product id.
    A member without events, or who opted out, gets G0. Raises ValueError for a naive `now`.
    """
    if now.utcoffset() is None:
        raise ValueError("a time without a zone")
    if not len(catalogue.product_ids):
        return []
    now = now.astimezone(UTC)
    catalogue = once_each(catalogue)
    free = catalogue.is_active.copy()
    free[_bought(catalogue, member.events, now)] = False
    # Where nothing is known, or may be used, the two warm types have no candidates.
    interest = _interest(catalogue, () if member.opted_out else member.events, now)
    ranked: list[Ranked] = []
    for kind in _WARMEST_FIRST[_WARMEST_FIRST.index(member.wanted) :]:
        if len(ranked) >= size:
            break
        room = size - len(ranked)
        rows, scores = _candidates(kind, catalogue, interest, free, room)
        best = _best(scores, catalogue.product_ids[rows], room)
        ranked += [
            Ranked(product_id, score, kind)
            for product_id, score in zip(
                catalogue.product_ids[rows[best]].tolist(), scores[best].tolist(), strict=True
            )
        ]
        free[rows[best]] = False
    return ranked


def _bought(catalogue: Catalogue, events: Sequence[Event], now: datetime) -> Rows:
    since = now - BOUGHT_IS_LEFT_OUT
    bought = [
        event.product_id
        for event in events
        if event.kind == EventKind.PURCHASE and event.occurred_at >= since
    ]
    rows = rows_of(catalogue, bought)
    return np.asarray(rows[rows != UNKNOWN])


def _interest(catalogue: Catalogue, events: Sequence[Event], now: datetime) -> Floats:
    """Each product's share in the member's decayed event weight; all 0 where no event tells anything."""
    products = len(catalogue.product_ids)
    rows = rows_of(catalogue, [event.product_id for event in events])
    known = rows != UNKNOWN
    weights = np.array([event.weight for event in events], dtype=np.float64)[known]
    ages = np.array([(now - event.occurred_at) / _DAY for event in events])[known]
    # By the largest first: the sum of large weights would be infinite.
    weights /= weights.max(initial=0.0) or 1.0
    interest = np.bincount(rows[known], decayed(weights, ages, TASTE_HALF_LIFE_DAYS), products)
    return np.asarray(interest / (interest.sum() or 1.0), dtype=np.float64)


def _candidates(
    kind: GenerationType, catalogue: Catalogue, interest: Floats, free: Flags, most: int
) -> tuple[Rows, Floats]:
    """The free rows that are candidates of the type, among them the `most` best, and their scores."""
    if kind is GenerationType.G2:
        return _near(catalogue.vectors, interest, free, most)
    if kind is GenerationType.G1:
        free = free & _in_top_categories(catalogue.categories, interest)
    rows = np.flatnonzero(free)
    popularity = catalogue.popularity[rows]
    return rows, np.where(np.isnan(popularity), 0.0, popularity)


def _near(vectors: NDArray[np.float32], interest: Floats, free: Flags, most: int) -> tuple[Rows, Floats]:
    """Cosines to the mean of what the member liked; nothing where that has no direction."""
    liked = np.flatnonzero(interest)
    # Not `@`: for so few numbers the threads that it starts cost ten times the product.
    mean = np.einsum("i,ij->j", interest[liked], vectors[liked])
    length = float(np.linalg.norm(mean))
    # What is left of vectors that cancel each other out is rounding.
    if length < _SHORTEST_MEAN:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    taste = mean / length
    # All rows: to pick the free ones first would copy the matrix, which costs more than the product.
    roughly = np.vecdot(vectors, taste.astype(np.float32))
    candidates = free.copy()
    zeros = np.flatnonzero(roughly == 0)
    candidates[zeros] &= vectors[zeros].any(axis=1)
    rows = np.flatnonzero(candidates)
    if most < len(rows):
        limit = np.partition(roughly[rows], len(rows) - most)[len(rows) - most]
        rows = rows[roughly[rows] >= limit - _SINGLE_PRECISION]
    # In that product equal vectors differ in the last digit, by the row they stand in.
    cosines = (vectors[rows] * taste).sum(axis=1)
    return rows, np.asarray(np.round(cosines, _DIGITS), dtype=np.float64)


def _in_top_categories(categories: NDArray[np.object_], interest: Floats) -> Flags:
    shares: dict[str, float] = {}
    for row in np.flatnonzero(interest):
        shares[categories[row]] = shares.get(categories[row], 0.0) + float(interest[row])
    # Rounded, so that the order in which they were added does not decide between equal ones.
    top = sorted(shares, key=lambda name: (-round(shares[name], _DIGITS), name))[:TOP_CATEGORIES]
    found = np.zeros(len(categories), dtype=np.bool_)
    for name in top:
        found |= categories == name
    return found


def _best(scores: Floats, product_ids: NDArray[np.int64], most: int) -> Rows:
    """Where the highest scores stand, best first; among equal ones the smaller ids."""
    if most < len(scores):
        limit = np.partition(scores, len(scores) - most)[len(scores) - most]
        above, tied = np.flatnonzero(scores > limit), np.flatnonzero(scores == limit)
        room = most - len(above)
        if room < len(tied):
            tied = tied[np.argpartition(product_ids[tied], room - 1)[:room]]
        places = np.concatenate((above, tied))
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((product_ids[places], -scores[places]))]
