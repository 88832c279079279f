"""The local stack as a whole: starts what is not running, waits until it answers, stops it again."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from local_stack import environment, ports, processes
from local_stack.errors import StackError
from local_stack.interruptions import Interruption
from local_stack.postgres import STOP_SIGNAL as POSTGRES_STOP_SIGNAL
from local_stack.postgres import EmbeddedPostgres
from local_stack.processes import Identity
from local_stack.services import NAMES, Service, Services, log_file, without_secrets
from local_stack.state import Secrets, State, exclusive, write_private

_READY_SECONDS = 30

RUNNING, STOPPED, SILENT, EXTERNAL = "running", "stopped", "not answering", "external"


@dataclass(frozen=True)
class ServiceStatus:
    """One service as it is now; `seconds` from launch to answer if it was started just now."""

    name: str
    state: str
    address: str
    pid: int | None = None
    seconds: float | None = None


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


class Stack:
    """The services whose data live in `root`, `<project>/.local`.

    As a context manager it starts them and, however the block ends, stops those it has started
    itself. With `die_with_parent` the kernel ends them even if this process is killed (Linux).
    `environ` decides which services are external; `say` gets what the user must know.
    """

    def __init__(
        self,
        root: Path,
        *,
        die_with_parent: bool = False,
        environ: Mapping[str, str] | None = None,
        say: Callable[[str], None] = _warn,
    ) -> None:
        self.root = root.absolute()
        self._die_with_parent = die_with_parent
        self._environ = dict(os.environ if environ is None else environ)
        self._say = say
        self._interruption = Interruption()
        self._started_here: dict[str, subprocess.Popen[bytes]] = {}
        self._entered = ExitStack()

    def __enter__(self) -> "Stack":
        with ExitStack() as entering:
            entering.enter_context(self._interruption)
            self.start()
            self._entered = entering.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._entered, self._interruption.held():
            self.stop(list(self._started_here))

    def start(self) -> list[ServiceStatus]:
        """Starts what is not running; when it returns, every service answers and `.local/env` is written.

        Raises StackError naming the service, its log and the remedy. Whatever goes wrong, and
        also when a signal interrupts it, the services it has started are stopped again.
        """
        self._make_root()
        with self._interruption, exclusive(self.root):
            state = State.load(self.root)
            external = self.external()
            embedded = [name for name in NAMES if name not in external]
            if leaving := [name for name in embedded if state.is_leaving(name)]:
                # As a killed `make demo` leaves them: told to end by the kernel, which may take them seconds.
                self._stop(state, leaving)
            running = {name for name in embedded if state.process(name)}
            self._choose_ports(state, [name for name in embedded if name not in running])
            services = Services(self.root, state.ports)
            try:
                launched_at: dict[str, float] = {}
                for name in embedded:
                    if name not in running:
                        launched_at[name] = self._launch(services[name], state)
                    elif name in state.dies_with and not self._die_with_parent:
                        self._say(f"{name} belongs to process {state.dies_with[name].pid} and ends with it")
                seconds = self._wait_until_ready([services[name] for name in embedded], state, launched_at)
                self._write_env()
            except BaseException:
                with self._interruption.held():
                    self._stop(state, [name for name in embedded if name not in running])
                raise
        addresses = self.addresses()
        return [
            ServiceStatus(name, EXTERNAL, addresses[name])
            if name in external
            else ServiceStatus(name, RUNNING, addresses[name], state.processes[name].pid, seconds.get(name))
            for name in sorted(NAMES)
        ]

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops these services, or all of them, whoever started them; the names of those that ran."""
        if not self.root.exists():
            return []
        with exclusive(self.root), self._interruption.held():
            state = State.load(self.root)
            return self._stop(state, sorted(state.processes) if names is None else list(names))

    def status(self) -> list[ServiceStatus]:
        """Every service as it is now; those said to run have just answered."""
        if not self.root.exists():
            return [ServiceStatus(name, STOPPED, "") for name in sorted(NAMES)]
        state, external, addresses = State.load(self.root), self.external(), self.addresses()
        services = Services(self.root, state.ports)
        found = []
        for name in sorted(NAMES):
            address = addresses.get(name, "")
            if name in external:
                found.append(ServiceStatus(name, EXTERNAL, address))
            elif identity := state.process(name):
                answers = _failure_of(services[name], identity) is None
                found.append(ServiceStatus(name, RUNNING if answers else SILENT, address, identity.pid))
            else:
                found.append(ServiceStatus(name, STOPPED, address))
        return found

    def external(self) -> dict[str, str]:
        """The services that the environment brings along, each with the variable that says so."""
        own = self._own_variables()
        return environment.external_services(self._environ, own, self.root)

    def addresses(self) -> dict[str, str]:
        """A URL without secrets for every service whose address is known."""
        services = Services(self.root, State.load(self.root).ports)
        found = {name: services[name].address for name in NAMES if name in services}
        for name, variable in self.external().items():
            urls = [self._environ.get(trigger, "") for trigger in environment.TRIGGERS[name]]
            found[name] = next(filter(None, map(without_secrets, urls)), f"from {variable}")
        return found

    def environment(self) -> dict[str, str]:
        """The variables that lead other programs to the embedded services, as `.local/env` holds them.

        What the caller's environment brings along is not in it. Raises StackError before the first start.
        """
        services, external = Services(self.root, State.load(self.root).ports).variables(), self.external()
        variables = environment.general_variables(self.root, Secrets.load(self.root))
        for name in NAMES:
            if name not in external:
                if name not in services:
                    raise StackError(f"{name}: it was never started. Run `python -m local_stack up`.")
                variables |= services[name]
        if "postgres" in external and not self._environ.get("DAGSTER_PG_URL"):
            variables["DAGSTER_PG_URL"] = environment.dagster_url(self._environ["DATABASE_URL"])
        return environment.marked(variables, self.root)

    def process_environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """A whole environment for a subprocess: `base`, by default the caller's, with these variables."""
        return environment.merged(self._environ if base is None else base, self.environment(), self.root)

    def remove_data(self) -> None:
        """Stops the services and deletes all they keep, wherever it lies, and nothing else."""
        if not self.root.exists():
            return
        self.stop()
        with exclusive(self.root):
            EmbeddedPostgres(self.root / "postgres", log=log_file(self.root, "postgres")).remove()
            for name in (*NAMES, "logs", "dagster"):
                shutil.rmtree(self.root / name, ignore_errors=True)
            for name in ("env", "stack.json", "secrets.json", "lock"):
                (self.root / name).unlink(missing_ok=True)
        if not any(self.root.iterdir()):
            self.root.rmdir()

    def _make_root(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # The system user that runs Postgres for root must be able to pass through.
        self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in ("logs", "dagster"):
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    def _choose_ports(self, state: State, names: Iterable[str]) -> None:
        for name in names:
            remembered = state.ports.get(name)
            if remembered is None or not ports.becomes_free(remembered):
                state.ports[name] = ports.choose(state.ports.values())
            if remembered not in (None, state.ports[name]):
                self._say(
                    f"NOTE: port {remembered} of {name} is taken by another program, so it moves to"
                    f" {state.ports[name]}. Source {self.root / 'env'} again where you had."
                )
        state.save()

    def _launch(self, service: Service, state: State) -> float:
        service.prepare()
        now = time.monotonic()
        log = log_file(self.root, service.name)
        with self._interruption.held():  # or a process could run that nobody knows of
            process = processes.launch(service.command(), log, self._die_with_parent)
            self._started_here[service.name] = process
            state.processes[service.name] = Identity.of(process.pid)
            state.dies_with.pop(service.name, None)
            if self._die_with_parent:
                state.dies_with[service.name] = Identity.of(os.getpid())
            state.save()
        return now

    def _wait_until_ready(
        self, services: Iterable[Service], state: State, launched_at: Mapping[str, float]
    ) -> dict[str, float]:
        """Seconds from launch to answer. Raises StackError for the first that ends or takes too long."""
        waiting = {service.name: service for service in services}
        seconds: dict[str, float] = {}
        deadline = time.monotonic() + _READY_SECONDS
        while waiting:
            for name, service in list(waiting.items()):
                identity = state.processes[name]
                failure = _failure_of(service, identity)
                if failure is None:
                    self._furnish(service)
                    if name in launched_at:
                        seconds[name] = time.monotonic() - launched_at[name]
                    del waiting[name]
                elif identity.process() is None:
                    raise self._error(name, "ended instead of answering")
                elif time.monotonic() > deadline:
                    raise self._error(name, f"does not answer within {_READY_SECONDS} s ({failure})")
            time.sleep(0.01)
        return seconds

    def _furnish(self, service: Service) -> None:
        try:
            service.furnish()
        except Exception as error:
            raise self._error(service.name, f"answers, but cannot be set up ({error})") from error

    def _error(self, name: str, what: str) -> StackError:
        log = log_file(self.root, name)
        return StackError(
            f"{name} {what}. The end of its log {log}:\n{processes.last_lines(log)}\n"
            "Mend what it names, then run `python -m local_stack down` and `python -m local_stack up`;"
            " `make clean` starts afresh and deletes the local data."
        )

    def _write_env(self) -> None:
        write_private(self.root / "env", environment.as_shell(self.environment()))

    def _own_variables(self) -> dict[str, str]:
        by_service = Services(self.root, State.load(self.root).ports).variables()
        return {name: value for variables in by_service.values() for name, value in variables.items()}

    def _stop(self, state: State, names: Iterable[str]) -> list[str]:
        alive = {name: identity for name in names if (identity := state.process(name))}
        stop_signals = {"postgres": POSTGRES_STOP_SIGNAL}
        processes.stop(
            {name: (identity, stop_signals.get(name, signal.SIGTERM)) for name, identity in alive.items()}
        )
        for name in names:
            state.processes.pop(name, None)
            state.dies_with.pop(name, None)
            if process := self._started_here.pop(name, None):
                process.wait()
        state.save()
        return list(alive)


def _failure_of(service: Service, identity: Identity) -> str | None:
    """Why the service is not ready; None if its own process listens on its port and answers."""
    process = identity.process()
    if process is None:
        return "its process ended"
    if processes.listens(process, service.port) is False:
        return f"its process does not listen on port {service.port}"
    try:
        service.check()
    except Exception as error:  # each client library has its own
        return f"{type(error).__name__}: {error}"
    return None
