"""How good a list is, and how sure an average over members can be."""

import math
from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

# Student's t, 97.5 %, 19 degrees of freedom: the spread is itself estimated from 20 draws.
DRAWS = 20
_T = 2.093
NEIGHBOURS = 10


@dataclass(frozen=True)
class Estimate:
    """A mean and half the width of its 95 % interval."""

    mean: float
    either_side: float

    @property
    def is_above_zero(self) -> bool:
        """With the whole interval."""
        return self.mean > self.either_side

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.either_side:.4f}"


def recall_at(size: int, shown: Sequence[int], relevant: Collection[int]) -> float:
    """The share of what is relevant that is among the first `size`. Raises ValueError where nothing is."""
    if not relevant:
        raise ValueError("nothing is relevant")
    return sum(product in relevant for product in shown[:size]) / len(relevant)


def ndcg_at(size: int, shown: Sequence[int], relevant: Collection[int]) -> float:
    """Hits discounted by log2(rank + 1), as a share of the best that `size` places allow; errors as above."""
    if not relevant:
        raise ValueError("nothing is relevant")
    gained = sum(_discount(place) for place, product in enumerate(shown[:size]) if product in relevant)
    return gained / sum(_discount(place) for place in range(min(size, len(relevant))))


def right_at_equal_popularity(
    order: Sequence[int], relevant: Collection[int], popularity: Mapping[int, float]
) -> float:
    """How often a relevant product stands above another that is about as popular.

    `order`: all that could be shown, best first. Each relevant product is compared with the ten others next
    above it in popularity and the ten next below, both sides counting the same, so that chance and
    popularity itself come to 0.5; so does a product that has no others on one side. Raises ValueError where
    nothing is relevant.
    """
    if not relevant:
        raise ValueError("nothing is relevant")
    places = {product: place for place, product in enumerate(order)}
    others = sorted((-popularity[product], product) for product in order if product not in relevant)
    shares = []
    for product in relevant:
        at = bisect(others, (-popularity[product], product))
        sides = others[max(0, at - NEIGHBOURS) : at], others[at : at + NEIGHBOURS]
        beaten = [[places[other] > places[product] for _, other in side] for side in sides]
        shares.append(fmean(map(fmean, beaten)) if all(beaten) else 0.5)
    return fmean(shares)


def estimate(of_each_member: ArrayLike) -> Estimate:
    """The mean, and how far it would go with other members of the same kind.

    Each of 20 seeds draws as many members as there are, with replacement; the spread of their means is the
    error of the mean. For a difference between two rankers, give the difference of each member.
    """
    values = np.asarray(of_each_member, dtype=np.float64)
    means = [
        float(np.random.default_rng(seed).choice(values, size=len(values)).mean()) for seed in range(DRAWS)
    ]
    return Estimate(float(values.mean()), _T * float(np.std(means, ddof=1)))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
