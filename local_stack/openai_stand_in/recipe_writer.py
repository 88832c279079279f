"""Writes a parsed recipe from a raw row of the recipe API (fields RCP_NM, RCP_PARTS_DTLS, MANUAL01, …).

It answers any schema that asks for `ingredients` while the user's message holds such a row as JSON; the
property names say what to fill in.
"""

import json
import re
from typing import Any

from local_stack.openai_stand_in.calls import Call, Json, message_text
from local_stack.openai_stand_in.ingredient_lines import Ingredient, ingredients_of, servings_in
from local_stack.openai_stand_in.offered_categories import Offered, offered_in
from local_stack.openai_stand_in.schema_fitter import fitted, most_alike
from local_stack.openai_stand_in.sentences import polite, with_object

_NAME = '"RCP_NM"'
_STEPS = [f"MANUAL{number:02}" for number in range(1, 21)]
_MINUTES, _HOURS = re.compile(r"(\d+)\s*분(?!의)"), re.compile(r"(\d+)\s*시간")
_KCAL_PER_SERVING = 500
_KINDS_BY_ENDING = {
    "밥": "밥",
    "죽": "밥",
    "국": "국&찌개",
    "탕": "국&찌개",
    "찌개": "국&찌개",
    "무침": "반찬",
    "볶음": "반찬",
    "조림": "반찬",
    "찜": "반찬",
    "케이크": "후식",
    "주스": "후식",
}
_KINDS_OF_FOOD = {
    "육류": r"고기|닭|돼지|삼겹|갈비|베이컨|햄",
    "해산물": r"새우|오징어|생선|고등어|연어|참치|조개|미역|다시마|김$|멸치",
    "유제품": r"우유|치즈|버터|크림|요거트|요구르트",
    "양념": r"소금|설탕|간장|된장|고추장|식초|기름|후추|참깨|소스|가루|맛술|올리고당|물엿|육수",
    "곡류": r"밥|쌀|밀가루|면|국수|빵|떡",
    "콩": r"두부|콩|두유",
    "달걀": r"달걀|메추리알",
    "기타": r"^물$|얼음",
    "과일": r"사과|배$|귤|레몬|딸기|바나나|토마토",
    "채소": r".",
}


def asks_for_recipe(call: Call) -> bool:
    """Whether the schema asks for ingredients and the user's message holds a raw recipe."""
    schema = (call.body.get("response_format") or {}).get("json_schema", {}).get("schema")
    return '"ingredients"' in json.dumps(schema) and raw_recipe_in(call) is not None


def raw_recipe_in(call: Call) -> Json | None:
    """The first JSON object with RCP_NM in what the user says, else None."""
    messages = call.body.get("messages")
    said = "\n".join(
        message_text(one)
        for one in (messages if isinstance(messages, list) else [])
        if isinstance(one, dict) and one.get("role") == "user"
    )
    place = said.find(_NAME)
    start = said.rfind("{", 0, place) if place >= 0 else -1
    while start >= 0:
        try:
            found, _ = json.JSONDecoder().raw_decode(said, start)
        except ValueError:
            found = None
        if isinstance(found, dict) and "RCP_NM" in found:
            return found
        start = said.rfind("{", 0, start)
    return None


def write_recipe(call: Call) -> Any:
    """The recipe as the schema wants it; also where it stands one level down."""
    row = {name: value for name, value in (raw_recipe_in(call) or {}).items() if isinstance(value, str)}
    recipe = _parsed(row, offered_in(call))
    properties = call.body["response_format"]["json_schema"]["schema"].get("properties", {})
    if "ingredients" in properties:
        return fitted(call, recipe)
    return fitted(call, dict.fromkeys(properties, recipe))


def _parsed(row: dict[str, str], offered: Offered) -> Json:
    title = " ".join(row.get("RCP_NM", "").split())
    parts = row.get("RCP_PARTS_DTLS", "")
    steps = [step for name in _STEPS if (step := row.get(name, "").strip())]
    ingredients = ingredients_of(parts, title)
    confidence, issues = _judged(ingredients, steps)
    return {
        "title": title,
        "description": _description(title, ingredients),
        "category": _category(title, row.get("RCP_PAT2", ""), offered.of_recipes),
        "servings": _servings(title + "\n" + parts, row.get("INFO_ENG", "")),
        "difficulty": 1 if len(steps) <= 2 else 2 if len(steps) <= 5 else 3,
        "cooking_time_minutes": _minutes(" ".join(steps)),
        "cooking_method": row.get("RCP_WAY2") or None,
        "tips": row.get("RCP_NA_TIP") or None,
        "ingredients": [_shown(one, offered.of_ingredients) for one in ingredients],
        "parse_confidence": confidence,
        "parse_issues": issues,
    }


def _shown(ingredient: Ingredient, categories: list[str]) -> Json:
    food = ingredient.canonical_name
    kind = next(kind for kind, foods in _KINDS_OF_FOOD.items() if re.search(foods, food))
    return {
        "name": ingredient.name,
        "canonical_name": ingredient.canonical_name,
        "category": most_alike(kind, categories) or most_alike("기타", categories) or kind,
        "quantity": ingredient.quantity,
        "unit": ingredient.unit,
        "optional": ingredient.optional,
        "note": ingredient.note,
    }


def _judged(ingredients: list[Ingredient], steps: list[str]) -> tuple[str, list[str]]:
    """Confidence and issues: sure where every amount is stated, unsure where most are not."""
    without = [one.name for one in ingredients if one.quantity is None]
    issues = [f"분량이 적혀 있지 않아요: {', '.join(without[:5])}"] if without else []
    if not ingredients:
        issues.append("재료를 찾지 못했어요.")
    if not steps:
        issues.append("만드는 순서가 적혀 있지 않아요.")
    if not ingredients or len(without) * 2 > len(ingredients):
        return "low", issues
    return ("medium" if issues else "high"), issues


def _description(title: str, ingredients: list[Ingredient]) -> str:
    foods = ", ".join(one.name for one in ingredients[:2])
    return polite(f"{with_object(foods)} 넣어 만든 {title}") if foods else polite(title)


def _category(title: str, hint: str, offered: list[str]) -> str:
    by_ending = next((kind for ending, kind in _KINDS_BY_ENDING.items() if title.endswith(ending)), "")
    hint = hint if hint not in ("", "기타") else by_ending or "기타"
    return str(most_alike(hint, offered) or hint)


def _servings(text: str, kcal: str) -> int:
    stated = servings_in(text)
    if stated:
        return stated
    try:
        return min(10, max(1, round(float(kcal) / _KCAL_PER_SERVING)))
    except (ValueError, OverflowError):
        return 1


def _minutes(steps: str) -> int:
    """The minutes that the steps name, from 5 to 180; 30 where they name none."""
    minutes = sum(map(int, _MINUTES.findall(steps))) + 60 * sum(map(int, _HOURS.findall(steps)))
    return min(180, max(5, minutes)) if minutes else 30
