"""Which writer answers which schema. A new one is a function of the call and a line in the table."""

import json
from collections.abc import Callable
from typing import Any

from local_stack.openai_stand_in.calls import Call
from local_stack.openai_stand_in.card_writer import key_words, write_insights, write_term_cards
from local_stack.openai_stand_in.quiz_writer import write_quiz
from local_stack.openai_stand_in.recipe_writer import asks_for_recipe, write_recipe
from local_stack.openai_stand_in.schema_writer import write_by_schema
from local_stack.openai_stand_in.sentences import polite, sentences_of
from local_stack.openai_stand_in.summary_writer import write_summary
from local_stack.openai_stand_in.tag_writer import write_tags

WRITERS: dict[str, Callable[[Call], Any]] = {
    "article_summary": write_summary,
    "term_cards": write_term_cards,
    "article_insights": write_insights,
    "quiz": write_quiz,
    "content_quiz": write_quiz,
    "term_quiz": write_quiz,
    "context_keywords": write_tags,
}


def _writer_by_content(call: Call) -> Callable[[Call], Any]:
    return write_recipe if asks_for_recipe(call) else write_by_schema


def written_content(call: Call) -> str:
    """The content of a good answer: JSON where the response_format asks for it, else polite sentences."""
    wanted = (call.body.get("response_format") or {}).get("type", "text")
    if wanted == "json_schema":
        writer = WRITERS.get(call.schema or "") or _writer_by_content(call)
        return json.dumps(writer(call), ensure_ascii=False)
    said = " ".join(call.blocks.values()) or call.text
    answer = " ".join(polite(sentence) for sentence in sentences_of(said)[:3])
    if wanted == "json_object":
        return json.dumps({"answer": answer, "keywords": key_words(said, 5)}, ensure_ascii=False)
    return answer
