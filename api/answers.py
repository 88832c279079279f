"""Routers, and what their routes may answer beside success, in one place for the documentation.

Each maker of a router names what all of its routes may answer; one that reads a body or a path adds
`answers(400, 422)`.
"""

from typing import Any

from fastapi import APIRouter, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel, ConfigDict

from api.access import AdminRoute, InternalRoute

Answers = dict[int | str, dict[str, Any]]


class ErrorAnswer(BaseModel):
    """Every answer that is an error: a sentence, without what was sent."""

    error: str


class FieldProblem(BaseModel):
    """A field by its path, the rule that it breaks, and the rule's limits."""

    model_config = ConfigDict(extra="allow")

    field: str
    rule: str


class InvalidRequest(ErrorAnswer):
    """The request does not fit; its values are not told back."""

    fields: list[FieldProblem]


_SAID = {
    400: "The body is no JSON that can be read.",
    401: "The bearer token is missing or wrong.",
    403: "The admin token is missing or wrong.",
    404: "There is none.",
    408: "The body took too long.",
    413: "The body is too large.",
    422: "A field does not fit.",
    500: "An error that nobody expected; the log has its place.",
    502: "The model's provider refused us.",
    503: "The database or the model is away, or a setting is missing; a later try may succeed.",
}
_ALWAYS = (408, 413, 500)


def answers(*statuses: int) -> Answers:
    """The documentation of these answers."""
    return {
        status: {
            "description": _SAID[status],
            "model": InvalidRequest if status == 422 else ErrorAnswer,
        }
        for status in sorted(statuses)
    }


def open_router() -> APIRouter:
    """For routes without a token."""
    return APIRouter(responses=answers(*_ALWAYS))


def internal_router(prefix: str = "") -> APIRouter:
    """For routes that want API_TOKEN."""
    # Looked at by the route's class, before the body; here for the documentation only.
    token = Security(HTTPBearer(scheme_name="internal", auto_error=False))
    return APIRouter(
        prefix=prefix,
        route_class=InternalRoute,
        dependencies=[token],
        responses=answers(*_ALWAYS, 401, 503),
    )


def admin_router(prefix: str = "") -> APIRouter:
    """For routes that want ADMIN_TOKEN."""
    token = Security(APIKeyHeader(name="X-ADMIN-TOKEN", scheme_name="admin", auto_error=False))
    return APIRouter(
        prefix=prefix, route_class=AdminRoute, dependencies=[token], responses=answers(*_ALWAYS, 403, 503)
    )
