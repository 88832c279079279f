"""Chat completions with a JSON Schema, over OpenAI's API or any server that speaks it.

The SDK's own retries are off: a failed call is the caller's to retry, at the time its row says.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from resources.openai_api import OpenAiResource, usage_of
from resources.spending import Usage

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class JsonSchema:
    """What an answer must look like; `name` is what the provider and the metrics call it."""

    name: str
    schema: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class ChatAnswer:
    """A completed call. `was_cut`: the output limit ended it. `refusal`: the model would not answer.

    `model` is the one that really answered, as the provider names it; empty where it does not.
    """

    content: str
    usage: Usage
    seconds: float
    was_cut: bool = False
    refusal: str | None = None
    model: str = ""


class ChatResource(OpenAiResource):
    """One model with its parameters. Knows no pipeline; a call is made by exactly one `ask`."""

    max_output_tokens: int = Field(default=3_000, description="Of one answer; a longer one is cut.")
    temperature: float = Field(default=0.2, description="Left out where the model takes none.")

    def most_input_tokens(self, messages: Messages, schema: JsonSchema) -> int:
        """An estimate that is never below the real count: no tokenizer makes more tokens than bytes.

        Korean is three bytes a syllable and about one token, so it is two to three times the truth;
        the difference goes back with the settlement.
        """
        text = "".join(message["content"] for message in messages)
        schema_bytes = len(json.dumps(schema.schema, ensure_ascii=False).encode())
        return len(text.encode("utf-8", "replace")) + schema_bytes + 16 * len(messages)

    def ask(self, messages: Messages, schema: JsonSchema) -> ChatAnswer:
        """The model's answer to one call. Raises ApiFailure, which says who must act. Thread-safe."""
        import httpx2

        started = time.monotonic()
        with self._failures():
            # Not by `chat.completions.create`, whose models of request and answer take 2.6 ms of CPU more.
            response = self._open_client().post(
                "/chat/completions", body=self.request_body(messages, schema), cast_to=httpx2.Response
            )
            answer = response.json()
            choice = answer["choices"][0]
            usage = usage_of(answer["usage"], self.priced_model)
            answered_by = answer.get("model")
            content = choice["message"].get("content") or ""
            if not isinstance(content, str):
                raise TypeError("no text")
            refusal = _refusal(choice)
        return ChatAnswer(
            content=content,
            usage=usage,
            seconds=time.monotonic() - started,
            was_cut=choice.get("finish_reason") == "length",
            refusal=refusal,
            model=answered_by[:100] if isinstance(answered_by, str) else "",
        )

    def request_body(self, messages: Messages, schema: JsonSchema) -> dict[str, Any]:
        """What is asked, as the API takes it: the body of a call, or of a line in a batch."""
        model = self.priced_model
        request: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            model.token_limit_parameter: self.max_output_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": schema.name, "strict": True, "schema": schema.schema},
            },
        }
        if model.takes_temperature:
            request["temperature"] = self.temperature
        return request


def _refusal(choice: Any) -> str | None:
    if choice.get("finish_reason") == "content_filter":
        return "content_filter"
    return "refusal" if choice["message"].get("refusal") else None
