"""What a member is shown: the three types, what fills them, and what is never shown."""

import math
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from assets.recommendations.models import Catalogue, GenerationType, MemberHistory, Ranked
from assets.recommendations.rank import rank
from tests.unit.recommendations.shop import G0, G1, G2, NOW, catalogue_of, event, member

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
MICROSECOND = timedelta(microseconds=1)


def shown(ranked: Sequence[Ranked]) -> list[tuple[int, GenerationType]]:
    return [(one.product_id, one.candidate_generation_type) for one in ranked]


def ids(catalogue: Catalogue, one: MemberHistory, size: int = 20) -> list[int]:
    return [ranked.product_id for ranked in rank(catalogue, one, NOW, size)]


def products(**vectors: Any) -> Catalogue:
    return catalogue_of({int(name[1:]): {"vector": vector} for name, vector in vectors.items()})


def test_g2_shows_the_nearest_to_what_the_member_liked_with_their_cosine() -> None:
    catalogue = products(p1=X, p2=(3, 4, 0), p3=Y, p4=(-1, 0, 0))
    ranked = rank(catalogue, member(event(1)), NOW)
    assert shown(ranked) == [(1, G2), (2, G2), (3, G2), (4, G2)]
    assert [one.score for one in ranked] == pytest.approx([1, 0.6, 0, -1], abs=1e-6)


def test_taste_is_the_mean_weighted_by_event() -> None:
    catalogue = products(p1=X, p2=Y, p3=(3, 1, 0), p4=(1, 3, 0))
    assert ids(catalogue, member(event(1, weight=3), event(2, weight=1)))[0] == 3
    assert ids(catalogue, member(event(1, weight=1), event(2, weight=3)))[0] == 4
    assert ids(catalogue, member(event(1), event(2), event(2), event(2)))[0] == 4


@pytest.mark.parametrize("unit", [5e-324, sys.float_info.max])
@pytest.mark.parametrize("wanted", [G2, G1])
def test_only_the_shares_of_weights_count_however_large_or_small(wanted: GenerationType, unit: float) -> None:
    catalogue = catalogue_of(
        {1: {"vector": X, "category": "국"}, 2: {"vector": Y, "category": "면"}, 3: {"vector": (1, 1, 0)}}
    )
    ordinary = rank(catalogue, member(event(1, 0), event(2, 0), wanted=wanted), NOW)
    extreme = member(event(1, 0, unit), event(2, 0, unit), wanted=wanted)
    assert rank(catalogue, extreme, NOW) == ordinary


def test_an_event_counts_half_after_two_weeks() -> None:
    catalogue = products(p1=X, p2=Y, p3=(1, 1, 0), p4=(2, 1, 0))
    ranked = rank(catalogue, member(event(1, days_ago=0), event(2, days_ago=14)), NOW)
    assert ranked[0].product_id == 4
    assert ranked[0].score == pytest.approx(1, abs=1e-6)
    assert ids(catalogue, member(event(1, days_ago=0, weight=1), event(2, days_ago=14, weight=2)))[0] == 3


def test_an_event_of_the_future_counts_as_now_and_no_more() -> None:
    catalogue = products(p1=X, p2=Y, p3=(1, 1, 0), p4=(1, 20, 0))
    assert ids(catalogue, member(event(1, days_ago=0), event(2, days_ago=-60)))[0] == 3


def test_a_product_without_a_vector_is_no_neighbour_but_may_fill() -> None:
    catalogue = catalogue_of(
        {1: {"vector": X}, 2: {"popularity": 9}, 3: {"vector": Y}, 4: {"vector": (-1, 0, 0)}}
    )
    assert shown(rank(catalogue, member(event(1)), NOW)) == [(1, G2), (3, G2), (4, G2), (2, G1)]


def test_an_inactive_product_still_tells_of_the_members_taste() -> None:
    catalogue = catalogue_of({1: {"vector": X, "active": False}, 2: {"vector": Y}, 3: {"vector": (2, 1, 0)}})
    assert ids(catalogue, member(event(1))) == [3, 2]


@pytest.mark.parametrize(
    "events",
    [
        [event(1), event(2)],  # which cancel each other out
        [event(3)],  # without a vector
        [event(99)],  # of an unknown product
        [event(3, weight=0)],
    ],
)
def test_a_taste_without_direction_gets_the_next_colder_type(events: list[Any]) -> None:
    catalogue = catalogue_of({1: {"vector": X}, 2: {"vector": (-1, 0, 0)}, 3: {"popularity": 5}})
    types = {kind for _, kind in shown(rank(catalogue, member(*events), NOW))}
    assert types and G2 not in types


def shop_of_categories() -> Catalogue:
    return catalogue_of(
        {
            number: {"category": category, "popularity": popularity, "vector": X}
            for number, category, popularity in [
                (1, "국", 1),
                (2, "국", 5),
                (3, "면", 9),
                (4, "밥", 8),
                (5, "떡", 7),
                (6, "차", 100),
            ]
        }
    )


def test_g1_shows_what_is_popular_in_the_members_categories_then_fills_with_g0() -> None:
    ranked = rank(shop_of_categories(), member(event(1), event(4), wanted=G1), NOW)
    assert shown(ranked) == [(4, G1), (2, G1), (1, G1), (6, G0), (3, G0), (5, G0)]
    assert [one.score for one in ranked] == [8, 5, 1, 100, 9, 7]


def test_only_the_three_categories_of_most_decayed_weight_are_the_members() -> None:
    likes = [event(1, weight=2), event(3, weight=2), event(4, weight=2)]
    lately = member(*likes, event(6, weight=2, days_ago=0), wanted=G1)
    assert [one for one, kind in shown(rank(shop_of_categories(), lately, NOW)) if kind is G1] == [6, 3, 2, 1]
    long_ago = member(*likes, event(6, weight=9, days_ago=60), wanted=G1)
    assert [one for one, kind in shown(rank(shop_of_categories(), long_ago, NOW)) if kind is G1] == [
        3,
        4,
        2,
        1,
    ]


def test_many_events_of_one_category_add_up() -> None:
    events = [event(6, weight=3), event(3, weight=3), event(4, weight=3), *[event(5)] * 4]
    found = [
        one for one, kind in shown(rank(shop_of_categories(), member(*events, wanted=G1), NOW)) if kind is G1
    ]
    assert 5 in found


def test_g0_shows_what_is_popular_with_everybody() -> None:
    ranked = rank(shop_of_categories(), member(event(1), wanted=G0), NOW, 3)
    assert shown(ranked) == [(6, G0), (3, G0), (4, G0)]


def test_a_member_without_events_gets_g0_whatever_was_asked_for() -> None:
    assert shown(rank(shop_of_categories(), member(wanted=G2), NOW, 1)) == [(6, G0)]
    assert shown(rank(shop_of_categories(), member(wanted=G1), NOW, 1)) == [(6, G0)]


def test_a_member_who_opted_out_gets_g0_and_nothing_bought_lately() -> None:
    opted_out = member(event(1), event(6, kind="purchase"), opted_out=True)
    assert shown(rank(shop_of_categories(), opted_out, NOW)) == [(one, G0) for one in [3, 4, 5, 2, 1]]


def test_too_few_of_each_type_are_filled_from_the_next_colder_each_once() -> None:
    catalogue = catalogue_of(
        {
            1: {"category": "면", "vector": X},
            2: {"category": "면", "popularity": 3},
            3: {"category": "밥", "popularity": 7},
            4: {"category": "면", "popularity": 4},
        }
    )
    ranked = rank(catalogue, member(event(1)), NOW)
    assert shown(ranked) == [(1, G2), (4, G1), (2, G1), (3, G0)]
    assert [shown(rank(catalogue, member(event(1)), NOW, size)) for size in range(6)] == [
        shown(ranked)[:size] for size in range(6)
    ]


@pytest.mark.parametrize("wanted", [G2, G1, G0])
def test_inactive_products_are_never_shown(wanted: GenerationType) -> None:
    catalogue = catalogue_of({1: {"vector": X, "active": False, "popularity": 9}, 2: {"vector": X}})
    assert ids(catalogue, member(event(1), wanted=wanted)) == [2]


@pytest.mark.parametrize("wanted", [G2, G1, G0])
@pytest.mark.parametrize(
    ("age", "is_shown"),
    [
        (timedelta(days=30) + MICROSECOND, True),
        (timedelta(days=30), False),
        (timedelta(0), False),
        (timedelta(minutes=-4), False),
    ],
)
def test_what_was_bought_in_the_last_thirty_days_is_not_shown(
    wanted: GenerationType, age: timedelta, is_shown: bool
) -> None:
    catalogue = catalogue_of({1: {"vector": X, "popularity": 9}, 2: {"vector": X}})
    bought = event(1, days_ago=age / timedelta(days=1), kind="purchase")
    assert bought.occurred_at == NOW - age
    assert (1 in ids(catalogue, member(bought, event(2), wanted=wanted))) is is_shown


@pytest.mark.parametrize("kind", ["view", "like"])
def test_what_was_only_looked_at_or_liked_may_be_shown(kind: str) -> None:
    assert ids(products(p1=X, p2=Y), member(event(1, kind=kind))) == [1, 2]


def test_thirty_days_are_real_days_where_summer_time_began() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 4, 10, 12, tzinfo=berlin)
    bought = event(1, kind="purchase")
    catalogue = products(p1=X, p2=Y)
    for at, is_shown in (
        (datetime(2026, 3, 11, 11, tzinfo=berlin), False),
        (datetime(2026, 3, 11, 10, 59, tzinfo=berlin), True),
    ):
        moved = type(bought)(1, bought.kind, 1, at)
        assert (1 in {one.product_id for one in rank(catalogue, member(moved), now)}) is is_shown


@pytest.mark.parametrize("wanted", [G2, G1, G0])
@pytest.mark.parametrize(("number", "seed"), [(30, 1), (61, 4), (303, 1), (303, 4)])
def test_equal_scores_go_by_product_id_wherever_they_stand(
    wanted: GenerationType, number: int, seed: int
) -> None:
    # In single precision, these rows times themselves give scores whose last digit depends on the row.
    vector = np.random.default_rng(seed).normal(size=1_536)
    alike = {"vector": vector, "popularity": 2.5, "category": "면"}
    catalogue = catalogue_of(dict.fromkeys(range(number, 0, -1), alike), 1_536)
    assert ids(catalogue, member(event(7), wanted=wanted)) == list(range(1, 21))


def test_of_categories_that_weigh_the_same_the_first_by_name_count() -> None:
    # As shares of all weights, these come to a quarter, and added the other way round to a little less.
    weights = (0.1, 0.7, 0.4)
    orders = {"가": weights[::-1], "나": weights, "다": weights[::-1], "라": weights}
    likes = [(name, weight) for name, order in orders.items() for weight in order]
    for each in (likes, likes[::-1]):
        catalogue = catalogue_of({row: {"category": name} for row, (name, _) in enumerate(each)})
        events = [event(row, 0, weight) for row, (_, weight) in enumerate(each)]
        ranked = rank(catalogue, member(*events, wanted=G1), NOW)
        assert {each[product][0] for product, kind in shown(ranked) if kind is G1} == {"가", "나", "다"}


@pytest.mark.parametrize("wanted", [G2, G1, G0])
def test_the_order_of_rows_and_events_decides_nothing(wanted: GenerationType) -> None:
    generator = np.random.default_rng(3)
    shop = {
        number: {
            "vector": generator.normal(size=16).round(),
            "popularity": float(generator.integers(0, 5)),
            "category": str(generator.integers(0, 6)),
        }
        for number in range(1, 300)
    }
    events = [event(int(generator.integers(1, 300)), float(day), 0.1) for day in range(40)]
    once = rank(catalogue_of(shop, 16), member(*events, wanted=wanted), NOW)
    turned = dict(reversed(shop.items()))
    assert rank(catalogue_of(turned, 16), member(*reversed(events), wanted=wanted), NOW) == once
    assert len(once) == 20


def test_the_catalogue_is_left_as_it_was() -> None:
    catalogue = catalogue_of({1: {"vector": X}, 2: {"vector": Y}})
    for array in (catalogue.is_active, catalogue.vectors, catalogue.popularity, catalogue.product_ids):
        array.flags.writeable = False
    assert ids(catalogue, member(event(1, kind="purchase"))) == [2]
    assert catalogue.is_active.all()


@pytest.mark.parametrize("size", [0, -1])
def test_who_wants_nothing_gets_nothing(size: int) -> None:
    assert ids(products(p1=X), member(event(1)), size) == []


@pytest.mark.parametrize("one", [member(), member(event(1)), member(event(1), wanted=G1)])
def test_an_empty_catalogue_gives_an_empty_list(one: MemberHistory) -> None:
    assert ids(catalogue_of({}), one) == []


def test_twenty_are_shown_where_nothing_else_is_said() -> None:
    assert len(rank(catalogue_of({number: {} for number in range(50)}), member(), NOW)) == 20


def test_a_now_without_a_zone_is_refused_and_any_zone_means_the_same() -> None:
    catalogue, one = products(p1=X, p2=Y), member(event(1), event(2, days_ago=9))
    with pytest.raises(ValueError, match="zone"):
        rank(catalogue, one, NOW.replace(tzinfo=None))
    assert rank(catalogue, one, NOW.astimezone(ZoneInfo("Asia/Seoul"))) == rank(
        catalogue, one, NOW.astimezone(UTC)
    )


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_an_empty_catalogue_gives_an_empty_list_whatever_the_shape_of_its_vectors(
    shape: tuple[int, ...],
) -> None:
    empty = replace(catalogue_of({}), vectors=np.zeros(shape, dtype=np.float32))
    assert rank(empty, member(event(1)), NOW) == []
    assert rank(empty, member(), NOW) == []


def test_a_popularity_that_is_no_number_counts_as_none() -> None:
    catalogue = catalogue_of({id_: {"popularity": math.nan if id_ <= 3 else 1 / id_} for id_ in range(1, 7)})
    ranked = rank(catalogue, member(), NOW)
    assert [(one.product_id, one.score) for one in ranked] == [
        (4, 1 / 4),
        (5, 1 / 5),
        (6, 1 / 6),
        (1, 0),
        (2, 0),
        (3, 0),
    ]
    assert ids(catalogue, member(), 4) == [4, 5, 6, 1]


def test_of_a_product_that_is_there_twice_the_first_row_counts() -> None:
    once = catalogue_of(
        {
            7: {"vector": X, "category": "국", "popularity": 1},
            3: {"vector": Y, "category": "면", "popularity": 2, "active": False},
            5: {"vector": (1, 1, 0), "category": "면", "popularity": 3},
        }
    )
    other = catalogue_of(
        {
            3: {"vector": X, "category": "국", "popularity": 9},
            7: {"vector": Y, "category": "면", "popularity": 9, "active": False},
        }
    )
    twice = Catalogue(
        *(np.concatenate((getattr(once, one.name), getattr(other, one.name))) for one in fields(Catalogue))
    )
    for wanted in (G2, G1, G0):
        for events in ([event(7)], [event(3)], [event(5, kind="purchase")]):
            one = member(*events, wanted=wanted)
            assert rank(twice, one, NOW) == rank(once, one, NOW)
