"""What is read of a model's answer, and what of it may be stored."""

import json
import math
from collections import Counter
from typing import Any

import pytest

from assets.context_tags.judgement import UnusableAnswer, checked, read_judgement
from assets.context_tags.models import Judgement, Selection
from tests.unit.context_tags.made_presets import candidate

OFFERED = [candidate(101), candidate(201), candidate(301)]


def answer(*selected: Any, concepts: Any = ()) -> str:
    return json.dumps({"selected": list(selected), "unmatchedConcepts": list(concepts)})


def kept(*selected: Selection) -> tuple[list[tuple[int, float | None]], Counter[str]]:
    """What `checked` leaves of these selections, and what it counted."""
    judgement, dropped = checked(Judgement(selected), OFFERED)
    return [(one.keyword_id, one.confidence) for one in judgement.selected], dropped


def test_an_answer_is_read_with_its_concepts_and_who_answered() -> None:
    content = answer(
        {"keywordId": 201, "confidence": 0.75}, {"keywordId": 101, "confidence": 1}, concepts=["낚시"]
    )
    read = read_judgement(content, "gpt-test")
    assert read == Judgement((Selection(201, 0.75), Selection(101, 1)), ("낚시",), "gpt-test")


def test_zero_selected_is_an_answer() -> None:
    assert read_judgement(answer(), "m") == Judgement((), (), "m")
    assert checked(Judgement(), OFFERED) == (Judgement(), Counter())


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", "  {}\n"])
def test_a_markdown_fence_around_the_answer_is_no_fault(fence: str) -> None:
    content = fence.replace("{}", answer({"keywordId": 101, "confidence": 0.5}))
    assert read_judgement(content, "m").selected == (Selection(101, 0.5),)


def test_fields_that_nobody_asked_for_are_ignored() -> None:
    content = (
        '{"why": "x", "selected": [{"keywordId": 101, "confidence": 0.5, "why": 1}], "unmatchedConcepts": []}'
    )
    assert read_judgement(content, "m").selected == (Selection(101, 0.5),)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "죄송합니다, 비밀 이야기라서요.",
        '{"selected": [',
        "[]",
        "null",
        "7",
        "[" * 100_000,
        '{"selected": ' + "9" * 5_000 + ', "unmatchedConcepts": []}',
        "{}",
        '{"selected": []}',
        '{"unmatchedConcepts": []}',
        '{"selected": {}, "unmatchedConcepts": []}',
        '{"selected": [], "unmatchedConcepts": "비밀"}',
        '{"selected": [], "unmatchedConcepts": null}',
        answer(101),
        answer(None),
        answer([101, 0.5]),
        answer({"confidence": 0.5}),
        answer({"keywordId": "101", "confidence": 0.5}),
        answer({"keywordId": True, "confidence": 0.5}),
        answer({"keywordId": 101.5, "confidence": 0.5}),
        answer({"keywordId": 101}),
        answer({"keywordId": 101, "confidence": None}),
        answer({"keywordId": 101, "confidence": True}),
        answer({"keywordId": 101, "confidence": "비밀"}),
    ],
)
def test_an_answer_of_another_shape_is_unusable_and_is_not_quoted(content: str) -> None:
    with pytest.raises(UnusableAnswer) as unusable:
        read_judgement(content, "m")
    assert "비밀" not in str(unusable.value)


def test_a_parse_error_that_quotes_the_answer_does_not_travel_along() -> None:
    with pytest.raises(UnusableAnswer) as unusable:
        read_judgement('{"비밀"', "m")
    assert unusable.value.__cause__ is None and unusable.value.__suppress_context__


def test_ids_outside_the_candidates_are_dropped_and_counted() -> None:
    selections, dropped = kept(
        Selection(102, 0.9), Selection(201, 0.4), Selection(-1, 0.9), Selection(10**30, 1)
    )
    assert selections == [(201, 0.4)]
    assert dropped == {"foreign_id": 3}


@pytest.mark.parametrize(
    "confidence", [-0.001, 1.001, 95, math.nan, math.inf, -math.inf, 10**400, True, "0.5"]
)
def test_a_confidence_outside_zero_to_one_drops_its_item_and_is_not_clamped(confidence: Any) -> None:
    selections, dropped = kept(Selection(101, confidence), Selection(201, 0.4))
    assert selections == [(201, 0.4)]
    assert dropped == {"confidence": 1}


def test_rule_11_confidences_are_of_one_kind_whether_read_or_given() -> None:
    read = read_judgement(
        answer({"keywordId": 101, "confidence": 1}, {"keywordId": 201, "confidence": 0.9}), "m"
    )
    assert [type(one.confidence) for one in read.selected] == [float, float]
    given, _ = checked(Judgement((Selection(101, 0), Selection(201, 0.5))), OFFERED)
    assert [type(one.confidence) for one in given.selected] == [float, float]


def test_rule_11_a_confidence_that_no_float_holds_drops_its_item() -> None:
    read = read_judgement(answer({"keywordId": 101, "confidence": 10**400}), "m")
    assert checked(read, OFFERED) == (Judgement((), (), "m"), Counter({"confidence": 1}))


def test_the_bounds_and_no_confidence_at_all_are_kept() -> None:
    assert kept(Selection(101, 0), Selection(201, 1), Selection(301)) == (
        [(101, 0), (201, 1), (301, None)],
        Counter(),
    )


@pytest.mark.parametrize("order", [(0.3, 0.9, 0.5), (0.9, 0.5, 0.3), (0.5, 0.3, 0.9), (None, 0.3, 0.9)])
def test_of_duplicates_the_highest_is_kept_in_whichever_order(order: tuple[float | None, ...]) -> None:
    assert kept(*(Selection(101, one) for one in order)) == ([(101, 0.9)], Counter({"duplicate": 2}))


def test_an_item_that_was_dropped_for_its_confidence_is_no_duplicate() -> None:
    assert kept(Selection(101, 1.5), Selection(101, 0.2)) == ([(101, 0.2)], Counter({"confidence": 1}))


@pytest.mark.parametrize("keyword_id", [True, "101", 101.0, None, [101]])
def test_an_id_that_is_no_whole_number_is_foreign(keyword_id: Any) -> None:
    """1 == True and 101 == 101.0 in Python, but not in the table."""
    judgement, dropped = checked(Judgement((Selection(keyword_id, 0.5),)), [candidate(1), candidate(101)])
    assert judgement.selected == () and dropped == {"foreign_id": 1}


def test_concepts_are_trimmed_texts_that_can_be_stored_each_once() -> None:
    concepts: Any = [
        " 낚시 ",
        "낚시",
        "",
        "  ",
        "a\x00b",
        "끝\ud83d",
        "가" * 101,
        "나" * 100,
        7,
        None,
        ["캠핑"],
        "캠핑",
    ]
    judgement, dropped = checked(Judgement((), concepts), OFFERED)
    assert judgement.unmatched_concepts == ("낚시", "나" * 100, "캠핑")
    assert not dropped


def test_no_more_than_twenty_concepts_are_kept() -> None:
    judgement, _ = checked(Judgement((), [f"낱말 {number}" for number in range(30)]), OFFERED)
    assert judgement.unmatched_concepts == tuple(f"낱말 {number}" for number in range(20))


def test_concepts_of_another_kind_cost_the_answer_nothing_else() -> None:
    read = read_judgement(answer({"keywordId": 101, "confidence": 0.5}, concepts=["낚시", 3, None]), "m")
    assert read.selected == (Selection(101, 0.5),) and read.unmatched_concepts == ("낚시",)


@pytest.mark.parametrize(
    ("model", "stored"), [("gpt-x", "gpt-x"), ("m" * 200, "m" * 100), ("a\x00", ""), (None, "")]
)
def test_the_name_of_the_model_fits_its_column(model: Any, stored: str) -> None:
    assert checked(Judgement((), (), model), OFFERED)[0].model == stored
