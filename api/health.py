"""For whoever watches: `/healthz` and `/readyz` are open, `/metrics` wants the token of internal routes.

`/metrics` is not open on loopback either: a proxy in front makes every caller one from loopback.
"""

from collections.abc import Iterable

from fastapi import APIRouter, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from api.access import InternalRoute
from api.database import Connections
from api.errors import error_answer
from resources.exposition import counter_families, exposition

open_routes = APIRouter()
internal_routes = APIRouter(route_class=InternalRoute)


@open_routes.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process lives; nothing else is asked, so that a missing Postgres restarts nobody."""
    return {"status": "alive"}


@open_routes.get("/readyz", response_model=None)
def readyz(pool: Connections) -> dict[str, str] | Response:
    """Postgres answers and has our schema; otherwise 503."""
    with pool.connection() as connection:
        row = connection.execute("SELECT to_regnamespace('granary') IS NOT NULL").fetchone()
    if row != (True,):
        return error_answer(503, "the database was not migrated: run `python -m migrations.upgrade`")
    return {"status": "ready"}


@internal_routes.get("/metrics")
def metrics(pool: Connections) -> Response:
    """All counters and the sizes of queues, as Prometheus' text."""
    with pool.connection() as connection:
        counters = connection.execute("SELECT name, labels, value FROM granary.counter").fetchall()
        queue = connection.execute("SELECT type, status, jobs FROM news.ai_jobs_queue_size").fetchall()
    families = [*counter_families(counters), queue_family(queue)]
    return Response(exposition(families), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def queue_family(rows: Iterable[tuple[str, str, int]]) -> Metric:
    """How many AI jobs of each type have each status."""
    gauge = Metric("ai_jobs_queue_size", "AI jobs of economy_news by type and status.", "gauge")
    for job_type, status, jobs in sorted(rows):
        gauge.add_sample("ai_jobs_queue_size", {"type": job_type, "status": status}, jobs)
    return gauge
