"""`make dev`: the services, Dagster's daemon and its UI with schedules and sensors on, until Ctrl-C."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from local_stack import loopback_http, ports, processes
from local_stack.errors import StackError
from local_stack.migrate import migrate
from local_stack.stack import Stack

UI_PORT = 3000
ANSWERS_WITHIN_SECONDS = 90
STOPS_WITHIN_SECONDS = 20


def dev(root: Path) -> int:
    """0 after Ctrl-C. Raises StackError where Dagster does not come up or ends by itself.

    Services that ran before (`make up`) go on running afterwards.
    """
    with Stack(root, die_with_parent=True) as stack:
        migrate(stack)
        environ = stack.process_environment()
        port = UI_PORT if ports.is_free(UI_PORT) else ports.choose([])
        log = root / "logs" / "dagster.log"
        print("starting Dagster, about 15 s ...", flush=True)
        command = ["-m", "dagster", "dev", "-w", "workspace.yaml", "-h", ports.LOOPBACK, "-p", str(port)]
        # In a session of its own: the terminal's Ctrl-C reaches us alone, and we pass it on once.
        dagster = processes.launch(processes.Command([sys.executable, *command], environ), log)
        try:
            _wait_for_ui(dagster, port, log)
            print(f"\n  the UI    http://{ports.LOOPBACK}:{port}\n  the log   {log}")
            print("  Ctrl-C stops everything\n", flush=True)
            dagster.wait()
            raise StackError(f"Dagster ended by itself. The end of {log}:\n{processes.last_lines(log)}")
        except KeyboardInterrupt:
            return 0
        finally:
            _stop(dagster)


def _wait_for_ui(dagster: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + ANSWERS_WITHIN_SECONDS
    while time.monotonic() < deadline:
        if dagster.poll() is not None:
            raise StackError(
                f"Dagster ended instead of starting. The end of {log}:\n{processes.last_lines(log)}"
            )
        with contextlib.suppress(OSError, http.client.HTTPException):
            loopback_http.expect_ok(port, "/server_info")
            return
        time.sleep(0.2)
    raise StackError(f"Dagster's UI does not answer on port {port} within {ANSWERS_WITHIN_SECONDS} s: {log}")


def _stop(dagster: "subprocess.Popen[bytes]") -> None:
    """Asks the whole group, and ends what has not ended after a while."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(dagster.pid, number)
            dagster.wait(STOPS_WITHIN_SECONDS)
