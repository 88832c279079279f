"""Misbehaviour on request: which fault meets a request, and what it makes of the answer."""

import asyncio
import re
import zlib
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CHUNK = 64 * 1024


class Fault(BaseModel):
    """One fault; whatever it leaves unsaid stays as the site answers."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="regular expression, searched in path?query")
    status: int | None = Field(default=None, ge=200, le=599)
    headers: dict[str, str | None] = Field(default={}, description="set, or removed where null")
    body: str | None = None
    delay_seconds: float = Field(default=0, ge=0)
    hang: bool = Field(default=False, description="no answer until the client gives up")
    drop_connection: bool = Field(default=False, description="closed before a byte of the answer")
    truncate_bytes: int | None = Field(
        default=None, ge=0, description="closed after so many bytes of the body"
    )
    pad_to_bytes: int | None = Field(
        default=None, ge=0, description="spaces after the body up to this length"
    )
    redirect: str | None = Field(default=None, description="Location, with 302 unless status says otherwise")
    gzip_bomb_bytes: int | None = Field(
        default=None, ge=0, description="so many spaces, gzipped, as the body"
    )
    times: int | None = Field(default=None, ge=1, description="requests it meets; null: all")
    skip: int = Field(default=0, ge=0, description="matching requests let through first")

    @field_validator("path")
    @classmethod
    def _is_a_regular_expression(cls, path: str) -> str:
        try:
            re.compile(path)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return path


@dataclass
class _Entry:
    fault: Fault
    matched: int = 0
    fired: int = 0


class FaultBook:
    """The faults in force, oldest first; the first that is due meets a request."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def add(self, fault: Fault) -> None:
        self._entries.append(_Entry(fault))

    def clear(self) -> None:
        self._entries.clear()

    def listed(self) -> list[dict[str, Any]]:
        """Each fault as it was given, with the requests it matched and those it met."""
        return [
            {**entry.fault.model_dump(exclude_defaults=True), "matched": entry.matched, "fired": entry.fired}
            for entry in self._entries
        ]

    def take(self, path_and_query: str) -> Fault | None:
        for entry in self._entries:
            if not re.search(entry.fault.path, path_and_query):
                continue
            entry.matched += 1
            spent = entry.fault.times is not None and entry.fired >= entry.fault.times
            if entry.matched > entry.fault.skip and not spent:
                entry.fired += 1
                return entry.fault
        return None


async def misbehave(fault: Fault, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one request as the fault says; its delay has passed already.

    Raises ConnectionAbortedError for a dropped connection where no server holds one (in-process clients).
    """
    if fault.hang:
        await _until_disconnect(receive)
    elif fault.drop_connection:
        transport = scope.get("state", {}).get("transport")
        if transport is None:
            raise ConnectionAbortedError("the site dropped the connection")
        transport.abort()
        await _until_disconnect(receive)
    else:
        status, headers, body = await _real_answer(app, scope, receive)
        if fault.redirect is not None:
            status, body = 302, b""
            headers["location"] = fault.redirect
        if fault.body is not None:
            body = fault.body.encode()
        if fault.gzip_bomb_bytes is not None:
            body = await asyncio.to_thread(_gzipped_spaces, fault.gzip_bomb_bytes)
            headers["content-encoding"] = "gzip"
        await _send(fault, fault.status or status, headers, body, send)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _real_answer(app: ASGIApp, scope: Scope, receive: Receive) -> tuple[int, dict[str, str], bytes]:
    started: Message = {}
    body = b""

    async def collect(message: Message) -> None:
        nonlocal started, body
        if message["type"] == "http.response.start":
            started = message
        else:
            body += message.get("body", b"")

    await app(scope, receive, collect)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in started["headers"]}
    return started["status"], headers, body


async def _send(fault: Fault, status: int, headers: dict[str, str], body: bytes, send: Send) -> None:
    padding = max(0, (fault.pad_to_bytes or 0) - len(body))
    headers["content-length"] = str(len(body) + padding)
    for name, value in fault.headers.items():
        headers.pop(name.lower(), None)
        if value is not None:
            headers[name.lower()] = value
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    limit = fault.truncate_bytes if fault.truncate_bytes is not None else len(body) + padding
    body, padding = body[:limit], min(padding, max(0, limit - len(body)))
    await send({"type": "http.response.body", "body": body, "more_body": True})
    for start in range(0, padding, _CHUNK):
        chunk = b" " * min(_CHUNK, padding - start)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    # Without the last message the server closes the connection in the middle of the body.
    if fault.truncate_bytes is None:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _gzipped_spaces(size: int) -> bytes:
    squeezer = zlib.compressobj(9, wbits=31)
    block = b" " * (1 << 20)
    squeezed = [squeezer.compress(block) for _ in range(size // len(block))]
    squeezed.append(squeezer.compress(b" " * (size % len(block))))
    return b"".join(squeezed) + squeezer.flush()
