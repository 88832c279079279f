"""`/v1/chat/completions`: what is refused, and what a completion looks like."""

import json
from typing import Any

from local_stack.openai_stand_in.calls import (
    Answer,
    Call,
    Json,
    before_first_fence,
    message_text,
    sha256_of,
    spoken_text,
)
from local_stack.openai_stand_in.content_faults import spoiled
from local_stack.openai_stand_in.errors import bad_request
from local_stack.openai_stand_in.faults import Fault
from local_stack.openai_stand_in.models import Model, Usage, chat_model, count_tokens
from local_stack.openai_stand_in.state import StandInState
from local_stack.openai_stand_in.strict_schema import check_response_format
from local_stack.openai_stand_in.writers import written_content

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOKENS_PER_MESSAGE, _TOKENS_PER_REPLY = 4, 3
# As the real cache: nothing below 1,024 tokens, then in steps of 128.
_CACHE_MINIMUM, _CACHE_STEP = 1024, 128


async def complete(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The completion for a call, spoiled if the fault says so; ApiError for what the real API refuses."""
    model = chat_model(call.body.get("model"))
    _check_messages(call.body.get("messages"))
    _check_parameters(model, call.body)
    check_response_format(call.body, call.text)
    prompt_tokens = _prompt_tokens(call.body)
    limit = call.body.get("max_completion_tokens") or call.body.get("max_tokens")
    _check_context(model, prompt_tokens, limit)

    content, finish_reason, refusal = _content(call, fault)
    if limit and count_tokens(content) > limit:
        content, finish_reason = _cut(content, limit), "length"
    usage = Usage(
        prompt_tokens, _cached_tokens(state, model, call), count_tokens(content) + count_tokens(refusal or "")
    )
    message = {"role": "assistant", "content": None if refusal else content, "refusal": refusal}
    body = {
        "id": f"chatcmpl-{call.sha256[:29]}",
        "object": "chat.completion",
        "created": int(state.now().timestamp()),
        "model": model.snapshot,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}],
        "usage": usage_json(usage),
        "service_tier": "default",
        "system_fingerprint": "fp_local_stand_in",
    }
    return Answer(200, body, usage)


def usage_json(usage: Usage) -> Json:
    """The `usage` object of a chat completion."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _content(call: Call, fault: Fault | None) -> tuple[str, str, str | None]:
    """Content, finish_reason and refusal."""
    effect = fault.content if fault else None
    if fault and fault.raw is not None:
        return fault.raw, "stop", None
    if effect == "refusal":
        return "", "stop", "죄송하지만 이 요청은 도와드릴 수 없어요."
    if effect == "content_filter":
        return "", "content_filter", None
    try:
        content = written_content(call)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        # Only a schema that is no schema gets here: the writers read nothing else that is unchecked.
        raise bad_request(f"Invalid schema for response_format: {error}", param="response_format") from error
    if effect:
        content = spoiled(content, effect, call)
    return content, "length" if effect == "truncated" else "stop", None


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list):
        code = "missing_required_parameter" if messages is None else "invalid_type"
        raise bad_request("'messages' must be a list of messages.", param="messages", code=code)
    if not messages:
        raise bad_request(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
            param="messages",
            code="empty_array",
        )
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise bad_request(
                f"Invalid value for 'messages[{place}].role'.",
                param=f"messages[{place}].role",
                code="invalid_value",
            )
        content = message.get("content")
        if not isinstance(content, str | list) and not (content is None and message["role"] == "assistant"):
            raise bad_request(
                f"Invalid type for 'messages[{place}].content'.",
                param=f"messages[{place}].content",
                code="invalid_type",
            )


def _check_parameters(model: Model, body: Json) -> None:
    temperature = body.get("temperature")
    if model.reasoning and temperature not in (None, 1):
        raise bad_request(
            f"Unsupported value: 'temperature' does not support {temperature} with this model. Only the "
            "default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        )
    if model.reasoning and body.get("max_tokens") is not None:
        raise bad_request(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if temperature is not None and (
        isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 2
    ):
        raise bad_request("Invalid 'temperature': must be a number from 0 to 2.", param="temperature")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise bad_request(f"Invalid '{name}': must be an integer of 1 or more.", param=name)
        if limit is not None and limit > model.max_output:
            raise bad_request(
                f"{name} is too large: {limit}. This model supports at most {model.max_output} "
                "completion tokens.",
                param=name,
                code="invalid_value",
            )
    if body.get("stream") or body.get("n") not in (None, 1):
        raise bad_request("The local stand-in knows neither 'stream' nor 'n' above 1.", param="stream")


def _check_context(model: Model, prompt_tokens: int, limit: int | None) -> None:
    if prompt_tokens + (limit or 0) > model.context:
        raise bad_request(
            f"This model's maximum context length is {model.context} tokens. However, you requested "
            f"{prompt_tokens + (limit or 0)} tokens ({prompt_tokens} in the messages, {limit or 0} in the "
            "completion). Please reduce the length of the messages or completion.",
            param="messages",
            code="context_length_exceeded",
        )


def _prompt_tokens(body: Json) -> int:
    said = sum(count_tokens(message_text(one)) + _TOKENS_PER_MESSAGE for one in body["messages"])
    wanted = body.get("response_format")
    schema_tokens = count_tokens(json.dumps(wanted, ensure_ascii=False)) if wanted else 0
    return said + schema_tokens + _TOKENS_PER_REPLY


def _cached_tokens(state: StandInState, model: Model, call: Call) -> int:
    """Tokens of the prompt before its first fence, if this process has seen them in an earlier call."""
    prefix = before_first_fence(spoken_text(call.body))
    tokens = count_tokens(prefix) // _CACHE_STEP * _CACHE_STEP
    if tokens < _CACHE_MINIMUM:
        return 0
    key = sha256_of(f"{model.name}\n{prefix}")
    seen = key in state.prompt_cache
    state.prompt_cache.add(key)
    return tokens if seen else 0


def _cut(content: str, limit: int) -> str:
    low, high = 0, len(content)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(content[:middle]) <= limit else (low, middle - 1)
    return content[:low]
