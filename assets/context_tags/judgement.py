"""Reads what the model judged, and keeps of it what the rules allow (rule 11 of the contract).

An answer of the wrong shape is refused whole, since it is worth asking again; a value that breaks a rule
costs only its item.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assets.context_tags.models import Candidate, Judgement, Selection
from assets.context_tags.request_text import is_storable

MOST_CONCEPTS = 20
MOST_CONCEPT_CHARACTERS = 100
MOST_MODEL_CHARACTERS = 100


class UnusableAnswer(Exception):
    """The answer is not of the asked-for shape. The message quotes none of it: it is about a user's text."""


def read_judgement(content: str, model: str) -> Judgement:
    """The judgement in a model's answer, not `checked` yet; one Markdown fence around it is stripped.

    Raises UnusableAnswer where it is no JSON object of the schema: `selected` a list of objects with a whole
    `keywordId` and a number as `confidence`, `unmatchedConcepts` a list. Other fields are ignored.
    """
    text = content.strip()
    if text.startswith("```"):
        text = text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableAnswer("the answer is not JSON") from None
    if not isinstance(answer, dict):
        raise UnusableAnswer("the answer is not a JSON object")
    selected = tuple(_selection(item) for item in _list(answer, "selected"))
    concepts = tuple(one for one in _list(answer, "unmatchedConcepts") if isinstance(one, str))
    return Judgement(selected, concepts, model)


def checked(judgement: Judgement, candidates: Sequence[Candidate]) -> tuple[Judgement, Counter[str]]:
    """What may be stored of a judgement, and how many items were dropped for which reason.

    `foreign_id`: not among the candidates. `confidence`: not a number from 0 to 1 (none at all is allowed);
    never clamped. `duplicate`: chosen again with no higher confidence. Other things than numbers and texts in
    their places are dropped too. Raises TypeError, AttributeError and ValueError where the whole is no
    judgement, as a judge of somebody else's making may give.
    """
    offered = {candidate.preset.id for candidate in candidates}
    dropped: Counter[str] = Counter()
    kept: dict[int, Selection] = {}
    for selection in judgement.selected:
        keyword_id = selection.keyword_id
        if not _is_whole(keyword_id) or keyword_id not in offered:
            dropped["foreign_id"] += 1
        elif not _is_confidence(selection.confidence):
            dropped["confidence"] += 1
        else:
            dropped["duplicate"] += keyword_id in kept
            if keyword_id not in kept or _height(selection) > _height(kept[keyword_id]):
                kept[keyword_id] = Selection(int(keyword_id), _as_float(selection.confidence))
    concepts = _concepts(judgement.unmatched_concepts)
    return Judgement(tuple(kept.values()), concepts, _model(judgement.model)), +dropped


def _list(answer: dict[str, Any], name: str) -> list[Any]:
    value = answer.get(name)
    if not isinstance(value, list):
        raise UnusableAnswer(f"the answer has no list {name}")
    return value


def _selection(item: Any) -> Selection:
    if not isinstance(item, dict):
        raise UnusableAnswer("an item of selected is not an object")
    keyword_id: Any = item.get("keywordId")
    confidence: Any = item.get("confidence")
    if not _is_whole(keyword_id):
        raise UnusableAnswer("a keywordId is not a whole number")
    if not _is_number(confidence):
        raise UnusableAnswer("a confidence is not a number")
    return Selection(keyword_id, _as_float(confidence))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_confidence(value: Any) -> bool:
    # NaN is within no bounds, and an integer too large for a float is never turned into one.
    return value is None or (_is_number(value) and 0 <= value <= 1)


def _as_float(value: float | None) -> float | None:
    """As a float, since one statement takes no whole numbers beside others; too large a one as infinite."""
    try:
        return None if value is None else float(value)
    except OverflowError:
        return math.inf


def _height(selection: Selection) -> float:
    return -math.inf if selection.confidence is None else selection.confidence


def _concepts(values: Sequence[object]) -> tuple[str, ...]:
    if isinstance(values, str | Mapping):  # Both can be walked through, and neither is a list of concepts.
        raise TypeError("the concepts are no list")
    texts = (value.strip() for value in values if isinstance(value, str))
    fit = (text for text in texts if text and len(text) <= MOST_CONCEPT_CHARACTERS and is_storable(text))
    return tuple(dict.fromkeys(fit))[:MOST_CONCEPTS]


def _model(name: object) -> str:
    return name[:MOST_MODEL_CHARACTERS] if isinstance(name, str) and is_storable(name) else ""
