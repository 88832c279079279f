"""What is read from a model's answer, whatever it sends."""

import json
import unicodedata
from contextlib import suppress

import pytest

from assets.economy_news.answers import InvalidOutput, read_items, read_json

ANSWER = '{"summary_full": "금리가 올랐다."}'
READ = {"summary_full": "금리가 올랐다."}


@pytest.mark.parametrize(
    "content",
    [
        ANSWER,
        f"\n  {ANSWER}\n",
        f"```json\n{ANSWER}\n```",
        f"```\n{ANSWER}\n```",
        f"  ```json\n{ANSWER}\n```  ",
        f"```json{ANSWER}```",
    ],
)
def test_an_object_is_read_with_or_without_a_fence(content: str) -> None:
    assert read_json(content) == READ


def test_a_fence_inside_the_text_stays_there() -> None:
    assert read_json(json.dumps({"a": "```json\n{}\n```"})) == {"a": "```json\n{}\n```"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "   ",
        "요청하신 요약입니다.",
        ANSWER[:-3],
        f"```json\n{ANSWER[:-1]}\n```",
        "{'a': 1}",
        "```",
        "\ufeff{}",
    ],
)
def test_what_is_no_json_is_complained_about_in_words_for_the_model(content: str) -> None:
    with pytest.raises(InvalidOutput, match="JSON으로 읽을 수 없습니다"):
        read_json(content)


@pytest.mark.parametrize("content", ["[]", '"text"', "3", "null", "true", f"[{ANSWER}]"])
def test_json_that_is_no_object_is_refused(content: str) -> None:
    with pytest.raises(InvalidOutput, match="JSON 객체가 아닙니다"):
        read_json(content)


def test_nul_characters_vanish_from_every_string() -> None:
    content = '{"a": "금\\u0000리", "b": ["\\u0000", {"c\\u0000": "x\\u0000y"}]}'
    assert read_json(content) == {"a": "금리", "b": ["", {"c": "xy"}]}


def test_lone_surrogates_become_replacement_characters_and_pairs_stay() -> None:
    content = '{"a": "끝\\ud83d", "b": ["\\udc00시작"], "c": "\\ud83d\\ude00"}'
    assert read_json(content) == {"a": "끝\ufffd", "b": ["\ufffd시작"], "c": "😀"}


def test_a_lone_surrogate_that_came_unescaped_is_replaced_too() -> None:
    assert read_json('{"a": "끝\ud83d"}') == {"a": "끝\ufffd"}


def test_decomposed_text_is_composed() -> None:
    decomposed = unicodedata.normalize("NFD", "한국은행")
    assert read_json(json.dumps({"a": [decomposed]})) == {"a": ["한국은행"]}


@pytest.mark.parametrize("depth", [400, 600, 900, 5_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_an_answer_nested_without_end_is_read_or_refused_and_breaks_nothing(
    depth: int, opening: str, closing: str
) -> None:
    content = f'{{"deep": {opening * depth}1{closing * depth}, "summary_full": "금리가 올랐다."}}'
    with suppress(InvalidOutput):
        assert read_json(content)["summary_full"] == "금리가 올랐다."


def test_a_number_of_ten_thousand_digits_is_refused_and_breaks_nothing() -> None:
    with pytest.raises(InvalidOutput):
        read_json(f'{{"a": {"9" * 10_000}}}')


def test_the_wanted_number_of_objects_is_read_with_their_fields_trimmed() -> None:
    answer = {"insights": [{"title": " 하나 ", "detail": "둘", "more": 3}, {"title": "셋", "detail": "넷\n"}]}
    assert read_items(answer, "insights", 2, ("title", "detail")) == [
        {"title": "하나", "detail": "둘"},
        {"title": "셋", "detail": "넷"},
    ]


@pytest.mark.parametrize("value", [None, [], "둘", {"title": "하나"}, [{"title": "하나"}] * 3])
def test_another_number_of_objects_is_refused(value: object) -> None:
    with pytest.raises(InvalidOutput, match="insights는 2개여야 합니다"):
        read_items({"insights": value}, "insights", 2, ("title",))


@pytest.mark.parametrize("second", [{}, {"title": " "}, {"title": None}, {"title": ["둘"]}, "둘", None])
def test_an_object_without_text_in_a_field_is_refused_with_its_place(second: object) -> None:
    with pytest.raises(InvalidOutput, match="insights 2번의 title"):
        read_items({"insights": [{"title": "하나"}, second]}, "insights", 2, ("title",))
