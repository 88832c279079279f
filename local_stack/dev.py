"""`make dev`: the services, Dagster with schedules and sensors on, its UI and the HTTP door, until Ctrl-C."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local_stack import loopback_http, ports, processes
from local_stack.errors import StackError
from local_stack.migrate import migrate
from local_stack.stack import Stack

UI_PORT, DOOR_PORT = 3000, 8787
DAGSTER = ("dagster", "dev", "-w", "workspace.yaml")
# A busy machine takes long to import everything three times; whatever ends by itself is seen at once.
ANSWERS_WITHIN_SECONDS = 300
STILL_STARTING_SECONDS = 30
STOPS_WITHIN_SECONDS = 20


def dev(root: Path) -> int:
    """0 after Ctrl-C. Raises StackError where Dagster or the door does not come up or ends by itself.

    Services that ran before (`make up`) go on running afterwards.
    """
    with Stack(root, die_with_parent=True) as stack:
        migrate(stack)
        environ = stack.process_environment()
        ui, door, host = _free_from(UI_PORT), _free_from(DOOR_PORT), ports.LOOPBACK
        started: list[_Program] = []
        print("starting Dagster and the HTTP door, about 15 s ...", flush=True)
        try:
            for name, port, ready_path, log, arguments in (
                ("the HTTP door", door, "/healthz", "api", ["api", "--host", host, "--port", str(door)]),
                ("Dagster", ui, "/server_info", "dagster", [*DAGSTER, "-h", host, "-p", str(ui)]),
            ):
                command = processes.Command([sys.executable, "-m", *arguments], environ)
                file = root / "logs" / f"{log}.log"
                started.append(_Program(name, port, ready_path, file, processes.launch(command, file)))
            _wait_until_all_answer(started)
            print(f"\n  the UI    http://{host}:{ui}\n  the door  http://{host}:{door}")
            print(f"  the logs  {root / 'logs'}\n  Ctrl-C stops everything\n", flush=True)
            while True:
                time.sleep(0.5)
                for program in started:
                    program.check_alive("ended by itself")
        except KeyboardInterrupt:
            return 0
        finally:
            for program in started:
                program.stop()


@dataclass(frozen=True)
class _Program:
    """A program that serves HTTP on a loopback port, in a session of its own.

    So the terminal's Ctrl-C reaches us alone, and we pass it on once.
    """

    name: str
    port: int
    ready_path: str
    log: Path
    process: "subprocess.Popen[bytes]"

    def check_alive(self, otherwise: str) -> None:
        if self.process.poll() is not None:
            raise StackError(
                f"{self.name} {otherwise}. The end of {self.log}:\n{processes.last_lines(self.log)}"
            )

    def answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            loopback_http.expect_ok(self.port, self.ready_path)
            return True
        return False

    def stop(self) -> None:
        """Asks the whole group, and ends what has not ended after a while."""
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, number)
                self.process.wait(STOPS_WITHIN_SECONDS)


def _free_from(first: int) -> int:
    """The first free port of a hundred, else any."""
    return next(filter(ports.is_free, range(first, first + 100)), None) or ports.choose()


def _wait_until_all_answer(programs: Sequence[_Program]) -> None:
    deadline = time.monotonic() + ANSWERS_WITHIN_SECONDS
    says_so_at = time.monotonic() + STILL_STARTING_SECONDS
    waiting = list(programs)
    while waiting:
        for program in programs:
            program.check_alive("ended instead of starting")
        waiting = [program for program in waiting if not program.answers()]
        if waiting and time.monotonic() > deadline:
            raise StackError(
                f"{waiting[0].name} does not answer on port {waiting[0].port} within "
                f"{ANSWERS_WITHIN_SECONDS} s: {waiting[0].log}"
            )
        if waiting and time.monotonic() > says_so_at:
            print(f"{waiting[0].name} is still starting ...", flush=True)
            says_so_at += STILL_STARTING_SECONDS
        time.sleep(0.2)
