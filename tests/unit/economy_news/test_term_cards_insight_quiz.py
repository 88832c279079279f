"""What makes term cards, insights and quizzes valid; every rule is broken once."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from assets.economy_news.answers import InvalidOutput
from assets.economy_news.insight import read_insights
from assets.economy_news.quiz import read_quiz
from assets.economy_news.term_cards import as_text, read_term_cards, term_key

SUMMARY = "기준금리가 동결됐다. 환율은 내렸고 국채 금리도 내렸다. 코스피는 올랐다."


def cards() -> dict[str, Any]:
    return {
        "cards": [
            {
                "term": "기준금리",
                "highlight_text": "기준금리가 동결",
                "definition": "중앙은행이 정하는 금리예요.",
            },
            {"term": "환율", "highlight_text": "환율은 내렸고", "definition": "돈을 바꾸는 비율이에요."},
            {"term": "국채", "highlight_text": "국채 금리도", "definition": "나라가 빌린 돈의 증서예요."},
        ]
    }


def insights() -> dict[str, Any]:
    return {
        "insights": [
            {"title": f"제목 {n}", "detail": "설명이에요.", "why_it_matters": "중요해요."} for n in range(3)
        ]
    }


def quiz() -> dict[str, Any]:
    return {
        "questions": [
            {
                "question": f"질문 {n}?",
                "options": ["가", "나", "다", "라"],
                "answer_index": n,
                "explanations": ["이유 1", "이유 2", "이유 3", "이유 4"],
            }
            for n in range(3)
        ]
    }


def read_cards(answer: dict[str, Any]) -> Any:
    return read_term_cards(json.dumps(answer), SUMMARY)


def test_valid_answers_are_read() -> None:
    assert [card.term for card in read_cards(cards())] == ["기준금리", "환율", "국채"]
    assert len(read_insights(json.dumps(insights()))) == 3
    assert [question.answer_index for question in read_quiz(json.dumps(quiz()))] == [0, 1, 2]


def test_the_quiz_about_cards_reads_a_line_a_card() -> None:
    assert as_text(read_cards(cards())).splitlines()[1] == "환율: 돈을 바꾸는 비율이에요."


def test_spaces_and_case_make_no_other_term() -> None:
    assert term_key("GDP 성장률") == term_key("gdp성장률")


def _set(path: tuple[Any, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(answer: dict[str, Any]) -> None:
        part: Any = answer
        for key in path[:-1]:
            part = part[key]
        if value is None:
            del part[path[-1]]
        else:
            part[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_set(("cards", 0), None), "invalid_output"),
        (_set(("cards", 0, "definition"), " "), "invalid_output"),
        (_set(("cards", 0, "term"), None), "invalid_output"),
        (_set(("cards", 1), "카드"), "invalid_output"),
        (_set(("cards", 1, "term"), "기준 금리"), "invalid_output"),
        (_set(("cards", 2, "highlight_text"), "국채금리도"), "highlight_not_in_summary"),
    ],
)
def test_cards_that_break_a_rule_are_refused(change: Callable[[dict[str, Any]], None], code: str) -> None:
    answer = cards()
    change(answer)
    with pytest.raises(InvalidOutput) as refused:
        read_cards(answer)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "change",
    [
        _set(("insights", 2), None),
        _set(("insights", 0, "title"), ""),
        _set(("insights", 1, "why_it_matters"), 3),
        _set(("insights",), {"title": "하나"}),
    ],
)
def test_insights_that_break_a_rule_are_refused(change: Callable[[dict[str, Any]], None]) -> None:
    answer = insights()
    change(answer)
    with pytest.raises(InvalidOutput):
        read_insights(json.dumps(answer))


@pytest.mark.parametrize(
    "change",
    [
        _set(("questions", 2), None),
        _set(("questions", 0), "문제"),
        _set(("questions", 0, "question"), "  "),
        _set(("questions", 0, "options", 3), None),
        _set(("questions", 0, "options", 3), "가 "),
        _set(("questions", 0, "options", 0), ""),
        _set(("questions", 0, "answer_index"), 4),
        _set(("questions", 0, "answer_index"), -1),
        _set(("questions", 0, "answer_index"), True),
        _set(("questions", 0, "answer_index"), "1"),
        _set(("questions", 0, "explanations"), ["하나"]),
    ],
)
def test_a_quiz_that_breaks_a_rule_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    answer = quiz()
    change(answer)
    with pytest.raises(InvalidOutput):
        read_quiz(json.dumps(answer))


def test_a_quiz_whose_answers_all_stand_at_one_position_is_refused() -> None:
    answer = quiz()
    for question in answer["questions"]:
        question["answer_index"] = 2
    with pytest.raises(InvalidOutput, match="자리"):
        read_quiz(json.dumps(answer))
