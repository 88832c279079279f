"""Invented `.test` domains behind one loopback address, told apart by the Host header.

| hosts | answer |
|---|---|
| `sites.domains()`, 40 of them | a plain front page in Korean, English or Japanese |
| `sites.DISALLOWED`, one of the 40 | the same, but its robots.txt disallows everything |
| `misbehaviour.MISBEHAVING` | each misbehaves in the way that its entry says |
| any other | 404 |

`/robots.txt` allows everything where nothing else is said. `/_control/requests` tells what was asked.
"""

import asyncio
import socket
from collections import Counter
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from local_stack.front_pages.misbehaviour import quick_answer, robots_status, slow_answer
from local_stack.front_pages.pages import front_page
from local_stack.front_pages.sites import DISALLOWED, SITES

DRIP_SECONDS = 0.2
_ALLOWS_ALL = "User-agent: *\nAllow: /\n"
_ALLOWS_NOTHING = "User-agent: *\nDisallow: /\n"


@dataclass
class Seen:
    """What was asked of the sites. Written by the server's loop only."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    """Host and path, in order."""
    open_now: Counter[str] = field(default_factory=Counter)
    most_at_once: Counter[str] = field(default_factory=Counter)
    """Host → the most requests that it was answering at one time."""


def create_app(seen: Seen, drip_seconds: float = DRIP_SECONDS) -> Starlette:
    """All sites. `drip_seconds` is the pause between two drops of the hosts that drip."""

    async def requests(_: Request) -> Response:
        return JSONResponse({"requests": seen.requests, "most_at_once": seen.most_at_once})

    return Starlette(
        routes=[Route("/_control/requests", requests), Route("/{path:path}", _Sites(seen, drip_seconds))]
    )


class _Sites:
    """The ASGI app behind every path of every host."""

    def __init__(self, seen: Seen, drip_seconds: float) -> None:
        self._seen = seen
        self._drip_seconds = drip_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host, path = Request(scope).url.hostname or "", scope["path"]
        self._seen.requests.append((host, path))
        self._seen.open_now[host] += 1
        self._seen.most_at_once[host] = max(self._seen.most_at_once[host], self._seen.open_now[host])
        try:
            # A breath, so that two requests that come together are seen together.
            await asyncio.sleep(0.002)
            answer = _robots(host) if path == "/robots.txt" else _answer(host, path)
            if answer is None:
                await slow_answer(host, self._drip_seconds, scope, receive, send)
            else:
                await answer(scope, receive, send)
        finally:
            self._seen.open_now[host] -= 1


def _robots(host: str) -> Response:
    status = robots_status(host)
    text = _ALLOWS_NOTHING if host == DISALLOWED else _ALLOWS_ALL
    return PlainTextResponse(text if status == 200 else "", status)


def _answer(host: str, path: str) -> Response | None:
    if host not in SITES:
        return quick_answer(host, path)
    if path != "/":
        return PlainTextResponse("no such page", 404)
    return HTMLResponse(front_page(SITES[host]))


def front_pages_server(
    seen: Seen, port: int, drip_seconds: float = DRIP_SECONDS
) -> tuple[uvicorn.Server, socket.socket]:
    """A quiet server and its bound socket on 127.0.0.1, to be run as `server.run(sockets=[bound])`.

    Port 0 takes a free one. Raises OSError at once where the port is taken.
    """
    bound = socket.create_server(("127.0.0.1", port), backlog=128)
    config = uvicorn.Config(
        create_app(seen, drip_seconds),
        http=_OpenProtocol,
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), bound


class _OpenProtocol(H11Protocol):
    """Hands its transport to the app, since ASGI sends headers whole or not at all."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}
