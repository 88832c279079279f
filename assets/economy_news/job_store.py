"""Statements of economy_news on a given connection: AI jobs and their results.

Every finish carries the claim's token in its WHERE; False means that the job is no longer ours.
"""

from collections.abc import Sequence

import psycopg
from psycopg.rows import class_row

from assets.economy_news.models import (
    Claim,
    DueJobs,
    FailedItem,
    JobFailure,
    JobType,
    Lineage,
    Partition,
    PartitionJobs,
    PartitionState,
)
from assets.economy_news.store import SQL, columns
from assets.economy_news.summary import Summary


def add_summary_job(
    connection: psycopg.Connection,
    article_id: int,
    *,
    prompt_version: str,
    model: str,
    skip_duplicates: bool,
) -> bool:
    """True if the article got a job; False where it has one, or shares that of its first near-duplicate."""
    parameters = {
        "article_id": article_id,
        "prompt_version": prompt_version,
        "model": model,
        "skip_duplicates": skip_duplicates,
    }
    return connection.execute(SQL["add_summary_job"], parameters).fetchone() is not None


def fail_spent_leases(connection: psycopg.Connection, job_type: JobType, most_retries: int) -> int:
    """How many jobs were given up because their last attempt lost its lease."""
    parameters = {"job_type": job_type, "most_retries": most_retries}
    return len(connection.execute(SQL["fail_spent_leases"], parameters).fetchall())


def expire_leases_of_run(connection: psycopg.Connection, job_type: JobType, run_id: str) -> None:
    """Makes what an earlier try of the same run's step had claimed claimable at once."""
    connection.execute(SQL["expire_leases_of_run"], {"run_id": run_id, "job_type": job_type})


def claim_jobs(
    connection: psycopg.Connection,
    job_type: JobType,
    partitions: Sequence[Partition],
    *,
    run_id: str,
    limit: int,
    lease_seconds: float,
    prompt_version: str,
    model: str,
    provider_key: str,
    is_probe: bool = False,
) -> list[Claim]:
    """Up to `limit` jobs, leased. Nothing while the gate of this key and model is shut, unless a probe."""
    parameters = {
        **columns(partitions),
        "job_type": job_type,
        "run_id": run_id,
        "limit": limit,
        "lease_seconds": lease_seconds,
        "prompt_version": prompt_version,
        "model": model,
        "provider_key": provider_key,
        "is_probe": is_probe,
    }
    return [Claim(*row) for row in connection.execute(SQL["claim_jobs"], parameters)]


def renew_leases(
    connection: psycopg.Connection, run_id: str, job_ids: Sequence[int], lease_seconds: float
) -> set[int]:
    """The jobs that are still ours, with their lease counted from now."""
    parameters = {"run_id": run_id, "job_ids": list(job_ids), "lease_seconds": lease_seconds}
    return {row[0] for row in connection.execute(SQL["renew_leases"], parameters)}


def release_claim(connection: psycopg.Connection, claim: Claim) -> bool:
    """Puts a claim that was never asked back to PENDING; it costs the job no attempt."""
    return connection.execute(SQL["release_claim"], _token(claim)).fetchone() is not None


def free_jobs_of_run(connection: psycopg.Connection, run_id: str, delay_seconds: float = 60) -> int:
    """How many jobs a run that ended had left RUNNING; they are due after the delay."""
    parameters = {"run_id": run_id, "delay_seconds": delay_seconds}
    return len(connection.execute(SQL["free_jobs_of_run"], parameters).fetchall())


def finish_summary(connection: psycopg.Connection, claim: Claim, summary: Summary, lineage: Lineage) -> bool:
    """Stores the summary and the job's success together."""
    parameters = {
        **_token(claim),
        **lineage.model_dump(exclude={"model", "prompt_version"}),
        "summary3": list(summary.summary3),
        "summary_full": summary.summary_full,
    }
    return connection.execute(SQL["finish_summary"], parameters).fetchone() is not None


def finish_failure(connection: psycopg.Connection, claim: Claim, failure: JobFailure) -> bool:
    """Writes down how the claim failed and, for RETRY_WAIT, when it is due again."""
    parameters = {**_token(claim), **failure.model_dump()}
    return connection.execute(SQL["finish_failure"], parameters).fetchone() is not None


def due_jobs_by_partition(connection: psycopg.Connection, limit: int) -> list[DueJobs]:
    """Days and sections with jobs that a run could take now, newest day first."""
    return [DueJobs(*row) for row in connection.execute(SQL["due_jobs_by_partition"], {"limit": limit})]


def jobs_by_partition(
    connection: psycopg.Connection,
    job_type: JobType,
    partitions: Sequence[Partition],
    prompt_version: str,
    model: str,
) -> dict[Partition, PartitionJobs]:
    """The jobs of each partition as they stand now; every one asked for has an entry."""
    parameters = {
        **columns(partitions),
        "job_type": job_type,
        "prompt_version": prompt_version,
        "model": model,
    }
    with connection.cursor(row_factory=class_row(PartitionJobs)) as cursor:
        rows = cursor.execute(SQL["jobs_by_partition"], parameters).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def completeness(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> dict[Partition, PartitionState]:
    """How the articles of each partition stand; every one asked for has an entry."""
    with connection.cursor(row_factory=class_row(PartitionState)) as cursor:
        rows = cursor.execute(SQL["completeness_by_partition"], columns(partitions)).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def unsettled_items(
    connection: psycopg.Connection, partitions: Sequence[Partition], limit: int
) -> list[FailedItem]:
    """Jobs that failed, are suspended or wait for a retry, the latest first."""
    rows = connection.execute(SQL["unsettled_items"], {**columns(partitions), "limit": limit})
    return [FailedItem(*row) for row in rows]


def claims_of_run(connection: psycopg.Connection, run_id: str) -> tuple[int, int]:
    """How many jobs the run claimed, and how many of them are settled (SUCCESS or FAILED)."""
    row = connection.execute(SQL["claims_of_run"], {"run_id": run_id}).fetchone()
    assert row is not None
    return row[0], row[1]


def _token(claim: Claim) -> dict[str, object]:
    return {"job_id": claim.job_id, "run_id": claim.run_id, "attempt": claim.attempt}
