"""Statements of economy_news on a given connection: batches of AI jobs, from their plan to their end.

Whoever sends one or takes it in holds it by a lease: every change shows its run in the WHERE. What is locked
or counted together belongs into the caller's transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from assets.economy_news.models import BatchLine, Claim, JobType, OpenBatch, Partition, SubmittedJob
from assets.economy_news.store import columns
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "batches.sql")
_CLAIM_COLUMNS = len(Claim._fields)


def lock_planning(connection: psycopg.Connection, model: str) -> None:
    """Until the transaction ends no other run plans a batch of the model."""
    connection.execute(SQL["lock_planning"], {"model": model})


def days_to_plan(
    connection: psycopg.Connection, job_type: JobType, partitions: Sequence[Partition]
) -> list[tuple[date, list[str]]]:
    """Days, newest first, with the sections of the partitions where jobs wait for a batch now."""
    parameters = {**columns(partitions), "job_type": job_type}
    return [(day, sections) for day, sections in connection.execute(SQL["days_to_plan"], parameters)]


def jobs_to_plan(
    connection: psycopg.Connection,
    job_type: JobType,
    day: date,
    sections: Sequence[str],
    *,
    plan: str,
    run_id: str,
    after: int,
    limit: int,
    model: str,
    provider_key: str,
    is_probe: bool = False,
) -> list[Claim]:
    """Up to `limit` jobs behind the id `after`, locked, as they will be claimed once they are submitted."""
    parameters = {
        "job_type": job_type,
        "day": day,
        "sections": list(sections),
        "plan": plan,
        "run_id": run_id,
        "after": after,
        "limit": limit,
        "model": model,
        "provider_key": provider_key,
        "is_probe": is_probe,
    }
    return [Claim(*row) for row in connection.execute(SQL["jobs_to_plan"], parameters)]


def plan_batch(
    connection: psycopg.Connection,
    plan: str,
    job_type: JobType,
    day: date,
    lines: Sequence[BatchLine],
    *,
    run_id: str,
    lease_seconds: float,
    prompt_version: str,
    model: str,
    lines_sha256: str,
) -> None:
    """Makes the batch, leased by the run, and submits its jobs, which the caller has locked."""
    parameters = {
        "plan": plan,
        "job_type": job_type,
        "day": day,
        "jobs": len(lines),
        "queued_tokens": sum(line.queued_tokens for line in lines),
        "run_id": run_id,
        "lease_seconds": lease_seconds,
        "prompt_version": prompt_version,
        "model": model,
        "lines_sha256": lines_sha256,
        "job_ids": [line.job_id for line in lines],
        "asked_hashes": [line.asked_hash for line in lines],
    }
    connection.execute(SQL["add_batch"], parameters)
    connection.execute(SQL["submit_jobs"], parameters)


def refuse_jobs(
    connection: psycopg.Connection, job_ids: Sequence[int], run_id: str, error_code: str, error_message: str
) -> None:
    """Fails jobs that the caller has locked and that no batch can take."""
    parameters = {
        "job_ids": list(job_ids),
        "run_id": run_id,
        "error_code": error_code,
        "error_message": error_message,
    }
    connection.execute(SQL["refuse_jobs"], parameters)


def mark_uploaded(
    connection: psycopg.Connection, plan: str, run_id: str, file_id: str, lease_seconds: float
) -> bool:
    """False where the plan is no longer the run's; its lease counts from now."""
    parameters = {"plan": plan, "run_id": run_id, "file_id": file_id, "lease_seconds": lease_seconds}
    return connection.execute(SQL["mark_uploaded"], parameters).fetchone() is not None


def mark_submitted(
    connection: psycopg.Connection, plan: str, run_id: str, batch_id: str, file_id: str
) -> bool:
    """False where the plan is no longer the run's; then nothing is changed. In one transaction."""
    parameters = {"plan": plan, "run_id": run_id, "batch_id": batch_id, "file_id": file_id}
    with connection.transaction():
        if connection.execute(SQL["mark_submitted"], parameters).fetchone() is None:
            return False
        connection.execute(SQL["name_batch"], parameters)
    return True


def open_batches(
    connection: psycopg.Connection, job_type: JobType | None = None, days: Sequence[date] | None = None
) -> list[OpenBatch]:
    """The batches that are planned or at the provider, oldest first; of a type and of days, where given."""
    parameters = {"job_type": job_type, "days": None if days is None else list(days)}
    rows = connection.execute(SQL["open_batches"], parameters)
    return [OpenBatch(row[0], JobType(row[1]), *row[2:]) for row in rows]


def take(connection: psycopg.Connection, batch: OpenBatch, run_id: str, lease_seconds: float) -> bool:
    """True if the batch was free, and is the run's now."""
    parameters = {
        "plan": batch.plan,
        "status": batch.status,
        "run_id": run_id,
        "lease_seconds": lease_seconds,
    }
    return connection.execute(SQL["take"], parameters).fetchone() is not None


def renew(connection: psycopg.Connection, plan: str, run_id: str, lease_seconds: float) -> bool:
    """False where the batch is no longer the run's. The row is locked until the transaction ends."""
    parameters = {"plan": plan, "run_id": run_id, "lease_seconds": lease_seconds}
    return connection.execute(SQL["renew"], parameters).fetchone() is not None


def release(connection: psycopg.Connection, plan: str, run_id: str) -> None:
    """The next run may take the batch in."""
    connection.execute(SQL["release"], {"plan": plan, "run_id": run_id})


def end(
    connection: psycopg.Connection,
    plan: str,
    run_id: str,
    status: str,
    reason: str | None,
    files: Sequence[str] = (),
    answers: Mapping[str, Any] | None = None,
) -> bool:
    """False where the batch is no longer the run's. `files` (ids, or names in .jsonl) are to be deleted."""
    parameters = {
        "plan": plan,
        "run_id": run_id,
        "status": status,
        "reason": reason,
        "files": list(dict.fromkeys(files)),
        "answers": None if answers is None else Jsonb(dict(answers)),
    }
    return connection.execute(SQL["end"], parameters).fetchone() is not None


def standing_batch_id(connection: psycopg.Connection, plan: str) -> str | None:
    """The provider's id that is written down for the plan."""
    row = connection.execute(SQL["standing_batch_id"], {"plan": plan}).fetchone()
    return None if row is None else row[0]


def jobs_of_batch(connection: psycopg.Connection, plan: str) -> set[int]:
    """The jobs that went with the batch and still exist, settled ones too."""
    return {row[0] for row in connection.execute(SQL["jobs_of_batch"], {"plan": plan})}


def submitted_jobs(connection: psycopg.Connection, plan: str, limit: int) -> list[int]:
    """Up to `limit` jobs that still wait for the batch."""
    rows = connection.execute(SQL["submitted_jobs"], {"plan": plan, "limit": limit})
    return [row[0] for row in rows]


def lock_submitted(
    connection: psycopg.Connection, plan: str, run_id: str, job_ids: Sequence[int]
) -> Iterator[SubmittedJob]:
    """Those of the jobs that still wait for the batch, locked until the transaction ends."""
    parameters = {"plan": plan, "run_id": run_id, "job_ids": list(job_ids)}
    for row in connection.execute(SQL["lock_submitted"], parameters):
        yield SubmittedJob(Claim(*row[:_CLAIM_COLUMNS]), *row[_CLAIM_COLUMNS:])


def return_jobs(
    connection: psycopg.Connection,
    plan: str,
    job_ids: Sequence[int] | None = None,
    *,
    delay_seconds: float | None = None,
    error_code: str | None = None,
) -> int:
    """How many of the batch's jobs (all, or those) wait again, now or later: they were not asked."""
    parameters = {
        "plan": plan,
        "job_ids": None if job_ids is None else list(job_ids),
        "delay_seconds": delay_seconds,
        "error_code": error_code,
    }
    return len(connection.execute(SQL["return_jobs"], parameters).fetchall())


def queued(connection: psycopg.Connection, model: str) -> tuple[int, int]:
    """The tokens that open batches of the model hold in the provider's queue, and how many batches."""
    row = connection.execute(SQL["queued"], {"model": model}).fetchone()
    assert row is not None
    return row[0], row[1]


def room_today(connection: psycopg.Connection, cap_usd: Decimal | None) -> Decimal | None:
    """USD that the day's cap leaves, None where there is no cap. What is reserved counts as spent."""
    if cap_usd is None:
        return None
    row = connection.execute(SQL["committed_today"]).fetchone()
    assert row is not None
    left: Decimal = cap_usd - row[0]
    return max(left, Decimal(0))


def files_left(connection: psycopg.Connection) -> list[tuple[str, str, datetime, bool]]:
    """The plan, the id or name, and the plan's time, of every file that nobody needs any more.

    Last: whether one that is not there yet may still come, since its upload had no answer.
    """
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(SQL["files_left"])]


def file_deleted(connection: psycopg.Connection, plan: str, file: str) -> None:
    """Forgets a file that is gone."""
    connection.execute(SQL["file_deleted"], {"plan": plan, "file": file})


def sections_in_batch(connection: psycopg.Connection, plan: str) -> list[str]:
    """The sections of the jobs that still wait for the batch."""
    return [row[0] for row in connection.execute(SQL["sections_in_batch"], {"plan": plan})]
