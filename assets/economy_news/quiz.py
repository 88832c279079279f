"""What makes a quiz valid, about the content or about the terms (assets/economy_news/README.md)."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from assets.economy_news.answers import InvalidOutput, read_json
from assets.economy_news.prompts import read_prompt

QUESTIONS, OPTIONS = 3, 4

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["questions"],
    "properties": {
        "questions": {
            "type": "array",
            "minItems": QUESTIONS,
            "maxItems": QUESTIONS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["question", "options", "answer_index", "explanations"],
                "properties": {
                    "question": {"type": "string"},
                    "options": {
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": OPTIONS,
                        "maxItems": OPTIONS,
                    },
                    "answer_index": {"type": "integer", "minimum": 0, "maximum": OPTIONS - 1},
                    "explanations": {
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": OPTIONS,
                        "maxItems": OPTIONS,
                    },
                },
            },
        }
    },
}
CONTENT_PROMPT = read_prompt("quiz_content", "content_quiz", SCHEMA)
TERM_PROMPT = read_prompt("quiz_term", "term_quiz", SCHEMA)


class Question(BaseModel):
    """One question: four options, the index (0–3) of the right one, and a reason for each."""

    model_config = ConfigDict(frozen=True)

    question: str
    options: tuple[str, str, str, str]
    answer_index: int
    explanations: tuple[str, str, str, str]


def read_quiz(content: str) -> tuple[Question, ...]:
    """The three questions in a model's answer. Raises InvalidOutput with the first rule that it breaks."""
    questions = read_json(content).get("questions")
    if not isinstance(questions, list) or len(questions) != QUESTIONS:
        raise InvalidOutput(f"questions는 {QUESTIONS}개여야 합니다.")
    quiz = tuple(_question(number, value) for number, value in enumerate(questions, 1))
    if len({question.answer_index for question in quiz}) == 1:
        raise InvalidOutput("정답의 자리가 모두 같습니다.")
    return quiz


def _question(number: int, value: Any) -> Question:
    if not isinstance(value, dict):
        raise InvalidOutput(f"{number}번 문제가 객체가 아닙니다.")
    text, index = value.get("question"), value.get("answer_index")
    if not isinstance(text, str) or not text.strip():
        raise InvalidOutput(f"{number}번 문제의 question이 비어 있습니다.")
    # bool is an int to Python, and no index to us.
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < OPTIONS:
        raise InvalidOutput(f"{number}번 문제의 answer_index는 0부터 {OPTIONS - 1}까지여야 합니다.")
    options = _four(number, "options", value.get("options"))
    if len({" ".join(option.split()).casefold() for option in options}) != OPTIONS:
        raise InvalidOutput(f"{number}번 문제의 보기가 서로 달라야 합니다.")
    explanations = _four(number, "explanations", value.get("explanations"))
    return Question(question=text.strip(), options=options, answer_index=index, explanations=explanations)


def _four(number: int, name: str, value: Any) -> tuple[str, str, str, str]:
    if (
        not isinstance(value, list)
        or len(value) != OPTIONS
        or not all(isinstance(part, str) and part.strip() for part in value)
    ):
        raise InvalidOutput(f"{number}번 문제의 {name}는 비어 있지 않은 문자열 {OPTIONS}개여야 합니다.")
    first, second, third, fourth = (part.strip() for part in value)
    return first, second, third, fourth
