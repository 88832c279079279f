"""The source wins where it and the model have the same field."""

from dataclasses import replace

import pytest

from assets.recipes.merge import merged
from assets.recipes.parsed_recipe import ParsedIngredient, ParsedRecipe
from assets.recipes.recipe_row import SourceRecipe, Step

SOURCE = SourceRecipe(
    title="두부찜",
    kind="반찬",
    method="찌기",
    nutrition={"kcal": 120.0},
    image_url="https://recipes.example/1.png",
    steps=(Step("두부를 썬다.", None), Step("찐다.", "https://recipes.example/2.png")),
    tips="약한 불에서 찐다.",
)
PARSED = ParsedRecipe(
    title="두부 찜 요리",
    description="부드러운 두부찜이에요.",
    category="찜",
    servings=2,
    difficulty=1,
    cooking_time_minutes=20,
    tips="오래 찌지 마세요.",
    ingredients=(ParsedIngredient(name="두부", quantity="1/2", unit="모"),),
    parse_confidence="high",
    parse_issues=("양이 애매해요.",),
)


def test_title_method_nutrition_images_steps_and_tips_are_the_sources() -> None:
    recipe = merged(SOURCE, PARSED)
    assert (recipe.title, recipe.cooking_method, recipe.tips) == ("두부찜", "찌기", "약한 불에서 찐다.")
    assert (recipe.nutrition, recipe.image_url, recipe.steps) == (
        SOURCE.nutrition,
        SOURCE.image_url,
        SOURCE.steps,
    )


def test_what_only_reading_tells_is_the_models() -> None:
    recipe = merged(SOURCE, PARSED)
    assert (recipe.description, recipe.category, recipe.servings) == ("부드러운 두부찜이에요.", "찜", 2)
    assert (recipe.difficulty, recipe.cooking_time_minutes) == (1, 20)
    assert (recipe.ingredients, recipe.parse_issues) == (PARSED.ingredients, PARSED.parse_issues)


def test_the_model_fills_what_the_source_does_not_state() -> None:
    recipe = merged(replace(SOURCE, title="", tips=None), PARSED)
    assert (recipe.title, recipe.tips) == ("두부 찜 요리", "오래 찌지 마세요.")


def test_the_sources_kind_is_the_category_where_the_model_has_none() -> None:
    without = PARSED.model_copy(update={"category": None, "description": None})
    recipe = merged(SOURCE, without)
    assert (recipe.category, recipe.description) == ("반찬", "")
    assert merged(replace(SOURCE, kind=None), without).category is None


def test_nutrition_that_the_source_does_not_state_is_never_guessed() -> None:
    assert merged(replace(SOURCE, nutrition={}, image_url=None), PARSED).nutrition == {}


@pytest.mark.parametrize(("confidence", "published"), [("high", True), ("medium", False), ("low", False)])
def test_only_high_confidence_is_published(confidence: str, published: bool) -> None:
    recipe = merged(SOURCE, PARSED.model_copy(update={"parse_confidence": confidence}))
    assert recipe.is_published is published
