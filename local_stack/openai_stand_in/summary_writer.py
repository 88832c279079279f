"""Writes `article_summary`: three polite lines and a full summary, extracted from the body."""

from local_stack.openai_stand_in.calls import Call, Json
from local_stack.openai_stand_in.sentences import (
    is_plain,
    made_plain,
    polite_tail,
    sentences_of,
    without_numbers,
)
from local_stack.openai_stand_in.vocabulary import terms_in

FULL_SENTENCES = 8
# Three lines of these lengths, two line breaks included, are always within 90 and 130 characters.
LINE_MINIMUM, LINE_MAXIMUM = 30, 42

_LINE_OPENINGS = (
    "",
    "한편 ",
    "이와 함께 ",
    "기사에 따르면 ",
    "이번 소식에 따르면 ",
    "새로 전해진 소식에 따르면 ",
    "이번에 새로 전해진 소식에 따르면 ",
    "이번에 새로 전해진 경제 소식을 살펴보면 ",
    "이번에 새로 전해진 경제 소식을 차근차근 살펴보면 ",
)
_SPARE_LINES = (
    "자세한 배경은 기사 전체를 처음부터 함께 읽어야 알 수 있어요.",
    "이번 소식은 요즘 경제의 흐름을 차분히 살피는 데 도움이 돼요.",
    "관련된 움직임은 앞으로 나올 소식에서 이어서 확인할 수 있어요.",
)
_REWORDINGS = ("기사에 따르면", "이 소식을 다시 정리하면", "핵심을 짚어 보면", "한마디로 말하면")
_SPARE_SENTENCES = (
    "이 기사는 경제 분야의 새로운 소식을 전한다.",
    "자세한 내용은 기사 원문에서 확인할 수 있다.",
)


def write_summary(call: Call) -> Json:
    """`{"summary3": [3 lines], "summary_full": text of 8 sentences}`."""
    body = call.blocks.get("body", call.text)
    chosen = full_sentences(body, call.blocks.get("title", ""))
    return {"summary3": three_lines(chosen), "summary_full": " ".join(chosen)}


def full_sentences(body: str, title: str) -> list[str]:
    """Eight different sentences; those of the body in its order, reworded ones where it has fewer."""
    found = list(dict.fromkeys(sentences_of(body)))
    plain = [sentence for sentence in found if is_plain(sentence)]
    if len(plain) < FULL_SENTENCES:
        mended = (made_plain(sentence) for sentence in found)
        plain = [sentence for sentence in dict.fromkeys(mended) if len(sentence) >= 12]
    if len(plain) >= FULL_SENTENCES:
        return _best(plain)
    headline = made_plain(without_numbers(title))
    base = plain or [sentence for sentence in (headline, *_SPARE_SENTENCES) if len(sentence) >= 12]
    reworded = [f"{opening} {sentence}" for opening in _REWORDINGS for sentence in base]
    return [*base, *reworded, *_SPARE_SENTENCES][:FULL_SENTENCES]


def three_lines(chosen: list[str]) -> list[str]:
    """Three different lines with polite endings, from the first sentences that fit."""
    lines: list[str] = []
    for sentence in sorted(chosen, key=lambda one: (one != chosen[0], -_weight(one))):
        line = _line(sentence)
        if line and line not in lines:
            lines.append(line)
        if len(lines) == 3:
            return lines
    return (lines + [line for line in _SPARE_LINES if line not in lines])[:3]


def _line(sentence: str) -> str:
    tail = polite_tail(sentence, LINE_MAXIMUM) or polite_tail(without_numbers(sentence), LINE_MAXIMUM)
    for opening in _LINE_OPENINGS:
        if tail and LINE_MINIMUM <= len(opening + tail) <= LINE_MAXIMUM:
            return opening + tail
    return ""


def _best(plain: list[str]) -> list[str]:
    # The lead always, then the sentences that carry most terms and figures, in the order of the article.
    order = sorted(range(len(plain)), key=lambda place: (place > 0, -_weight(plain[place]), place))
    return [plain[place] for place in sorted(order[:FULL_SENTENCES])]


def _weight(sentence: str) -> int:
    return 2 * len(terms_in(sentence)) + any(letter.isdigit() for letter in sentence)
