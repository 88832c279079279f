"""For whoever watches: `/healthz` and `/readyz` are open, `/metrics` wants the token of internal routes.

`/metrics` is not open on loopback either: a proxy in front makes every caller one from loopback.
"""

from collections.abc import Iterable
from typing import Literal

from fastapi import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from pydantic import BaseModel

from api.answers import Answers, answers, internal_router, open_router
from api.database import Connections
from api.errors import error_answer
from resources.exposition import counter_families, exposition

open_routes = open_router()
internal_routes = internal_router()

_AS_TEXT: Answers = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

_CONTEXTS_WAITING = """
SELECT count(*), coalesce(extract(epoch FROM granary.now() - min(requested_at)), 0)::float8
FROM granary.context_request
WHERE handled_at IS NULL OR handled_at < requested_at
"""

# Only what an index finds quickly and does not grow for ever: what ended well is counted by the runs.
_CONTEXT_STAGES = """
SELECT 'embedding', embedding_status, count(*) FROM ai.context_ai_state
WHERE embedding_status IN ('PENDING', 'PROCESSING', 'FAILED') GROUP BY embedding_status
UNION ALL
SELECT 'keyword', keyword_status, count(*) FROM ai.context_ai_state
WHERE keyword_status IN ('PENDING', 'PROCESSING', 'FAILED') GROUP BY keyword_status
"""


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """So does its database."""

    status: Literal["ready"] = "ready"


@open_routes.get("/healthz")
async def healthz() -> Alive:
    """The process lives; nothing else is asked, so that a missing Postgres restarts nobody."""
    return Alive()


@open_routes.get("/readyz", response_model=Ready, responses=answers(503))
def readyz(pool: Connections) -> Ready | Response:
    """Postgres answers and has our schema; otherwise 503."""
    with pool.connection() as connection:
        row = connection.execute("SELECT to_regnamespace('granary') IS NOT NULL").fetchone()
    if row != (True,):
        return error_answer(503, "the database was not migrated: run `python -m migrations.upgrade`")
    return Ready()


@internal_routes.get("/metrics", response_class=Response, responses=_AS_TEXT)
def metrics(pool: Connections) -> Response:
    """All counters and the sizes of queues, as Prometheus' text."""
    with pool.connection() as connection:
        counters = connection.execute("SELECT name, labels, value FROM granary.counter").fetchall()
        queue = connection.execute("SELECT type, status, jobs FROM news.ai_jobs_queue_size").fetchall()
        waiting = connection.execute(_CONTEXTS_WAITING).fetchone()
        stages = connection.execute(_CONTEXT_STAGES).fetchall()
    families = [*counter_families(counters), queue_family(queue), *context_families(waiting, stages)]
    return Response(exposition(families), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def queue_family(rows: Iterable[tuple[str, str, int]]) -> Metric:
    """How many AI jobs of each type have each status."""
    gauge = Metric("ai_jobs_queue_size", "AI jobs of economy_news by type and status.", "gauge")
    for job_type, status, jobs in sorted(rows):
        gauge.add_sample("ai_jobs_queue_size", {"type": job_type, "status": status}, jobs)
    return gauge


def context_families(
    waiting: tuple[int, float] | None, stages: Iterable[tuple[str, str, int]]
) -> Iterable[Metric]:
    """How many requests of context_tags wait, for how many seconds the oldest; stages by status.

    `stages` that stand in no row are shown as 0, so that an alarm on them has a number to look at.
    """
    number, oldest_seconds = waiting or (0, 0.0)
    requests = Metric("context_requests_waiting", "Texts posted that no run has handled.", "gauge")
    requests.add_sample(requests.name, {}, number)
    oldest = Metric("context_oldest_waiting_seconds", "How long the oldest of them waits.", "gauge")
    oldest.add_sample(oldest.name, {}, max(oldest_seconds, 0.0))
    sizes = {(stage, status): size for stage, status, size in stages}
    by_stage = Metric(
        "context_stage_size", "Contexts by stage and status, without those that ended well.", "gauge"
    )
    for stage in ("embedding", "keyword"):
        for status in ("FAILED", "PENDING", "PROCESSING"):
            labels = {"stage": stage, "status": status}
            by_stage.add_sample(by_stage.name, labels, sizes.get((stage, status), 0))
    return requests, oldest, by_stage
