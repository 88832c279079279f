"""One request as the stand-in sees it, and one answer.

Outside text comes fenced, `[[name marker]]` … `[[/name marker]]`, with a marker that is random in every
call. Whatever must be the same for the same asking (the answer, `sha256`) is therefore made without the
markers.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local_stack.openai_stand_in.models import NO_USAGE, Usage

Json = dict[str, Any]

_OPENING = re.compile(r"\[\[(\w+) ([0-9a-f]{8,64})\]\]\n?")


@dataclass(frozen=True)
class Upload:
    """A file from a multipart form."""

    filename: str
    content: bytes
    purpose: str


@dataclass(frozen=True)
class Call:
    """A request to one endpoint, or one line of a batch.

    `text` is everything said in it without the fences, `blocks` the fenced texts by name, `sha256` the
    identity of the asking.
    """

    endpoint: str
    body: Json
    sha256: str
    text: str = ""
    blocks: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    schema: str | None = None
    api_key_sha256: str | None = None
    batch_id: str | None = None
    custom_id: str | None = None
    path_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    upload: Upload | None = None


@dataclass(frozen=True)
class Answer:
    """What leaves: a JSON object or raw bytes, and what the ledger needs to know about it."""

    status: int
    body: Json | bytes
    usage: Usage = NO_USAGE
    error_code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    batch_id: str | None = None


def make_call(endpoint: str, body: Json, **rest: Any) -> Call:
    """The call for a parsed body; tolerates any malformed body, which the endpoint refuses later."""
    blocks, markers = fenced_blocks(_said_by_us(body))
    model = body.get("model")
    identity = json.dumps(body, ensure_ascii=False, sort_keys=True)
    for marker in sorted(markers):
        identity = identity.replace(marker, "")
    return Call(
        endpoint=endpoint,
        body=body,
        sha256=sha256_of(f"{endpoint}\n{rest.get('path_id', '')}\n{identity}"),
        text=_without_fences(spoken_text(body), markers),
        blocks=blocks,
        model=model if isinstance(model, str) else None,
        schema=_schema_name(body),
        **rest,
    )


def sha256_of(text: str) -> str:
    """The hex digest of a text; lone surrogates do not make it fail."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def fraction_of(text: str) -> float:
    """A number from 0 (inclusive) to 1 (exclusive) that depends on nothing but the text."""
    return int(sha256_of(text)[:12], 16) / 16**12


def message_text(message: object) -> str:
    """The text of one message, whose content may be a string or a list of parts."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def spoken_text(body: Json) -> str:
    """All messages, or all inputs of an embedding request, as one text."""
    messages, inputs = body.get("messages"), body.get("input")
    if isinstance(messages, list):
        return "\n".join(message_text(message) for message in messages)
    if isinstance(inputs, list):
        return "\n".join(str(one) for one in inputs)
    return inputs if isinstance(inputs, str) else ""


def fenced_blocks(text: str) -> tuple[dict[str, str], set[str]]:
    """The fenced texts by name (the first of a name counts), and the markers of the fences.

    A fence inside a fenced text is part of that text: it was written by whoever wrote the text.
    """
    blocks: dict[str, str] = {}
    markers: set[str] = set()
    position = 0
    while opening := _OPENING.search(text, position):
        name, marker = opening.groups()
        closing = text.find(f"[[/{name} {marker}]]", opening.end())
        if closing < 0:
            position = opening.end()
            continue
        blocks.setdefault(name, text[opening.end() : closing].removesuffix("\n"))
        markers.add(marker)
        position = closing
    return blocks, markers


def _without_fences(text: str, markers: set[str]) -> str:
    for marker in markers:
        text = re.sub(rf"\[\[/?\w+ {marker}\]\]\n?", "", text)
    return text


def before_first_fence(text: str) -> str:
    """The part of a prompt that can repeat from call to call, which a prompt cache can serve."""
    opening = _OPENING.search(text)
    return text[: opening.start()] if opening else text


def _said_by_us(body: Json) -> str:
    # An earlier bad answer, quoted back in a repair call, must not be read as input.
    messages = body.get("messages")
    if not isinstance(messages, list):
        return ""
    return "\n".join(
        message_text(one) for one in messages if isinstance(one, dict) and one.get("role") != "assistant"
    )


def _schema_name(body: Json) -> str | None:
    wanted = body.get("response_format")
    schema = wanted.get("json_schema") if isinstance(wanted, dict) else None
    name = schema.get("name") if isinstance(schema, dict) else None
    return name if isinstance(name, str) else None
