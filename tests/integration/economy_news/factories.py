"""Articles and jobs, put into the database as the pipeline would leave them."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.economy_news import job_store, near_duplicates, result_store, store
from assets.economy_news.article_page import Article
from assets.economy_news.models import Claim, JobFailure, JobType, Partition, Success
from assets.economy_news.result_kinds import SUMMARY
from assets.economy_news.summary import Summary
from local_stack.naver_site.articles import Kind
from local_stack.naver_site.days import articles_of

DAY = date(2026, 3, 2)
SECTION = "FINANCE"
HERE = Partition(DAY, SECTION)
MODEL = "gpt-4o-mini"
PROVIDER_KEY = "a-key"
NOON = "2026-03-02T12:00:00+09:00"
"""A moment for sessions whose clock is moved; times below are seconds after it."""

A_SUMMARY = Summary(summary3=("하나예요.", "둘이에요.", "셋이에요."), summary_full="여덟 문장이다.")
# What each status needs so that the table takes the row.
_COLUMNS_OF: dict[str, dict[str, Any]] = {
    "PENDING": {},
    "RUNNING": {"claimed_by": "run-1", "lease_seconds": 600},
    "SUBMITTED": {"claimed_by": "run-1", "mode": "batch", "batch_plan": "plan-1", "batch_id": "batch-1"},
    "SUCCESS": {"claimed_by": "run-1"},
    "RETRY_WAIT": {"claimed_by": "run-1", "due_seconds": 60, "error_code": "timeout"},
    "SUSPENDED": {"claimed_by": "run-1", "suspend_reason": "QUOTA", "error_code": "insufficient_quota"},
    "FAILED": {"claimed_by": "run-1", "error_code": "invalid_output"},
}

_INSERT_BATCH = """
INSERT INTO news.ai_batch
    (plan, job_type, day, prompt_version, model, status, jobs, queued_tokens, batch_id, planned_at)
VALUES ('plan-1', 'SUMMARY', %(day)s, 'v1', %(model)s, 'SUBMITTED', 1, 0, 'batch-1', granary.now())
ON CONFLICT DO NOTHING
"""

_INSERT_JOB = """
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, day, section, status, attempt, claimed_by,
     lease_until, next_run_at, suspend_reason, mode, batch_plan, batch_id, error_code, created_at)
SELECT id, %(job_type)s, %(prompt_version)s, %(model)s, input_hash, day, section, %(status)s, %(attempt)s,
       %(claimed_by)s, granary.now() + make_interval(secs => %(lease_seconds)s),
       granary.now() + make_interval(secs => %(due_seconds)s), %(suspend_reason)s,
       coalesce(%(mode)s, 'live'), %(batch_plan)s, %(batch_id)s, %(error_code)s, granary.now()
FROM news.article WHERE id = %(article_id)s
RETURNING id
"""


def after_noon(seconds: float) -> str:
    """A moment so many seconds after NOON, for a session's clock."""
    return (datetime.fromisoformat(NOON) + timedelta(seconds=seconds)).isoformat()


def a_text(number: int) -> tuple[str, str]:
    """Title and body of an invented article that is long enough for a summary; 0 to 60."""
    written = [one for one in articles_of(DAY) if one.kind is Kind.CURRENT]
    return written[number].title, written[number].cleaned_body


def an_article(
    connection: psycopg.Connection,
    number: int = 0,
    *,
    partition: Partition = HERE,
    title: str | None = None,
    body: str | None = None,
    duplicate_of: int | None = None,
) -> int:
    """The id of a stored article; another number is another article."""
    written_title, written_body = a_text(number)
    article = Article(
        oid="001",
        aid=f"{number:010d}",
        title=written_title if title is None else title,
        body=written_body if body is None else body,
        published_at=None,
        modified_at=None,
        press="가나통신",
        reporter=None,
        thumbnail_url=None,
    )
    article_id = store.insert_article(
        connection,
        article,
        partition,
        signature=near_duplicates.signature(article.body),
        duplicate_of=duplicate_of,
        crawl_permission=None,
        run_id="crawl-1",
    )
    assert article_id is not None
    store.add_section(connection, article_id, partition.section)
    return article_id


def a_job(connection: psycopg.Connection, article_id: int, status: str = "PENDING", **columns: Any) -> int:
    """The id of a SUMMARY job in that status, held by run-1 in its attempt 1 unless `columns` say otherwise.

    `lease_seconds` and `due_seconds` count from the session's clock; negative ones are over.
    """
    parameters = {
        "article_id": article_id,
        "job_type": JobType.SUMMARY,
        "prompt_version": SUMMARY.prompt.version,
        "model": MODEL,
        "status": status,
        "attempt": 0 if status == "PENDING" else 1,
        **dict.fromkeys(
            (
                "claimed_by",
                "lease_seconds",
                "due_seconds",
                "suspend_reason",
                "mode",
                "batch_plan",
                "batch_id",
                "error_code",
            )
        ),
        **_COLUMNS_OF[status],
        **columns,
    }
    if parameters["batch_plan"] is not None:
        connection.execute(_INSERT_BATCH, {"day": DAY, "model": MODEL})
    row = connection.execute(_INSERT_JOB, parameters).fetchone()
    assert row is not None
    return int(row[0])


def jobs_waiting(connection: psycopg.Connection, count: int, partition: Partition = HERE) -> list[int]:
    """The ids of so many PENDING jobs, each of an article of its own."""
    first = len(rows(connection, "SELECT id FROM news.article"))
    return [
        a_job(connection, an_article(connection, number, partition=partition))
        for number in range(first, first + count)
    ]


def claim(
    connection: psycopg.Connection,
    run_id: str,
    limit: int = 50,
    partitions: Sequence[Partition] = (HERE,),
    **more: Any,
) -> list[Claim]:
    """What a run claims, under a lease of 600 seconds."""
    parameters = {
        "run_id": run_id,
        "limit": limit,
        "lease_seconds": 600,
        "model": MODEL,
        "provider_key": PROVIDER_KEY,
        **more,
    }
    return job_store.claim_jobs(connection, JobType.SUMMARY, partitions, **parameters)


def a_token(job_id: int, run_id: str = "run-1", attempt: int = 1) -> Claim:
    """What a run shows that believes to hold the job."""
    return Claim(
        job_id=job_id,
        run_id=run_id,
        attempt=attempt,
        article_id=0,
        day=DAY,
        section=SECTION,
        title="",
        text="",
        lease_was_lost=False,
    )


def a_failure(status: str, **more: Any) -> dict[str, Any]:
    """A failure's fields as a run writes them down; `more` replaces some."""
    needed: dict[str, dict[str, Any]] = {
        "RETRY_WAIT": {"delay_seconds": 30.0},
        "SUSPENDED": {"suspend_reason": "QUOTA"},
    }
    return {
        "status": status,
        "error_code": "a_code",
        "error_message": "a message",
        **needed.get(status, {}),
        **more,
    }


def finish_failure(connection: psycopg.Connection, claim: Claim, failure: dict[str, Any]) -> bool:
    """Whether the claim's failure was written down."""
    failures = [JobFailure(claim=claim, **failure)]
    return claim.job_id in job_store.finish_failures(connection, claim.run_id, failures)


def finish_summary(connection: psycopg.Connection, claim: Claim, summary: Summary = A_SUMMARY) -> bool:
    """Whether the claim's summary was stored, as a run stores it."""
    success = Success(
        claim=claim,
        input_hash=store.input_hash(claim.title, claim.text),
        output_hash=store.input_hash(claim.title, summary.summary_full),
        input_tokens=1_000,
        cached_tokens=0,
        output_tokens=200,
        cost_usd=Decimal("0.00027"),
    )
    with connection.transaction():
        stored = job_store.finish_successes(
            connection, claim.run_id, [success], prompt_version=SUMMARY.prompt.version, model=MODEL
        )
        for result_id in stored.values():
            (article,) = rows(connection, "SELECT article_id FROM news.ai_result WHERE id = %s", result_id)
            row = {**SUMMARY.rows(summary, claim)[0], "result_id": result_id, **article}
            result_store.add_rows(connection, "add_summaries", [row])
    return claim.job_id in stored


def release_claim(connection: psycopg.Connection, claim: Claim) -> bool:
    """Whether the claim was put back."""
    return claim.job_id in job_store.release_claims(connection, claim.run_id, [claim])


def job_row(connection: psycopg.Connection, job_id: int) -> dict[str, Any]:
    """Every column of the job."""
    (row,) = rows(connection, "SELECT * FROM news.ai_job WHERE id = %s", job_id)
    return row


def job_rows(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every SUMMARY job, oldest first; not those that a stored summary makes possible."""
    return rows(connection, "SELECT * FROM news.ai_job WHERE job_type = 'SUMMARY' ORDER BY id")


def statuses(connection: psycopg.Connection) -> list[str]:
    """The status of every SUMMARY job, oldest first."""
    return [row["status"] for row in job_rows(connection)]


def attempts(connection: psycopg.Connection) -> list[int]:
    """The attempt of every job, oldest first."""
    return [row["attempt"] for row in job_rows(connection)]


def rows(connection: psycopg.Connection, query: str, *parameters: object) -> list[dict[str, Any]]:
    """What the query gives, by column name."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), parameters).fetchall()
