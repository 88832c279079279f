"""Moments of members, and what is shown to them: by `rank` as it ships, or by chance."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from assets.recommendations.catalogue import decayed
from assets.recommendations.models import Catalogue, Event, EventKind, GenerationType, MemberHistory
from assets.recommendations.rank import rank
from benchmarks.recommendation_eval_data import Film, Ratings

SHARE_BEFORE = 0.8
FEWEST_LIKES = 5
HALF_LIFE_DAYS = 7.0
_DAY_SECONDS = 86_400

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Moment:
    """A member at a time (Unix seconds): what came before is known, `relevant` are its likes from then on."""

    member_id: int
    at: float
    relevant: frozenset[int]


# At most that many films, best first, for the member at its moment.
Ranker = Callable[[Moment, int], list[int]]


def one_day_for_all(ratings: Ratings) -> Iterator[Moment]:
    """Members with five likes in the first 80 % of all ratings and one in the rest."""
    at = float(ratings.at[int(len(ratings.at) * SHARE_BEFORE)])
    for member in np.unique(ratings.members).tolist():
        yield from _moment(ratings, member, at)


def each_at_its_own_time(ratings: Ratings) -> Iterator[Moment]:
    """Members at 80 % of their likes, where five come before."""
    for member in np.unique(ratings.members).tolist():
        times = ratings.at[(ratings.members == member) & ratings.liked]
        if len(times):
            yield from _moment(ratings, member, float(times[int(len(times) * SHARE_BEFORE)]))


def _moment(ratings: Ratings, member: int, at: float) -> Iterator[Moment]:
    likes = (ratings.members == member) & ratings.liked
    relevant = frozenset(ratings.films[likes & (ratings.at >= at)].tolist())
    if relevant and (likes & (ratings.at < at)).sum() >= FEWEST_LIKES:
        yield Moment(member, at, relevant)


def first_of_one_by_another(one: Ranker, another: Ranker, most: int) -> Ranker:
    """The first `most` of one ranker in the order of another, then the rest of the one."""

    def ranked(moment: Moment, size: int) -> list[int]:
        order = one(moment, sys.maxsize)
        first = set(order[:most])
        return [*(film for film in another(moment, sys.maxsize) if film in first), *order[most:]][:size]

    return ranked


class Rankers:
    """All over the same films and ratings. Films that a member has rated are not shown to it again.

    films: ids, rising.
    """

    def __init__(self, ratings: Ratings, films: Sequence[Film]) -> None:
        self.ratings = ratings
        self.films = np.array([film.id for film in films], dtype=np.int64)
        self._rows = np.searchsorted(self.films, ratings.films)
        self._categories = np.array([film.genres[0] for film in films], dtype=object)

    def ours(
        self, wanted: GenerationType, vectors: Vectors, half_life_days: float = HALF_LIFE_DAYS
    ) -> Ranker:
        """What `rank` gives a member whose queue item asks for this type."""

        def ranked(moment: Moment, size: int) -> list[int]:
            popularity = self.popularity(moment, half_life_days)
            catalogue = Catalogue(self.films, self._categories, self._unseen(moment), vectors, popularity)
            member = MemberHistory(moment.member_id, self._likes(moment), wanted=wanted)
            now = datetime.fromtimestamp(moment.at, UTC)
            return [one.product_id for one in rank(catalogue, member, now, size)]

        return ranked

    def chance(self, seed: int) -> Ranker:
        """Any films, in an order that the seed and the member decide."""

        def ranked(moment: Moment, size: int) -> list[int]:
            generator = np.random.default_rng([seed, moment.member_id])
            films: list[int] = generator.permutation(self.films[self._unseen(moment)]).tolist()
            return films[:size]

        return ranked

    def popularity(self, moment: Moment, half_life_days: float = HALF_LIFE_DAYS) -> NDArray[np.float64]:
        """The likes of each film before the moment, decayed, in the order of the films."""
        known = (self.ratings.at < moment.at) & self.ratings.liked
        ages = (moment.at - self.ratings.at[known]) / _DAY_SECONDS
        likes = decayed(np.ones(len(ages)), ages, half_life_days)
        found = np.bincount(self._rows[known], likes, minlength=len(self.films))
        return np.asarray(found, dtype=np.float64)

    def co_liked(self, before: float, dimensions: int) -> Vectors:
        """Vectors that know nothing of texts: films are near each other where the same members liked them."""
        known = (self.ratings.at < before) & self.ratings.liked
        likes = np.zeros((len(self.films), int(self.ratings.members.max()) + 1))
        likes[self._rows[known], self.ratings.members[known]] = 1
        left, strengths, _ = np.linalg.svd(likes, full_matrices=False)
        return of_length_one(left[:, :dimensions] * strengths[:dimensions])

    def _likes(self, moment: Moment) -> list[Event]:
        known = self._known(moment) & self.ratings.liked
        films, times = self.ratings.films[known].tolist(), self.ratings.at[known].tolist()
        return [
            Event(film, EventKind.LIKE, 1.0, datetime.fromtimestamp(at, UTC))
            for film, at in zip(films, times, strict=True)
        ]

    def _unseen(self, moment: Moment) -> NDArray[np.bool_]:
        return ~np.isin(self.films, self.ratings.films[self._known(moment)])

    def _known(self, moment: Moment) -> NDArray[np.bool_]:
        return np.asarray((self.ratings.members == moment.member_id) & (self.ratings.at < moment.at))


def of_length_one(vectors: NDArray[np.floating]) -> Vectors:
    """Rows of length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)
