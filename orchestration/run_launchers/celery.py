"""Dagster's Celery launcher with what it lacks: a canceled run is CANCELED, a vanished worker is noticed.

Without it a cancel turns into a failure that is tried again, and the run of a worker whose machine went away
stays STARTED until its maximum run time. It stands on dagster-celery's interface, so that is pinned, and a
test kills a worker.
"""

from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

ANSWER_WITHIN_SECONDS = 2
MISSES = 2
"""A worker that is busy may miss one question; one that misses two in a row is gone."""


class CheckedCeleryRunLauncher(CeleryRunLauncher):
    """Runs as tasks of Celery workers, whole ones, in processes that have imported everything already."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._misses: dict[str, int] = {}

    def terminate(self, run_id: str) -> bool:
        """True if the run's task was told to end; the run is CANCELING from then on."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished or DAGSTER_CELERY_TASK_ID_TAG not in run.tags:
            return False
        self._instance.report_run_canceling(run)
        # SIGINT, not Celery's SIGTERM: the run then cleans up and says that it was canceled.
        task = self.celery.AsyncResult(run.tags[DAGSTER_CELERY_TASK_ID_TAG])
        task.revoke(terminate=True, signal="SIGINT")
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """RUNNING while a worker says that it has the run's task, NOT_FOUND after two polls without one."""
        result = super().check_run_worker_health(run)
        if result.status is not WorkerStatus.RUNNING or self._is_held(run.tags[DAGSTER_CELERY_TASK_ID_TAG]):
            self._misses.pop(run.run_id, None)
            return result
        self._misses[run.run_id] = self._misses.get(run.run_id, 0) + 1
        if self._misses[run.run_id] < MISSES:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "no worker answered for it", transient=True)
        del self._misses[run.run_id]
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "no Celery worker has the run's task any more")

    def _is_held(self, task_id: str) -> bool:
        active = self.celery.control.inspect(timeout=ANSWER_WITHIN_SECONDS).active() or {}
        return any(task["id"] == task_id for tasks in active.values() for task in tasks)
