"""Starting, recognising and stopping the processes of the services."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

PROJECT = Path(__file__).resolve().parent.parent

_PR_SET_PDEATHSIG = 1
_LOG_LIMIT = 10_000_000


@dataclass(frozen=True)
class Account:
    """A system user a process runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Command:
    """How a service is started and asked to stop."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None


@dataclass(frozen=True)
class Identity:
    """A process for good: a pid alone may belong to somebody else tomorrow.

    `created` is in seconds since the epoch, as psutil gives it.
    """

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> "Identity":
        return cls(pid, psutil.Process(pid).create_time())

    def process(self) -> psutil.Process | None:
        """The living process, or None if it ended, is a zombie, or the pid was given to another."""
        try:
            process = psutil.Process(self.pid)
            # psutil derives the time from the boot time, which clock corrections move by a second.
            if abs(process.create_time() - self.created) > 2 or process.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.NoSuchProcess:
            return None
        return process


def launch(command: Command, log: Path, die_with_parent: bool = False) -> "subprocess.Popen[bytes]":
    """Starts the command in its own session, with its output appended to `log` (mode 0600).

    With `die_with_parent` the kernel sends it the stop signal when the calling *thread* ends,
    however it ends (Linux; elsewhere it does nothing). So call it from a thread that lives on.
    """
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    account = command.account
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            list(command.arguments),
            env=dict(command.environment),
            cwd="/" if account else PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            preexec_fn=_follow_parent(command.stop_signal) if die_with_parent else None,
        )
    finally:
        os.close(output)


def _follow_parent(stop_signal: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, int(stop_signal))
        if os.getppid() != parent:  # it ended before the kernel was told
            os._exit(1)

    return follow


def tree(process: psutil.Process) -> list[psutil.Process]:
    """The process and its descendants, as far as they still live."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def listens(process: psutil.Process, port: int) -> bool | None:
    """Whether the process itself, or a child of it, listens on the port; None if that is not for us to see.

    An answer alone proves nothing: another server may have the port, and ours live on without it.
    """
    for member in tree(process):
        try:
            for connection in member.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return True
        except psutil.AccessDenied:
            return None
        except psutil.NoSuchProcess:
            continue
    return False


def stop(targets: Mapping[str, tuple[Identity, signal.Signals]], patience_seconds: float = 10) -> None:
    """Signals all targets at once and waits for their end; what is left then is killed with its tree."""
    for identity, stop_signal in targets.values():
        if process := identity.process():
            _signal(process, stop_signal)
    identities = [identity for identity, _ in targets.values()]
    if wait_until_gone(identities, patience_seconds):
        return
    for identity in identities:
        if process := identity.process():
            kill_tree(process)
    wait_until_gone(identities, patience_seconds)


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL for the process and its descendants; those that end by themselves meanwhile are no error."""
    for member in tree(process):
        _signal(member, signal.SIGKILL)


def wait_until_gone(identities: Sequence[Identity], seconds: float) -> bool:
    """Whether all of them ended within that time."""
    deadline = time.monotonic() + seconds
    while any(identity.process() for identity in identities):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def last_lines(log: Path, count: int = 12) -> str:
    """The end of a log file, indented for an error message; empty if there is none."""
    try:
        lines = log.read_bytes()[-20_000:].decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(f"    {line}" for line in lines[-count:])
