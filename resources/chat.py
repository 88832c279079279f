"""Chat completions with a JSON Schema, over OpenAI's API or any server that speaks it.

The SDK's own retries are off: a failed call is the caller's to retry, at the time its row says.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict, retry_after_seconds, verdict_of
from resources.gate import GateKey
from resources.model_table import Model, ModelPrice, model_named
from resources.spending import Usage

if TYPE_CHECKING:
    from openai import OpenAI

Messages = Sequence[Mapping[str, str]]
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@dataclass(frozen=True)
class JsonSchema:
    """What an answer must look like; `name` is what the provider and the metrics call it."""

    name: str
    schema: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class ChatAnswer:
    """A completed call. `was_cut`: the output limit ended it. `refusal`: the model would not answer."""

    content: str
    usage: Usage
    seconds: float
    was_cut: bool = False
    refusal: str | None = None


class ChatResource(dg.ConfigurableResource):
    """One model with its parameters. Knows no pipeline; a call is made by exactly one `ask`."""

    model: str
    base_url: str = Field(default="", description="Empty: OpenAI's own.")
    timeout_ms: int = 20_000
    max_output_tokens: int = 3_000
    temperature: float = 0.2
    model_prices: dict[str, dict[str, Any]] = Field(default={})
    api_key: str = Field(default="", description="Empty: OPENAI_API_KEY is read when a call is made.")

    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _client: Any = PrivateAttr(default=None)

    @cached_property
    def priced_model(self) -> Model:
        """The model with its price. Raises ModelHasNoPrice."""
        prices = {name: ModelPrice.model_validate(price) for name, price in self.model_prices.items()}
        return model_named(self.model, prices)

    @property
    def gate_key(self) -> GateKey:
        """The gate of this key and model: a new key starts with an open gate."""
        secret = f"{self.base_url}|{self._api_key()}"
        return GateKey(hashlib.sha256(secret.encode()).hexdigest()[:12], self.model)

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
        import openai

        started = time.monotonic()
        try:
            completion = self._open_client().chat.completions.create(**self._request(messages, schema))
            choice = completion.choices[0]
            usage = self._usage(completion.usage)
        except openai.APIStatusError as error:
            raise _failure_of_status(error, self._open_client().api_key) from None
        except openai.APITimeoutError:
            message = f"no answer within {self.timeout_ms} ms (OPENAI_TIMEOUT_MS)"
            raise ApiFailure(Verdict(RETRY), "timeout", message, may_have_been_charged=True) from None
        except openai.APIConnectionError as error:
            raise _failure_of_connection(error) from None
        except UnicodeEncodeError:  # half a surrogate pair; nothing was sent
            raise ApiFailure(Verdict(FAIL), "unsendable_text", "the text is no Unicode") from None
        except (openai.OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            # An answer with status 200 that is no completion: a proxy's page, or a half-sent body.
            raise ApiFailure(
                Verdict(RETRY), "unreadable_answer", type(error).__name__, may_have_been_charged=True
            ) from None
        return ChatAnswer(
            content=choice.message.content or "",
            usage=usage,
            seconds=time.monotonic() - started,
            was_cut=choice.finish_reason == "length",
            refusal="content_filter"
            if choice.finish_reason == "content_filter"
            else choice.message.refusal and "refusal",
        )

    def _request(self, messages: Messages, schema: JsonSchema) -> dict[str, Any]:
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

    def _usage(self, usage: Any) -> Usage:
        details = getattr(usage, "prompt_tokens_details", None)
        cached = (getattr(details, "cached_tokens", None) or 0) if details else 0
        cost = self.priced_model.cost_usd(usage.prompt_tokens, cached, usage.completion_tokens)
        return Usage(1, usage.prompt_tokens, cached, usage.completion_tokens, cost)

    def _api_key(self) -> str:
        return self.api_key or os.environ.get("OPENAI_API_KEY", "")

    def _open_client(self) -> "OpenAI":
        with self._lock:
            if self._client is None:
                from openai import OpenAI

                key = self._api_key()
                if not key:
                    message = "OPENAI_API_KEY is not set: set it, or start the local stack with `make up`"
                    raise ApiFailure(Verdict(SUSPEND, "AUTH"), "no_api_key", message)
                self._client = OpenAI(
                    api_key=key,
                    base_url=self.base_url or None,
                    timeout=self.timeout_ms / 1000,
                    max_retries=0,
                )
            client: OpenAI = self._client
            return client


def _failure_of_status(error: Any, key: str) -> ApiFailure:
    # Servers that only speak like OpenAI put other things than text there.
    code, type_ = (name if isinstance(name, str) else None for name in (error.code, error.type))
    verdict = verdict_of(error.status_code, code, type_)
    name = code or type_ or f"status_{error.status_code}"
    # No word of the provider's message is kept: it may quote the request or the key.
    after = retry_after_seconds(error.response.headers.get("retry-after"))
    # Codes become labels and cells of tables; what is no code, or holds the key, says nothing there.
    if not _CODE.fullmatch(name) or key in name:
        name = "other"
    return ApiFailure(verdict, name, f"status {error.status_code}", error.status_code, after)


def _failure_of_connection(error: Any) -> ApiFailure:
    cause = type(error.__cause__).__name__ if error.__cause__ else type(error).__name__
    never_sent = cause in ("ConnectError", "ConnectTimeout")
    return ApiFailure(Verdict(RETRY), "connection_error", cause, may_have_been_charged=not never_sent)
