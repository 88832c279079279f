"""`make eval`: how well G2, G1 and G0 foretell what members of MovieLens 100K liked later, and why.

An event is a like: four stars or more. No ranker sees anything from a member's moment on. Prints a table
for each way to choose the moments and writes `.local/evaluation/results.json`; three and a half minutes.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from assets.recommendations.models import GenerationType
from assets.recommendations.product_text import embedded_text
from benchmarks.bench import Bench
from benchmarks.recommendation_eval_data import FOLDER, Film, downloaded, read_films, read_ratings
from benchmarks.recommendation_eval_metrics import (
    DRAWS,
    estimate,
    ndcg_at,
    recall_at,
    right_at_equal_popularity,
)
from benchmarks.recommendation_eval_rankers import (
    Moment,
    Ranker,
    Rankers,
    Vectors,
    each_at_its_own_time,
    first_of_one_by_another,
    of_length_one,
    one_day_for_all,
)
from resources.embeddings import EmbeddingResource

SIZE = 20
MOST_POPULAR = 40
EVER_DAYS = 1e9
EMBEDDING_MODEL = "text-embedding-3-small"
DIMENSIONS = 64
HEADINGS = ("shown", "recall@20", "NDCG@20", "NDCG of G2 less this", "likes", "right at equal popularity")


@dataclass(frozen=True)
class Scores:
    """Of one way to rank, an entry a member, and the median number of likes of the films that it showed."""

    recall: NDArray[np.float64]
    ndcg: NDArray[np.float64]
    at_equal_popularity: NDArray[np.float64]
    likes: float


def main() -> int:
    """The exit code."""
    wheel = downloaded()
    films = read_films(wheel)
    rankers = Rankers(read_ratings(wheel), films)
    vectors = _vectors(films)
    results = []
    for name, moments in (
        ("one day for all", list(one_day_for_all(rankers.ratings))),
        ("each at its own time", list(each_at_its_own_time(rankers.ratings))),
    ):
        scores = {
            shown: _scores(rankers, moments, ways) for shown, ways in _ways(rankers, vectors, moments).items()
        }
        lines = [HEADINGS, *(_line(shown, of, scores["G2"]) for shown, of in scores.items())]
        results.append({"moments": name, "members": len(moments), "table": lines})
        print(f"\n{name}: {len(moments)} members\n")
        print(_as_text(lines), flush=True)
    (FOLDER / "results.json").write_text(f"{json.dumps(results, indent=2)}\n", encoding="utf-8")
    return 0


def _vectors(films: Sequence[Film]) -> dict[str, Vectors]:
    """By what they are made from, by the local model."""
    texts = {
        "all": [
            embedded_text(film.title, film.genres[0], f"{', '.join(film.genres)}. {film.year}")
            for film in films
        ],
        "titles": [film.title for film in films],
        "genres": [", ".join(film.genres) for film in films],
    }
    with Bench(quick=False) as bench:
        url = bench.stack.environment()["OPENAI_BASE_URL"]
        model = EmbeddingResource(model=EMBEDDING_MODEL, base_url=url, api_key="any", timeout_ms=120_000)
        return {name: _embedded(model, of) for name, of in texts.items()}


def _embedded(model: EmbeddingResource, texts: Sequence[str]) -> Vectors:
    found = chain.from_iterable(model.embed(part)[0] for part in model.requests_of(texts))
    return of_length_one(np.array(list(found)))


def _ways(
    rankers: Rankers, vectors: Mapping[str, Vectors], moments: Sequence[Moment]
) -> dict[str, list[Ranker]]:
    """What is compared; chance in several orders. Below the first four: why they are as they are."""
    g2, g1, g0 = GenerationType.G2, GenerationType.G1, GenerationType.G0
    ours = vectors["all"]
    ways = {
        "G2": [rankers.ours(g2, ours)],
        "G1": [rankers.ours(g1, ours)],
        "G0": [rankers.ours(g0, ours)],
        "chance": [rankers.chance(seed) for seed in range(DRAWS)],
        f"G2 among the {MOST_POPULAR} most popular": [
            first_of_one_by_another(rankers.ours(g0, ours), rankers.ours(g2, ours), MOST_POPULAR)
        ],
        "G2 by titles": [rankers.ours(g2, vectors["titles"])],
        "G2 by genres": [rankers.ours(g2, vectors["genres"])],
        "G0 without decay": [rankers.ours(g0, ours, half_life_days=EVER_DAYS)],
    }
    if len({moment.at for moment in moments}) == 1:
        # Where moments differ, they would have to be made anew for each.
        by_likes = rankers.co_liked(moments[0].at, DIMENSIONS)
        ways["G2 by who liked them"] = [rankers.ours(g2, by_likes)]
    return ways


def _scores(rankers: Rankers, moments: Sequence[Moment], ways: Sequence[Ranker]) -> Scores:
    likes_ever = np.bincount(rankers.ratings.films[rankers.ratings.liked], minlength=rankers.films.max() + 1)
    each, likes = [], []
    for moment in moments:
        popularity = dict(zip(rankers.films.tolist(), rankers.popularity(moment).tolist(), strict=True))
        orders = [way(moment, len(popularity)) for way in ways]
        likes += [likes_ever[film] for order in orders for film in order[:SIZE]]
        of_each_order = [
            (
                recall_at(SIZE, order, moment.relevant),
                ndcg_at(SIZE, order, moment.relevant),
                right_at_equal_popularity(order, moment.relevant, popularity),
            )
            for order in orders
        ]
        each.append(np.mean(of_each_order, axis=0))
    recall, ndcg, at_equal_popularity = np.array(each).T
    return Scores(recall, ndcg, at_equal_popularity, float(np.median(likes)))


def _line(shown: str, scores: Scores, g2: Scores) -> tuple[str, ...]:
    less = "" if scores is g2 else str(estimate(g2.ndcg - scores.ndcg))
    return (
        shown,
        str(estimate(scores.recall)),
        str(estimate(scores.ndcg)),
        less,
        f"{scores.likes:.0f}",
        str(estimate(scores.at_equal_popularity)),
    )


def _as_text(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [lines[0], ["-" * width for width in widths], *lines[1:]]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in ruled
    )


if __name__ == "__main__":
    sys.exit(main())
