"""What a caller is told when something fails: `{"error": …}`, without secrets, texts or what was sent.

Validation: the field and the rule, never the value, nor the name of a field that we do not know. A request
model must therefore have no dictionary with free keys: its keys would be told as fields.
"""

import logging
import re
import traceback
from collections.abc import Mapping
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("granary.api")

# From our models, so safe to tell. `msg` is not told: some of pydantic's quote the value.
_LIMITS = ("pattern", "min_length", "max_length", "ge", "gt", "le", "lt", "expected")
_FIELD = re.compile(r"[a-z_][A-Za-z0-9_]{0,39}")
WORTH_A_TRY = {"Retry-After": "5"}
"""The header of a 503 that may pass by itself."""


def error_answer(
    status: int, error: str, headers: Mapping[str, str] | None = None, **more: object
) -> JSONResponse:
    """The one form of every answer that is an error."""
    return JSONResponse({"error": error, **more}, status, headers)


def answer_errors(app: FastAPI) -> None:
    """Gives the application's refusals, failed validations and a missing Postgres that form."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(psycopg.OperationalError, _postgres_away)
    app.add_exception_handler(psycopg.InterfaceError, _postgres_away)


class NoTraces:
    """Answers what nobody expected with a plain 500 and logs its type and place only.

    Outermost: what gets past it is logged by the server with its message, which may quote what was sent.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            logger.error("internal error: %s at %s", type(error).__name__, _place(error))
            if not started:  # otherwise the server ends the connection: the answer stays visibly incomplete
                await error_answer(500, "internal error")(scope, receive, send)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_answer(error.status_code, str(error.detail), error.headers)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_answer(422, "invalid request", fields=[_told(problem) for problem in error.errors()])


def _told(problem: Mapping[str, Any]) -> dict[str, object]:
    path = list(problem["loc"])
    if problem["type"] == "extra_forbidden":
        path.pop()
    elif problem["type"] == "json_invalid":
        path = path[:1]
    known = [str(part) for part in path if isinstance(part, int) or _FIELD.fullmatch(part)]
    limits = {name: value for name, value in problem.get("ctx", {}).items() if name in _LIMITS}
    return {"field": ".".join(known), "rule": problem["type"], **limits}


def _postgres_away(_: Request, error: Exception) -> Response:
    logger.warning("Postgres does not answer: %s at %s", type(error).__name__, _place(error))
    return error_answer(503, "the database does not answer", WORTH_A_TRY)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
