"""Which known ingredient a name means, and by what it was recognised (the contract's "Persist").

Names that are merely alike are different foods more often than not (설탕/흑설탕, 무/무순, 우유/두유), so a
part of a name never counts, and edits only in long names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from assets.recipes.ingredient_name import normalised

if TYPE_CHECKING:
    from numpy.typing import NDArray

Method: TypeAlias = Literal["exact", "alias", "fuzzy", "vector", "review", "new"]

FUZZY_PERCENT = 92
FUZZY_MIN_SYLLABLES = 4
FUZZY_MAX_SYLLABLES = 100  # what is longer is no name; bounds the work
VECTOR_MATCH = 0.90
VECTOR_REVIEW = 0.85

# Other spellings and other words for the same food; never a kind of it (진간장 is not 간장).
BUILT_IN_ALIASES: Mapping[str, str] = {
    "계란": "달걀",
    "쇠고기": "소고기",
    "우육": "소고기",
    "돈육": "돼지고기",
    "계육": "닭고기",
    "쭈꾸미": "주꾸미",
    "무우": "무",
    "홍당무": "당근",
    "브로컬리": "브로콜리",
    "청량고추": "청양고추",
    "붉은고추": "홍고추",
    "빨간고추": "홍고추",
    "새송이": "새송이버섯",
    "느타리": "느타리버섯",
    "팽이": "팽이버섯",
    "표고": "표고버섯",
    "양송이": "양송이버섯",
    "조선간장": "국간장",
    "올리브오일": "올리브유",
    "케찹": "케첩",
    "토마토케찹": "토마토케첩",
    "마요네스": "마요네즈",
    "요거트": "요구르트",
    "요쿠르트": "요구르트",
    "소세지": "소시지",
    "파마산치즈": "파르메산치즈",
    "모짜렐라치즈": "모차렐라치즈",
    "후춧가루": "후추가루",
}


@dataclass(frozen=True, slots=True)
class Match:
    """What a name means. `score` is 1.0 for exact and alias, else the similarity, 0.0 for new.

    With `review` there is no `ingredient_id` but a `candidate_id` that a person has to approve.
    """

    ingredient_id: int | None
    method: Method
    score: float
    candidate_id: int | None = None


@dataclass(slots=True, eq=False)
class KnownIngredients:
    """The known ingredients, arranged for `match`; made by `known_ingredients`."""

    _by_name: dict[str, list[int]] = field(default_factory=dict)
    _by_alias: dict[str, int | None] = field(default_factory=dict)  # None: stands for several
    _by_length: dict[int, list[tuple[str, frozenset[str]]]] = field(default_factory=dict)
    _vectors: Mapping[int, Sequence[float]] = field(default_factory=dict)
    _vector_ids: list[int] = field(default_factory=list)
    _directions: NDArray[Any] | None = None

    def add(self, ingredient_id: int, name: str) -> None:
        """Makes one more name known, that of an ingredient stored during the run; without a vector."""
        if not (key := normalised(name)):
            return
        ids = self._by_name.setdefault(key, [])
        if not ids and FUZZY_MIN_SYLLABLES <= len(key) <= FUZZY_MAX_SYLLABLES:
            self._by_length.setdefault(len(key), []).append((key, frozenset(key)))
        if ingredient_id not in ids:
            ids.append(ingredient_id)
            ids.sort()

    def ids_of(self, key: str) -> list[int]:
        """The ids of the ingredients of this normalised name, ascending."""
        return self._by_name.get(key, [])

    def id_by_alias(self, key: str) -> int | None:
        """The id for which a normalised name is an alias, in the table or built in; None where not one."""
        if key in self._by_alias:
            return self._by_alias[key]
        ids = {found for other in _same_food(key) for found in self.ids_of(other)}
        return ids.pop() if len(ids) == 1 else None

    def names_of_length(self, length: int) -> list[tuple[str, frozenset[str]]]:
        """The normalised names of so many syllables, each with its syllables as a set."""
        return self._by_length.get(length, [])

    def nearest(self, vector: Sequence[float]) -> tuple[int, float] | None:
        """The id and cosine of the nearest known vector, the lowest id of equals; None without vectors.

        `ValueError` for a vector of another length.
        """
        if self._directions is None:
            return None
        import numpy as np

        cosines = self._directions @ _direction(vector).astype(np.float32)
        # The few that single precision cannot part are compared again in double.
        close = np.flatnonzero(cosines >= cosines.max() - 1e-5)[:50]
        scored = [(self._cosine(int(row), vector), -self._vector_ids[row]) for row in close]
        score, negative_id = max(scored)
        return -negative_id, score

    def _cosine(self, row: int, vector: Sequence[float]) -> float:
        known = _direction(self._vectors[self._vector_ids[row]])
        return round(float(known @ _direction(vector)), 6)


def known_ingredients(
    names: Mapping[int, str],
    aliases: Mapping[str, int],
    vectors: Mapping[int, Sequence[float]] | None = None,
) -> KnownIngredients:
    """The known ingredients: names by id, ids by any spelling of an alias, and vectors by id.

    An alias that two ids claim, once normalised, is none. `ValueError` for vectors of different lengths.
    """
    known = KnownIngredients()
    for ingredient_id, name in names.items():
        known.add(ingredient_id, name)
    for spelling, ingredient_id in aliases.items():
        if key := normalised(spelling):
            same = known._by_alias.setdefault(key, ingredient_id) == ingredient_id
            known._by_alias[key] = ingredient_id if same else None
    if vectors:
        import numpy as np

        known._vectors = vectors
        known._vector_ids = sorted(vectors)
        rows = np.empty((len(vectors), len(vectors[known._vector_ids[0]])), dtype=np.float32)
        for row, ingredient_id in enumerate(known._vector_ids):
            if len(vectors[ingredient_id]) != rows.shape[1]:
                raise ValueError(f"the vector of ingredient {ingredient_id} has another length")
            rows[row] = _direction(vectors[ingredient_id])
        known._directions = rows
    return known


def match(
    name: str,
    known: KnownIngredients,
    *,
    vector: Sequence[float] | None = None,
    canonical: str | None = None,
) -> Match:
    """The known ingredient that a name means: by its name, an alias, a typo or its vector, in this order.

    `canonical` is the model's name for it and counts as an alias. Where a normalised name belongs to several
    ingredients and no alias decides, nothing is guessed: `review` with the lowest of their ids. Of two
    equally near names neither is taken. `ValueError` for a vector of another length than the known ones.
    """
    key = normalised(name)
    namesakes = known.ids_of(key)
    if len(namesakes) == 1:
        return Match(namesakes[0], "exact", 1.0)
    if (found := _by_alias(key, canonical, known)) is not None:
        return Match(found, "alias", 1.0)
    if namesakes:
        return Match(None, "review", 1.0, candidate_id=namesakes[0])
    if (typo := _by_edits(key, known)) is not None:
        return Match(typo[0], "fuzzy", typo[1])
    if vector is not None and (near := known.nearest(vector)) is not None:
        if near[1] >= VECTOR_MATCH:
            return Match(near[0], "vector", near[1])
        if near[1] >= VECTOR_REVIEW:
            return Match(None, "review", near[1], candidate_id=near[0])
    return Match(None, "new", 0.0)


def _by_alias(key: str, canonical: str | None, known: KnownIngredients) -> int | None:
    if (found := known.id_by_alias(key)) is not None or canonical is None:
        return found
    canonical_key = normalised(canonical)
    ids = known.ids_of(canonical_key)
    return ids[0] if len(ids) == 1 else known.id_by_alias(canonical_key)


def _by_edits(key: str, known: KnownIngredients) -> tuple[int, float] | None:
    """The id and similarity of the one nearest name; None for none, for a tie, and for a shared name."""
    best: list[tuple[float, str]] = []
    for other, allowed in _nearly_as_long(key, known):
        distance = _edits(key, other, allowed)
        if distance is not None:
            longer = max(len(key), len(other))
            best.append(((longer - distance) / longer, other))
    if not best:
        return None
    score = max(best)[0]
    ids = [found for similarity, other in best if similarity == score for found in known.ids_of(other)]
    return (ids[0], score) if len(ids) == 1 else None


def _nearly_as_long(key: str, known: KnownIngredients) -> Iterator[tuple[str, int]]:
    """The names that may be near enough, and the edits allowed: 8 in 100 syllables of the longer."""
    if not FUZZY_MIN_SYLLABLES <= len(key) <= FUZZY_MAX_SYLLABLES:
        return
    syllables = frozenset(key)
    shortest, longest = -(-len(key) * FUZZY_PERCENT // 100), len(key) * 100 // FUZZY_PERCENT
    for length in range(max(shortest, FUZZY_MIN_SYLLABLES), longest + 1):
        allowed = max(len(key), length) * (100 - FUZZY_PERCENT) // 100
        if not allowed:
            continue  # so it is for names up to twelve syllables: one edit is a different food
        for other, its_syllables in known.names_of_length(length):
            if len(syllables - its_syllables) <= allowed and len(its_syllables - syllables) <= allowed:
                yield other, allowed


def _edits(one: str, other: str, allowed: int) -> int | None:
    """The Levenshtein distance over syllables, None above `allowed`; only the band that may stay below it.

    Over syllables, not letters: by letters, 저지방멸균우유 would be 94 percent 저지방멸균두유.
    """
    if abs(len(one) - len(other)) > allowed:
        return None
    too_far = allowed + 1
    above = [min(column, too_far) for column in range(len(other) + 1)]
    for row, syllable in enumerate(one, start=1):
        first, last = max(1, row - allowed), min(len(other), row + allowed)
        current = [too_far] * (len(other) + 1)
        current[0] = min(row, too_far)
        for column in range(first, last + 1):
            current[column] = min(
                above[column] + 1,
                current[column - 1] + 1,
                above[column - 1] + (syllable != other[column - 1]),
                too_far,
            )
        if min(current) == too_far:
            return None
        above = current
    return above[-1] if above[-1] <= allowed else None


def _same_food(key: str) -> list[str]:
    """The other built-in words for the same food."""
    canonical = BUILT_IN_ALIASES.get(key, key)
    words = [canonical, *(word for word, meant in BUILT_IN_ALIASES.items() if meant == canonical)]
    return [word for word in words if word != key]


def _direction(vector: Sequence[float]) -> NDArray[Any]:
    """The vector at length one; one without a direction (zero, not finite) as zeros, like nothing."""
    import numpy as np

    values = np.asarray(vector, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(values)
    return values / length if np.isfinite(length) and length > 0 else np.zeros_like(values)
