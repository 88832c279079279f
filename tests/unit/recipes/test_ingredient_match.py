"""Which known ingredient a name means, and what must never be taken for another food."""

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recipes import ingredient_match
from assets.recipes.ingredient_match import BUILT_IN_ALIASES, Match, known_ingredients, match
from assets.recipes.ingredient_name import normalised
from tests.bad_inputs import bad_inputs

NAMES = {1: "달걀", 2: "소고기", 3: "진간장", 4: "설탕", 5: "무", 6: "우유"}
LONG = "가나다라마바사아자차카타파"  # thirteen syllables
NEW = Match(None, "new", 0.0)


def plane(cosine: float) -> list[float]:
    """A vector of that cosine to [1, 0]."""
    return [cosine, math.sqrt(1 - cosine**2)]


@pytest.mark.parametrize("name", ["소고기", "소 고기", "소고기(등심) 100g", "소고기 (국거리)"])
def test_the_same_normalised_name_is_exact(name: str) -> None:
    assert match(name, known_ingredients(NAMES, {})) == Match(2, "exact", 1.0)


def test_an_alias_is_found_by_any_spelling() -> None:
    known = known_ingredients(NAMES, {"양조 간장(시판)": 3})
    assert match("양조간장 1큰술", known) == Match(3, "alias", 1.0)


def test_exact_comes_before_alias() -> None:
    assert match("달걀", known_ingredients(NAMES, {"달걀": 2})) == Match(1, "exact", 1.0)


def test_an_alias_that_two_ingredients_claim_is_none() -> None:
    assert match("간장", known_ingredients(NAMES, {"간장": 3, "간 장": 2})) == NEW


@pytest.mark.parametrize(("name", "found"), [("계란", 1), ("쇠고기", 2), ("무우", 5)])
def test_other_words_for_the_same_food_are_built_in(name: str, found: int) -> None:
    assert match(name, known_ingredients(NAMES, {})) == Match(found, "alias", 1.0)


def test_built_in_words_hold_whichever_of_them_is_known() -> None:
    assert match("달걀", known_ingredients({7: "계란"}, {})) == Match(7, "alias", 1.0)
    assert match("우육", known_ingredients({7: "쇠고기"}, {})) == Match(7, "alias", 1.0)
    assert match("우육", known_ingredients({7: "쇠고기", 8: "소고기"}, {})) == NEW


def test_built_in_aliases_are_normalised_and_lead_to_a_canonical_name() -> None:
    for word, canonical in BUILT_IN_ALIASES.items():
        assert normalised(word) == word and normalised(canonical) == canonical
        assert canonical not in BUILT_IN_ALIASES


def test_the_models_canonical_name_counts_as_an_alias() -> None:
    known = known_ingredients(NAMES, {"양조간장": 3})
    assert match("다진 우둔살", known, canonical="소고기") == Match(2, "alias", 1.0)
    assert match("샘표 간장", known, canonical="양조간장") == Match(3, "alias", 1.0)
    assert match("유정란", known, canonical="계란") == Match(1, "alias", 1.0)
    assert match("우유", known, canonical="달걀") == Match(6, "exact", 1.0)
    assert match("두유", known, canonical="두유") == NEW


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("설탕", "흑설탕"),
        ("무", "무순"),
        ("국간장", "진간장"),
        ("우유", "두유"),
        ("고추장", "고추"),
        ("대파", "쪽파"),
        ("찹쌀가루", "멥쌀가루"),
        ("저지방멸균우유", "저지방멸균두유"),
        ("돼지고기 앞다리살", "돼지고기 뒷다리살"),
        ("가나다라마바사아자차카타", "가나다라마바사아자차카하"),
    ],
)
def test_different_foods_are_never_taken_for_each_other(name: str, other: str) -> None:
    assert match(name, known_ingredients({9: other}, {})) == NEW
    assert match(other, known_ingredients({9: name}, {})) == NEW


@pytest.mark.parametrize(
    "typo",
    [
        "가나다라마바하아자차카타파",
        "가나다라마바사아자차카타",
        "가나다라마바사아자차카타파하",
        "나" + LONG[1:],
    ],
    ids=["one wrong", "one less", "one more", "the first"],
)
def test_a_typo_in_thirteen_syllables_is_fuzzy(typo: str) -> None:
    longer = max(len(typo), 13)
    assert match(typo, known_ingredients({9: LONG}, {})) == Match(9, "fuzzy", (longer - 1) / longer)


def test_the_border_of_fuzzy_is_at_92_percent() -> None:
    name = "".join(chr(0xAC00 + 50 * n) for n in range(25))
    two_off, three_off = "힣힣" + name[2:], "힣힣힣" + name[3:]
    known = known_ingredients({9: name}, {})
    assert match(two_off, known) == Match(9, "fuzzy", 0.92)
    assert match(three_off, known) == NEW
    # 23 of 24.99 would be needed: two edits in 24 syllables are 0.9167.
    assert match("힣힣" + name[2:24], known_ingredients({9: name[:24]}, {})) == NEW


def test_syllables_in_another_order_are_no_typo() -> None:
    assert match(LONG[6:] + LONG[:6], known_ingredients({9: LONG}, {})) == NEW


def test_of_several_near_names_the_nearest_is_taken_and_of_equals_none() -> None:
    name = "".join(chr(0xAC00 + 50 * n) for n in range(26))
    one_off, another, two_off = "힣" + name[1:], name[:-1] + "힣", "힣힣" + name[2:]
    assert match(name, known_ingredients({7: two_off, 8: one_off}, {})) == Match(8, "fuzzy", 25 / 26)
    assert match(name, known_ingredients({7: another, 8: one_off}, {})) == NEW


def test_a_name_that_two_ingredients_have_goes_to_review() -> None:
    known = known_ingredients({5: "간장(국)", 3: "간장(진)"}, {})
    assert match("간장", known) == Match(None, "review", 1.0, candidate_id=3)
    assert match("간장", known, vector=[1.0, 0.0]).method == "review"


def test_an_alias_or_the_models_name_decides_between_ingredients_of_one_name() -> None:
    names = {5: "간장(국)", 3: "간장(진)", 6: "국간장"}
    assert match("간장", known_ingredients(names, {"간장": 5})) == Match(5, "alias", 1.0)
    assert match("간장", known_ingredients(names, {}), canonical="국간장") == Match(6, "alias", 1.0)


@pytest.mark.parametrize(
    ("cosine", "expected"),
    [
        (1.0, Match(9, "vector", 1.0)),
        (0.90, Match(9, "vector", 0.90)),
        (0.8999, Match(None, "review", 0.8999, candidate_id=9)),
        (0.85, Match(None, "review", 0.85, candidate_id=9)),
        (0.8499, NEW),
        (-1.0, NEW),
    ],
)
def test_the_borders_of_the_vector(cosine: float, expected: Match) -> None:
    known = known_ingredients({9: "연어"}, {}, {9: [2.0, 0.0], 8: [-1.0, -1.0]})
    assert match("훈제 연어", known, vector=plane(cosine)) == expected


def test_the_nearest_vector_is_taken_and_of_equals_the_lowest_id() -> None:
    known = known_ingredients({}, {}, {3: plane(0.95), 2: plane(0.97), 1: plane(0.97), 4: [0.0, 1.0]})
    assert match("이름", known, vector=[3.0, 0.0]) == Match(1, "vector", 0.97)


def test_the_vector_is_asked_last() -> None:
    known = known_ingredients({**NAMES, 9: LONG}, {"간장": 3}, {4: [1.0, 0.0]})
    assert match("소고기", known, vector=[1.0, 0.0]).method == "exact"
    assert match("간장", known, vector=[1.0, 0.0]).method == "alias"
    assert match("하" + LONG[1:], known, vector=[1.0, 0.0]).method == "fuzzy"
    assert match("원당", known, vector=[1.0, 0.0]) == Match(4, "vector", 1.0)
    assert match("원당", known) == NEW
    assert match("원당", known_ingredients(NAMES, {}), vector=[1.0, 0.0]) == NEW


@pytest.mark.parametrize("vector", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1e308, 1e308]])
def test_a_vector_without_a_direction_is_like_nothing(vector: Sequence[float]) -> None:
    assert match("이름", known_ingredients({}, {}, {1: [1.0, 0.0]}), vector=vector) == NEW
    assert match("이름", known_ingredients({}, {}, {1: vector}), vector=[1.0, 0.0]) == NEW


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="another length"):
        known_ingredients({}, {}, {1: [1.0, 0.0], 2: [1.0]})
    with pytest.raises(ValueError, match="size"):
        match("이름", known_ingredients({}, {}, {1: [1.0, 0.0]}), vector=[1.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["", " ", "100g", "(", "약간"])
def test_a_name_that_is_none_is_new(name: str) -> None:
    assert match(name, known_ingredients({1: "100g", 2: "", 3: "무"}, {"약간": 3, "": 3})) == NEW


def test_an_ingredient_stored_during_the_run_is_known_from_then_on() -> None:
    known = known_ingredients(NAMES, {})
    assert match("두유", known) == NEW
    known.add(7, "두유")
    known.add(9, LONG)
    assert match("두유(무가당)", known) == Match(7, "exact", 1.0)
    assert match("하" + LONG[1:], known).method == "fuzzy"


def test_of_ten_thousand_names_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    edits = ingredient_match._edits

    def counted(one: str, other: str, allowed: int) -> int | None:
        compared.append(other)
        return edits(one, other, allowed)

    monkeypatch.setattr(ingredient_match, "_edits", counted)
    names = {n: "".join(chr(0xAC00 + (n * 31 + k * k * 7) % 11172) for k in range(20)) for n in range(10_000)}
    known = known_ingredients(names, {})
    assert match("힣" + names[4321][1:], known) == Match(4321, "fuzzy", 0.95)
    assert match("흰설탕", known) == NEW
    assert len(compared) < 20


def test_numpy_is_not_loaded_until_there_are_vectors() -> None:
    code = (
        "import sys; from assets.recipes.ingredient_match import known_ingredients, match;"
        "match('무', known_ingredients({1: '무'}, {})); print('numpy' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[3]
    printed = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "False"


def plain_levenshtein(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        above, row = row, [i]
        for j, b in enumerate(other, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


@bad_inputs
@given(one=st.text("가나다", max_size=14), other=st.text("가나다", max_size=14), allowed=st.integers(1, 8))
def test_the_bounded_distance_is_the_distance_or_none(one: str, other: str, allowed: int) -> None:
    distance = plain_levenshtein(one, other)
    assert ingredient_match._edits(one, other, allowed) == (distance if distance <= allowed else None)


@bad_inputs
@given(name=st.text(st.characters(), max_size=40), other=st.text(st.characters(), max_size=40))
def test_any_name_is_matched_and_symmetrically(name: str, other: str) -> None:
    found = match(name, known_ingredients({1: other}, {}))
    back = match(other, known_ingredients({1: name}, {}))
    assert (found.method, found.score) == (back.method, back.score)
    assert (found.ingredient_id is None) == (found.method == "new")
