"""Dagster's Celery launcher with what it lacks: a canceled run is CANCELED, a vanished worker is noticed.

Without it a cancel turns into a failure that is tried again, the run of a worker whose machine went away
stays STARTED until its maximum run time, and living runs are failed when the broker forgets their results.
It stands on dagster-celery's interface, so that is pinned, and a test kills a worker.
"""

import time
from collections.abc import Mapping
from typing import Any

import dagster as dg
from celery.states import FAILURE
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

ANSWER_WITHIN_SECONDS = 2
MISSES = 2
"""A worker that is busy may miss one question; one that misses two in a row is gone."""
REMEMBERED = 1_000
RECONNECTED_WITHIN_SECONDS = 60
"""After the broker was away workers come back one by one, at the latest 30 s apart."""

# Run monitoring asks for one run after the other, and a silent broker would hold it for minutes with each.
PATIENCE: Mapping[str, Any] = {
    "redis_socket_connect_timeout": ANSWER_WITHIN_SECONDS,
    "redis_socket_timeout": ANSWER_WITHIN_SECONDS,
}


class CheckedCeleryRunLauncher(CeleryRunLauncher):
    """Runs as tasks of Celery workers, whole ones, in processes that have imported everything already."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._missed: dict[str, int] = {}
        self._counts_from = 0.0

    def app_args(self) -> dict[str, Any]:
        """What the Celery app is made with; what dagster.yaml says goes first."""
        arguments: dict[str, Any] = super().app_args()
        return {**arguments, "config_source": {**PATIENCE, **arguments["config_source"]}}

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
        """RUNNING, also where nothing can be said; FAILED or, after two misses, NOT_FOUND fail the run.

        The workers are asked, not the result: that stays STARTED when a worker vanishes, is SUCCESS where a
        run could not write its end, and is gone after a restart of the broker that the run lives through.
        """
        task_id = run.tags.get(DAGSTER_CELERY_TASK_ID_TAG)
        if task_id is None:
            return CheckRunHealthResult(
                WorkerStatus.RUNNING, "it was started by hand, not by a worker of ours"
            )
        try:
            result = self.celery.AsyncResult(task_id)
            if result.state == FAILURE:
                return CheckRunHealthResult(WorkerStatus.FAILED, f"its task failed: {result.info!r}")
            is_held = self._is_held(task_id, result.info)
        except Exception as error:  # of the broker's client, the result's and the connection's: no answer
            # No miss: a worker goes on with its run while the broker is away.
            self._counts_from = time.monotonic() + RECONNECTED_WITHIN_SECONDS
            said = f"the broker cannot be reached: {type(error).__name__}"
            return CheckRunHealthResult(WorkerStatus.RUNNING, said, transient=True)
        return self._judged(run.run_id, is_held)

    def _is_held(self, task_id: str, info: object) -> bool:
        """Whether a worker has the task; the one that has started it answers at once, unless it is gone."""
        named = info.get("hostname") if isinstance(info, dict) else None
        # Without a name all are asked, and answers are waited for until the time is over.
        inspect = self.celery.control.inspect([named] if named else None, timeout=ANSWER_WITHIN_SECONDS)
        answers: Mapping[str, Mapping[str, Any]] = inspect.query_task(task_id) or {}
        return any(task_id in tasks for tasks in answers.values())

    def _judged(self, run_id: str, is_held: bool) -> CheckRunHealthResult:
        missed = self._missed.pop(run_id, 0) + 1
        if is_held:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        if time.monotonic() < self._counts_from:
            missed = 0
        if missed >= MISSES:
            return CheckRunHealthResult(
                WorkerStatus.NOT_FOUND, "no Celery worker has the run's task any more"
            )
        if len(self._missed) >= REMEMBERED:
            # Runs that ended after a miss are not asked about again; at worst some take a poll longer.
            self._missed.clear()
        self._missed[run_id] = missed
        return CheckRunHealthResult(WorkerStatus.RUNNING, "no worker answered for it", transient=True)
