"""How much of a request is read, and for how long. The framework itself reads a body of any size."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import error_answer

BODY_BYTES = 256 * 1024
"""Room for the longest text that is taken, each of its characters written as a pair of escapes."""
BODY_SECONDS = 10.0

# What is left of the body is not worth reading.
_HANG_UP = {"Connection": "close"}


class BodyLimit:
    """Reads the body before the application does: 413 past `most_bytes`, 408 past `seconds`.

    Counts what arrives, so a body without Content-Length, or longer than it said, is cut off too.
    """

    def __init__(self, app: ASGIApp, most_bytes: int = BODY_BYTES, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_announced(scope)
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except _TooLarge:
            too_large = f"the body is larger than {self._most_bytes} bytes"
            await error_answer(413, too_large, _HANG_UP)(scope, receive, send)
        except TimeoutError:
            await error_answer(408, "the body took too long", _HANG_UP)(scope, receive, send)
        except _Gone:
            pass  # nobody is left to answer
        else:
            await self._app(scope, _again(body, receive), send)

    def _check_announced(self, scope: Scope) -> None:
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > self._most_bytes:
            raise _TooLarge

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise _Gone
            body += message.get("body", b"")
            if len(body) > self._most_bytes:
                raise _TooLarge
            if not message.get("more_body", False):
                return bytes(body)


class _TooLarge(Exception):
    pass


class _Gone(Exception):
    pass


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read once more, then whatever else arrives."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
