"""A storm over one pipeline: runs killed at random, services that answer faults, Postgres restarted.

Knows no pipeline; what one is made of, and when it is in order, is its scene's affair. Two runs work at a
time, so that what a killed one had in hand is really taken over by another that lives. A run is a process
forked from one that has imported everything.

The database's clock goes forward by a tick whenever a run starts, as if a sensor had started it; so the waits
of the contracts (a minute, ten minutes of lease) cost no real time. p95 is in seconds of that clock: from the
death of a run to the final state of what it had in hand. Waits for ticks and all retries after faults are in
it; how long Dagster takes to see that a run is dead is not: here it is told at once.
"""

import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import connection as pipes
from multiprocessing import context, get_context

import psycopg

from benchmarks.rounds import percentile
from local_stack.postgres import EmbeddedPostgres
from resources.errors import ServiceUnavailable
from tests.chaos.clock import Clock
from tests.chaos.keeper import Keeper
from tests.chaos.scene import SCENES, Calls, Scene

WORKERS = 2
MOST_CALM_RUNS = 80
CALM_TICKS = 6
"""Between two undisturbed runs, so that leases and late retries are soon over."""
MOST_RUNS_A_KILL = 12
MOST_SECONDS_A_RUN = 300
"""Of real time: a run takes a few. One that hangs is ended and is a mistake."""
_MOST_TOLD = 20_000
"""Characters: the pipe takes about 64 KiB before somebody reads, which is after the run's end."""
_FAILED, _WRONG = 3, 4


@dataclass
class Report:
    """What came of a storm. `took`: seconds from each kill to each item's end, by kind of item."""

    kills: int = 0
    runs: int = 0
    failed: int = 0
    restarts: int = 0
    items: int = 0
    calls: Calls = field(default_factory=lambda: Calls(0, 0, 0))
    took: dict[str, list[float]] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def p95(self) -> dict[str, float]:
        """By kind of item; empty where no killed run had anything in hand."""
        return {kind: percentile(took, 95) for kind, took in sorted(self.took.items())}


@dataclass
class _Run:
    run_id: str
    process: "context.ForkServerProcess"
    told: "pipes.Connection[str, str]"
    started: float
    saw_restart: bool = False
    hung: bool = False


class Storm:
    """One storm; `run` gives the report. `tell` gets a line of progress now and then."""

    def __init__(
        self,
        scene: Scene,
        postgres: EmbeddedPostgres,
        database_url: str,
        *,
        kills: int,
        seed: int,
        restarts: int = 2,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._scene = scene
        self._postgres = postgres
        self._clock = Clock(database_url, scene.starts_at)
        self._wanted = kills
        self._seed = seed
        self._random = random.Random(seed)
        self._restart_after = [kills * (number + 1) // (restarts + 1) for number in range(restarts)]
        self._tell = tell
        self._fork = get_context("forkserver")
        self._fork.set_forkserver_preload([f"tests.chaos.{name}" for name in SCENES])
        self._runs: list[_Run] = []
        self._keepers: list[Keeper] = []
        self._in_hand: dict[str, list[datetime]] = {}
        self._report = Report()

    def run(self) -> Report:
        """Kills, settles down and judges; Postgres is shut down then. Mistakes are told, not raised."""
        try:
            self._rage()
            self._settle_down()
            self._judge()
        finally:
            for one in self._runs:
                one.process.kill()
                one.process.join()
            for keeper in self._keepers:
                keeper.let_go()
        return self._report

    def _judge(self) -> None:
        report = self._report
        report.mistakes += self._scene.judge()
        lost = sorted(self._in_hand)
        if lost:
            report.mistakes.append(f"never ended after a kill: {', '.join(lost[:10])} ({len(lost)} in all)")
        report.items, report.calls = self._scene.items(), self._scene.calls()

    def _rage(self) -> None:
        self._scene.blow(self._seed)
        while self._report.kills < self._wanted or not self._took_something_away():
            if self._report.runs > MOST_RUNS_A_KILL * self._wanted:
                self._report.mistakes.append(
                    f"{self._report.kills} of {self._report.runs} runs died, {self._wanted} were wanted"
                    + ("" if self._took_something_away() else "; none of them had anything in hand")
                )
                break
            while len(self._runs) < WORKERS:
                self._start(is_armed=True)
            due = self._restart_after[self._report.restarts :]
            if due and self._report.kills >= due[0]:
                self._restart_postgres()
            self._wait()
        self._scene.calm()
        while self._runs:
            self._wait()

    def _took_something_away(self) -> bool:
        """Whether a run that ended badly had something in hand.

        Which of its calls is fatal is drawn, but what it holds by then depends on its neighbour: a few kills
        may all fall between two claims, and such a storm would show nothing of what is taken over.
        """
        return bool(self._in_hand or self._report.took)

    def _settle_down(self) -> None:
        """Undisturbed runs, one after the other, until nothing waits."""
        for number in range(MOST_CALM_RUNS):
            self._scene.calm()
            waiting = self._scene.waiting()
            if not waiting:
                break
            if number % 10 == 0:
                self._tell(f"{self._scene.name}: waits after {number} undisturbed runs: {'; '.join(waiting)}")
            self._start(is_armed=False)
            while self._runs:
                self._wait()
        self._look_for_ends()
        self._report.mistakes += [f"still waits: {one}" for one in self._scene.waiting()]

    def _start(self, is_armed: bool) -> None:
        self._report.runs += 1
        number = self._report.runs
        self._clock.forward(self._scene.tick_seconds * (1 if is_armed else CALM_TICKS))
        if is_armed:
            self._scene.add_work(number)
        told, tells = self._fork.Pipe(duplex=False)
        seed = self._seed * 100_000 + number if is_armed else None
        run_id = f"storm-{self._seed}-{number}"
        args = (self._scene, run_id, number if is_armed else 0, seed, tells)
        process = self._fork.Process(target=_work, args=args)
        process.start()
        tells.close()
        self._runs.append(_Run(run_id, process, told, time.monotonic()))

    def _wait(self) -> None:
        """Until a run ends, or for a moment; then looks what has come to its end."""
        pipes.wait([one.process.sentinel for one in self._runs], timeout=0.2)
        for one in self._runs:
            if not one.hung and time.monotonic() - one.started > MOST_SECONDS_A_RUN:
                one.hung = True
                self._report.mistakes.append(f"{one.run_id} hung and was ended")
                one.process.kill()
        for one in [one for one in self._runs if one.process.exitcode is not None]:
            self._runs.remove(one)
            self._ended(one)
        self._look_for_ends()

    def _ended(self, one: _Run) -> None:
        report, code = self._report, one.process.exitcode
        said = _last_words(one.told)
        if code == 0:
            return
        if one.hung:
            report.failed += 1
        elif code == -signal.SIGKILL:
            report.kills += 1
            if report.kills % 10 == 0:
                self._tell(f"{self._scene.name}: {report.kills} kills in {report.runs} runs")
        else:
            report.failed += 1
            if code != _FAILED and not (one.saw_restart and said.startswith("postgres")):
                report.mistakes.append(f"{one.run_id} ended with {code}: {said}")
        died_at = self._clock.now()
        for held in self._scene.held(one.run_id):
            self._in_hand.setdefault(held, []).append(died_at)
        self._scene.release(one.run_id)

    def _look_for_ends(self) -> None:
        if not self._in_hand:
            return
        now = self._clock.now()
        for item in self._scene.done(set(self._in_hand)):
            took = self._report.took.setdefault(item.partition(":")[0], [])
            took += [(now - died_at).total_seconds() for died_at in self._in_hand.pop(item)]

    def _restart_postgres(self) -> None:
        """While the runs are in the middle of something; every first time as after a crash."""
        pipes.wait([one.process.sentinel for one in self._runs], timeout=self._random.uniform(0.1, 0.8))
        for one in self._runs:
            one.saw_restart = True
        after_a_crash = self._report.restarts % 2 == 0
        self._keepers.append(Keeper(self._fork, self._postgres, after_a_crash))
        self._report.restarts += 1


def postgres_is_gone(error: BaseException | None) -> bool:
    """Whether the error, or one that led to it, says that the server went away; a deadlock does not."""
    while error is not None:
        if isinstance(error, ServiceUnavailable):
            return True
        if isinstance(error, psycopg.OperationalError) and (error.sqlstate or "57P")[:3] in ("57P", "080"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _last_words(told: "pipes.Connection[str, str]") -> str:
    """Empty where the run was killed."""
    with told:
        try:
            return told.recv()
        except EOFError:
            return ""


def _work(
    scene: Scene, run_id: str, number: int, seed: int | None, tells: "pipes.Connection[str, str]"
) -> None:
    """A run's process. It leaves without waiting for its threads; what it logs of the faults is not shown."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        if seed is not None:
            scene.arm(seed)
        scene.work(run_id, number)
    except BaseException as error:
        told = traceback.format_exc()[-_MOST_TOLD:]
        tells.send(f"postgres is gone: {told}" if postgres_is_gone(error) else told)
        os._exit(_FAILED if scene.may_fail_with(error) else _WRONG)
    os._exit(0)
