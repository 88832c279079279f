"""Statements of economy_news on a given connection: AI jobs, from their making to their end.

Every finish carries its claim's token in its WHERE; what is no longer ours is not in the answer.
What a result is stored as is in `result_store.py`, how partitions stand in `job_report.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from assets.economy_news.models import (
    Claim,
    DueJobs,
    JobFailure,
    JobMode,
    JobType,
    Partition,
    Success,
)
from assets.economy_news.store import columns
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "jobs.sql")


def add_summary_job(
    connection: psycopg.Connection,
    article_id: int,
    *,
    prompt_version: str,
    model: str,
    min_characters: int,
    skip_duplicates: bool,
    mode: JobMode = JobMode.live,
) -> bool:
    """True if the article got a job; False where it has one, shares that of its first near-duplicate, is too
    short (`min_characters` 0: no article gets one) or has lost its body."""
    parameters = {
        "article_id": article_id,
        "prompt_version": prompt_version,
        "model": model,
        "min_characters": min_characters,
        "skip_duplicates": skip_duplicates,
        "mode": mode,
    }
    return connection.execute(SQL["add_summary_job"], parameters).fetchone() is not None


def add_following_jobs(
    connection: psycopg.Connection,
    output_hashes: Mapping[int, str],
    prompt_versions: Mapping[JobType, str],
    model: str,
    mode: JobMode = JobMode.live,
) -> list[JobType]:
    """The types of the jobs made from new results, given by article id and output hash.

    What waited to be made from an earlier result of the article is dropped: its successor takes its place.
    """
    parameters = {
        "parents": Jsonb(
            [{"article_id": article_id, "output_hash": text} for article_id, text in output_hashes.items()]
        ),
        "job_types": list(prompt_versions),
        "prompt_versions": list(prompt_versions.values()),
        "model": model,
        "mode": mode,
    }
    connection.execute(SQL["drop_superseded_jobs"], parameters)
    return [JobType(row[0]) for row in connection.execute(SQL["add_following_jobs"], parameters)]


def redo_results(
    connection: psycopg.Connection,
    job_type: JobType,
    partitions: Sequence[Partition],
    *,
    prompt_version: str,
    model: str,
    run_ids: Sequence[str],
    everything: bool,
    mode: JobMode = JobMode.live,
) -> int:
    """How many results were asked for again: the outdated ones, or all, that these runs have not made.

    `run_ids` are this run and those that it tries again. What will be made again from a result that is under
    way is left to that.
    """
    parameters = {
        **columns(partitions),
        "job_type": job_type,
        "prompt_version": prompt_version,
        "model": model,
        "run_ids": list(run_ids),
        "everything": everything,
        "mode": mode,
    }
    return len(connection.execute(SQL["redo_results"], parameters).fetchall())


def set_mode(
    connection: psycopg.Connection, job_type: JobType, partitions: Sequence[Partition], mode: JobMode
) -> int:
    """How many jobs that wait are asked in another way from now on."""
    parameters = {**columns(partitions), "job_type": job_type, "mode": mode}
    return len(connection.execute(SQL["set_mode"], parameters).fetchall())


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


def release_claims(connection: psycopg.Connection, run_id: str, claims: Sequence[Claim]) -> set[int]:
    """Puts claims that were never asked back to PENDING; it costs their jobs no attempt."""
    parameters = {
        "run_id": run_id,
        "job_ids": [claim.job_id for claim in claims],
        "attempts": [claim.attempt for claim in claims],
    }
    return {row[0] for row in connection.execute(SQL["release_claims"], parameters)}


def free_jobs_of_run(connection: psycopg.Connection, run_id: str, delay_seconds: float = 60) -> int:
    """How many jobs a run that ended had left RUNNING; they are due after the delay.

    Batches that it was taking in are free for the next run.
    """
    connection.execute(SQL["free_batches_of_run"], {"run_id": run_id})
    parameters = {"run_id": run_id, "delay_seconds": delay_seconds}
    return len(connection.execute(SQL["free_jobs_of_run"], parameters).fetchall())


def finish_successes(
    connection: psycopg.Connection,
    run_id: str,
    successes: Sequence[Success],
    *,
    prompt_version: str,
    model: str,
) -> dict[int, int]:
    """The ids of the new results (news.ai_result) by job id, of those claims that are still ours.

    Prompt and model are what was asked; the job may have been made under others.
    """
    finishes = [
        {
            "job_id": success.claim.job_id,
            "attempt": success.claim.attempt,
            "batch_plan": success.claim.batch_plan,
            **success.model_dump(mode="json", exclude={"claim"}),
        }
        for success in successes
    ]
    parameters = {
        "run_id": run_id,
        "finishes": Jsonb(finishes),
        "prompt_version": prompt_version,
        "model": model,
    }
    return dict(connection.execute(SQL["finish_successes"], parameters).fetchall())


def finish_failures(connection: psycopg.Connection, run_id: str, failures: Sequence[JobFailure]) -> set[int]:
    """The jobs whose failure was written down, with its due time for RETRY_WAIT."""
    finishes = [
        {
            "job_id": failure.claim.job_id,
            "attempt": failure.claim.attempt,
            "batch_plan": failure.claim.batch_plan,
            **failure.model_dump(mode="json", exclude={"claim"}),
        }
        for failure in failures
    ]
    parameters = {"run_id": run_id, "finishes": Jsonb(finishes)}
    return {row[0] for row in connection.execute(SQL["finish_failures"], parameters)}


def due_jobs_by_partition(
    connection: psycopg.Connection, limit: int, with_batches: bool = True
) -> list[DueJobs]:
    """Days and sections with jobs that a run could take now, newest day first.

    Those that wait for a batch count only `with_batches`: where one could be sent now.
    """
    parameters = {"limit": limit, "with_batches": with_batches}
    return [DueJobs(*row) for row in connection.execute(SQL["due_jobs_by_partition"], parameters)]


def claims_of_run(connection: psycopg.Connection, run_id: str) -> tuple[int, int]:
    """How many jobs the run claimed, and how many are settled (SUCCESS or FAILED) or in a batch."""
    row = connection.execute(SQL["claims_of_run"], {"run_id": run_id}).fetchone()
    assert row is not None
    return row[0], row[1]
