"""Reads a model's answer as JSON; what it must say is known by the module of each result."""

import json
from collections.abc import Sequence
from typing import Any

from assets.economy_news.plain_text import storable

BROKEN_RULES = frozenset({"invalid_output", "output_cut", "highlight_not_in_summary"})
"""Every code of InvalidOutput: a job that was put off for one is given up at the second."""


class InvalidOutput(Exception):
    """The answer breaks a rule; the message is the complaint that the model is shown (Korean).

    `code` is what the job's row says of it.
    """

    def __init__(self, complaint: str, code: str = "invalid_output") -> None:
        super().__init__(complaint)
        self.code = code


def read_json(content: str) -> dict[str, Any]:
    """The JSON object in `content`, every string of it storable; one Markdown fence is stripped first.

    Raises InvalidOutput where there is no JSON object.
    """
    text = content.strip()
    if text.startswith("```"):
        text = text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        value = _storable(json.loads(text))
    except (ValueError, RecursionError):
        raise InvalidOutput("JSON으로 읽을 수 없습니다.") from None
    if not isinstance(value, dict):
        raise InvalidOutput("JSON 객체가 아닙니다.")
    return value


def read_items(answer: dict[str, Any], name: str, count: int, fields: Sequence[str]) -> list[dict[str, str]]:
    """The `count` objects in `answer[name]`, each with these fields as non-empty text, trimmed.

    Raises InvalidOutput with the first that is missing.
    """
    items = answer.get(name)
    if not isinstance(items, list) or len(items) != count:
        raise InvalidOutput(f"{name}는 {count}개여야 합니다.")
    return [_fields(f"{name} {number}번", item, fields) for number, item in enumerate(items, 1)]


def _fields(what: str, item: Any, fields: Sequence[str]) -> dict[str, str]:
    found = {}
    for field in fields:
        value = item.get(field) if isinstance(item, dict) else None
        if not isinstance(value, str) or not value.strip():
            raise InvalidOutput(f"{what}의 {field}가 비어 있습니다.")
        found[field] = value.strip()
    return found


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(part) for part in value]
    if isinstance(value, dict):
        return {storable(key): _storable(part) for key, part in value.items()}
    return value
