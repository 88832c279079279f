"""A model's reading of a recipe: the schema that it is given, and what of an answer is usable."""

import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from assets.recipes.source_text import readable

DEFAULT_DIFFICULTY, EASIEST, HARDEST = 2, 1, 3
DEFAULT_MINUTES, FEWEST_MINUTES, MOST_MINUTES = 30, 5, 180
_MOST_CHARACTERS = {"name": 100, "line": 300, "text": 2_000}
_FENCED = re.compile(r"```\w*(.*?)(?:```)?", re.DOTALL)


class UnusableRecipe(Exception):
    """The answer is no recipe; the message is a reason without content."""


def _text(value: object) -> object:
    """Numbers where a text belongs become text: `0.5` stays 0.5, and a whole one loses its point."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return value  # refused as no text
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float):
        return str(value)
    return " ".join(readable(value).split()) if isinstance(value, str) else value


def _text_or_none(value: object) -> object:
    text = _text(value)
    return None if text == "" else text


def _clamped(lowest: int, highest: int, default: int) -> BeforeValidator:
    def clamp(value: object) -> object:
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            return default
        return int(min(max(value, lowest), highest))

    return BeforeValidator(clamp)


def _servings(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 100:
        return None
    return round(value)


Name = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=_MOST_CHARACTERS["name"])]
Line = Annotated[
    Annotated[str, Field(max_length=_MOST_CHARACTERS["line"])] | None, BeforeValidator(_text_or_none)
]
Text = Annotated[
    Annotated[str, Field(max_length=_MOST_CHARACTERS["text"])] | None, BeforeValidator(_text_or_none)
]


class ParsedIngredient(BaseModel):
    """`quantity` is text, so that 2/3 stays what it is; `category` may be one that was not offered."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: Name
    canonical_name: Line = None
    category: Line = None
    quantity: Line = None
    unit: Line = None
    optional: Annotated[bool, BeforeValidator(lambda value: value is True)] = False
    note: Line = None


class ParsedRecipe(BaseModel):
    """What only reading the text can tell. Difficulty 1 to 3, minutes 5 to 180, servings 1 to 100 or None."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: Name
    description: Text = None
    category: Line = None
    servings: Annotated[int | None, BeforeValidator(_servings)] = None
    difficulty: Annotated[int, _clamped(EASIEST, HARDEST, DEFAULT_DIFFICULTY)] = DEFAULT_DIFFICULTY
    cooking_time_minutes: Annotated[int, _clamped(FEWEST_MINUTES, MOST_MINUTES, DEFAULT_MINUTES)] = (
        DEFAULT_MINUTES
    )
    tips: Text = None
    ingredients: tuple[ParsedIngredient, ...] = Field(max_length=200)
    parse_confidence: Literal["high", "medium", "low"]
    parse_issues: tuple[Annotated[str, BeforeValidator(_text)], ...] = ()

    @field_validator("ingredients")
    @classmethod
    def _each_once(cls, ingredients: tuple[ParsedIngredient, ...]) -> tuple[ParsedIngredient, ...]:
        """Exact repetitions are dropped; the same food with another amount is not."""
        return tuple(dict.fromkeys(ingredients))


def _strict(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_STRING, _NULLABLE = {"type": "string"}, {"type": ["string", "null"]}

RECIPE_SCHEMA = _strict(
    {
        "title": _STRING,
        "description": _STRING,
        "category": _STRING,
        "servings": {"type": ["integer", "null"]},
        "difficulty": {"type": "integer"},
        "cooking_time_minutes": {"type": "integer"},
        "tips": _NULLABLE,
        "ingredients": {
            "type": "array",
            "items": _strict(
                {
                    "name": _STRING,
                    "canonical_name": _STRING,
                    "category": _STRING,
                    "quantity": _NULLABLE,
                    "unit": _NULLABLE,
                    "optional": {"type": "boolean"},
                    "note": _NULLABLE,
                }
            ),
        },
        "parse_confidence": {"type": "string", "enum": ["high", "medium", "low"]},
        "parse_issues": {"type": "array", "items": _STRING},
    }
)


def read_parsed(content: str) -> ParsedRecipe:
    """The recipe in a model's answer, one Markdown fence around it tolerated.

    Raises UnusableRecipe with the reason: no JSON, no object, or the first field that is wrong.
    """
    text = content.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        raise UnusableRecipe("no JSON") from None
    if not isinstance(value, dict):
        raise UnusableRecipe("no JSON object")
    try:
        return ParsedRecipe.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"][:3])
        raise UnusableRecipe(f"{field}: {first['type']}") from None
