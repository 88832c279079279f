"""Who may call: internal routes by `Authorization: Bearer <API_TOKEN>`, admin routes by `X-ADMIN-TOKEN`.

A route of these classes looks at the token before it looks at the body, so a stranger's body is not read as
JSON. (As a dependency it would come after it.) Tokens are read from the environment at each call. One that is
missing, shorter than 16 characters or not printable ASCII without spaces counts as not configured: 503.
"""

import hmac
import os
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_USABLE = re.compile(r"[\x21-\x7e]{16,}")


def check_internal(request: Request) -> None:
    """Raises HTTPException: 401 unless the request shows API_TOKEN, 503 where there is none."""
    expected = configured("API_TOKEN")
    scheme, _, token = _only_header(request, "authorization").partition(" ")
    if scheme.lower() != "bearer" or not _same(token, expected):
        raise HTTPException(401, "a bearer token is needed", {"WWW-Authenticate": "Bearer"})


def check_admin(request: Request) -> None:
    """Raises HTTPException: 403 unless the request shows ADMIN_TOKEN, 503 where there is none."""
    expected = configured("ADMIN_TOKEN")
    if not _same(_only_header(request, "x-admin-token"), expected):
        raise HTTPException(403, "the admin token is needed")


def configured(variable: str) -> str:
    """The secret in this variable. Raises HTTPException: 503 that names it where it is none to rely on."""
    token = os.environ.get(variable, "").strip()
    if not _USABLE.fullmatch(token):
        raise HTTPException(
            503, f"{variable} is not configured: 16 characters or more, printable ASCII without spaces"
        )
    return token


class InternalRoute(APIRoute):
    """A route that answers only to whoever shows API_TOKEN."""

    def get_route_handler(self) -> Handler:
        return _guarded(super().get_route_handler(), check_internal)


class AdminRoute(APIRoute):
    """A route that answers only to whoever shows ADMIN_TOKEN."""

    def get_route_handler(self) -> Handler:
        return _guarded(super().get_route_handler(), check_admin)


def _guarded(handler: Handler, check: Callable[[Request], None]) -> Handler:
    async def checked(request: Request) -> Response:
        check(request)
        return await handler(request)

    return checked


def _only_header(request: Request, name: str) -> str:
    """The header's value; empty where it is missing or stands twice, since a proxy may read the other one."""
    values = request.headers.getlist(name)
    return values[0].strip() if len(values) == 1 else ""


def _same(shown: str, expected: str) -> bool:
    # Headers arrive decoded as Latin-1. As bytes, because compare_digest raises for a str beyond ASCII.
    return hmac.compare_digest(shown.encode("latin-1"), expected.encode("ascii"))
