"""Decay, and where a product stands in a catalogue."""

import numpy as np
import pytest

from assets.recommendations.catalogue import UNKNOWN, decayed, rows_of
from tests.unit.recommendations.shop import catalogue_of


def test_half_is_left_after_each_half_life() -> None:
    assert decayed([8, 8, 8, 8], [0, 7, 14, 21], 7).tolist() == [8, 4, 2, 1]
    assert decayed([1.0], [3.5], 7) == pytest.approx([0.5**0.5])


def test_what_is_still_to_come_counts_as_now() -> None:
    assert decayed([3], [-2], 7).tolist() == [3]


def test_an_age_without_end_leaves_nothing() -> None:
    assert decayed([5, 5], [1e9, float("inf")], 7).tolist() == [0, 0]


@pytest.mark.parametrize("half_life", [0, -1, float("nan")])
def test_a_half_life_of_nothing_is_refused(half_life: float) -> None:
    with pytest.raises(ValueError, match="half-life"):
        decayed([1], [1], half_life)


@pytest.mark.parametrize("ids", [[2, 5, 9], [9, 2, 5]])
def test_a_product_is_found_wherever_it_stands_and_others_are_unknown(ids: list[int]) -> None:
    rows = rows_of(catalogue_of({number: {} for number in ids}), [5, 1, 9, 10, 5, 2, 3])
    assert [ids[row] if row != UNKNOWN else None for row in rows] == [5, None, 9, None, 5, 2, None]


def test_nothing_is_found_in_an_empty_catalogue_and_nothing_for_nobody() -> None:
    assert rows_of(catalogue_of({}), [1, 2]).tolist() == [UNKNOWN, UNKNOWN]
    assert rows_of(catalogue_of({1: {}}), []).tolist() == []
    assert rows_of(catalogue_of({}), []).dtype == np.intp
