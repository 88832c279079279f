"""Writes `context_keywords`: which of the offered keywords a text is about, by the words they share.

Korean words change at their end, so two are taken for the same if their first two syllables are.
"""

import json
import re
from collections import Counter

from local_stack.openai_stand_in.calls import Call, Json, fraction_of
from local_stack.openai_stand_in.sentences import nouns_of

_WORD = re.compile(r"[가-힣]{2,}")
# fmt: off
_SAY_NOTHING = frozenset((
    "시간", "자리", "좋은", "좋다", "있는", "있다", "없이", "오래", "함께", "같이", "가게", "공간", "장소",
    "분위", "기분", "하는",
))
# fmt: on
_FITS_FROM = 1.0
_MOST_UNMATCHED = 3


def write_tags(call: Call) -> Json:
    """`{"selected": [{keywordId, confidence}], "unmatchedConcepts": [noun]}`, the surest keyword first.

    Nothing is selected where no word is shared; concepts are nouns that no candidate speaks of.
    """
    text = call.blocks.get("text", "")
    said, candidates = _beginnings(text), _candidates(call)
    selected = []
    for candidate, score in zip(candidates, _scores(said, candidates), strict=True):
        if score >= _FITS_FROM:
            spread = 0.05 * fraction_of(f"{call.sha256}:{candidate['id']}")
            confidence = round(min(0.6 + 0.1 * score, 0.93) + spread, 2)
            selected.append({"keywordId": candidate["id"], "confidence": confidence})
    selected.sort(key=lambda one: -one["confidence"])
    known = set().union(*(_beginnings(_whole(candidate)) for candidate in candidates)) | _SAY_NOTHING
    unmatched = [noun for noun in nouns_of(text) if noun[:2] not in known]
    return {"selected": selected, "unmatchedConcepts": unmatched[:_MOST_UNMATCHED]}


def _scores(said: set[str], candidates: list[Json]) -> list[float]:
    """A shared word counts the less, the more candidates have it; one of a description counts half."""
    named = [_beginnings(_named(candidate)) for candidate in candidates]
    described = [_beginnings(_whole(candidate)) for candidate in candidates]
    spread = Counter(word for words in described for word in words)
    return [
        sum((1 if word in named[place] else 0.5) / spread[word] for word in said & words)
        for place, words in enumerate(described)
    ]


def _candidates(call: Call) -> list[Json]:
    try:
        offered = json.loads(call.blocks.get("candidates", ""))
    except ValueError:
        return []
    found = offered if isinstance(offered, list) else []
    return [one for one in found if isinstance(one, dict) and isinstance(one.get("id"), int)]


def _named(candidate: Json) -> str:
    examples = candidate.get("examples")
    shown = [candidate.get("display_name"), *(examples if isinstance(examples, list) else [])]
    return " ".join(map(str, shown))


def _whole(candidate: Json) -> str:
    return f"{_named(candidate)} {candidate.get('description')}"


def _beginnings(text: str) -> set[str]:
    return {word[:2] for word in _WORD.findall(text)} - _SAY_NOTHING
