"""Writes `term_cards` and `article_insights` from the summary."""

from local_stack.openai_stand_in.calls import Call, Json
from local_stack.openai_stand_in.sentences import (
    nouns_of,
    polite,
    sentences_of,
    with_object,
    with_topic,
    words_of,
)
from local_stack.openai_stand_in.vocabulary import TERMS, terms_in

_SPARE_INSIGHTS = ("흐름을 함께 살펴봐요", "배경을 차근차근 짚어봐요", "다음 소식을 기다려봐요")


def summary_of(call: Call) -> str:
    """The text that cards, insights and quizzes are made from."""
    return call.blocks.get("summary_full", call.blocks.get("body", call.text))


def key_words(text: str, wanted: int) -> list[str]:
    """Different words that occur verbatim in a text: vocabulary terms first, then words that look like nouns.

    Fewer than wanted only if the text has no more words.
    """
    found = terms_in(text)[:wanted]
    for word in [*nouns_of(text), *words_of(text)]:
        if len(found) >= wanted:
            break
        if word not in found and not any(word in term for term in found):
            found.append(word)
    return found


def definition_of(word: str) -> str:
    """The vocabulary's definition, or a general one for any other word."""
    if word in TERMS:
        return TERMS[word]
    return f"{with_topic(word)} 이 기사의 내용을 이해하는 데 필요한 말이에요."


def write_term_cards(call: Call) -> Json:
    """`{"cards": [{term, highlight_text, definition}]}`, three wherever the summary has three words."""
    words = key_words(summary_of(call), 3)
    return {
        "cards": [{"term": word, "highlight_text": word, "definition": definition_of(word)} for word in words]
    }


def write_insights(call: Call) -> Json:
    """`{"insights": [3 × {title, detail, why_it_matters}]}`."""
    summary = summary_of(call)
    sentences = sentences_of(summary) or ["이 기사는 새로운 소식을 전한다."]
    words = key_words(summary, 3)
    insights = []
    for place, spare in enumerate(_SPARE_INSIGHTS):
        word = words[place] if place < len(words) else None
        about = next((one for one in sentences if word and word in one), sentences[place % len(sentences)])
        insights.append(
            {
                "title": f"{with_object(word)} 눈여겨봐요" if word else spare,
                "detail": polite(about),
                "why_it_matters": definition_of(word)
                if word
                else "생활과 이어지는 변화를 미리 알 수 있어요.",
            }
        )
    return {"insights": insights}
