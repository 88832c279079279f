"""The numbers of `make eval`: what they count, and what no ranker may see."""

import math

import numpy as np
import pytest

from assets.recommendations.models import GenerationType
from benchmarks.recommendation_eval_data import Film, Ratings
from benchmarks.recommendation_eval_metrics import estimate, ndcg_at, recall_at, right_at_equal_popularity
from benchmarks.recommendation_eval_rankers import (
    Moment,
    Rankers,
    each_at_its_own_time,
    first_of_one_by_another,
    one_day_for_all,
)


def test_recall_is_the_share_of_what_is_relevant_that_was_shown() -> None:
    assert recall_at(3, [1, 2, 3, 4], {2, 4}) == 0.5
    assert recall_at(4, [1, 2, 3, 4], {2, 4}) == 1
    assert recall_at(3, [], {2}) == 0


def test_ndcg_discounts_by_rank_against_the_best_list_possible() -> None:
    assert ndcg_at(20, [5, 6, 1], {5, 6}) == 1
    assert ndcg_at(20, [1, 5], {5}) == pytest.approx(1 / math.log2(3))
    assert ndcg_at(20, [5, 1, 6], {5, 6}) == pytest.approx((1 + 0.5) / (1 + 1 / math.log2(3)))
    assert ndcg_at(2, [5, 6], set(range(100))) == 1
    assert ndcg_at(1, [1, 5], {5}) == 0


@pytest.mark.parametrize("measure", [recall_at, ndcg_at])
def test_a_member_to_whom_nothing_is_relevant_has_no_score(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ValueError, match="relevant"):
        measure(20, [1], set())
    with pytest.raises(ValueError, match="relevant"):
        right_at_equal_popularity([1], set(), {1: 1})


def test_popularity_and_its_reverse_tell_nothing_among_equally_popular_ones() -> None:
    popularity = {film: 100.0 - film for film in range(100)}
    by_popularity, relevant = sorted(popularity), {0, 1, 30, 50, 99}
    assert right_at_equal_popularity(by_popularity, relevant, popularity) == 0.5
    assert right_at_equal_popularity(by_popularity[::-1], relevant, popularity) == 0.5


def test_what_is_told_apart_at_equal_popularity_counts_in_full() -> None:
    popularity = {film: 100.0 - film for film in range(100)}
    others = [film for film in range(100) if film not in {30, 50}]
    assert right_at_equal_popularity([30, 50, *others], {30, 50}, popularity) == 1
    assert right_at_equal_popularity([*others, 30, 50], {30, 50}, popularity) == 0


def test_an_estimate_is_the_mean_with_about_two_standard_errors() -> None:
    values = np.random.default_rng(5).normal(3, 2, size=10_000)
    found = estimate(values)
    assert found.mean == pytest.approx(values.mean())
    assert 0.5 < found.either_side / (1.96 * 2 / 100) < 1.6
    assert found == estimate(values)


def test_members_who_are_all_alike_leave_no_doubt() -> None:
    assert estimate([0.25] * 50).either_side == pytest.approx(0)


FILMS = [Film(number, f"film {number}", "1990", ("Drama",)) for number in range(1, 41)]


def ratings_of(*rows: tuple[int, int, int, float]) -> Ratings:
    """Member, film, stars and day."""
    table = np.array(sorted(rows, key=lambda each: each[3]), dtype=np.float64)
    return Ratings(
        table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2], table[:, 3] * 86_400
    )


def test_a_moment_parts_the_likes_of_a_member_and_leaves_out_who_has_few() -> None:
    ten = [(1, film, 4, film) for film in range(1, 11)]
    few = [(2, film, 5, film) for film in range(1, 7)]  # of which four before the moment
    disliked = [(1, 20, 3, 9.5)]
    (moment,) = each_at_its_own_time(ratings_of(*ten, *few, *disliked))
    assert moment == Moment(1, 9 * 86_400, frozenset({9, 10}))


def test_one_day_for_all_is_where_four_fifths_of_the_ratings_were_given() -> None:
    early = [(1, film, 4, film) for film in range(1, 17)]
    late = [(2, film, 5, film) for film in (17, 18, 19)]
    (moment,) = one_day_for_all(ratings_of(*early, *late, (1, 20, 5, 20)))
    assert moment == Moment(1, 17 * 86_400, frozenset({20}))


def test_no_ranker_sees_what_comes_later_or_shows_what_was_rated() -> None:
    before = [(1, film, 5, film) for film in range(1, 6)] + [(1, 7, 1, 5), (2, 8, 5, 5)]
    later = [(member, 9, 5, 6) for member in range(3, 30)] + [(1, 10, 5, 6)]
    moment = Moment(1, 6 * 86_400, frozenset({10}))
    vectors = np.eye(len(FILMS), dtype=np.float32)
    seen = {1, 2, 3, 4, 5, 7}
    for wanted in GenerationType:
        with_future = Rankers(ratings_of(*before, *later), FILMS).ours(wanted, vectors)(moment, 40)
        assert with_future == Rankers(ratings_of(*before), FILMS).ours(wanted, vectors)(moment, 40)
        assert set(with_future) == {film.id for film in FILMS} - seen
    assert set(Rankers(ratings_of(*before), FILMS).chance(1)(moment, 40)) == set(with_future)
    assert Rankers(ratings_of(*before), FILMS).ours(GenerationType.G0, vectors)(moment, 1) == [8]


def test_vectors_by_who_liked_them_know_nothing_of_later_likes() -> None:
    before = [(member, film, 5, 1) for member in (1, 2) for film in (1, 2)] + [(3, 3, 5, 1)]
    rankers = Rankers(ratings_of(*before, (3, 1, 5, 3)), FILMS)
    vectors = rankers.co_liked(2 * 86_400, 4)
    assert vectors[0] @ vectors[1] == pytest.approx(1)
    assert vectors[0] @ vectors[2] == pytest.approx(0, abs=1e-6)


def test_the_first_of_one_are_put_in_the_order_of_another() -> None:
    moment = Moment(1, 0, frozenset({1}))
    both = first_of_one_by_another(lambda *_: [1, 2, 3, 4, 5], lambda *_: [5, 4, 3, 2, 1], 3)
    assert both(moment, 4) == [3, 2, 1, 4]
