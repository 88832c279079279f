"""The open API as a Starlette app, and a server for it on loopback."""

import asyncio
import socket

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from local_stack.recipe_api.answers import JSON_TYPE, SERVICE, page, report
from local_stack.recipe_api.control import control_routes
from local_stack.recipe_api.faults import ApiFault, misbehave_as
from local_stack.recipe_api.state import KEY, ApiState

MOST_ROWS = 1000


def create_app(state: ApiState) -> Starlette:
    """The API over a state that the caller may change between requests."""

    async def rows(request: Request) -> Response:
        asked = request.path_params
        start, end = _place(asked["start"]), _place(asked["end"])
        if code := _refusal(state, asked, start, end):
            return _json(report(code, "bare")[0])
        if start > len(state.rows):
            return _json(report("INFO-200")[0])
        found = state.rows[start - 1 : end]
        return _json(page(found[: request.scope.get("most_rows")], len(state.rows)))

    async def incomplete(_: Request) -> Response:
        return _json(report("ERROR-300", "bare")[0])

    routes = [
        Route("/api/{key}/{service}/{file_type}/{start}/{end}", rows),
        Route("/api/{rest:path}", incomplete),
        *control_routes(state),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_LogAndFaults, state=state)])


def api_server(state: ApiState, port: int) -> tuple[uvicorn.Server, socket.socket]:
    """A quiet server and its bound socket on 127.0.0.1, to be run as `server.run(sockets=[bound])`.

    Port 0 takes a free one. Raises OSError at once where the port is taken.
    """
    bound = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        create_app(state),
        http=_AbortableProtocol,
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), bound


class _AbortableProtocol(H11Protocol):
    """Hands its transport to the app, since ASGI has no way to drop a connection without an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _LogAndFaults:
    """Notes every request outside `/_control` and lets a fault answer in the API's place."""

    def __init__(self, app: ASGIApp, state: ApiState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/_control/"):
            await self._app(scope, receive, send)
            return
        seen = self._state.note_request(scope["path"])
        fault = self._state.faults.take(scope["path"])
        if fault and fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)

        async def noting_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
            await send(message)

        if isinstance(fault, ApiFault):
            await misbehave_as(fault, self._app, scope, receive, noting_status)
        else:
            await self._app(scope, receive, noting_status)


def _refusal(state: ApiState, asked: dict[str, str], start: int, end: int) -> str | None:
    """The code that answers a request in place of rows, in the order in which the API looks."""
    checks = (
        ("INFO-100", asked["key"] != KEY),
        ("ERROR-310", asked["service"] != SERVICE),
        ("ERROR-301", asked["file_type"] != "json"),
        ("ERROR-331", start < 1),
        ("ERROR-332", end < 1),
        ("ERROR-334", start > end),
        ("ERROR-336", end - start + 1 > MOST_ROWS),
    )
    wrong = next((code for code, applies in checks if applies), None)
    return wrong or (None if state.take_call() else "INFO-300")


def _place(text: str) -> int:
    """A place in the list, from 1; 0 where the text is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _json(body: bytes) -> Response:
    return Response(body, headers={"content-type": JSON_TYPE})
