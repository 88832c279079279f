"""recommendations' routes: a member's visit, what a member refuses, and a member's erasure."""

import logging
import re
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from api.answers import answers, internal_router
from api.database import Connections
from api.fields import Asked, IdInPath, Told
from assets.recommendations import erasure_store, visit_store
from assets.recommendations.visit_store import VisitTooFarAhead
from orchestration.settings import Settings

logger = logging.getLogger("granary.api")

_DAY_FIRST = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")

internal_routes = internal_router("/internal/v1/members/{memberId}")

MemberId = Annotated[IdInPath, Path(alias="memberId")]


def _only_text(value: object) -> object:
    # pydantic's own moments also take numbers, in digits too.
    if value is not None and not (isinstance(value, str) and _DAY_FIRST.match(value)):
        raise PydanticCustomError("moment_with_time_zone", "a moment with a time zone, as text")
    return value


class VisitPosted(Asked):
    """When the member was there, with a time zone; without it, now."""

    occurred_at: Annotated[AwareDatetime | None, Field(strict=False), BeforeValidator(_only_text)] = None


class Profiling(Asked):
    """Whether what the member does may decide what they are recommended."""

    allowed: bool


class MemberErased(Told):
    """How many rows of the member's were cleared."""

    visits: int
    triggers: int
    queue_items: int
    recommended: int
    events: int
    opt_outs: int


async def _session(request: Request) -> timedelta:
    settings: Settings = request.app.state.settings
    return timedelta(minutes=settings.visit_session_minutes)


@internal_routes.post("/visits", status_code=202, response_class=Response, responses=answers(400, 422))
def visited(
    member_id: MemberId,
    pool: Connections,
    session: Annotated[timedelta, Depends(_session)],
    posted: VisitPosted | None = None,
) -> Response:
    """Notes the visit, from which the member's due times follow; one of the same session changes nothing.

    A visit more than five minutes in the future is refused: it would freeze the member until then.
    """
    occurred_at = posted.occurred_at if posted else None
    try:
        with pool.connection() as connection:
            visit_store.visit(connection, member_id, occurred_at, session)
    except VisitTooFarAhead:
        problem = {"type": "in_the_future", "loc": ("body", "occurredAt"), "ctx": {"le": "in five minutes"}}
        raise RequestValidationError([problem]) from None
    return Response(status_code=202)


@internal_routes.put("/profiling", status_code=204, response_class=Response, responses=answers(400, 422))
def decide_profiling(member_id: MemberId, decided: Profiling, pool: Connections) -> Response:
    """Not allowed: the member gets what everybody gets, and what was made of their events is gone.

    Allowed again: the member is profiled from the next due time on.
    """
    with pool.connection() as connection:
        if decided.allowed:
            visit_store.opt_in(connection, member_id)
        else:
            visit_store.opt_out(connection, member_id)
    # Ids only, here and below. After a restore of the database this is what says what is to be done again.
    logger.warning("member %d %s profiling", member_id, "allowed" if decided.allowed else "refused")
    return Response(status_code=204)


@internal_routes.delete("", responses=answers(422))
def erase_member(member_id: MemberId, pool: Connections) -> MemberErased:
    """Clears all that is kept of the member; a run that is ranking them stores nothing afterwards."""
    with pool.connection() as connection:
        erased = erasure_store.erase_member(connection, member_id)
    logger.warning("erased member %d", member_id)
    return MemberErased(**asdict(erased))
