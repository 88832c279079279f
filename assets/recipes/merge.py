"""The recipe as it is stored: what the source states as a field, and the model's reading for the rest."""

from dataclasses import dataclass

from assets.recipes.parsed_recipe import ParsedIngredient, ParsedRecipe
from assets.recipes.recipe_row import SourceRecipe, Step


@dataclass(frozen=True)
class Recipe:
    """One recipe. `is_published` only with high confidence (README.md, "Persist")."""

    title: str
    description: str
    category: str | None
    servings: int | None
    difficulty: int
    cooking_time_minutes: int
    cooking_method: str | None
    nutrition: dict[str, float]
    image_url: str | None
    tips: str | None
    steps: tuple[Step, ...]
    ingredients: tuple[ParsedIngredient, ...]
    parse_confidence: str
    parse_issues: tuple[str, ...]

    @property
    def is_published(self) -> bool:
        return self.parse_confidence == "high"


def merged(source: SourceRecipe, parsed: ParsedRecipe) -> Recipe:
    """The source wins where both have it: title, method, nutrition, images, steps in their order, tips."""
    return Recipe(
        title=source.title or parsed.title,
        description=parsed.description or "",
        category=parsed.category or source.kind,
        servings=parsed.servings,
        difficulty=parsed.difficulty,
        cooking_time_minutes=parsed.cooking_time_minutes,
        cooking_method=source.method,
        nutrition=source.nutrition,
        image_url=source.image_url,
        tips=source.tips or parsed.tips,
        steps=source.steps,
        ingredients=parsed.ingredients,
        parse_confidence=parsed.parse_confidence,
        parse_issues=parsed.parse_issues,
    )
