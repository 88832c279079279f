"""Prompts as files, and the messages made of them.

A prompt's version is a hash of its text, its schema and the form of its messages: a changed one shows
as a changed `prompt_version` on results and as a changed `code_version` on the asset.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.economy_news.plain_text import storable

FOLDER = Path(__file__).parent / "prompts"
MESSAGE_FORM = "fenced-1"


@dataclass(frozen=True)
class Prompt:
    """The instructions, the schema of the answer, and the version of both together (12 hex digits)."""

    instructions: str
    schema_name: str
    schema: Mapping[str, Any]
    version: str

    def messages(self, texts: Mapping[str, str], marker: str | None = None) -> list[dict[str, str]]:
        """System and user message; every text from outside stands between fences with a random marker.

        The marker is drawn per call, so that no text can close its own fence and speak as an instruction.
        """
        mark = marker or secrets.token_hex(8)
        fenced = [f"[[{name} {mark}]]\n{text}\n[[/{name} {mark}]]" for name, text in texts.items()]
        return [
            {"role": "system", "content": self.instructions},
            {"role": "user", "content": "\n\n".join(fenced)},
        ]


def read_prompt(name: str, schema_name: str, schema: Mapping[str, Any]) -> Prompt:
    """The prompt in `prompts/<name>.md`, versioned together with its schema."""
    instructions = (FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
    versioned = json.dumps([instructions, schema_name, schema, MESSAGE_FORM], sort_keys=True)
    return Prompt(instructions, schema_name, schema, hashlib.sha256(versioned.encode()).hexdigest()[:12])


def asked_again(messages: list[dict[str, str]], bad_answer: str, complaint: str) -> list[dict[str, str]]:
    """The same question with the invalid answer and what is wrong with it added."""
    return [
        *messages,
        {"role": "assistant", "content": storable(bad_answer[:20_000])},
        {"role": "user", "content": f"답이 규칙에 맞지 않습니다: {complaint} 규칙에 맞게 다시 답해 주세요."},
    ]
