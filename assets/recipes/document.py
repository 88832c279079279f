"""The text of a recipe that its vector is made from: labelled lines, the same for the same recipe."""

import hashlib
from collections.abc import Mapping, Sequence

_DIFFICULTY = {1: "쉬움", 2: "보통", 3: "어려움"}
_NUTRITION = {
    "kcal": "열량 {:g} kcal",
    "carbohydrate_g": "탄수화물 {:g} g",
    "protein_g": "단백질 {:g} g",
    "fat_g": "지방 {:g} g",
    "sodium_mg": "나트륨 {:g} mg",
}
MOST_CHARACTERS = 6_000
"""Far below what an embedding model takes. Steps come last and are what is cut."""


def document_of(
    title: str,
    description: str,
    category: str | None,
    cooking_time_minutes: int,
    difficulty: int,
    servings: int | None,
    cooking_method: str | None,
    nutrition: Mapping[str, float],
    ingredients: Sequence[str],
    steps: Sequence[str],
) -> str:
    """Labelled lines; what is not known has no line."""
    facts = [_NUTRITION[name].format(nutrition[name]) for name in _NUTRITION if name in nutrition]
    lines = {
        "요리": title,
        "설명": description,
        "분류": category or "",
        "시간": f"{cooking_time_minutes}분",
        "난이도": _DIFFICULTY[difficulty],
        "분량": f"{servings}인분" if servings else "",
        "방법": cooking_method or "",
        "영양": ", ".join(facts),
        "재료": ", ".join(ingredients),
        "순서": " ".join(steps),
    }
    return "\n".join(f"{label}: {text}" for label, text in lines.items() if text)[:MOST_CHARACTERS]


def document_hash(text: str) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()
