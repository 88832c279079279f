"""The text that a recipe's vector is made from."""

from typing import Any

import pytest

from assets.recipes.document import MOST_CHARACTERS, document_hash, document_of

RECIPE: dict[str, Any] = {
    "title": "두부찜",
    "description": "부드러운 두부찜이에요.",
    "category": "반찬",
    "cooking_time_minutes": 20,
    "difficulty": 1,
    "servings": 2,
    "cooking_method": "찌기",
    "nutrition": {"sodium_mg": 210.0, "kcal": 120.5},
    "ingredients": ["두부 1/2 모", "소금 약간"],
    "steps": ["두부를 썬다.", "찐다."],
}


def test_a_document_is_labelled_lines() -> None:
    assert document_of(**RECIPE).split("\n") == [
        "요리: 두부찜",
        "설명: 부드러운 두부찜이에요.",
        "분류: 반찬",
        "시간: 20분",
        "난이도: 쉬움",
        "분량: 2인분",
        "방법: 찌기",
        "영양: 열량 120.5 kcal, 나트륨 210 mg",
        "재료: 두부 1/2 모, 소금 약간",
        "순서: 두부를 썬다. 찐다.",
    ]


def test_what_is_not_known_has_no_line() -> None:
    unknown = {"description": "", "category": None, "servings": None, "cooking_method": None}
    bare = {**RECIPE, **unknown, "nutrition": {}, "ingredients": [], "steps": []}
    assert document_of(**bare) == "요리: 두부찜\n시간: 20분\n난이도: 쉬움"


def test_the_same_recipe_has_the_same_document_and_hash() -> None:
    turned = {**RECIPE, "nutrition": dict(reversed(RECIPE["nutrition"].items()))}
    assert document_hash(document_of(**turned)) == document_hash(document_of(**RECIPE))


@pytest.mark.parametrize(
    "changed",
    [
        {"title": "두부 찜"},
        {"description": ""},
        {"category": "찜"},
        {"cooking_time_minutes": 25},
        {"difficulty": 2},
        {"servings": 3},
        {"cooking_method": None},
        {"nutrition": {"kcal": 121.0}},
        {"ingredients": ["두부 1 모"]},
        {"steps": ["찐다.", "두부를 썬다."]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_part_changes_the_hash(changed: dict[str, Any]) -> None:
    assert document_hash(document_of(**{**RECIPE, **changed})) != document_hash(document_of(**RECIPE))


def test_a_long_document_loses_its_last_steps() -> None:
    long = document_of(**{**RECIPE, "steps": ["물을 붓고 끓인다."] * 1_000})
    assert len(long) == MOST_CHARACTERS
    assert "재료: 두부 1/2 모" in long and long.startswith("요리: 두부찜\n")
