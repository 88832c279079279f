"""What the measurements share: a folder, the local stack in it, databases, processes, and progress."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from psycopg import sql

from benchmarks.running_dagster import RunningDagster
from local_stack.environment import DIGESTS, MARK
from local_stack.interruptions import Interruption
from local_stack.migrate import migrate
from local_stack.processes import PROJECT
from local_stack.stack import Stack

TEMPLATE = "bench_template"


class Bench:
    """A place of its own below `.local`, with services on free ports; all of it is gone afterwards.

    Settings of the caller's shell do not count: what is measured is what the project ships.
    """

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self._templates: set[str] = set()
        self._entered = ExitStack()

    def __enter__(self) -> "Bench":
        with ExitStack() as entering:
            entering.enter_context(Interruption())
            below = PROJECT / ".local"
            below.mkdir(mode=0o711, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix="bench-", dir=below))
            self.folder.chmod(0o711)  # Postgres, run by a user of its own, must pass through
            entering.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._entered = entering.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.close()

    def size(self, full: int, quick: int) -> int:
        """How many: fewer for trying out."""
        return quick if self.quick else full

    def say(self, what: str) -> None:
        """Progress, on stderr."""
        print(f"  {time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)

    @cached_property
    def stack(self) -> Stack:
        """The running local stack: durable Postgres, stand-ins in processes of their own."""
        self.say("starting the local stack")
        home = self.home("stack")
        stack = Stack(home / ".local", die_with_parent=True, environ=shipped_environment())
        # Not entered: its handling of signals is ours already, and the data go with the folder.
        self._entered.callback(stack.remove_data)
        stack.start()
        migrate(stack)
        _copy_database(stack, TEMPLATE, "granary")
        return stack

    @cached_property
    def dagster(self) -> RunningDagster:
        """Daemon, code server and UI over the stack; nothing in it runs by itself yet."""
        self.say("starting Dagster")
        # As for a real site: the stand-in alone would be asked without any pause.
        polite = {
            "CRAWL_MIN_INTERVAL_MS": "1000",
            "CRAWL_SLEEP_MIN_MS": "250",
            "CRAWL_SLEEP_MAX_MS": "700",
            "GRANARY_PIPELINES": "",
        }
        environ = {**self.stack.process_environment(), **polite}
        dagster = RunningDagster(environ, self.folder / "dagster.log")
        self._entered.callback(dagster.stop)
        dagster.start()
        return dagster

    def home(self, name: str) -> Path:
        """A new DAGSTER_HOME with the project's dagster.yaml."""
        home = self.folder / name
        home.mkdir(mode=0o711)
        shutil.copy(PROJECT / "dagster.yaml", home)
        return home

    def database(self, name: str, like: str = TEMPLATE) -> str:
        """The address of a new database, a copy of a migrated, empty one or of another that nobody uses."""
        _copy_database(self.stack, name, like)
        return _address(self.stack, name)

    def template(self, name: str, fill: Callable[[psycopg.Connection], None]) -> None:
        """Makes and fills a database that others are copies of, unless it was made before."""
        if name not in self._templates:
            with psycopg.connect(self.database(name), autocommit=True) as connection:
                fill(connection)
            self._templates.add(name)

    def service(self, variable: str) -> str:
        """The address of a service without a path, by the variable that leads to it."""
        return self.stack.environment()[variable].removesuffix("/v1")

    def control(self, variable: str, what: str, **body: Any) -> Any:
        """Posts to a stand-in's `/_control` route; its JSON."""
        answer = httpx.post(
            f"{self.service(variable)}/_control/{what}", json=body, timeout=30, trust_env=False
        )
        return answer.raise_for_status().json()

    def child(self, module: str, **arguments: Any) -> dict[str, Any]:
        """What a module run in a process of its own prints as its last line. Raises where it fails."""
        done = subprocess.run(
            [sys.executable, "-m", module, json.dumps(arguments)],
            cwd=PROJECT,
            # What an interrupted one leaves goes with the folder.
            env=shipped_environment() | {"TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def shipped_environment() -> dict[str, str]:
    """The caller's environment without any setting of the project, and without Dagster's own.

    Nor what keeps Python from keeping what it has compiled: every process would do that again.
    """
    settings = re.findall(r"^#?([A-Z][A-Z0-9_]+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE)
    ours = {*settings, "DATABASE_URL", "DAGSTER_PG_URL", "DAGSTER_HOME", "DAGSTER_FILES", MARK, DIGESTS}
    foreign = ("PG", "DAGSTER_", "PYTHONDONTWRITEBYTECODE")
    return {
        name: value for name, value in os.environ.items() if name not in ours and not name.startswith(foreign)
    }


def _copy_database(stack: Stack, name: str, like: str) -> None:
    # Copying files leaves the log to what is measured; the default copies page by page through it.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(_address(stack, "postgres"), autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(like)))


def _address(stack: Stack, database: str) -> str:
    return urlunsplit(urlsplit(stack.environment()["DATABASE_URL"])._replace(path=f"/{database}"))
