"""Generated catalogues and histories: the rules hold, and nothing is raised.

500 of them; GRANARY_BAD_INPUTS=10000 for the long round.
"""

import math
import sys
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.recommendations.models import (
    Catalogue,
    Event,
    EventKind,
    GenerationType,
    MemberHistory,
)
from assets.recommendations.rank import rank
from tests.bad_inputs import bad_inputs
from tests.unit.recommendations.shop import G0, NOW

WARMTH = {GenerationType.G2: 2, GenerationType.G1: 1, GenerationType.G0: 0}
WEIGHTS = st.one_of(st.sampled_from([0.0, 1.0, 5e-324, sys.float_info.max]), st.floats(0, 1e9))
AGES = st.one_of(
    st.sampled_from([timedelta(0), timedelta(days=30), timedelta(days=-3), timedelta(days=200_000)]),
    st.timedeltas(timedelta(days=-1), timedelta(days=200)),
)
events = st.builds(
    lambda product, kind, weight, age: Event(product, kind, weight, NOW - age),
    st.integers(-1, 12),
    st.sampled_from(list(EventKind)),
    WEIGHTS,
    AGES,
)
members = st.builds(
    MemberHistory,
    st.just(1),
    st.lists(events, max_size=12),
    st.booleans(),
    st.sampled_from(list(GenerationType)),
)


@st.composite
def catalogues(draw: st.DrawFn) -> Catalogue:
    ids = draw(st.lists(st.integers(0, 12), unique=True, max_size=12))

    def one_each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=len(ids), max_size=len(ids)))

    numbers = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 1.0]), min_size=4, max_size=4)
    vectors = np.array(one_each(numbers), dtype=np.float32).reshape(len(ids), 4)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Catalogue(
        np.array(ids, dtype=np.int64),
        np.array(one_each(st.sampled_from(["", "면", "밥", "국", "차"])), dtype=np.object_),
        np.array(one_each(st.booleans()), dtype=np.bool_),
        np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32),
        np.array(one_each(st.one_of(st.just(0.0), st.floats(0, 1e300))), dtype=np.float64),
    )


@bad_inputs
@given(catalogues(), members, st.integers(0, 15))
def test_the_list_is_full_of_what_is_allowed_each_once_and_never_gets_warmer(
    catalogue: Catalogue, member: MemberHistory, size: int
) -> None:
    ranked = rank(catalogue, member, NOW, size)
    bought = {
        event.product_id
        for event in member.events
        if event.kind is EventKind.PURCHASE and event.occurred_at >= NOW - timedelta(days=30)
    }
    allowed = set(catalogue.product_ids[catalogue.is_active].tolist()) - bought
    found = [one.product_id for one in ranked]
    assert len(set(found)) == len(found) == min(size, len(allowed))
    assert set(found) <= allowed
    warmth = [WARMTH[one.candidate_generation_type] for one in ranked]
    assert warmth == sorted(warmth, reverse=True)
    assert max(warmth, default=0) <= WARMTH[member.wanted]
    if member.opted_out or not member.events:
        assert {one.candidate_generation_type for one in ranked} <= {G0}
    assert all(math.isfinite(one.score) for one in ranked)
    for one, after in pairwise(ranked):
        if one.candidate_generation_type is after.candidate_generation_type:
            assert (-one.score, one.product_id) < (-after.score, after.product_id)


@settings(bad_inputs, max_examples=200)
@given(catalogues(), members, st.integers(0, 12))
def test_a_shorter_list_is_the_beginning_of_a_longer_one(
    catalogue: Catalogue, member: MemberHistory, size: int
) -> None:
    assert rank(catalogue, member, NOW, size) == rank(catalogue, member, NOW)[:size]
