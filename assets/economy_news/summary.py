"""What makes a summary valid (assets/economy_news/README.md)."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict

from assets.economy_news.answers import InvalidOutput, read_json
from assets.economy_news.prompts import read_prompt

LINES = 3
# The contract says "about 90–130 characters together"; a third more or less is still about that.
LINE_CHARACTERS = (60, 175)
SENTENCES = (7, 9)

_SENTENCE_END = re.compile(r"(?<=[.!?。…])[\"'”’)\]]*(?:\s+|$)|\n+")

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["summary3", "summary_full"],
    "properties": {
        "summary3": {"type": "array", "items": {"type": "string"}, "minItems": LINES, "maxItems": LINES},
        "summary_full": {"type": "string"},
    },
}
PROMPT = read_prompt("summary", "article_summary", SCHEMA)


class Summary(BaseModel):
    """Three lines (what happened, why, what it means) and a full text of seven to nine sentences."""

    model_config = ConfigDict(frozen=True)

    summary3: tuple[str, str, str]
    summary_full: str


def sentences(text: str) -> list[str]:
    """The sentences of a Korean text, ended by a mark and white space, or by a line break.

    The point of "3.5%" ends nothing, since no white space follows it.
    """
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def read_summary(content: str) -> Summary:
    """The summary in a model's answer. Raises InvalidOutput with the first rule that it breaks."""
    answer = read_json(content)
    lines = _lines(answer.get("summary3"))
    full = answer.get("summary_full")
    if not isinstance(full, str) or not full.strip():
        raise InvalidOutput("summary_full이 비어 있습니다.")
    count = len(sentences(full))
    if not SENTENCES[0] <= count <= SENTENCES[1]:
        raise InvalidOutput(f"summary_full은 7~9문장이어야 하는데 {count}문장입니다.")
    return Summary(summary3=(lines[0], lines[1], lines[2]), summary_full=full.strip())


def _lines(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise InvalidOutput("summary3은 문자열 세 개의 배열이어야 합니다.")
    lines = [" ".join(line.split()) for line in value]
    if len(lines) != LINES or not all(lines):
        raise InvalidOutput("summary3은 비어 있지 않은 세 줄이어야 합니다.")
    characters = sum(len(line) for line in lines)
    if not LINE_CHARACTERS[0] <= characters <= LINE_CHARACTERS[1]:
        raise InvalidOutput(f"summary3은 합쳐서 90~130자여야 하는데 {characters}자입니다.")
    return lines
