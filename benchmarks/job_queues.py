"""Queues of jobs that wait, each claiming and finishing as its own code does: ours, and plain SQL.

`procrastinate_queue.py` is the peer. One connection each, fsync on, every claim and finish committed.
"""

import time
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import LiteralString, Protocol

import psycopg

from assets.economy_news import job_store, result_kinds, result_store
from assets.economy_news.insight import Insight
from assets.economy_news.models import Claim, JobFailure, JobType, Success
from benchmarks.economy_news_rows import MODEL, add_due_jobs, partitions_of

RUN = "00000000-0000-4000-8000-000000000000"  # as long as a run's id

Finish = Callable[[psycopg.Connection, Sequence[Claim]], None]


class Queue(Protocol):
    """What is raced."""

    def refill(self, waiting: int) -> None:
        """Adds jobs until so many wait."""

    def settle(self, jobs: int, batch: int) -> float:
        """The seconds to claim and finish so many, by so many, on a connection that is open already."""


class GranaryQueue:
    """INSIGHT jobs of a day, by the statements of `job_store`; `finish` says what a finish writes.

    A batch is finished together, or by `finished_together` of its jobs at a time.
    """

    def __init__(
        self, connection: psycopg.Connection, day: date, finish: Finish, finished_together: int | None = None
    ) -> None:
        self._connection = connection
        self._day = day
        self._finish = finish
        self._finished_together = finished_together

    def refill(self, waiting: int) -> None:
        """Adds jobs to the day's articles."""
        missing = waiting - _count(
            self._connection, "SELECT count(*) FROM news.ai_job WHERE status = 'PENDING'"
        )
        add_due_jobs(self._connection, self._day, JobType.INSIGHT, missing)

    def settle(self, jobs: int, batch: int) -> float:
        """A transaction for each claim and each finish, as the Enricher has them."""
        started = time.perf_counter()
        for _ in range(jobs // batch):
            claims = self._claim(batch)
            if len(claims) != batch:
                raise RuntimeError(f"claimed {len(claims)} of {batch}: the queue ran dry")
            together = self._finished_together or batch
            for first in range(0, batch, together):
                with self._connection.transaction():
                    self._finish(self._connection, claims[first : first + together])
        return time.perf_counter() - started

    def _claim(self, limit: int) -> list[Claim]:
        with self._connection.transaction():
            return job_store.claim_jobs(
                self._connection,
                JobType.INSIGHT,
                partitions_of(self._day),
                run_id=RUN,
                limit=limit,
                lease_seconds=600,
                model=MODEL,
                provider_key="0" * 12,
            )


def finish_job_rows(connection: psycopg.Connection, claims: Sequence[Claim]) -> None:
    """The job's row alone (finish_failures, to FAILED)."""
    failures = [
        JobFailure(
            claim=claim, status="FAILED", error_code="invalid_output", error_message="three are needed"
        )
        for claim in claims
    ]
    job_store.finish_failures(connection, RUN, failures)


def finish_with_lineage(connection: psycopg.Connection, claims: Sequence[Claim]) -> None:
    """The job's row and its row in news.ai_result, which are one statement (finish_successes)."""
    _finish_successes(connection, claims)


def finish_with_insights(connection: psycopg.Connection, claims: Sequence[Claim]) -> None:
    """And what is stored of an INSIGHT: three rows, and the look whether its article is complete."""
    stored = _finish_successes(connection, claims)
    rows = [
        {"result_id": stored[claim.job_id], "article_id": claim.article_id, **row}
        for claim in claims
        for row in result_kinds.INSIGHT.rows(_INSIGHTS, claim)
    ]
    result_store.add_rows(connection, result_kinds.INSIGHT.statement, rows)
    result_store.complete_articles(connection, [claim.article_id for claim in claims])


def _finish_successes(connection: psycopg.Connection, claims: Sequence[Claim]) -> dict[int, int]:
    return job_store.finish_successes(
        connection,
        RUN,
        [_success(claim) for claim in claims],
        prompt_version=result_kinds.INSIGHT.prompt.version,
        model=MODEL,
    )


def _success(claim: Claim) -> Success:
    return Success(
        claim=claim,
        input_hash="0" * 32,
        output_hash="0" * 32,
        input_tokens=900,
        cached_tokens=0,
        output_tokens=300,
        cost_usd=Decimal("0.000315"),
    )


_INSIGHTS = tuple(
    Insight(
        title=f"{number}분기 대출 금리가 다시 오른 까닭",
        detail="은행권의 조달 비용이 오르면서 새로 나가는 대출의 금리가 석 달 만에 올랐어요.",
        why_it_matters="집을 사려고 돈을 빌리는 사람의 한 달 이자가 늘어날 수 있어요.",
    )
    for number in (1, 2, 3)
)


class PlainSqlQueue:
    """The least that a queue can do: a narrow table, one statement to claim and one to finish."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS plain_job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " status text NOT NULL DEFAULT 'PENDING', claimed_by text, lease_until timestamptz)"
        )
        connection.execute(
            "CREATE INDEX IF NOT EXISTS plain_job_waiting ON plain_job (id) WHERE status = 'PENDING'"
        )

    def refill(self, waiting: int) -> None:
        """Adds rows."""
        missing = waiting - _count(
            self._connection, "SELECT count(*) FROM plain_job WHERE status = 'PENDING'"
        )
        self._connection.execute(
            "INSERT INTO plain_job (status) SELECT 'PENDING' FROM generate_series(1, %s)", [missing]
        )
        self._connection.execute("ANALYZE plain_job")

    def settle(self, jobs: int, batch: int) -> float:
        """Each statement commits by itself."""
        started = time.perf_counter()
        for _ in range(jobs // batch):
            rows = self._connection.execute(_PLAIN_CLAIM, {"run_id": RUN, "limit": batch}).fetchall()
            self._connection.execute(
                "UPDATE plain_job SET status = 'SUCCESS', lease_until = NULL"
                " WHERE id = ANY(%s) AND status = 'RUNNING'",
                [[row[0] for row in rows]],
            )
        return time.perf_counter() - started


_PLAIN_CLAIM = """
UPDATE plain_job AS job
SET status = 'RUNNING', claimed_by = %(run_id)s, lease_until = now() + interval '10 minutes'
FROM (SELECT id FROM plain_job WHERE status = 'PENDING'
      ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS next
WHERE job.id = next.id
RETURNING job.id
"""


def _count(connection: psycopg.Connection, query: LiteralString) -> int:
    found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0])
