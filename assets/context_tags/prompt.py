"""The question to the model: which of these keywords a text really speaks of."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assets.context_tags.models import Candidate

SCHEMA_NAME = "context_keywords"
MESSAGE_FORM = "fenced-1"
INSTRUCTIONS = (Path(__file__).parent / "prompts" / "select.md").read_text(encoding="utf-8").strip()


def schema(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """The strict schema of the answer, `keywordId` limited to the candidates' ids.

    In the order of ids, not of similarity: a provider prepares each new schema before its first answer.
    """
    ids = sorted(candidate.preset.id for candidate in candidates)
    item = {
        "type": "object",
        "properties": {"keywordId": {"type": "integer", "enum": ids}, "confidence": {"type": "number"}},
        "required": ["keywordId", "confidence"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "selected": {"type": "array", "items": item},
            "unmatchedConcepts": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["selected", "unmatchedConcepts"],
        "additionalProperties": False,
    }


def messages(text: str, candidates: Sequence[Candidate], marker: str | None = None) -> list[dict[str, str]]:
    """System and user message: the candidates as a JSON list, then the text, each between its fences.

    The marker is drawn per call, so that no text can close its own fence and speak as an instruction.
    """
    mark = marker or secrets.token_hex(8)
    offered = json.dumps([_offered(candidate) for candidate in candidates], ensure_ascii=False)
    blocks = {"candidates": offered, "text": text}
    fenced = [f"[[{name} {mark}]]\n{block}\n[[/{name} {mark}]]" for name, block in blocks.items()]
    return [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": "\n\n".join(fenced)},
    ]


def _offered(candidate: Candidate) -> dict[str, Any]:
    preset = candidate.preset
    return {
        "id": preset.id,
        "display_name": preset.display_name,
        "category": preset.category,
        "description": preset.description,
        "examples": list(preset.examples),
    }


def version_of(instructions: str) -> str:
    """12 hex digits that change with the instructions, the schema or the form of the messages."""
    versioned = json.dumps([instructions, SCHEMA_NAME, schema([]), MESSAGE_FORM], sort_keys=True)
    return hashlib.sha256(versioned.encode()).hexdigest()[:12]


VERSION = version_of(INSTRUCTIONS)
