"""Writes `quiz`: three questions of four options, from the summary or from the term cards."""

import json
import re
from collections.abc import Iterator

from local_stack.openai_stand_in.calls import Call, Json, fraction_of
from local_stack.openai_stand_in.card_writer import definition_of, key_words, summary_of
from local_stack.openai_stand_in.sentences import sentences_of
from local_stack.openai_stand_in.vocabulary import TERMS, terms_absent_from

QUESTIONS, OPTIONS = 3, 4

_SPARE_WORDS = ("경제", "시장", "기업")


def write_quiz(call: Call) -> Json:
    """`{"questions": [3 × {question, options, answer_index, explanations}]}`, each answer elsewhere."""
    cards = _cards(call.blocks.get("cards", ""))
    if cards:
        asked = [
            (word, f"다음 뜻을 가진 말은 무엇일까요? “{meaning}”", meaning) for word, meaning in cards.items()
        ]
    else:
        asked = [(word, question, definition_of(word)) for word, question in _gaps(summary_of(call))]
    asked += [(word, f"“{definition_of(word)}” 이 설명에 맞는 말은 무엇일까요?", "") for word in _SPARE_WORDS]
    first_position = int(fraction_of(call.sha256) * OPTIONS)
    known = " ".join([call.text, *(word for word, _, _ in asked)])
    wrong = terms_absent_from(known)
    if len(wrong) < OPTIONS:
        wrong = [term for term in TERMS if term not in {word for word, _, _ in asked}]
    questions = []
    for place, (word, question, meaning) in enumerate(asked[:QUESTIONS]):
        start = int(fraction_of(f"{call.sha256}:{place}") * (len(wrong) - OPTIONS))
        options = wrong[start : start + OPTIONS - 1]
        answer = (first_position + place) % OPTIONS
        options.insert(answer, word)
        questions.append(
            {
                "question": question,
                "options": options,
                "answer_index": answer,
                "explanations": [_explanation(option, word, meaning) for option in options],
            }
        )
    return {"questions": questions}


def _explanation(option: str, answer: str, meaning: str) -> str:
    if option == answer:
        return f"정답이에요. {meaning or definition_of(option)}"
    return f"정답이 아니에요. {definition_of(option)}"


def _gaps(summary: str) -> Iterator[tuple[str, str]]:
    sentences = sentences_of(summary)
    for word in key_words(summary, QUESTIONS):
        sentence = next((one for one in sentences if word in one), summary)
        yield word, f"빈칸에 들어갈 말은 무엇일까요? “{sentence.replace(word, '(    )')}”"


def _cards(text: str) -> dict[str, str]:
    """Term → definition from a cards block, which may be JSON or lines of `term: definition`."""
    try:
        found = json.loads(text)
    except ValueError:
        pairs = (re.split(r"\s*[:：–]\s*", line.strip(" -*·"), maxsplit=1) for line in text.splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0]}
    if isinstance(found, dict):
        found = found.get("cards")
    cards = found if isinstance(found, list) else []
    return {
        str(card["term"]): str(card.get("definition") or "")
        for card in cards
        if isinstance(card, dict) and card.get("term")
    }
