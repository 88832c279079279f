"""`make eval`: how well G2, G1 and G0 foretell what members of MovieLens 100K liked later.

An event is a like: four stars or more. Every ranker is `rank` as it ships, and none sees anything from
after a member's moment. Films that a member has rated are left out, since nobody rates one twice. Takes
about a minute, prints the tables and writes `.local/evaluation/results.json`.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from assets.recommendations.catalogue import decayed
from assets.recommendations.models import Catalogue, Event, EventKind, GenerationType, MemberHistory
from assets.recommendations.product_text import embedded_text
from assets.recommendations.rank import rank
from benchmarks.bench import Bench
from benchmarks.recommendation_eval_data import (
    FOLDER,
    Film,
    Ratings,
    downloaded,
    read_films,
    read_ratings,
)
from benchmarks.recommendation_eval_metrics import Estimate, estimate, ndcg_at, recall_at
from resources.embeddings import EmbeddingResource

SIZE = 20
HALF_LIFE_DAYS = 7.0
EVER = 1e9
FEWEST_LIKES = 5
SHARE_BEFORE = 0.8
_DAY_SECONDS = 86_400

Vectors = NDArray[np.float32]
Ranker = Callable[["Moment"], Sequence[int]]


@dataclass(frozen=True)
class Moment:
    """A member at a time (Unix seconds): what is known by then, and what it liked from then on."""

    member_id: int
    at: float
    relevant: frozenset[int]


def one_day_for_all(ratings: Ratings) -> Iterator[Moment]:
    """Members with five likes in the first 80 % of all ratings and one in the rest."""
    at = float(ratings.at[int(len(ratings.at) * SHARE_BEFORE)])
    for member in np.unique(ratings.members).tolist():
        yield from _moment(ratings, member, at)


def each_at_its_own_time(ratings: Ratings) -> Iterator[Moment]:
    """Members at 80 % of their likes, with five before and one after."""
    for member in np.unique(ratings.members).tolist():
        times = ratings.at[(ratings.members == member) & ratings.liked]
        if len(times):
            yield from _moment(ratings, member, float(times[int(len(times) * SHARE_BEFORE)]))


def _moment(ratings: Ratings, member: int, at: float) -> Iterator[Moment]:
    liked = (ratings.members == member) & ratings.liked
    after = frozenset(ratings.films[liked & (ratings.at >= at)].tolist())
    if after and (liked & (ratings.at < at)).sum() >= FEWEST_LIKES:
        yield Moment(member, at, after)


class Rankers:
    """`rank` at the moments of members, over vectors and a popularity that may be others than ours."""

    def __init__(self, ratings: Ratings, films: Sequence[Film]) -> None:
        self._ratings = ratings
        self._films = np.array([film.id for film in films], dtype=np.int64)
        self._categories = np.array([film.genres[0] for film in films], dtype=object)

    def ours(
        self, wanted: GenerationType, vectors: Vectors, half_life_days: float = HALF_LIFE_DAYS
    ) -> Ranker:
        """The products that a member is shown who asks for this type."""

        def ranked(moment: Moment) -> list[int]:
            catalogue = self._catalogue(moment, vectors, half_life_days)
            member = MemberHistory(moment.member_id, self._likes(moment), wanted=wanted)
            now = datetime.fromtimestamp(moment.at, UTC)
            return [one.product_id for one in rank(catalogue, member, now, SIZE)]

        return ranked

    def chance(self, seed: int) -> Ranker:
        """Any films that the member has not rated."""
        generator = np.random.default_rng(seed)

        def ranked(moment: Moment) -> list[int]:
            unseen = self._films[self._unseen(moment)]
            return [int(film) for film in generator.permutation(unseen)[:SIZE]]

        return ranked

    def _catalogue(self, moment: Moment, vectors: Vectors, half_life_days: float) -> Catalogue:
        known = (self._ratings.at < moment.at) & self._ratings.liked
        ages = (moment.at - self._ratings.at[known]) / _DAY_SECONDS
        rows = np.searchsorted(self._films, self._ratings.films[known])
        popularity = np.bincount(
            rows, decayed(np.ones(len(rows)), ages, half_life_days), minlength=len(self._films)
        )
        return Catalogue(self._films, self._categories, self._unseen(moment), vectors, popularity)

    def _likes(self, moment: Moment) -> list[Event]:
        known = self._of(moment) & self._ratings.liked
        return [
            Event(film, EventKind.LIKE, 1.0, datetime.fromtimestamp(at, UTC))
            for film, at in zip(
                self._ratings.films[known].tolist(), self._ratings.at[known].tolist(), strict=True
            )
        ]

    def _unseen(self, moment: Moment) -> NDArray[np.bool_]:
        return ~np.isin(self._films, self._ratings.films[self._of(moment)])

    def _of(self, moment: Moment) -> NDArray[np.bool_]:
        return (self._ratings.members == moment.member_id) & (self._ratings.at < moment.at)
