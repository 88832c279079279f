"""Answers that came and are no good: asked again once, refused, or stored clean."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from assets.economy_news.models import Claim
from assets.economy_news.result_kinds import SUMMARY
from resources.chat import ChatAnswer, JsonSchema, Messages
from resources.spending import Usage
from tests.integration.economy_news.enriching import (
    WatchedChat,
    a_chat,
    calls,
    enrich,
    paid,
    spending,
    summaries,
)
from tests.integration.economy_news.factories import (
    a_job,
    a_text,
    an_article,
    job_rows,
    jobs_waiting,
    statuses,
)
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]

A_SHORT_ANSWER = json.dumps({"summary3": ["하나", "둘", "셋"], "summary_full": "한 문장이다."})


def test_an_answer_in_a_markdown_fence_is_an_answer(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    openai_api.fault(content="markdown_fence")
    enrich(connection, a_chat(openai_api))
    assert statuses(connection) == ["SUCCESS"]
    assert len(calls(openai_api)) == 1


@pytest.mark.parametrize(
    "fault", [{"raw": A_SHORT_ANSWER}, {"content": "not_json"}, {"content": "truncated"}]
)
def test_an_invalid_answer_is_complained_about_once_and_the_good_one_costs_both(
    fault: dict[str, str], connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    openai_api.fault(**fault, times=1)
    asked: list[Messages] = []
    enrich(connection, a_chat(openai_api).before_asking(asked.append))

    assert [(job["status"], job["attempt"]) for job in job_rows(connection)] == [("SUCCESS", 1)]
    first, second = calls(openai_api)
    (stored,) = summaries(connection)
    assert stored["input_tokens"] == first["prompt_tokens"] + second["prompt_tokens"]
    assert stored["output_tokens"] == first["completion_tokens"] + second["completion_tokens"]
    assert stored["cost_usd"] == paid(openai_api) == spending(connection)["cost_usd"]
    assert spending(connection)["reserved_usd"] == 0
    assert [message["role"] for message in asked[1]] == ["system", "user", "assistant", "user"]
    assert asked[1][:2] == asked[0]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"content": "not_json"}, "invalid_output"),
        ({"content": "too_few"}, "invalid_output"),
        ({"raw": A_SHORT_ANSWER}, "invalid_output"),
        ({"raw": f'{{"summary3": {"[" * 700}{"]" * 700}}}'}, "invalid_output"),
        ({"raw": "null"}, "invalid_output"),
        ({"content": "truncated"}, "output_cut"),
    ],
)
def test_an_answer_that_is_invalid_twice_fails_its_job_alone_and_both_calls_are_paid(
    fault: dict[str, str], code: str, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    a_job(connection, an_article(connection, 0, title="고장 난 기사"))
    jobs_waiting(connection, 1)
    openai_api.fault(**fault, contains="고장 난 기사")
    outcome = enrich(connection, a_chat(openai_api))

    assert (outcome.succeeded, outcome.failed) == (1, 1)
    broken, sound = job_rows(connection)
    assert (broken["status"], broken["error_code"], broken["attempt"]) == ("FAILED", code, 1)
    assert broken["error_message"] and broken["settled_at"] is not None
    assert sound["status"] == "SUCCESS"
    assert len(summaries(connection)) == 1
    assert len(calls(openai_api)) == spending(connection)["calls"] == 3
    assert spending(connection)["cost_usd"] == paid(openai_api)
    assert spending(connection)["reserved_usd"] == 0


@pytest.mark.parametrize(("content", "code"), [("refusal", "refusal"), ("content_filter", "content_filter")])
def test_a_refusal_fails_its_job_and_is_not_asked_again(
    content: str, code: str, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    openai_api.fault(content=content)
    enrich(connection, a_chat(openai_api))
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"]) == ("FAILED", code)
    assert len(calls(openai_api)) == spending(connection)["calls"] == 1
    assert spending(connection)["cost_usd"] == paid(openai_api)


@pytest.mark.parametrize(("content", "ending"), [("nul", "."), ("lone_surrogate", "\ufffd")])
def test_unstorable_characters_in_an_answer_are_stored_clean(
    content: str, ending: str, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    openai_api.fault(content=content)
    enrich(connection, a_chat(openai_api))
    (stored,) = summaries(connection)
    assert str(stored["summary_full"]).endswith(ending)


class CutChat(WatchedChat):
    """Says of its first answer, which is whole, that the length limit ended it."""

    def ask(self, messages: Messages, schema: JsonSchema) -> ChatAnswer:
        return replace(super().ask(messages, schema), was_cut=len(messages) == 2)


def test_an_answer_that_was_cut_is_not_believed_even_where_it_reads_well(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    enrich(connection, CutChat(**a_chat(openai_api).model_dump()))
    assert statuses(connection) == ["SUCCESS"]
    assert len(calls(openai_api)) == 2


class OddChat(WatchedChat):
    """Answers with bare lone surrogates and NUL first, and as the stand-in does after a complaint."""

    def ask(self, messages: Messages, schema: JsonSchema) -> ChatAnswer:
        if len(messages) > 2:
            return super().ask(messages, schema)
        return ChatAnswer("\ud83d\x00 이것은 답이 아니다", Usage(1, 10, 0, 10, Decimal("0.00001")), 0.1)


def test_an_answer_that_cannot_be_sent_back_as_it_is_can_still_be_complained_about(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    enrich(connection, OddChat(**a_chat(openai_api).model_dump()))
    assert [(job["status"], job["error_code"]) for job in job_rows(connection)] == [("SUCCESS", None)]


def test_an_answer_that_no_table_takes_fails_alone(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 3)
    rows_of = SUMMARY.rows
    title, _ = a_text(1)

    def rows_with_one_too_few_lines(result: Any, claim: Claim) -> list[dict[str, object]]:
        (row,) = rows_of(result, claim)
        return [{**row, "summary3": ["하나"]} if claim.title == title else row]

    object.__setattr__(SUMMARY, "rows", rows_with_one_too_few_lines)
    try:
        enrich(connection, a_chat(openai_api), concurrency=3)
    finally:
        object.__setattr__(SUMMARY, "rows", rows_of)
    found = [(job["status"], job["error_code"]) for job in job_rows(connection)]
    assert found == [("SUCCESS", None), ("FAILED", "cannot_be_stored"), ("SUCCESS", None)]
    assert len(calls(openai_api)) == 3
