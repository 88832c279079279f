"""Rounds in which every contestant has its turn, so that what disturbs the machine disturbs them all."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

T = TypeVar("T")


def interleaved(rounds: int, contestants: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """What each gave in every round. The first of a round is another one each time."""
    names = list(contestants)
    found: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found[name].append(contestants[name]())
    return found


def medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: median(values) for name, values in found.items()}


def percentile(values: Sequence[float], share: int) -> float:
    """By nearest rank: of few values the largest."""
    return sorted(values)[math.ceil(share / 100 * len(values)) - 1]
