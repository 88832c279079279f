"""procrastinate's queue, settled by its own statements over its own connectors.

Not by its worker, which does more: only what a worker does for a job to fetch and to finish it.
"""

import asyncio
import time

import procrastinate
import psycopg
from procrastinate import sql as statements
from procrastinate.jobs import Status

VERSION = procrastinate.__version__

_FILL = """
INSERT INTO procrastinate_jobs (queue_name, task_name, args)
SELECT 'insights', 'benchmarks.no_op', jsonb_build_object('article_id', number)
FROM generate_series(1, %s) AS number
"""
_SETTLED = """
WITH jobs AS (
    INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)
    SELECT 'insights', 'benchmarks.no_op', jsonb_build_object('article_id', number), 'succeeded', 1
    FROM generate_series(1, %s) AS number RETURNING id
)
INSERT INTO procrastinate_events (job_id, type)
SELECT id, type
FROM jobs, unnest(ARRAY['deferred', 'started', 'succeeded']::procrastinate_job_event_type[]) AS type
"""


class ProcrastinateQueue:
    """One job at a time: it has no batches. `is_async` chooses the connector."""

    def __init__(self, connection: psycopg.Connection, address: str, is_async: bool) -> None:
        self._connection = connection
        self._address = address
        self._is_async = is_async

    def install(self, settled: int) -> None:
        """Its tables in the database, with jobs that it has settled before."""
        with procrastinate.App(connector=self._sync()).open() as app:
            app.schema_manager.apply_schema()
        self._connection.execute(_SETTLED, [settled])

    def refill(self, waiting: int) -> None:
        """Adds jobs."""
        found = self._connection.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo'"
        ).fetchone()
        assert found is not None
        self._connection.execute(_FILL, [waiting - found[0]])
        self._connection.execute("ANALYZE procrastinate_jobs, procrastinate_events")

    def settle(self, jobs: int, batch: int) -> float:
        """Seconds from the first fetch to the last finish; its pool is open by then."""
        return asyncio.run(self._settle_async(jobs)) if self._is_async else self._settle_sync(jobs)

    async def _settle_async(self, jobs: int) -> float:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self._address))
        async with app.open_async():
            manager = app.job_manager
            worker_id = await manager.register_worker()
            started = time.perf_counter()
            for _ in range(jobs):
                job = await manager.fetch_job(queues=None, worker_id=worker_id)
                if job is None:
                    raise RuntimeError("the queue ran dry")
                await manager.finish_job(job, status=Status.SUCCEEDED, delete_job=False)
            return time.perf_counter() - started

    def _settle_sync(self, jobs: int) -> float:
        connector = self._sync()
        connector.open()
        try:
            worker_id = connector.execute_query_one(statements.queries["register_worker"])["worker_id"]
            started = time.perf_counter()
            fetch, finish = statements.queries["fetch_job"], statements.queries["finish_job"]
            for _ in range(jobs):
                job = connector.execute_query_one(fetch, queues=None, worker_id=worker_id)
                connector.execute_query(finish, job_id=job["id"], status="succeeded", delete_job=False)
            return time.perf_counter() - started
        finally:
            connector.close()

    def _sync(self) -> procrastinate.SyncPsycopgConnector:
        return procrastinate.SyncPsycopgConnector(conninfo=self._address)
