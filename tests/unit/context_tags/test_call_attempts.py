"""How long a call waits for its next try."""

import random

import pytest

from assets.context_tags.call_attempts import wait_seconds


@pytest.mark.parametrize(
    ("attempt", "most"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 4.0), (5_000, 4.0)]
)
def test_the_bound_doubles_up_to_the_most(attempt: int, most: float) -> None:
    assert wait_seconds(attempt, 0.5, 4, lambda: 1.0) == most
    assert wait_seconds(attempt, 0.5, 4, lambda: 0.25) == most / 4
    assert wait_seconds(attempt, 0.5, 4, lambda: 0.0) == 0


def test_waits_are_spread_over_the_whole_range() -> None:
    drawn = [wait_seconds(4, 0.5, 4, random.Random(seed).random) for seed in range(200)]
    assert min(drawn) < 0.4 and max(drawn) > 3.6 and max(drawn) <= 4


def test_an_attempt_below_one_waits_as_the_first() -> None:
    assert wait_seconds(0, 0.5, 4, lambda: 1.0) == wait_seconds(-9, 0.5, 4, lambda: 1.0) == 0.5
