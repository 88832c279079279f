"""Arithmetic on the arrays of a catalogue."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assets.recommendations.models import Catalogue

UNKNOWN = -1


def decayed(weights: ArrayLike, ages_days: ArrayLike, half_life_days: float) -> NDArray[np.float64]:
    """The weights after their ages: half is left after each half-life. A time to come counts as now.

    Arrays of one shape. Raises ValueError for a half-life that is not above 0.
    """
    if not half_life_days > 0:
        raise ValueError("a half-life is longer than nothing")
    ages = np.maximum(np.asarray(ages_days, dtype=np.float64), 0.0)
    return np.asarray(weights, dtype=np.float64) * np.exp2(-ages / half_life_days)


def once_each(catalogue: Catalogue) -> Catalogue:
    """The first row of each product; the catalogue itself where no product has two."""
    known = catalogue.product_ids
    if bool(np.all(known[1:] > known[:-1])):  # as a store reads them
        return catalogue
    _, first = np.unique(known, return_index=True)
    if len(first) == len(known):
        return catalogue
    rows = np.sort(first)
    return Catalogue(*(getattr(catalogue, one.name)[rows] for one in fields(Catalogue)))


def rows_of(catalogue: Catalogue, product_ids: Sequence[int]) -> NDArray[np.intp]:
    """The row of each product, in the order asked for; UNKNOWN for what the catalogue does not hold."""
    known = catalogue.product_ids
    wanted = np.asarray(product_ids, dtype=np.int64)
    if not len(known):
        return np.full(len(wanted), UNKNOWN, dtype=np.intp)
    # A store reads them in order; sorting anew for each member would cost as much as ranking.
    order = None if bool(np.all(known[1:] > known[:-1])) else np.argsort(known)
    at = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    rows = at if order is None else order[at]
    return np.where(known[rows] == wanted, rows, UNKNOWN)
