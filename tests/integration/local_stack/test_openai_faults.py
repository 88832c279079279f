"""Faults of the OpenAI stand-in, armed over HTTP."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.integration.local_stack.openai_asking import (
    BODY,
    Served,
    asked,
    fenced,
    numbers,
    request,
    right_answers,
)


def test_a_fault_with_a_status_hits_only_what_it_names_and_only_so_often(stand_in: Served) -> None:
    stand_in.fault(
        schema="quiz",
        contains="골목",
        skip=1,
        times=1,
        status=429,
        code="rate_limit_exceeded",
        headers={"Retry-After": "7"},
    )
    asked(stand_in, "quiz", "골목 하나")
    asked(stand_in, "term_cards", "골목 둘")
    with pytest.raises(openai.RateLimitError) as refused:
        asked(stand_in, "quiz", "골목 셋")
    assert refused.value.response.headers["retry-after"] == "7"
    asked(stand_in, "quiz", "골목 넷")
    assert [entry["status"] for entry in stand_in.ledger()] == [200, 200, 429, 200]


def test_a_share_picks_the_same_calls_every_time(stand_in: Served) -> None:
    stand_in.fault(share=0.5, seed="a", status=500)

    def outcome(number: int) -> int:
        return stand_in.http.post("/v1/chat/completions", json=request("quiz", f"글 {number}")).status_code

    first = [outcome(number) for number in range(40)]
    assert first == [outcome(number) for number in range(40)]
    assert 8 < first.count(500) < 32


@pytest.mark.parametrize("effect", ["truncated", "not_json", "markdown_fence"])
def test_a_broken_answer_can_be_repaired_by_asking_again(stand_in: Served, effect: str) -> None:
    good = asked(stand_in, "quiz", fenced(summary_full=BODY))
    stand_in.fault(schema="quiz", times=1, content=effect)
    ask = request("quiz", fenced(summary_full=BODY))
    bad = stand_in.client.chat.completions.create(**ask).choices[0]
    with pytest.raises(ValueError, match=r"."):
        json.loads(bad.message.content or "")
    assert (bad.finish_reason == "length") is (effect == "truncated")
    ask["messages"] += [
        {"role": "assistant", "content": fenced(cards="관세: 세금") + (bad.message.content or "")},
        {"role": "user", "content": "JSON이 아니다. 다시 답하라."},
    ]
    repaired = json.loads(stand_in.client.chat.completions.create(**ask).choices[0].message.content or "")
    assert right_answers(repaired) == right_answers(good)


def test_planted_errors_are_what_they_are_called(stand_in: Served) -> None:
    def spoiled(effect: str, schema: str) -> Any:
        stand_in.http.delete("/_control/faults").raise_for_status()
        stand_in.fault(content=effect)
        return asked(stand_in, schema, fenced(body=BODY, summary_full=BODY))

    summary = spoiled("wrong_number", "article_summary")["summary_full"]
    assert len(numbers(summary) - numbers(BODY)) == 1
    assert 7 <= len(re.findall(r"[.!?](?=\s|$)", summary)) <= 9
    foreign = spoiled("foreign_term", "term_cards")["cards"]
    assert [card["term"] in BODY for card in foreign].count(False) == 1
    broken = spoiled("broken_highlight", "term_cards")["cards"]
    assert [card["highlight_text"] in BODY for card in broken].count(False) == 1
    assert all(card["term"] in BODY for card in broken)
    assert len(spoiled("too_few", "quiz")["questions"]) == 2
    assert "\x00" in json.dumps(spoiled("nul", "quiz"), ensure_ascii=False).replace("\\u0000", "\x00")
    assert "\\ud83d" in json.dumps(spoiled("lone_surrogate", "quiz"))


def test_refusal_content_filter_and_raw_content_look_like_the_real_ones(stand_in: Served) -> None:
    for effect in ({"content": "refusal"}, {"content": "content_filter"}, {"raw": "[1"}):
        stand_in.fault(times=1, **effect)
    ask = request("quiz", "글")
    refused, filtered, raw = (stand_in.client.chat.completions.create(**ask).choices[0] for _ in range(3))
    assert refused.message.refusal and refused.message.content is None
    assert filtered.finish_reason == "content_filter"
    assert raw.message.content == "[1"


@pytest.mark.parametrize(("drop", "recorded"), [("before", 0), ("after", 1)])
def test_a_dropped_connection_is_recorded_as_asked(stand_in: Served, drop: str, recorded: int) -> None:
    stand_in.fault(drop=drop, times=1)
    with pytest.raises(openai.APIConnectionError):
        asked(stand_in, "quiz", "글")
    assert [entry["status"] for entry in stand_in.ledger()] == [200] * recorded
    asked(stand_in, "quiz", "글")
    assert stand_in.totals()["repeated_requests"] == recorded


def test_a_hanging_call_ends_only_with_the_client(stand_in: Served) -> None:
    stand_in.fault(hang=True, times=1)
    with pytest.raises(openai.APITimeoutError):
        stand_in.client.with_options(timeout=0.3).chat.completions.create(**request("quiz", "글"))
    assert stand_in.ledger()[-1]["error_code"] == "hang"


@pytest.mark.parametrize(
    "fault", [{}, {"statsu": 500}, {"share": 2, "status": 500}, {"status": 500, "shuffle": True}]
)
def test_a_fault_that_would_do_nothing_or_is_misspelt_is_refused(
    stand_in: Served, fault: dict[str, Any]
) -> None:
    assert stand_in.http.post("/_control/faults", json=fault).status_code == 400
    assert stand_in.http.get("/_control/faults").json() == {"faults": []}


def test_delays_of_many_calls_pass_side_by_side(stand_in: Served) -> None:
    stand_in.http.post("/_control/latency", json={"seconds": 0.5}).raise_for_status()
    started = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: asked(stand_in, "quiz", f"글 {number}"), range(16)))
    assert 0.5 <= time.monotonic() - started < 4
