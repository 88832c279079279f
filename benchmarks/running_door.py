"""The HTTP door as a process of its own: `python -m api` on a free port of loopback."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_stack import loopback_http, ports, processes

STARTS_WITHIN_SECONDS = 60
STOPS_WITHIN_SECONDS = 20


@dataclass(frozen=True)
class Door:
    """Where it answers, and the token of its internal routes."""

    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://{ports.LOOPBACK}:{self.port}"


@contextmanager
def running_door(environ: Mapping[str, str], log: Path) -> Iterator[Door]:
    """The door by this environment, which answers when the block begins. Raises RuntimeError."""
    port = ports.choose()
    where = ["--host", ports.LOOPBACK, "--port", str(port)]
    command = processes.Command([sys.executable, "-m", "api", *where], environ)
    process = processes.launch(command, log, die_with_parent=True)
    try:
        _wait_until_it_answers(process, port, log)
        yield Door(port, environ["API_TOKEN"])
    finally:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(STOPS_WITHIN_SECONDS)


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            loopback_http.expect_ok(port, "/healthz")
            return
        time.sleep(0.1)
    raise RuntimeError(f"the door does not answer:\n{processes.last_lines(log)}")
