"""Suspended jobs begin anew: what the job economy_news_resume_suspended and the HTTP door both do."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psycopg

from assets.economy_news import repair_store
from resources import gate
from resources.alerts import AlertResource
from resources.gate import GateKey


class NotAsNamed(Exception):
    """Jobs that were named are not what they were taken for; nothing was changed.

    `unknown`: some of them do not exist.
    """

    def __init__(self, message: str, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


@dataclass(frozen=True)
class Resumed:
    """How many jobs are PENDING again, and whether the gate was shut before."""

    jobs: int
    gate_was_shut: bool


def resume(
    connection: psycopg.Connection,
    key: GateKey,
    alerts: AlertResource,
    job_ids: Sequence[int] = (),
    reason: str | None = None,
) -> Resumed:
    """Opens the gate and gives suspended jobs all their attempts again: by id, all of a reason, or none.

    The connection is in autocommit mode. Raises NotAsNamed where a job that was named is not SUSPENDED or no
    longer counts; then the gate stays as it is too.
    """
    with connection.transaction():
        expect_status(connection, job_ids, "SUSPENDED")
        resumed = repair_store.resume_suspended(connection, job_ids, reason)
        expect_changed(job_ids, resumed)
        opened = gate.open_(connection, key)
    # Also where this gate stood open: the alarm may be of the key before, whose gate nobody opens any more.
    alerts.clear(connection, f"gate:{key.model}")
    return Resumed(len(resumed), opened)


def expect_status(connection: psycopg.Connection, job_ids: Sequence[int], status: str) -> None:
    """Raises NotAsNamed with every job that is not in the status, so that none is changed by mistake."""
    found = repair_store.statuses(connection, job_ids)
    wrong = [
        f"job {job_id} is {found[job_id]}" if job_id in found else f"job {job_id} does not exist"
        for job_id in job_ids
        if found.get(job_id) != status
    ]
    if wrong:
        raise NotAsNamed(f"not {status}: {'; '.join(wrong)}", unknown=not set(job_ids) <= found.keys())


def expect_changed(job_ids: Sequence[int], changed: Collection[int]) -> None:
    """Raises NotAsNamed, which undoes the change, where the statement left out a job that was named."""
    left_out = sorted(set(job_ids) - set(changed))
    if left_out:
        raise NotAsNamed(f"jobs {left_out} were redone meanwhile, or their article has lost its body")
