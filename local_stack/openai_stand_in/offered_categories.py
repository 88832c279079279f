"""Finds the categories that a prompt offers: in fenced blocks, or else in lines that name them.

Read are blocks whose name holds "categor"; without one, lines such as `카테고리: 밥, 국, 반찬`, and such a
line with a bulleted list below it. What speaks of ingredients (재료) is offered for those.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from local_stack.openai_stand_in.calls import Call

_LINE = re.compile(
    r"^([^:：\n]*(?:카테고리|분류|categor)[^:：\n]*)[:：][ \t]*(.*)$", re.IGNORECASE | re.MULTILINE
)
_BULLET = re.compile(r"\n[ \t]*[-*•][ \t]*([^\n]+)")
_SEPARATORS = re.compile(r"[,，、|\n]")
_AROUND = " \t\r[]()\"'“”‘’`-*•."
_LONGEST = 20
# A rule about categories is no category.
_SENTENCE = re.compile(r"(?:다|요|고|면|세요|하기)$")


@dataclass(frozen=True)
class Offered:
    """The categories to choose from; empty where none are offered."""

    of_recipes: list[str] = field(default_factory=list)
    of_ingredients: list[str] = field(default_factory=list)


def offered_in(call: Call) -> Offered:
    """What the call's prompt offers, in its order and each once."""
    offered = Offered()
    blocks = [(name, text) for name, text in call.blocks.items() if "categor" in name.lower()]
    for name, items in blocks or _named_in_lines(call.text):
        of_ingredients = "재료" in name or "ingredient" in name.lower()
        chosen = offered.of_ingredients if of_ingredients else offered.of_recipes
        chosen += [one for one in _items(items) if one not in chosen]
    return offered


def _named_in_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _LINE.finditer(text):
        items, at = line[2], line.end()
        while not line[2].strip() and (bullet := _BULLET.match(text, at)):
            items, at = f"{items}\n{bullet[1]}", bullet.end()
        yield line[1], items


def _items(text: str) -> list[str]:
    items = (item.strip(_AROUND) for item in _SEPARATORS.split(text))
    return [item for item in items if 0 < len(item) <= _LONGEST and not _SENTENCE.search(item)]
