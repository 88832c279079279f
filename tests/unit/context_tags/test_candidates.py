"""Which presets are offered to the model, and which vectors may be stored at all."""

import math
from typing import Any

import numpy as np
import pytest

from assets.context_tags.candidates import PresetMatrix, usable_vector
from assets.context_tags.models import Candidate, PresetSnapshot
from tests.unit.context_tags.made_presets import snapshot

AXES = PresetMatrix(snapshot({101: [1, 0, 0], 201: [0, 2, 0], 301: [0, 0, 0.5], 401: [1, 1, 0]}))


def ids(found: list[Candidate]) -> list[int]:
    return [one.preset.id for one in found]


def test_the_nearest_by_cosine_come_first_whatever_their_length() -> None:
    found = AXES.candidates([1, 10, 0], most=10, floor=0.3)
    assert ids(found) == [201, 401]
    assert found[0].similarity == pytest.approx(10 / math.sqrt(101))
    assert found[1].similarity == pytest.approx(11 / math.sqrt(202))


def test_the_length_of_the_texts_vector_changes_nothing() -> None:
    near, far = (AXES.candidates([scale, 2 * scale, 0], most=10, floor=0.3) for scale in (1e-3, 1e6))
    assert near == far


def test_no_more_than_the_most_are_offered() -> None:
    assert ids(AXES.candidates([2, 3, 1], most=2, floor=0.0)) == [401, 201]


def test_a_preset_at_the_floor_is_offered_and_one_below_is_not() -> None:
    matrix = PresetMatrix(snapshot({101: [3, 4]}))
    assert ids(matrix.candidates([1, 0], most=10, floor=0.6)) == [101]
    assert matrix.candidates([1, 0], most=10, floor=0.6001) == []


def test_nothing_near_is_no_candidate() -> None:
    assert AXES.candidates([-1, -1, -1], most=10, floor=0.3) == []


def test_ties_are_decided_by_id() -> None:
    rng = np.random.default_rng(0)
    same = rng.standard_normal(1_536)
    vectors = {109: same, **{number: rng.standard_normal(1_536) for number in range(201, 211)}}
    vectors |= {103: same * 3, 101: same / 7}
    matrix = PresetMatrix(snapshot({id_: vector.tolist() for id_, vector in vectors.items()}))
    found = matrix.candidates(list(same + rng.standard_normal(1_536) / 10), most=3, floor=0.3)
    assert ids(found) == [101, 103, 109]
    assert len({one.similarity for one in found}) == 1


def test_the_same_vector_is_similar_by_exactly_one() -> None:
    vector = [0.1, 0.7, -0.3]
    found = PresetMatrix(snapshot({101: vector})).candidates(vector, most=1, floor=1.0)
    assert [one.similarity for one in found] == [1.0]


def test_no_presets_are_no_candidates() -> None:
    assert PresetMatrix(snapshot({})).candidates([1, 0], most=10, floor=0.3) == []


@pytest.mark.parametrize("bad", [[0.0, 0.0], [math.nan, 1.0], [1.0]])
def test_a_preset_with_an_unusable_vector_is_named(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"\[102\]"):
        PresetMatrix(snapshot({101: [1.0, 0.0], 102: bad}))


def test_presets_and_vectors_must_be_as_many() -> None:
    whole = snapshot({101: [1.0], 102: [1.0]})
    with pytest.raises(ValueError, match="shorter"):
        PresetMatrix(PresetSnapshot(1, "profile", whole.presets, whole.vectors[:1]))


@pytest.mark.parametrize("vector", [[1, 0], [0, 0, 0], [math.nan, 0, 1]])
def test_a_vector_that_cannot_be_compared_is_an_error_and_not_zero_candidates(vector: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        AXES.candidates(vector, most=10, floor=0.3)


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0, 2.0, 3.0], None),
        ([0, 0, 1], None),
        ((0.0, -1e-30, 0.0), None),
        (np.array([1.0, 2.0, 3.0], dtype=np.float32), None),
        ([1.0, 2.0], "dimension"),
        ([1.0, 2.0, 3.0, 4.0], "dimension"),
        ([], "dimension"),
        (None, "dimension"),
        ("abc", "dimension"),
        (1.0, "dimension"),
        ([[1.0, 2.0, 3.0]], "dimension"),
        ([[1.0], [2.0, 3.0], 1.0], "not_a_number"),
        ([1.0, math.nan, 3.0], "not_a_number"),
        ([1.0, -math.inf, 3.0], "not_a_number"),
        ([1.0, 1e39, 3.0], "not_a_number"),
        ([1.0, None, 3.0], "not_a_number"),
        (["1.0", "2.0", "3.0"], "not_a_number"),
        ([1.0, 10**400, 3.0], "not_a_number"),
        ([1.0, 2j, 3.0], "not_a_number"),
        ([True, False, True], "not_a_number"),
        ([0.0, 0.0, -0.0], "zero"),
        ([1e-50, 1e-60, 0.0], "zero"),
    ],
)
def test_a_vector_is_usable_or_says_why_not(vector: Any, reason: str | None) -> None:
    assert usable_vector(vector, 3) == reason
