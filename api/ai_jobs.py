"""economy_news' routes for whoever repairs: suspended AI jobs begin anew, and the gate is opened (admin)."""

import os
from typing import Annotated, Literal

from fastapi import HTTPException, Path, Request

from api.answers import Answers, ErrorAnswer, admin_router, answers
from api.database import Connections, Pool
from api.fields import IdInPath, Told
from assets.economy_news.resuming import NotAsNamed, resume
from resources.alerts import AlertResource
from resources.chat import ChatResource

REASONS = ("QUOTA", "AUTH", "MODEL")

admin_routes = admin_router("/api/v1/admin/ai/jobs")

_BY_REASON = {
    "parameters": [
        {
            "name": "reason",
            "in": "query",
            "required": True,
            "schema": {"type": "string", "enum": list(REASONS)},
        }
    ]
}


def _refusal(description: str) -> Answers:
    return {400: {"description": description, "model": ErrorAnswer}}


class JobResumed(Told):
    """The job waits for a run, with all its attempts."""

    job_id: int
    status: Literal["PENDING"] = "PENDING"


class JobsResumed(Told):
    """How many jobs wait for a run, with all their attempts."""

    resumed_count: int


@admin_routes.post("/resume", responses=_refusal("The reason is none."), openapi_extra=_BY_REASON)
def resume_jobs(request: Request, pool: Connections) -> JobsResumed:
    """All jobs that were suspended for the reason go back to the start; none is fine. Opens the gate."""
    given = request.query_params.getlist("reason")
    if len(given) != 1 or given[0] not in REASONS:
        raise HTTPException(400, f"reason must be one of {', '.join(REASONS)}")
    return JobsResumed(resumed_count=_resume(request, pool, reason=given[0]))


@admin_routes.post("/{jobId}/resume", responses=_refusal("It is not suspended.") | answers(404, 422))
def resume_job(
    job_id: Annotated[IdInPath, Path(alias="jobId")], request: Request, pool: Connections
) -> JobResumed:
    """The suspended job goes back to the start. Opens the gate; the others stay suspended."""
    try:
        _resume(request, pool, job_ids=(job_id,))
    except NotAsNamed as error:
        raise HTTPException(404 if error.unknown else 400, str(error)) from None
    return JobResumed(job_id=job_id)


def _resume(request: Request, pool: Pool, job_ids: tuple[int, ...] = (), reason: str | None = None) -> int:
    """How many jobs are PENDING again. Raises NotAsNamed; HTTPException: 503 without OPENAI_API_KEY."""
    # The gate is found by a fingerprint of the key: without one, another gate would be opened.
    if not os.environ.get("OPENAI_API_KEY"):
        raise HTTPException(503, "OPENAI_API_KEY is not configured: whose gate is to be opened is unknown")
    chat: ChatResource = request.app.state.chat
    alerts: AlertResource = request.app.state.alerts
    with pool.connection() as connection:
        return resume(connection, chat.gate_key, alerts, job_ids, reason).jobs
