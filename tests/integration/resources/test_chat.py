"""The real SDK against the stand-in: what an answer holds and costs, and what is not even asked."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from resources.api_failure import SUSPEND, Verdict
from resources.chat import ChatResource
from resources.errors import ModelHasNoPrice
from tests.integration.resources.asking import KEY, MESSAGES, SCHEMA, chat_at, failure_of, ledger
from tests.integration.stand_ins import StandIn


def test_an_answer_has_its_content_and_the_usage_and_cost_of_the_ledger(
    chat: ChatResource, openai_api: StandIn
) -> None:
    answered = chat.ask(MESSAGES, SCHEMA)
    (entry,) = ledger(openai_api)
    assert list(json.loads(answered.content)) == ["text"]
    assert (answered.was_cut, answered.refusal) == (False, None)
    assert answered.usage.calls == 1
    assert answered.usage.input_tokens == entry["prompt_tokens"] > 0
    assert answered.usage.output_tokens == entry["completion_tokens"] > 0
    assert float(answered.usage.cost_usd) == pytest.approx(entry["cost_usd"], abs=1e-12)
    assert (entry["model"], entry["schema"], entry["status"]) == ("gpt-4o-mini", "note", 200)
    assert 0 < answered.seconds < 10


def test_cached_tokens_are_told_and_paid_less(chat: ChatResource, openai_api: StandIn) -> None:
    long_rules = [{"role": "system", "content": "Keep to the facts. " * 400}, MESSAGES[1]]
    first, second = chat.ask(long_rules, SCHEMA), chat.ask(long_rules, SCHEMA)
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == ledger(openai_api)[1]["cached_tokens"] > 1_000
    assert second.usage.cost_usd < first.usage.cost_usd
    assert float(second.usage.cost_usd) == pytest.approx(ledger(openai_api)[1]["cost_usd"], abs=1e-12)


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4.1-mini", "gpt-5-mini"])
def test_each_model_is_asked_with_the_parameters_that_it_takes(openai_api: StandIn, model: str) -> None:
    answered = chat_at(f"{openai_api.url}/v1", model=model).ask(MESSAGES, SCHEMA)
    assert answered.content
    assert float(answered.usage.cost_usd) == pytest.approx(ledger(openai_api)[0]["cost_usd"], abs=1e-12)


def test_the_estimate_before_a_call_is_never_below_what_is_counted(chat: ChatResource) -> None:
    for text in ("금리" * 2_000, "rate " * 2_000, "🙂" * 500, "", "a"):
        messages = [{"role": "user", "content": text}]
        assert chat.most_input_tokens(messages, SCHEMA) >= chat.ask(messages, SCHEMA).usage.input_tokens


def test_an_answer_that_the_limit_ended_says_so_and_is_paid(openai_api: StandIn) -> None:
    openai_api.fault(content="truncated", times=1)
    chat = chat_at(f"{openai_api.url}/v1")
    answered = chat.ask(MESSAGES, SCHEMA)
    assert answered.was_cut and answered.usage.cost_usd > 0
    assert not chat.ask(MESSAGES, SCHEMA).was_cut


@pytest.mark.parametrize("effect", ["refusal", "content_filter"])
def test_a_refusal_is_an_answer_without_content_that_is_paid(
    chat: ChatResource, openai_api: StandIn, effect: str
) -> None:
    openai_api.fault(content=effect)
    answered = chat.ask(MESSAGES, SCHEMA)
    assert (answered.refusal, answered.content) == (effect, "")
    assert answered.usage.input_tokens > 0 and answered.usage.cost_usd > 0


def test_many_threads_may_ask_at_once(chat: ChatResource, openai_api: StandIn) -> None:
    together = threading.Barrier(16)

    def ask(number: int) -> str:
        together.wait(timeout=30)
        return chat.ask([{"role": "user", "content": f"number {number}"}], SCHEMA).content

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(16)))
    assert len({entry["request_sha256"] for entry in ledger(openai_api)}) == 16


def test_without_a_key_nothing_is_asked_and_the_message_says_what_to_do(
    openai_api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat = chat_at(f"{openai_api.url}/v1", api_key="")
    failure = failure_of(chat)
    assert (failure.verdict, failure.code) == (Verdict(SUSPEND, "AUTH"), "no_api_key")
    assert "OPENAI_API_KEY is not set" in failure.message and "make up" in failure.message
    assert ledger(openai_api) == []

    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # read when a call is made
    assert chat.ask(MESSAGES, SCHEMA).content


def test_a_model_without_a_price_is_not_asked(openai_api: StandIn) -> None:
    with pytest.raises(ModelHasNoPrice, match="MODEL_PRICES"):
        chat_at(f"{openai_api.url}/v1", model="gpt-4.1-nano").ask(MESSAGES, SCHEMA)
    assert ledger(openai_api) == []


def test_a_price_from_the_settings_makes_a_call_cost_that(openai_api: StandIn) -> None:
    free = {"gpt-4.1-nano": {"input": 0, "output": 0}}
    answered = chat_at(f"{openai_api.url}/v1", model="gpt-4.1-nano", model_prices=free).ask(MESSAGES, SCHEMA)
    assert answered.usage.cost_usd == 0 and answered.usage.input_tokens > 0


def test_a_gate_is_of_one_address_key_and_model_and_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    chats = [
        chat_at("http://a.example/v1"),
        chat_at("http://b.example/v1"),
        chat_at("http://a.example/v1", api_key="sk-another"),
        chat_at("http://a.example/v1", model="gpt-5-mini"),
    ]
    assert len({chat.gate_key for chat in chats}) == 4
    assert chat_at("http://a.example/v1", api_key="").gate_key == chats[0].gate_key
    assert "canary" not in repr(chats[0].gate_key)
