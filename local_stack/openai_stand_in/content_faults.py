"""Spoils a good answer in the way a fault asks for."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from local_stack.openai_stand_in.calls import Call, fraction_of
from local_stack.openai_stand_in.faults import ContentEffect
from local_stack.openai_stand_in.vocabulary import TERMS, terms_absent_from

_LONE_SURROGATE = "\\ud83d"
_PLACE = "\ue000"

Slot = tuple[Any, Any]


def spoiled(content: str, effect: ContentEffect, call: Call) -> str:
    """The content spoiled, the same for the same call; effects on fields leave all but JSON objects alone."""
    if effect == "truncated":
        return content[: max(1, len(content) * 3 // 5)]
    if effect == "not_json":
        return "요청하신 내용을 정리했어요. 다만 정해진 형식으로는 답하지 못했어요."
    if effect == "markdown_fence":
        return f"```json\n{content}\n```"
    change = _ON_FIELDS.get(effect)
    try:
        answer = json.loads(content)
    except ValueError:
        answer = None
    if change is None or not isinstance(answer, dict):
        return content
    change(answer, call)
    return json.dumps(answer, ensure_ascii=False).replace(_PLACE, _LONE_SURROGATE)


def with_line_separator(content: str) -> str:
    """The content with a raw U+2028 in its longest string, valid JSON still."""
    try:
        answer = json.loads(content)
    except ValueError:
        return f"{content}\u2028"
    if not isinstance(answer, dict):
        return content
    _append(answer, "\u2028")
    return json.dumps(answer, ensure_ascii=False)


def absent_number(call: Call) -> str:
    """A number of four digits that the request does not contain, with or without its comma."""
    digits = call.text.replace(",", "")
    start = int(fraction_of(f"number:{call.sha256}") * 8000)
    numbers = (str(1001 + (start + step) % 8999) for step in range(8999))
    return next((f"{int(one):,}" for one in numbers if one not in digits), "1,000,000,007")


def _wrong_number(answer: Any, call: Call) -> None:
    _append(answer, f" 그 규모는 {absent_number(call)}억원이다.")


def _foreign_term(answer: Any, call: Call) -> None:
    absent = terms_absent_from(call.text) or list(TERMS)
    term = absent[int(fraction_of(f"term:{call.sha256}") * len(absent))]
    cards = answer.get("cards")
    if isinstance(cards, list) and cards:
        cards[-1] = {"term": term, "highlight_text": term, "definition": TERMS[term]}
    else:
        _append(answer, f" 이 소식은 {term}에도 영향을 준다.")


def _broken_highlight(answer: Any, call: Call) -> None:
    for holder, key in _slots(answer):
        if key == "highlight_text":
            text = holder[key]
            holder[key] = f"{text[:1]} {text[1:]} 관련"
            return


def _too_few(answer: Any, call: Call) -> None:
    for value in answer.values():
        if isinstance(value, list) and value:
            value.pop()
            return
        if isinstance(value, dict):
            value.popitem()
            return
    answer.popitem()


def _number_for_text(answer: Any, call: Call) -> None:
    # A quantity, as models like to write one; elsewhere the shortest text.
    slots = sorted(_slots(answer), key=lambda slot: -1 if slot[1] == "quantity" else len(slot[0][slot[1]]))
    for holder, key in slots[:1]:
        holder[key] = 0.5


def _nul(answer: Any, call: Call) -> None:
    _append(answer, "\x00")


def _surrogate(answer: Any, call: Call) -> None:
    _append(answer, _PLACE)


_ON_FIELDS: dict[str, Callable[[Any, Call], None]] = {
    "wrong_number": _wrong_number,
    "foreign_term": _foreign_term,
    "broken_highlight": _broken_highlight,
    "too_few": _too_few,
    "number_for_text": _number_for_text,
    "nul": _nul,
    "lone_surrogate": _surrogate,
}


def _append(answer: Any, addition: str) -> None:
    """Adds to the longest string, which is prose and neither a term nor a highlight."""
    slots = list(_slots(answer))
    if slots:
        holder, key = max(slots, key=lambda slot: len(slot[0][slot[1]]))
        holder[key] += addition


def _slots(value: Any) -> Iterator[Slot]:
    """Where the strings are: (dict or list, key or index)."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        if isinstance(one, str):
            yield value, key
        else:
            yield from _slots(one)
