"""What makes a summary valid."""

import json
from typing import Any

import pytest

from assets.economy_news.answers import InvalidOutput
from assets.economy_news.summary import LINE_CHARACTERS, read_summary, sentences

LINES = [
    "한빛은행이 주택담보대출 금리를 연 3.25%로 낮추기로 했어요.",
    "가계부채가 석 달째 줄어 여유가 생겼기 때문이에요.",
    "대출을 받은 사람의 이자 부담이 줄어든다는 뜻이에요.",
]
SENTENCES = [f"한빛은행은 {month}월에 금리를 0.{month}% 내렸다." for month in range(1, 11)]
FULL = " ".join(SENTENCES[:8])


def answer(lines: Any = LINES, full: Any = FULL) -> str:
    return json.dumps({"summary3": lines, "summary_full": full}, ensure_ascii=False)


def lines_of(characters: int) -> list[str]:
    return ["가" * (characters - 40), "나" * 20, "다" * 20]


def test_a_right_answer_gives_its_lines_and_its_text() -> None:
    summary = read_summary(answer())
    assert list(summary.summary3) == LINES
    assert summary.summary_full == FULL


@pytest.mark.parametrize("count", [7, 8, 9])
def test_seven_to_nine_sentences_are_valid(count: int) -> None:
    assert read_summary(answer(full=" ".join(SENTENCES[:count])))


@pytest.mark.parametrize("count", [1, 6, 10])
def test_fewer_or_more_sentences_are_refused_with_their_number(count: int) -> None:
    with pytest.raises(InvalidOutput, match=f"7~9문장이어야 하는데 {count}문장"):
        read_summary(answer(full=" ".join(SENTENCES[:count])))


@pytest.mark.parametrize(
    "lines",
    [LINES[:2], [*LINES, "넷째 줄이에요."], [], [*LINES[:2], ""], [*LINES[:2], " \n "], [*LINES[:2], "\x00"]],
)
def test_other_than_three_lines_with_text_are_refused(lines: list[str]) -> None:
    with pytest.raises(InvalidOutput, match="비어 있지 않은 세 줄"):
        read_summary(answer(lines=lines))


@pytest.mark.parametrize(
    "lines", [None, " ".join(LINES), [*LINES[:2], 3], [*LINES[:2], None], {"0": LINES[0]}]
)
def test_lines_that_are_no_array_of_strings_are_refused(lines: Any) -> None:
    with pytest.raises(InvalidOutput, match="문자열 세 개의 배열"):
        read_summary(answer(lines=lines))


@pytest.mark.parametrize("full", [None, "", "  \n", 8, SENTENCES[:8], {"text": "x"}])
def test_a_full_summary_without_text_is_refused(full: Any) -> None:
    with pytest.raises(InvalidOutput, match="summary_full이 비어 있습니다"):
        read_summary(answer(full=full))


@pytest.mark.parametrize("characters", LINE_CHARACTERS)
def test_lines_as_short_or_as_long_as_allowed_are_valid(characters: int) -> None:
    assert sum(map(len, read_summary(answer(lines=lines_of(characters))).summary3)) == characters


@pytest.mark.parametrize("characters", [LINE_CHARACTERS[0] - 1, LINE_CHARACTERS[1] + 1])
def test_lines_too_short_or_too_long_together_are_refused_with_their_length(characters: int) -> None:
    with pytest.raises(InvalidOutput, match=f"{characters}자입니다"):
        read_summary(answer(lines=lines_of(characters)))


def test_a_line_break_inside_a_line_becomes_a_space() -> None:
    assert read_summary(answer(lines=[LINES[0].replace(" ", "\n", 1), *LINES[1:]])).summary3[0] == LINES[0]


def test_both_parts_missing_are_an_invalid_answer_and_no_error() -> None:
    with pytest.raises(InvalidOutput):
        read_summary("{}")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("금리가 3.5% 올랐다. 물가는 0.25%p 내렸다.", 2),
        ("코스피는 2,710.35로 마쳤다.", 1),
        ('그는 "이르다. 시장이 놀랐다."라고 말했다. 시장은 조용했다.', 3),
        ("그는 “오를 것이다.” 시장은 조용했다.", 2),
        ("정말 오를까? 그렇다! 모두가 기다린다…", 3),
        ("끝에 표가 없다\n다음 줄도 없다", 2),
        ("첫 줄이다.\n\n둘째 줄이다.\n", 2),
        ("첫 문장이다.\u2028둘째 문장이다.", 2),
        ("(서울=가나통신) 금리가 올랐다.) 그리고 내렸다.", 2),
        ("값이 내렸다...  다시 올랐다.", 2),
        ("  ", 0),
        ("", 0),
    ],
)
def test_sentences_end_at_a_mark_before_white_space_or_at_a_line_break(text: str, count: int) -> None:
    assert len(sentences(text)) == count
