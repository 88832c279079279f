"""The request that has a recipe parsed: instructions from a file, everything from outside fenced."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from assets.recipes.parsed_recipe import RECIPE_SCHEMA

MAX_COMPLETION_TOKENS = 8_192
MOST_OFFERED = 60

# What reading needs. Nutrition, images and the order of the steps are the source's own fields.
_READ = ("RCP_NM", "RCP_WAY2", "RCP_PAT2", "INFO_WGT", "INFO_ENG", "HASH_TAG", "RCP_PARTS_DTLS", "RCP_NA_TIP")
_STEPS = tuple(f"MANUAL{number:02}" for number in range(1, 21))


@cache
def instructions() -> str:
    return (Path(__file__).parent / "prompts" / "parse.md").read_text(encoding="utf-8").strip()


@cache
def version() -> str:
    """Twelve hex digits that change with the instructions and the schema."""
    versioned = json.dumps([instructions(), RECIPE_SCHEMA], sort_keys=True)
    return hashlib.sha256(versioned.encode()).hexdigest()[:12]


def parse_request(
    row: Mapping[str, str],
    recipe_categories: Sequence[str],
    ingredient_categories: Sequence[str],
    model: str,
    marker: str | None = None,
) -> dict[str, Any]:
    """The body of POST /v1/chat/completions for one row.

    The marker of the fences is drawn anew for each request, so that no text can close its own fence.
    """
    mark = marker or secrets.token_hex(8)
    read = {name: row[name] for name in (*_READ, *_STEPS) if row.get(name)}
    texts = {
        "recipe_categories": ", ".join(recipe_categories[:MOST_OFFERED]),
        "ingredient_categories": ", ".join(ingredient_categories[:MOST_OFFERED]),
        "recipe": json.dumps(read, ensure_ascii=False),
    }
    fenced = [f"[[{name} {mark}]]\n{text}\n[[/{name} {mark}]]" for name, text in texts.items()]
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": instructions()},
            {"role": "user", "content": "\n\n".join(fenced)},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "recipe", "strict": True, "schema": RECIPE_SCHEMA},
        },
        "max_completion_tokens": MAX_COMPLETION_TOKENS,
    }
