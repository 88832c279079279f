"""Which locks are held by a live run: a tick that finds one skips what the lock stands for."""

from collections.abc import Iterable
from datetime import UTC, datetime

import dagster as dg

from orchestration.policies import LOCK_TAG

_LIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def held_locks(instance: dg.DagsterInstance, job_name: str, max_seconds: float) -> set[str]:
    """The lock tags of the job's live runs; one past its maximum run time does not count as live."""
    records = instance.get_run_records(
        dg.RunsFilter(job_name=job_name, statuses=_LIVE), limit=2_000, ascending=False
    )
    return set(_locks(records, datetime.now(UTC).timestamp() - max_seconds))


def _locks(records: Iterable[dg.RunRecord], oldest_start: float) -> Iterable[str]:
    for record in records:
        lock = record.dagster_run.tags.get(LOCK_TAG)
        if lock and (record.start_time is None or record.start_time >= oldest_start):
            yield lock
