"""A project folder of its own, whose stack the README's commands start and stop."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from local_stack.environment import TRIGGERS
from local_stack.stack import Stack
from local_stack.state import State

ROOT = Path(__file__).resolve().parents[2]


def wait_for(is_so: Callable[[], bool], what: str, seconds: float = 240) -> None:
    """Returns once it is so: the work of other processes, looked at five times a second."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.2)


def ask(ui: str, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    """What the UI's own API answers."""
    request = urllib.request.Request(
        f"{ui}/graphql",
        data=json.dumps({"query": query, "variables": variables}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        data: dict[str, Any] = json.load(answer)["data"]
    return data


class Project:
    """A copy of the checkout, run by the interpreter of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.local = folder / ".local"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        ours = {name for names in TRIGGERS.values() for name in names} | {"DAGSTER_PG_URL", "DAGSTER_HOME"}
        self.environ = {name: value for name, value in os.environ.items() if name not in ours}

    def start(self, command: str) -> "subprocess.Popen[str]":
        """`make <command>` in a process of its own."""
        return subprocess.Popen(
            self._line(command),
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def make(self, command: str) -> "subprocess.CompletedProcess[str]":
        """`make <command>`, to its end."""
        return self._run(self._line(command))

    def shell(self, line: str) -> "subprocess.CompletedProcess[str]":
        """A line in a shell that has loaded `.local/env`."""
        return self._run(["sh", "-c", f". .local/env && {line}"])

    def running(self) -> list[str]:
        """Command lines of living processes that belong to this folder's stack.

        Those that it remembers are among them: to root, Postgres is a system user's, with its data elsewhere.
        """
        remembered = {
            identity.pid for identity in State.load(self.local).processes.values() if identity.process()
        }
        found = []
        for process in psutil.process_iter():
            try:
                line, status = " ".join(process.cmdline()), process.status()
                mark = process.environ().get("GRANARY_LOCAL_STACK")
            except psutil.Error:
                continue
            mine = str(self.folder) in line or mark == str(self.local) or process.pid in remembered
            if mine and process.pid != os.getpid() and status != psutil.STATUS_ZOMBIE:
                found.append(line)
        return found

    def wait_until_nothing_runs(self) -> None:
        """Returns once all of it has ended."""
        wait_for(lambda: not self.running(), "nothing runs", seconds=20)

    def _line(self, command: str) -> list[str]:
        """The command line behind `make <command>`."""
        return [sys.executable, "-m", "local_stack", "--root", str(self.local), command]

    def _run(self, line: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            line,
            cwd=self.folder,
            env=self.environ,
            timeout=180,
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def project_in(folder: Path) -> Iterator[Project]:
    """A project there; what still runs afterwards is stopped and its data removed."""
    folder.mkdir()
    try:
        yield Project(folder)
    finally:
        Stack(folder / ".local", environ={}).remove_data()


@contextmanager
def running_dev(project: Project) -> Iterator["subprocess.Popen[str]"]:
    """`make dev`; it ends with the block, also where that fails."""
    started = project.start("dev")
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        started.wait(timeout=60)


def addresses(dev: "subprocess.Popen[str]") -> tuple[str, str]:
    """Where the UI and the door of a `make dev` are, once both answer."""
    assert dev.stdout is not None
    said: list[str] = []
    found: list[str] = []
    for line in dev.stdout:
        said.append(line)
        found += re.findall(r"http://\S+", line)
        if len(found) == 2:
            return found[0], found[1]
    raise AssertionError("make dev did not come up: " + "".join(said))
