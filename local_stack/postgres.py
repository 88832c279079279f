"""The embedded Postgres with pgvector: over TCP only, with a generated password."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from local_stack import postgres_account, processes
from local_stack.errors import StackError
from local_stack.ports import LOOPBACK, choose
from local_stack.processes import Command, Identity

SUPERUSER = "granary"
DATABASE = "granary"
DAGSTER_DATABASE = "dagster"
STOP_SIGNAL = signal.SIGINT  # the fast shutdown; with SIGTERM it would wait for its clients to leave

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "wal_level": "minimal",  # nobody replicates it; recovery after a crash needs no more
    "max_wal_senders": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


class EmbeddedPostgres:
    """A cluster in `data_dir`, on its own or as the stack's service.

    As root the files belong to a system user and lie elsewhere if that user may not enter
    `data_dir` (see postgres_account). With `durable` off nothing is synced to disk: for tests.
    """

    name = "postgres"

    def __init__(
        self, data_dir: Path, port: int | None = None, durable: bool = True, log: Path | None = None
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.port = port or choose()
        self.log = log or self.data_dir.with_name(f"{data_dir.name}.log")
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def cluster(self) -> Path:
        """The folder Postgres knows as its data directory."""
        return postgres_account.known_home(self.data_dir) / "cluster"

    def init(self) -> bool:
        """Makes the cluster and its password; False if both were there. Raises StackError."""
        user = postgres_account.account()
        home = postgres_account.home_for(self.data_dir, user)
        if self.cluster.exists():
            return False
        unfinished = home / "cluster.new"  # renamed at the end: a cluster that exists is complete
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file = home / "password"
        password_file.unlink(missing_ok=True)
        with open(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(24))
        if user:
            os.chown(password_file, user.uid, user.gid)
        arguments = [
            str(postgres_account.binaries_for(home, user) / "initdb"),
            f"--pgdata={unfinished}",
            f"--username={SUPERUSER}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
            "--no-sync",  # it took seconds on a busy disk; a power cut in the first minute means `make clean`
        ]
        made = processes.launch(Command(arguments, _environment(), account=user), self.log)
        try:
            failed = made.wait(timeout=60) != 0
        except BaseException:
            made.kill()
            made.wait()
            raise
        if failed:
            raise StackError(self._failure("initdb failed"))
        unfinished.rename(self.cluster)
        return True

    def prepare(self) -> None:
        """Everything before the server can be launched: the cluster, and the leftovers of a crash cleared."""
        self.init()
        self.stop()  # one that lives on although nobody remembers it
        self._clear_after_crash()

    def command(self) -> Command:
        """How to launch the server."""
        user = postgres_account.account()
        binary = postgres_account.binaries_for(self.cluster.parent, user) / "postgres"
        settings = _SETTINGS | {"port": str(self.port)} | ({} if self._durable else _FAST)
        options = [f"--{name}={value}" for name, value in settings.items()]
        arguments = [str(binary), "-D", str(self.cluster), *options]
        return Command(arguments, _environment(), STOP_SIGNAL, user)

    def start(self, die_with_parent: bool = False) -> None:
        """Starts the server and returns when it answers a query. Raises StackError."""
        self.prepare()
        self._process = processes.launch(self.command(), self.log, die_with_parent)
        try:
            deadline = time.monotonic() + 20
            while True:
                try:
                    return self.check()
                except psycopg.OperationalError as error:
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        raise StackError(self._failure("did not start")) from error
                time.sleep(0.01)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Fast shutdown: clients are disconnected, everything is written. Does nothing if it does not run."""
        if postmaster := self.postmaster():
            processes.stop({self.name: (Identity.of(postmaster.pid), STOP_SIGNAL)})
        self._reap()

    def kill(self) -> None:
        """SIGKILL for the server and its backends, as a crash would."""
        if postmaster := self.postmaster():
            processes.kill_tree(postmaster)
        self._reap()

    def dsn(self, database: str = "postgres") -> str:
        """A connection URL with the password. Raises StackError if the cluster was not made yet."""
        try:
            password = (self.cluster.parent / "password").read_text()
        except FileNotFoundError:
            raise StackError(
                f"postgres: {self.cluster.parent} has no password file. Run `make clean`."
            ) from None
        return f"postgresql://{SUPERUSER}:{password}@{LOOPBACK}:{self.port}/{database}"

    @property
    def address(self) -> str:
        """Where it is, without the password."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{DATABASE}"

    def check(self) -> None:
        """Raises psycopg.OperationalError unless the server answers a query with the password."""
        with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
            connection.execute("SELECT 1")

    def furnish(self) -> None:
        """The databases of the project and of Dagster, and the extension vector in the first."""
        for database in (DATABASE, DAGSTER_DATABASE):
            self.create_database(database)
        with psycopg.connect(self.dsn(DATABASE), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def create_database(self, name: str) -> None:
        """Makes an empty database unless there is one of that name."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if not known:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def remove(self) -> None:
        """Stops the server and deletes its data, wherever they lie."""
        self.stop()
        for folder in (self.cluster.parent, self.data_dir):
            shutil.rmtree(folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)

    def postmaster(self) -> psutil.Process | None:
        """The living server of this cluster, whoever started it."""
        try:
            if self._process is not None and self._process.poll() is None:
                return psutil.Process(self._process.pid)
            pid = int((self.cluster / "postmaster.pid").read_text().split()[0])
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE and str(self.cluster) in process.cmdline():
                return process
        except (OSError, ValueError, IndexError, psutil.Error):
            pass
        return None

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _clear_after_crash(self) -> None:
        """Removes postmaster.pid once the crashed server's last backend is gone.

        Postgres would refuse to start while one is attached, and also when the dead server's pid
        belongs to another process of the same user by now.
        """
        lock_file = self.cluster / "postmaster.pid"
        if not lock_file.exists():
            return
        deadline = time.monotonic() + 10
        while _attached_processes(lock_file):
            if time.monotonic() > deadline:
                raise StackError(self._failure("backends of a crashed server still run"))
            time.sleep(0.02)
        lock_file.unlink(missing_ok=True)

    def _failure(self, what: str) -> str:
        return f"postgres: {what}; see {self.log}:\n{processes.last_lines(self.log)}"


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT, PGHOST and the like of the caller's shell are meant for other servers.
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _attached_processes(lock_file: Path) -> int:
    """How many processes use the shared memory that a postmaster.pid names (Linux; elsewhere 0)."""
    lines = lock_file.read_text().splitlines()
    table = Path("/proc/sysvipc/shm")
    if len(lines) < 7 or not table.exists():
        return 0
    shared_memory_id = lines[6].split()[-1]
    for row in table.read_text().splitlines()[1:]:
        columns = row.split()  # key shmid perms size cpid lpid nattch ...
        if columns[1] == shared_memory_id:
            return int(columns[6])
    return 0
