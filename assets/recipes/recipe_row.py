"""What a row of the open API states as fields of its own, and so is never asked of a model."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from assets.recipes.ingredient_line import steps_text
from assets.recipes.source_text import readable

NUTRITION_FIELDS = {
    "INFO_ENG": "kcal",
    "INFO_CAR": "carbohydrate_g",
    "INFO_PRO": "protein_g",
    "INFO_FAT": "fat_g",
    "INFO_NA": "sodium_mg",
}
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,4})?")
_STEPS = range(1, 21)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the cooking, in order."""

    content: str
    image_url: str | None


@dataclass(frozen=True, slots=True)
class SourceRecipe:
    """`nutrition` has only what the source states, by serving: kcal, g and mg as numbers."""

    title: str
    kind: str | None
    method: str | None
    nutrition: dict[str, float]
    image_url: str | None
    steps: tuple[Step, ...]
    tips: str | None


def read_row(row: Mapping[str, str], origin: str) -> SourceRecipe:
    """The fields of a row (README.md, "Fetch"); `origin` is the source's, for its own image addresses."""
    steps = (
        Step(content, _image(row.get(f"MANUAL_IMG{number:02}", ""), origin))
        for number in _STEPS
        if (content := steps_text(row.get(f"MANUAL{number:02}", "")))
    )
    large, small = row.get("ATT_FILE_NO_MK", ""), row.get("ATT_FILE_NO_MAIN", "")
    return SourceRecipe(
        title=_line(row.get("RCP_NM", "")),
        kind=_line(row.get("RCP_PAT2", "")) or None,
        method=_line(row.get("RCP_WAY2", "")) or None,
        nutrition=_nutrition(row),
        image_url=_image(large, origin) or _image(small, origin),
        steps=tuple(steps),
        tips=_line(row.get("RCP_NA_TIP", "")) or None,
    )


def raw_hash(row: Mapping[str, str]) -> str:
    """SHA-256 of the row, whatever the order of its fields: another one means that the recipe was edited."""
    text = json.dumps(dict(row), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _line(text: str) -> str:
    return " ".join(readable(text).split())


def _nutrition(row: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for field, name in NUTRITION_FIELDS.items():
        if number := _NUMBER.fullmatch(row.get(field, "").strip()):
            found[name] = float(number[0])
    return found


def _image(address: str, origin: str) -> str | None:
    """Absolute addresses as they are, the source's own with its origin, anything else None."""
    address = address.strip()
    if address.startswith("/uploadimg/"):
        address = origin.rstrip("/") + address
    try:
        parts = urlsplit(address)
        is_absolute = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return None
    return address if is_absolute and address.isprintable() and " " not in address else None
