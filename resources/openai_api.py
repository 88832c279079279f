"""A model at OpenAI's API or any server that speaks it: how it is reached, priced and gated, and its errors.

The SDK's own retries are off: a failed call is the caller's to retry.
"""

import hashlib
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.api_failure import (
    FAIL,
    RETRY,
    SUSPEND,
    ApiFailure,
    Verdict,
    read_http_date,
    retry_after_seconds,
    verdict_of,
)
from resources.errors import ServiceUnavailable
from resources.gate import GateKey
from resources.model_table import Model, ModelPrice, model_named
from resources.spending import Usage

if TYPE_CHECKING:
    from openai import OpenAI

OPENAI_URL = "https://api.openai.com/v1"
MOST_TOKENS = 10**9
"""Of one call or one line; a count beyond it is none."""

_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")
# What an answer with status 200 raises that is not what was asked: a proxy's page, a half-sent body, JSON
# that is nested without end, a number that no float holds.
_NOT_WHAT_WAS_ASKED = (
    ValueError,
    AttributeError,
    LookupError,
    TypeError,
    OverflowError,
    RecursionError,
)


class ApiUnavailable(ApiFailure, ServiceUnavailable):
    """Transient: time-out, no connection, 408, 409, 429, 5xx, or an answer that cannot be read."""


class OpenAiResource(dg.ConfigurableResource):
    """What all resources for one model have in common. Knows no pipeline."""

    TIMEOUT_SETTING: ClassVar[str] = "OPENAI_TIMEOUT_MS"

    model: str = Field(description="As the provider names it.")
    base_url: str = Field(default="", description="OPENAI_BASE_URL; empty: OpenAI's own.")
    timeout_ms: int = Field(default=20_000, description="Of one call.")
    model_prices: dict[str, dict[str, Any]] = Field(
        default={},
        description="MODEL_PRICES: USD per million tokens of models that the built-in table lacks.",
    )
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

    def _api_key(self) -> str:
        return self.api_key or os.environ.get("OPENAI_API_KEY", "")

    def _open_client(self) -> "OpenAI":
        """A client that stays open for the calls to come. Thread-safe; raises ApiFailure without a key."""
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            client: OpenAI = self._client
            return client

    def _new_client(self) -> "OpenAI":
        """A client for the caller to close. Raises ApiFailure without a key."""
        from openai import OpenAI

        key = self._api_key()
        if not key:
            message = "OPENAI_API_KEY is not set: set it, or start the local stack with `make up`"
            raise ApiFailure(Verdict(SUSPEND, "AUTH"), "no_api_key", message)
        # An empty variable, as Compose passes one that is not set, would be an address to the SDK.
        url = self.base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
        return OpenAI(api_key=key, base_url=url, timeout=self.timeout_ms / 1000, max_retries=0)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turns what a call raises inside into ApiFailure, or ApiUnavailable where it may be asked again."""
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise _of_status(error, self._api_key()) from None
        # What breaks in the middle of a streamed body comes as the HTTP client's own error.
        except (openai.APITimeoutError, httpx2.TimeoutException):
            setting = f" ({self.TIMEOUT_SETTING})" if self.TIMEOUT_SETTING else ""
            raise _unanswered("timeout", f"no answer within {self.timeout_ms} ms{setting}") from None
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            cause = type(error.__cause__ or error).__name__
            never_sent = cause in ("ConnectError", "ConnectTimeout")
            raise _unanswered("connection_error", cause, may_have_been_charged=not never_sent) from None
        except UnicodeEncodeError:  # half a surrogate pair; nothing was sent
            raise ApiFailure(Verdict(FAIL), "unsendable_text", "the text is no Unicode") from None
        except (openai.OpenAIError, *_NOT_WHAT_WAS_ASKED) as error:
            raise _unanswered("unreadable_answer", type(error).__name__) from None


def usage_of(counted: Any, model: Model) -> Usage:
    """One call's usage from the provider's own count, an SDK object or its JSON, at the model's prices.

    Reads chat completions and embeddings, which have no output. Raises ValueError or TypeError where it is no
    count.
    """
    fields: Mapping[str, Any] = counted if isinstance(counted, Mapping) else vars(counted)
    details = fields.get("prompt_tokens_details") or {}
    details = details if isinstance(details, Mapping) else vars(details)
    given: Any = fields.get("prompt_tokens")
    output: Any = fields.get("completion_tokens", 0)
    cached = details.get("cached_tokens") or 0
    if not (_is_count(given) and _is_count(output) and _is_count(cached) and cached <= given):
        raise ValueError("no count of tokens")
    return Usage(1, given, cached, output, model.cost_usd(given, cached, output))


def _is_count(count: object) -> bool:
    # A bool is an int to Python; and more than this no call uses and no column holds.
    return type(count) is int and 0 <= count <= MOST_TOKENS


def safe_code(code: object, key: str = "") -> str:
    """A code of the provider as it may be stored and shown; "other" for what is no code or holds the key."""
    is_code = isinstance(code, str) and bool(_CODE.fullmatch(code)) and not (key and key in code)
    return str(code) if is_code else "other"


def _of_status(error: Any, key: str) -> ApiFailure:
    # Servers that only speak like OpenAI put other things than text there.
    code, type_ = (name if isinstance(name, str) else None for name in (error.code, error.type))
    verdict = verdict_of(error.status_code, code, type_)
    # No word of the provider's message is kept: it may quote the request or the key.
    name = safe_code(code or type_ or f"status_{error.status_code}", key)
    headers = error.response.headers
    # By the provider's own clock: ours may be off.
    after = retry_after_seconds(headers.get("retry-after"), read_http_date(headers.get("date")))
    kind = ApiUnavailable if verdict.effect == RETRY else ApiFailure
    return kind(verdict, name, f"status {error.status_code}", error.status_code, after)


def _unanswered(code: str, message: str, may_have_been_charged: bool = True) -> ApiUnavailable:
    return ApiUnavailable(Verdict(RETRY), code, message, may_have_been_charged=may_have_been_charged)
