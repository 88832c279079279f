"""A model as the tests ask it."""

from typing import Any

import pytest

from resources.api_failure import ApiFailure
from resources.chat import ChatResource, JsonSchema
from tests.integration.stand_ins import StandIn

KEY = "sk-test-canary-7431"
SCHEMA = JsonSchema(
    "note",
    {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
MESSAGES = [
    {"role": "system", "content": "Write a short note."},
    {"role": "user", "content": "새벽은행이 예금 금리를 0.25%포인트 내렸다고 밝혔다."},
]


def chat_at(url: str, **changes: Any) -> ChatResource:
    settings = {"model": "gpt-4o-mini", "base_url": url, "api_key": KEY, "timeout_ms": 10_000, **changes}
    return ChatResource(**settings)


def failure_of(chat: ChatResource) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        chat.ask(MESSAGES, SCHEMA)
    return caught.value


def ledger(openai_api: StandIn) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = openai_api.get("ledger")["entries"]
    return entries
