"""Dagster's default launcher with the health check that it lacks.

Without it a run whose code server or host died stays STARTED, with its lock, until its maximum run time.
It stands on Dagster's private interface, so Dagster is pinned and a test watches the behaviour.
"""

import json
import os

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

ANSWER_WITHIN_SECONDS = 5


class CheckedRunLauncher(DefaultRunLauncher):
    """Asks the code server that started a run whether it still knows the run's process."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """RUNNING, also where nothing can be said, or NOT_FOUND: the monitor then fails the run."""
        socket = json.loads(run.tags.get(GRPC_INFO_TAG, "{}")).get("socket")
        if socket and not os.path.exists(socket):
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "the code server that held the run is gone")
        client = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if client is None:
            # Run by hand in a process of its own (`dg launch`); UNKNOWN would make the monitor fail it.
            return CheckRunHealthResult(WorkerStatus.RUNNING, "no code server of ours started the run")
        request = CanCancelExecutionRequest(run_id=run.run_id)
        try:
            reply = client.can_cancel_execution(request, timeout=ANSWER_WITHIN_SECONDS)
        except Exception as error:  # gRPC raises many kinds; all mean that the server did not answer
            return _no_answer(error, is_local=bool(socket))
        if deserialize_value(reply, CanCancelExecutionResult).can_cancel:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "the code server does not know the run any more")


def _no_answer(error: Exception, is_local: bool) -> CheckRunHealthResult:
    """A local server that is silent is dead; a remote one may be behind a network that is slow now."""
    said = type(error).__name__
    if is_local:
        return CheckRunHealthResult(
            WorkerStatus.NOT_FOUND, f"the code server's socket does not answer: {said}"
        )
    return CheckRunHealthResult(
        WorkerStatus.RUNNING, f"the code server cannot be reached: {said}", transient=True
    )
