"""`dagster dev` as a process: asked over its own GraphQL, as the UI does."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from local_stack import ports, processes

STARTS_WITHIN_SECONDS = 120
STOPS_WITHIN_SECONDS = 20
LOCATION = {"repositoryLocationName": "granary", "repositoryName": "__repository__"}

_LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } }
}
"""
_RUN = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status endTime } } }"
_LOG = """
query ($id: ID!) {
  logsForRun(runId: $id) { ... on EventConnection { events { ... on MessageEvent { message } } } }
}
"""
_SENSOR = "query ($which: SensorSelector!) { sensorOrError(sensorSelector: $which) { ... on Sensor { id } } }"
_TICK = """
mutation ($which: SensorSelector!) {
  sensorDryRun(selectorData: $which, cursor: null) {
    ... on DryRunInstigationTick { evaluationResult { skipReason } }
  }
}
"""
_START = "mutation ($which: SensorSelector!) { startSensor(sensorSelector: $which) { __typename } }"
_STOP = "mutation ($id: String!) { stopSensor(id: $id) { __typename } }"


@dataclass(frozen=True)
class EndedRun:
    """How a run ended, and the wall clock (seconds since the epoch) of its last event."""

    status: str
    ended_at: float


class RunningDagster:
    """UI, daemon and code server of the project in one process group."""

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        self._environ = environ
        self._log = log
        self._port = ports.choose()
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(
            base_url=f"http://{ports.LOOPBACK}:{self._port}", timeout=30, trust_env=False
        )

    def start(self) -> None:
        """Returns when the UI answers and the code location is loaded. Raises RuntimeError."""
        where = ["-w", "workspace.yaml", "-h", ports.LOOPBACK, "-p", str(self._port)]
        command = processes.Command([sys.executable, "-m", "dagster", "dev", *where], self._environ)
        self._process = processes.launch(command, self._log, die_with_parent=True)
        deadline = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(httpx.HTTPError, KeyError):
                if self.ask(_SENSOR, which={**LOCATION, "sensorName": "article_jobs_due"})["sensorOrError"]:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"Dagster does not answer:\n{processes.last_lines(self._log)}")

    def stop(self) -> None:
        """Asks the whole group, and ends what has not ended after a while."""
        if self._process is None:
            return
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, number)
                self._process.wait(STOPS_WITHIN_SECONDS)

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer's `data`. Raises httpx.HTTPError or KeyError."""
        answer = self._http.post("/graphql", json={"query": query, "variables": variables})
        data: dict[str, Any] = answer.raise_for_status().json()["data"]
        return data

    def launch(self, job: str, tags: Mapping[str, str]) -> str:
        """The id of the run that was put into the queue, as the UI's button does."""
        params = {
            "selector": {**LOCATION, "jobName": job},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        launched = self.ask(_LAUNCH, params=params)["launchRun"]
        run_id: str = launched["run"]["runId"]
        return run_id

    def wait(self, run_id: str, seconds: float) -> EndedRun:
        """The run once it has ended. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            run = self.ask(_RUN, id=run_id)["runOrError"]
            if run.get("endTime"):
                return EndedRun(run["status"], run["endTime"])
            time.sleep(0.1)
        raise TimeoutError(f"run {run_id} has not ended within {seconds:.0f} s; see {self._log}")

    def process_of(self, run_id: str) -> psutil.Process:
        """The process that carries out the run, by what the run said of itself."""
        for event in self.ask(_LOG, id=run_id)["logsForRun"]["events"]:
            _, found, rest = event.get("message", "").partition("Started process for run (pid: ")
            if found:
                return psutil.Process(int(rest.split(")")[0]))
        raise LookupError(f"run {run_id} names no process")

    def finished_runs_cpu_seconds(self) -> float:
        """User and system time of all processes that code servers have started and seen end."""
        assert self._process is not None
        total = 0.0
        for process in processes.tree(psutil.Process(self._process.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "grpc" in process.cmdline():
                    times = process.cpu_times()
                    total += times.children_user + times.children_system
        return total

    def tick(self, sensor: str) -> str | None:
        """Has the code server evaluate the sensor once; why it asks for no run, if it asks for none."""
        found = self.ask(_TICK, which={**LOCATION, "sensorName": sensor})["sensorDryRun"]
        reason: str | None = found["evaluationResult"]["skipReason"]
        return reason

    def turn_on(self, *sensors: str) -> None:
        """The sensors tick from now on, each at its own interval."""
        for name in sensors:
            self.ask(_START, which={**LOCATION, "sensorName": name})

    def turn_off(self, *sensors: str) -> None:
        """The sensors tick no more."""
        for name in sensors:
            sensor = self.ask(_SENSOR, which={**LOCATION, "sensorName": name})["sensorOrError"]
            self.ask(_STOP, id=sensor["id"])
