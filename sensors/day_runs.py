"""Runs over single days: one a day that has work and no live run."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import date

import dagster as dg

from orchestration.policies import automatic_run_tags, lock_of

DAYS_A_TICK = 10


def day_runs(job_name: str, days: Iterable[date], held: AbstractSet[str], tick: int) -> list[dg.RunRequest]:
    """One run of the job for each day whose lock is not held, newest day first, at most ten a tick."""
    return [
        dg.RunRequest(
            run_key=f"{day.isoformat()}:{tick}",
            partition_key=day.isoformat(),
            tags=automatic_run_tags(job_name, day),
        )
        for day in sorted(days, reverse=True)
        if lock_of(job_name, day) not in held
    ][:DAYS_A_TICK]
