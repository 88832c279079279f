"""What of a model's answer is usable: fences, numbers for text, clamps, defaults, and wrong shapes."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.recipes.parsed_recipe import RECIPE_SCHEMA, ParsedRecipe, UnusableRecipe, read_parsed
from local_stack.openai_stand_in.errors import ApiError
from local_stack.openai_stand_in.strict_schema import check_response_format
from tests.bad_inputs import bad_inputs

TOFU = {
    "name": "두부",
    "canonical_name": "두부",
    "category": "콩류",
    "quantity": "1/2",
    "unit": "모",
    "optional": False,
    "note": None,
}
RECIPE: dict[str, Any] = {
    "title": "두부찜",
    "description": "부드러운 두부찜이에요.",
    "category": "반찬",
    "servings": 2,
    "difficulty": 1,
    "cooking_time_minutes": 20,
    "tips": None,
    "ingredients": [TOFU],
    "parse_confidence": "high",
    "parse_issues": [],
}


def read(**changed: Any) -> ParsedRecipe:
    return read_parsed(json.dumps({**RECIPE, **changed}, ensure_ascii=False))


def ingredient(**changed: Any) -> Any:
    return read(ingredients=[{**TOFU, **changed}]).ingredients[0]


def reason(content: str) -> str:
    with pytest.raises(UnusableRecipe) as caught:
        read_parsed(content)
    return str(caught.value)


def test_an_answer_in_the_schema_is_read_as_it_is() -> None:
    recipe = read()
    assert recipe.model_dump(mode="json") == RECIPE
    assert ParsedRecipe.model_validate(recipe.model_dump(mode="json")) == recipe


@pytest.mark.parametrize(
    "fence",
    ["{}", "\n {} \n", "```json\n{}\n```", "```\n{}\n```", "```JSON\n{}\n```", "```{}```", "```json\n{}"],
)
def test_one_markdown_fence_around_it_is_tolerated(fence: str) -> None:
    assert read_parsed(fence.replace("{}", json.dumps(RECIPE))).title == "두부찜"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "no JSON"),
        ("두부찜입니다.", "no JSON"),
        ('{"title": ', "no JSON"),
        ("```json\n```", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("9" * 5_000, "no JSON"),
        ("[]", "no JSON object"),
        ("null", "no JSON object"),
        ('"두부찜"', "no JSON object"),
        ("{}", "title: missing"),
    ],
)
def test_what_is_no_json_object_is_refused_with_a_reason(content: str, why: str) -> None:
    assert reason(content) == why


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"title": ""}, "title: too_short"),
        ({"title": "   "}, "title: too_short"),
        ({"title": None}, "title: string_type"),
        ({"title": "가" * 101}, "title: too_long"),
        ({"description": ["한 줄"]}, "description: string_type"),
        ({"tips": "가" * 2_001}, "tips: string_too_long"),
        ({"ingredients": None}, "ingredients: tuple_type"),
        ({"ingredients": {"name": "두부"}}, "ingredients: tuple_type"),
        ({"ingredients": ["두부"]}, "ingredients.0: model_type"),
        ({"ingredients": [TOFU] * 201}, "ingredients: too_long"),
        ({"ingredients": [TOFU, {**TOFU, "name": ""}]}, "ingredients.1.name: too_short"),
        ({"ingredients": [{**TOFU, "quantity": True}]}, "ingredients.0.quantity: string_type"),
        ({"ingredients": [{**TOFU, "quantity": float("inf")}]}, "ingredients.0.quantity: string_type"),
        ({"ingredients": [{**TOFU, "quantity": float("nan")}]}, "ingredients.0.quantity: string_type"),
        ({"parse_confidence": "certain"}, "parse_confidence: literal_error"),
        ({"parse_confidence": None}, "parse_confidence: literal_error"),
        ({"parse_issues": "없음"}, "parse_issues: tuple_type"),
        ({"parse_issues": [3, None]}, "parse_issues.1: string_type"),
    ],
)
def test_the_first_wrong_field_is_named_and_its_content_is_not(changed: dict[str, Any], why: str) -> None:
    assert reason(json.dumps({**RECIPE, **changed})) == why


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ("2/3", "2/3"),
        ("1 1/2", "1 1/2"),
        ("약간", "약간"),
        (0.5, "0.5"),
        (2.0, "2"),
        (3, "3"),
        (None, None),
        (" ", None),
    ],
)
def test_a_quantity_is_text(given_: object, kept: str | None) -> None:
    assert ingredient(quantity=given_).quantity == kept


def test_a_number_for_any_text_is_its_text() -> None:
    recipe = read(title=7, description=1.25, category=3.0, tips=0, parse_issues=[1.0, "둘"])
    assert (recipe.title, recipe.description, recipe.category, recipe.tips) == ("7", "1.25", "3", "0")
    assert recipe.parse_issues == ("1", "둘")


def test_texts_are_single_lines_that_every_store_takes() -> None:
    found = ingredient(name=" 두부\u0000\n(부침용)\ud83d ", note="한 입\u2028크기")
    assert (found.name, found.note) == ("두부 (부침용)", "한 입 크기")


@pytest.mark.parametrize(
    ("given_", "kept"),
    [(0, 1), (1, 1), (3, 3), (4, 3), (-5, 1), (2.7, 2), (1e400, 3), ("3", 3), (" 2 ", 2)],
)
def test_a_difficulty_is_clamped(given_: object, kept: int) -> None:
    assert read(difficulty=given_).difficulty == kept


@pytest.mark.parametrize("given_", [None, "쉬움", "", True, [], {}, float("nan"), "9" * 5_000])
def test_a_difficulty_and_a_time_that_are_none_are_the_defaults(given_: object) -> None:
    recipe = read(difficulty=given_, cooking_time_minutes=given_)
    assert (recipe.difficulty, recipe.cooking_time_minutes) == (2, 30)


@pytest.mark.parametrize(("given_", "kept"), [(4, 5), (5, 5), (180, 180), (600, 180), ("45", 45)])
def test_a_cooking_time_is_clamped(given_: object, kept: int) -> None:
    assert read(cooking_time_minutes=given_).cooking_time_minutes == kept


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        (1, 1),
        (2.6, 3),
        (100, 100),
        (0, None),
        (101, None),
        (-1, None),
        (None, None),
        ("둘", None),
        (True, None),
    ],
)
def test_servings_are_a_whole_number_or_unknown(given_: object, kept: int | None) -> None:
    assert read(servings=given_).servings == kept


def test_what_may_be_missing_has_defaults() -> None:
    content = {"title": "두부찜", "ingredients": [{"name": "두부"}], "parse_confidence": "low"}
    recipe = read_parsed(json.dumps(content))
    assert (recipe.difficulty, recipe.cooking_time_minutes, recipe.servings) == (2, 30, None)
    (only,) = recipe.ingredients
    assert (only.canonical_name, only.quantity, only.unit, only.optional) == (None, None, None, False)


@pytest.mark.parametrize(("given_", "kept"), [(True, True), (False, False), ("true", False), (1, False)])
def test_only_true_makes_an_ingredient_optional(given_: object, kept: bool) -> None:
    assert ingredient(optional=given_).optional is kept


def test_exact_repetitions_are_dropped_and_other_amounts_are_not() -> None:
    more = {**TOFU, "quantity": "1"}
    found = read(ingredients=[TOFU, more, {**TOFU, "name": "두부 "}]).ingredients
    assert [one.quantity for one in found] == ["1/2", "1"]


def test_fields_that_nobody_asked_for_are_left_out() -> None:
    recipe = read(nutrition={"kcal": 99}, steps=["지어낸 순서"], is_published=True)
    assert recipe.model_dump(mode="json") == RECIPE


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    wanted = {"name": "recipe", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def test_the_schema_is_one_that_strict_mode_accepts() -> None:
    check_response_format(response_format(RECIPE_SCHEMA), "")
    lax = {**RECIPE_SCHEMA, "required": RECIPE_SCHEMA["required"][1:]}
    with pytest.raises(ApiError):
        check_response_format(response_format(lax), "")


def test_the_schema_asks_for_what_is_read() -> None:
    assert set(RECIPE_SCHEMA["properties"]) == set(ParsedRecipe.model_fields)
    items = RECIPE_SCHEMA["properties"]["ingredients"]["items"]
    assert set(items["properties"]) == set(TOFU)


def read_or_reason(content: str) -> tuple[ParsedRecipe | None, str]:
    try:
        return read_parsed(content), ""
    except UnusableRecipe as unusable:
        return None, str(unusable)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*RECIPE, *TOFU, "x"]), inner, max_size=5)
    ),
    max_leaves=20,
)
FENCES = st.sampled_from(["", "```", "```json\n", "\ufeff", "\n```\n", "두부\n"])
CONTENTS = st.builds(
    lambda start, middle, end: start + middle + end,
    FENCES,
    VALUES.map(json.dumps)
    | st.dictionaries(st.sampled_from([*RECIPE]), VALUES, max_size=5).map(
        lambda changed: json.dumps({**RECIPE, **changed})
    )
    | st.text(max_size=30),
    FENCES,
)


@bad_inputs
@given(content=CONTENTS)
@example(content='{"title": "\\ud83d", "ingredients": [], "parse_confidence": "high"}')
@example(content=json.dumps({**RECIPE, "\ud800": "\ud800"}))
def test_any_answer_is_a_recipe_or_unusable_with_a_short_reason(content: str) -> None:
    recipe, why = read_or_reason(content)
    if recipe is None:
        assert 0 < len(why) < 100
        return
    assert 1 <= recipe.difficulty <= 3 and 5 <= recipe.cooking_time_minutes <= 180
    assert recipe.servings is None or 1 <= recipe.servings <= 100
    stored = json.dumps(recipe.model_dump(mode="json"), ensure_ascii=False)
    assert "\x00" not in stored and stored.encode()
    assert ParsedRecipe.model_validate(json.loads(stored)) == recipe
