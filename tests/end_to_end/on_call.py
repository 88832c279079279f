"""The person on call: reads docs/runbook.md, runs its blocks as they stand, and sees what the stack says."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import httpx
import psycopg
import pytest

from local_stack.ports import choose
from local_stack.postgres_account import installed_binaries
from local_stack.stack import Stack
from orchestration.definitions import build_definitions
from orchestration.partitions import news_range_tags
from orchestration.settings import settings_from_environment
from tests.end_to_end.project import ROOT, Project, wait_for
from tests.integration.stand_ins import StandIn

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SECONDS = 300
_BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"^> ?(.*)$", re.MULTILINE)


class Runbook:
    """The blocks and the quoted alarms below each heading, and which blocks were run."""

    def __init__(self, path: Path = ROOT / "docs" / "runbook.md") -> None:
        parts = re.split(r"^## (.+)$", path.read_text("utf-8"), flags=re.MULTILINE)
        self._texts = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
        self.was_run: set[tuple[str, int]] = set()

    @property
    def headings(self) -> list[str]:
        return [heading for heading in self._texts if heading]

    def blocks(self, heading: str) -> list[str]:
        """What its fenced `sh` blocks hold, not indented; "" is what stands before all headings."""
        found = _BLOCK.findall(self._texts[heading])
        return [
            textwrap.dedent(f"{indent}{body}" if not body[:1].isspace() else body) for indent, body in found
        ]

    def not_run(self) -> list[tuple[str, int]]:
        """The blocks that nobody has run."""
        every = {(heading, n) for heading in self._texts for n in range(len(self.blocks(heading)))}
        return sorted(every - self.was_run)

    def alarm(self, heading: str, cause: str) -> list[str]:
        """What it quotes of the alarm: the pieces between its omissions."""
        quoted = [line for line in _QUOTED.findall(self._texts[heading]) if line.startswith(f"{cause}:")]
        assert quoted, f"{heading} quotes no alarm {cause}"
        return [piece for piece in quoted[0].split("…") if piece.strip()]


class OnCall:
    """One stack with its door; jobs and ticks run in this process, against the stack's own Dagster."""

    def __init__(self, project: Project, variables: Mapping[str, str]) -> None:
        self.project = project
        self.variables = variables
        self.api = f"http://127.0.0.1:{choose()}"
        self.book = Runbook()
        self._door: subprocess.Popen[bytes] | None = None
        self._built: dict[str, dg.Definitions] = {}
        self.openai = StandIn(variables["OPENAI_BASE_URL"].removesuffix("/v1"))
        self.site = StandIn(variables["NAVER_BASE_URL"])

    def opens_door(self) -> None:
        """Serves `python -m api`; returns when it answers."""
        self._door = subprocess.Popen(
            [sys.executable, "-m", "api", "--port", self.api.rpartition(":")[2]],
            cwd=self.project.folder,
            env={**os.environ, **self.variables},
        )
        wait_for(lambda: _answers(self.api), "the door answers", seconds=120)

    def closes_door(self) -> None:
        """Ends it, if it is open."""
        if self._door is not None:
            self._door.terminate()
            self._door.wait(timeout=30)

    def does(self, heading: str, number: int, **names: object) -> str:
        """What the block prints, run as it stands with these names set."""
        block = self.book.blocks(heading)[number]
        # A machine's own pg_dump may be older than the server, and refuses it.
        path = os.pathsep.join([str(installed_binaries() / "bin"), self.project.environ["PATH"]])
        environ = {**self.project.environ, "PATH": path, "API": self.api} | {
            name: str(value) for name, value in names.items()
        }
        done = subprocess.run(
            ["sh", "-eu", "-c", f". .local/env\n{block}"],
            cwd=self.project.folder,
            env=environ,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        self.book.was_run.add((heading, number))
        return done.stdout + done.stderr

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows, if it has any."""
        with psycopg.connect(self.variables["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def one(self, statement: str, *parameters: object) -> Any:
        """The first value of the first row."""
        return self.sql(statement, *parameters)[0][0]

    def runs(
        self,
        job: str,
        tags: Mapping[str, str] | None = None,
        partition: str | None = None,
        ops: Mapping[str, Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> bool:
        """Whether a run of the job succeeded, under these settings."""
        config = {**QUIET, "ops": {name: {"config": dict(given)} for name, given in (ops or {}).items()}}
        found = self._definitions(settings).resolve_job_def(job)
        with dg.DagsterInstance.get() as instance:
            done = found.execute_in_process(
                instance=instance,
                partition_key=partition,
                tags=dict(tags or {}),
                run_config=config,
                raise_on_error=False,
            )
        return done.success

    def crawls(self, day: date, section: str, mode: str = "live") -> bool:
        """A pass over one section of a day."""
        ops = {"economy_articles": {"mode": mode}}
        return self.runs("economy_news_crawl", news_range_tags(day, [section]), ops=ops)

    def enriches(self, day: date, section: str, **settings: Any) -> bool:
        """What waits of one section of a day is asked."""
        return self.runs("economy_news_enrich", news_range_tags(day, [section]), **settings)

    def tick(self, sensor: str, **settings: Any) -> Sequence[dg.RunRequest]:
        """The runs that the sensor's next tick asks for."""
        found = self._definitions(settings)
        with (
            dg.DagsterInstance.get() as instance,
            dg.build_sensor_context(
                instance=instance, resources=found.resources, repository_def=found.get_repository_def()
            ) as context,
        ):
            said: Any = found.resolve_sensor_def(sensor)(context)
            if isinstance(said, dg.SensorResult):
                return said.run_requests or []
            told = [said] if isinstance(said, (dg.RunRequest, dg.SkipReason)) else list(said or ())
        return [one for one in told if isinstance(one, dg.RunRequest)]

    def sees(self, heading: str, cause: str) -> None:
        """Fails unless the alarm stands and says what the runbook quotes."""
        rows = self.sql(
            "SELECT cause || ': ' || message FROM granary.alert WHERE cause = %s AND cleared_at IS NULL",
            cause,
        )
        assert rows, f"{cause} does not stand; {self.standing()} do"
        rest = rows[0][0]
        for piece in self.book.alarm(heading, cause):
            assert piece in rest, f"{piece!r} is not in {rows[0][0]!r}"
            rest = rest.partition(piece)[2]

    def standing(self) -> set[str]:
        """The causes that stand."""
        return {cause for (cause,) in self.sql("SELECT cause FROM granary.alert WHERE cleared_at IS NULL")}

    def metrics(self) -> str:
        """What /metrics says."""
        token = {"Authorization": f"Bearer {self.variables['API_TOKEN']}"}
        return httpx.get(f"{self.api}/metrics", headers=token, timeout=30).raise_for_status().text

    def jobs(self, day: date, section: str) -> dict[str, int]:
        """AI jobs by status."""
        return dict(
            self.sql(
                "SELECT status, count(*) FROM news.ai_job WHERE day = %s AND section = %s GROUP BY status",
                day,
                section,
            )
        )

    def _definitions(self, changed: Mapping[str, Any]) -> dg.Definitions:
        """Kept, since a graph of assets takes half a second to resolve."""
        key = repr(sorted(changed.items()))
        if key not in self._built:
            settings = settings_from_environment(datetime.now(ZoneInfo("Asia/Seoul")).date())
            self._built[key] = build_definitions(settings.model_copy(update=dict(changed)))
        return self._built[key]


@contextmanager
def on_call(project: Project) -> Iterator[OnCall]:
    """The stack is up, its door is open, and this process has its environment."""
    started = project.make("up")
    assert started.returncode == 0, started.stderr
    variables = Stack(project.local, environ=project.environ).environment()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        found = OnCall(project, variables)
        found.opens_door()
        try:
            yield found
        finally:
            found.closes_door()


def _answers(api: str) -> bool:
    try:
        return httpx.get(f"{api}/readyz", timeout=5).is_success
    except httpx.TransportError:
        return False
