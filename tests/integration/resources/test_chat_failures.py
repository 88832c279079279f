"""The real SDK against the stand-in's faults and against servers that are none: what an ask raises."""

import time
import traceback
from typing import Any

import pytest

from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict
from resources.chat import ChatResource
from tests.integration.resources.asking import KEY, MESSAGES, SCHEMA, chat_at, failure_of, ledger
from tests.integration.resources.scripted_server import always, answer, scripted, unused_address
from tests.integration.stand_ins import StandIn

QUOTA, AUTH, MODEL = (Verdict(SUSPEND, reason) for reason in ("QUOTA", "AUTH", "MODEL"))
AGAIN, NEVER = Verdict(RETRY), Verdict(FAIL)


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ({"status": 429, "code": "insufficient_quota"}, QUOTA),
        ({"status": 429, "type": "insufficient_quota"}, QUOTA),
        ({"status": 402, "code": "insufficient_balance"}, QUOTA),
        ({"status": 400, "code": "credit_balance_exhausted"}, QUOTA),
        ({"status": 429, "code": "billing_not_active"}, QUOTA),
        ({"status": 400, "code": "billing_hard_limit_reached"}, QUOTA),
        ({"status": 402}, QUOTA),
        ({"status": 401, "code": "invalid_api_key"}, AUTH),
        ({"status": 400, "code": "invalid_api_key"}, AUTH),
        ({"status": 403, "code": "unsupported_country_region_territory"}, AUTH),
        ({"status": 401}, AUTH),
        ({"status": 403}, AUTH),
        ({"status": 404, "code": "model_not_found"}, MODEL),
        ({"status": 403, "code": "model_not_found"}, MODEL),
        ({"status": 429, "code": "rate_limit_exceeded"}, AGAIN),
        ({"status": 408}, AGAIN),
        ({"status": 409}, AGAIN),
        ({"status": 500}, AGAIN),
        ({"status": 502}, AGAIN),
        ({"status": 503}, AGAIN),
        ({"status": 504}, AGAIN),
        ({"status": 400, "code": "context_length_exceeded"}, NEVER),
        ({"status": 400, "code": "content_filter"}, NEVER),
        ({"status": 400}, NEVER),
        ({"status": 404}, MODEL),
        ({"status": 413}, NEVER),
        ({"status": 422}, NEVER),
    ],
    ids=str,
)
def test_every_row_of_the_error_table_and_each_ask_is_one_call(
    chat: ChatResource, openai_api: StandIn, fault: dict[str, Any], verdict: Verdict
) -> None:
    openai_api.fault(**fault)
    failure = failure_of(chat)
    assert failure.verdict == verdict
    assert failure.status == fault["status"]
    assert not failure.may_have_been_charged
    assert failure.code == fault.get("code", failure.code)
    assert [entry["status"] for entry in ledger(openai_api)] == [fault["status"]]


def test_a_code_is_always_short_and_never_empty(chat: ChatResource, openai_api: StandIn) -> None:
    for fault in (
        {"status": 400, "code": "x" * 5_000},
        {"status": 503, "raw": ""},
        {"status": 503, "raw": "{}"},
    ):
        openai_api.clear_faults()
        openai_api.fault(**fault)
        assert 0 < len(failure_of(chat).code) <= 100


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20),
        ({"retry-after": "86400"}, 3_600),
        ({"retry-after": "never"}, None),
        ({"retry-after": "Fri, 30 Nov 2999 12:00:00 GMT"}, 3_600),
    ],
)
def test_a_retry_after_is_handed_on(
    chat: ChatResource, openai_api: StandIn, headers: dict[str, str], seconds: float | None
) -> None:
    openai_api.fault(status=429, headers=headers)
    assert failure_of(chat).retry_after_seconds == seconds


@pytest.mark.parametrize("provider_says", ["Mon, 30 Nov 2009 12:00:00 GMT", "Fri, 30 Nov 2999 12:00:00 GMT"])
def test_a_date_to_come_back_at_counts_from_the_providers_clock_and_not_from_ours(provider_says: str) -> None:
    again = provider_says.replace("12:00:00", "12:00:45")
    refusal = answer(429, b"{}", content_type="application/json", date=provider_says, retry_after=again)
    with scripted(always(refusal)) as server:
        assert failure_of(chat_at(f"{server.url}/v1")).retry_after_seconds == 45


def test_an_unknown_model_and_too_long_a_text_are_told_apart_by_the_real_refusals(
    openai_api: StandIn,
) -> None:
    prices = {"gpt-9": {"input": 1, "output": 1}}
    unknown = chat_at(f"{openai_api.url}/v1", model="gpt-9", model_prices=prices)
    assert failure_of(unknown).verdict == MODEL
    with pytest.raises(ApiFailure) as caught:
        chat_at(f"{openai_api.url}/v1").ask([{"role": "user", "content": "금" * 130_000}], SCHEMA)
    assert (caught.value.verdict, caught.value.code) == (NEVER, "context_length_exceeded")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"null",
        b"[]",
        b'"overloaded"',
        b"{}",
        b'{"error": "overloaded"}',
        b'{"error": {"code": 503, "type": {"name": "overloaded"}, "message": ["busy"]}}',
        b'{"error": {"code": {"a": 1}, "type": ["b"], "message": null}}',
        b"\xff\xfe",
    ],
)
def test_an_error_in_a_shape_of_its_own_goes_by_its_status(body: bytes) -> None:
    with scripted(always(answer(503, body, content_type="application/json"))) as server:
        failure = failure_of(chat_at(server.url))
        assert (failure.verdict, failure.status) == (AGAIN, 503)
        assert len(server.requests) == 1


def test_a_call_that_takes_too_long_is_retried_later_and_may_have_been_charged(openai_api: StandIn) -> None:
    openai_api.fault(hang=True)
    started = time.monotonic()
    failure = failure_of(chat_at(f"{openai_api.url}/v1", timeout_ms=300))
    assert time.monotonic() - started < 5
    assert (failure.verdict, failure.code, failure.status) == (AGAIN, "timeout", None)
    assert "300 ms (OPENAI_TIMEOUT_MS)" in failure.message
    assert failure.may_have_been_charged
    assert len(ledger(openai_api)) == 1


@pytest.mark.parametrize(("when", "lines"), [("before", 0), ("after", 1)])
def test_a_dropped_connection_is_retried_later_and_may_have_been_charged(
    chat: ChatResource, openai_api: StandIn, when: str, lines: int
) -> None:
    openai_api.fault(drop=when)
    failure = failure_of(chat)
    assert (failure.verdict, failure.code, failure.status) == (AGAIN, "connection_error", None)
    assert failure.may_have_been_charged
    assert len(ledger(openai_api)) == lines


def test_a_call_that_found_nobody_was_not_charged() -> None:
    failure = failure_of(chat_at(f"http://{unused_address()}/v1"))
    assert (failure.verdict, failure.code) == (AGAIN, "connection_error")
    assert not failure.may_have_been_charged


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
@pytest.mark.parametrize(
    "body",
    [
        "<html>로그인이 필요합니다</html>".encode(),
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}',
        b'{"choices": [{"finish_reason": "stop", "message": null}]}',
        b'{"choices": [{"finish_reason": "stop", "message": {"content": "{}"}}]}',
        b'{"choices": [{"finish_reason": "stop", "message": {"content": "{}"}}], "usage": {}}',
        b'{"choices": "none", "usage": 5}',
        b'{"choices": [{"fini',
    ],
)
def test_an_answer_that_is_no_completion_is_retried_later_and_may_have_been_charged(
    body: bytes, content_type: str
) -> None:
    with scripted(always(answer(200, body, content_type=content_type))) as server:
        failure = failure_of(chat_at(server.url))
        assert (failure.verdict, failure.code) == (AGAIN, "unreadable_answer")
        assert failure.may_have_been_charged
        assert len(server.requests) == 1


def test_a_text_that_cannot_be_sent_fails_for_good_and_is_not_charged(
    chat: ChatResource, openai_api: StandIn
) -> None:
    with pytest.raises(ApiFailure) as caught:
        chat.ask([{"role": "user", "content": "half a \ud83d smile"}], SCHEMA)
    assert caught.value.verdict == NEVER
    assert not caught.value.may_have_been_charged


def everything_said(error: BaseException) -> str:
    """What a log or an event could show of an exception."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 401, "code": "invalid_api_key"},
        {"status": 400},
        {"status": 429, "code": "insufficient_quota"},
        {"status": 429},
        {"status": 404, "code": "model_not_found"},
        {"status": 500},
        {"status": 502, "raw": f"<html>Authorization: Bearer {KEY}</html>"},
        {"status": 500, "code": f"no_such_key_{KEY}"},
        {"status": 500, "type": f"no_such_key_{KEY}"},
        {"drop": "before"},
        {"hang": True},
    ],
    ids=str,
)
def test_a_key_is_in_no_text_of_a_failure_even_if_the_provider_quotes_it(
    openai_api: StandIn, fault: dict[str, Any]
) -> None:
    openai_api.fault(message=f"Incorrect API key provided: {KEY}.", **fault)
    said = everything_said(failure_of(chat_at(f"{openai_api.url}/v1", timeout_ms=500)))
    assert "Traceback" in said
    assert KEY not in said


def test_a_refusal_for_good_does_not_quote_what_was_asked(chat: ChatResource, openai_api: StandIn) -> None:
    openai_api.fault(status=400, message=f"cannot read: {MESSAGES[1]['content']}")
    assert "새벽은행" not in everything_said(failure_of(chat))
