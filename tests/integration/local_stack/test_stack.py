import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from pymongo import MongoClient

from local_stack import environment, ports, processes
from local_stack.errors import StackError
from local_stack.interruptions import Interruption
from local_stack.mongo_server import MongoServer
from local_stack.processes import Command, Identity
from local_stack.services import NAMES
from local_stack.stack import EXTERNAL, RUNNING, SILENT, STOPPED, Stack

MakeStack = Callable[..., Stack]
Environ = dict[str, str]
Only = Callable[..., Environ]


def identities(root: Path) -> dict[str, Identity]:
    remembered = json.loads((root / "stack.json").read_text())["processes"]
    return {name: Identity(**identity) for name, identity in remembered.items()}


def sourced(env_file: Path, **before: str) -> dict[str, str]:
    """The environment of a shell that has sourced the file."""
    output = subprocess.run(
        ["sh", "-c", '. "$1"; env -0', "sh", str(env_file)],
        env={"PATH": os.defpath, **before},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split("=", 1) for line in output.split("\0") if line)


def command_line(
    root: Path, *arguments: str, environ: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "local_stack", "--root", str(root), *arguments],
        env={"PATH": os.defpath} if environ is None else {"PATH": os.defpath, **environ},
        cwd=processes.PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("whole") / ".local", die_with_parent=True, environ={})
    with stack:
        yield stack
    stack.remove_data()


def test_every_service_runs_answers_and_listens_on_its_loopback_port_alone(whole: Stack) -> None:
    services = whole.status()
    assert {service.name: service.state for service in services} == dict.fromkeys(sorted(NAMES), RUNNING)
    remembered = json.loads((whole.root / "stack.json").read_text())["ports"]
    for service in services:
        listening = {
            (connection.laddr.ip, connection.laddr.port)
            for process in processes.tree(psutil.Process(service.pid or 0))
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN or not connection.raddr
        }
        assert listening == {("127.0.0.1", remembered[service.name])}
        assert 10_000 < remembered[service.name] < 32_768


def test_the_env_file_leads_a_shell_to_every_service(whole: Stack) -> None:
    env_file = whole.root / "env"
    assert env_file.stat().st_mode & 0o777 == 0o600
    shell = sourced(env_file)
    expected = whole.environment()
    assert {name: shell[name] for name in expected} == expected
    assert shell["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert shell["DAGSTER_HOME"] == str(whole.root.parent)
    for url, database in ((shell["DATABASE_URL"], "granary"), (shell["DAGSTER_PG_URL"], "dagster")):
        with psycopg.connect(url.replace("+psycopg2", "")) as connection:
            assert connection.execute("SELECT current_database()::text").fetchone() == (database,)
    psql = '. "$1"; psql -tA "$DATABASE_URL" -c "SELECT extname FROM pg_extension ORDER BY 1"'
    found = subprocess.run(
        ["sh", "-c", psql, "sh", str(env_file)], capture_output=True, text=True, check=True
    )
    assert found.stdout == "plpgsql\nvector\n"


def test_a_second_start_starts_nothing(whole: Stack) -> None:
    before = identities(whole.root)
    with Stack(whole.root, environ={}, say=lambda _: None) as again:
        assert identities(whole.root) == before
        assert again.environment() == whole.environment()
    assert identities(whole.root) == before


def test_no_address_and_no_remembered_state_holds_a_secret(whole: Stack) -> None:
    variables = whole.environment()
    password = variables["DATABASE_URL"].split(":")[2].split("@")[0]
    shown = json.dumps(whole.addresses()) + (whole.root / "stack.json").read_text()
    for secret in (password, variables["AWS_SECRET_ACCESS_KEY"], variables["OPENAI_API_KEY"]):
        assert secret not in shown


def test_a_shell_that_sourced_the_file_brings_nothing_along(whole: Stack) -> None:
    shell = sourced(whole.root / "env")
    assert Stack(whole.root, environ=shell).external() == {}
    copied = {name: shell[name] for name in ("DATABASE_URL", "OPENAI_API_KEY")}
    assert Stack(whole.root, environ=copied).external() == {}
    changed = shell | {"MONGODB_URI": "mongodb://127.0.0.1:27017/granary"}
    assert Stack(whole.root, environ=changed).external() == {"mongo_server": "MONGODB_URI"}


def test_values_from_before_a_clean_are_still_known_as_ours(whole: Stack, tmp_path: Path) -> None:
    shell = sourced(whole.root / "env")
    fresh = tmp_path / ".local"
    renamed = {name: value.replace(str(whole.root), str(fresh)) for name, value in shell.items()}
    assert Stack(fresh, environ=renamed).external() == {}
    another_projects = Stack(fresh, environ=shell).external()
    assert set(another_projects) == set(NAMES)


def test_what_the_caller_brings_is_neither_started_nor_replaced_nor_written_down(
    make_stack: MakeStack, only: Only
) -> None:
    brought = only("mongo_server")
    with make_stack("mongo_server") as stack:
        states = {service.name: service.state for service in stack.status()}
        assert states == dict.fromkeys(sorted(NAMES), EXTERNAL) | {"mongo_server": RUNNING}
        assert list(identities(stack.root)) == ["mongo_server"]
        inside = stack.process_environment()
        assert {name: inside[name] for name in brought} == brought
        assert "OPENAI_BASE_URL" not in inside and "AWS_ACCESS_KEY_ID" not in inside
        assert inside["DAGSTER_PG_URL"] == "postgresql+psycopg2://somebody:their-password@db.example/dagster"
        assert stack.addresses()["postgres"] == "postgresql://db.example/theirs"
        assert stack.addresses()["openai_stand_in"] == "from OPENAI_API_KEY"
        written = (stack.root / "env").read_text()
        assert "sk-their-key" not in written and "db.example/theirs" not in written


def test_another_news_site_is_never_crawled_without_pauses(make_stack: MakeStack, only: Only) -> None:
    with make_stack(
        "mongo_server", environ=only("mongo_server") | {"NAVER_BASE_URL": "https://n.example"}
    ) as stack:
        left_over = environment.marked(environment.naver_variables("http://127.0.0.1:12345"), stack.root)
        inside = stack.process_environment(left_over | {"NAVER_BASE_URL": "https://n.example"})
        assert inside["NAVER_BASE_URL"] == "https://n.example"
        assert not [name for name in inside if name.startswith("CRAWL_")]


def test_a_choice_of_pipelines_is_the_callers(make_stack: MakeStack) -> None:
    with make_stack("mongo_server") as stack:
        assert stack.process_environment({})["GRANARY_PIPELINES"] == ",".join(environment.PIPELINES)
        assert stack.process_environment({"GRANARY_PIPELINES": ""})["GRANARY_PIPELINES"] == ""


def test_it_stops_only_what_it_has_started(make_stack: MakeStack) -> None:
    make_stack("mongo_server").start()
    before = make_stack("mongo_server").status()
    with make_stack("mongo_server", "bucket") as stack:
        assert {
            service.state for service in stack.status() if service.name in ("mongo_server", "bucket")
        } == {RUNNING}
        bucket = identities(stack.root)["bucket"]
    assert bucket.process() is None
    assert make_stack("mongo_server").status() == before


def test_data_survive_a_stop_and_the_kill_of_everything(make_stack: MakeStack) -> None:
    stack = make_stack("mongo_server", "postgres")
    stack.start()
    variables = stack.environment()
    with psycopg.connect(variables["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    client: MongoClient[dict[str, Any]] = MongoClient(variables["MONGODB_URI"])
    with client:
        client.granary.kept.insert_one({"_id": 1})
        for round_ in ("stopped", "killed"):
            running = identities(stack.root)
            if round_ == "stopped":
                assert stack.stop() == ["mongo_server", "postgres"]
            else:
                for identity in running.values():
                    os.kill(identity.pid, signal.SIGKILL)
            assert processes.wait_until_gone(list(running.values()), 5)
            stack.start()
            assert stack.environment() == variables
            with psycopg.connect(variables["DATABASE_URL"]) as connection:
                assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
            assert list(client.granary.kept.find()) == [{"_id": 1}]


def test_stopping_works_when_some_are_dead_already(make_stack: MakeStack) -> None:
    stack = make_stack("mongo_server", "naver_site")
    stack.start()
    dead = identities(stack.root)["mongo_server"]
    os.kill(dead.pid, signal.SIGKILL)
    assert processes.wait_until_gone([dead], 5)
    assert {s.name: s.state for s in stack.status()}["mongo_server"] == STOPPED
    assert stack.stop() == ["naver_site"]
    assert stack.stop() == []


def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(make_stack: MakeStack) -> None:
    stack = make_stack("mongo_server")
    stack.start()
    stack.stop()
    with subprocess.Popen(["sleep", "600"]) as bystander:
        state = json.loads((stack.root / "stack.json").read_text())
        created = psutil.Process(bystander.pid).create_time() - 3600
        state["processes"]["mongo_server"] = {"pid": bystander.pid, "created": created}
        (stack.root / "stack.json").write_text(json.dumps(state))
        assert stack.stop() == []
        assert bystander.poll() is None
        bystander.kill()


def test_one_that_ignores_the_request_to_stop_is_killed() -> None:
    script = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as deaf:
        assert deaf.stdout and deaf.stdout.readline() == "deaf\n"
        processes.stop({"deaf": (Identity.of(deaf.pid), signal.SIGTERM)}, patience_seconds=0.2)
        assert deaf.wait(timeout=5) == -signal.SIGKILL


def test_a_frozen_service_is_not_called_running(make_stack: MakeStack) -> None:
    with make_stack("mongo_server") as stack:
        pid = identities(stack.root)["mongo_server"].pid
        os.kill(pid, signal.SIGSTOP)
        assert {s.name: s.state for s in stack.status()}["mongo_server"] == SILENT
        os.kill(pid, signal.SIGCONT)
        assert {s.name: s.state for s in stack.status()}["mongo_server"] == RUNNING


def test_a_taken_port_is_given_up_with_a_loud_note(make_stack: MakeStack, only: Only) -> None:
    said: list[str] = []
    stack = make_stack("mongo_server", say=said.append)
    stack.start()
    port = json.loads((stack.root / "stack.json").read_text())["ports"]["mongo_server"]
    shell = sourced(stack.root / "env")
    stack.stop()
    with socket.create_server((ports.LOOPBACK, port)):
        with make_stack("mongo_server", environ=shell | only("mongo_server"), say=said.append) as moved:
            assert moved.addresses()["mongo_server"] != shell["MONGODB_URI"]
            assert moved.process_environment()["MONGODB_URI"] == moved.addresses()["mongo_server"]
        (note,) = said
        assert f"port {port} of mongo_server is taken" in note


def test_a_port_is_free_again_as_soon_as_its_server_is_gone() -> None:
    with socket.create_server((ports.LOOPBACK, ports.choose())) as server:
        address = server.getsockname()
        with socket.create_connection(address) as client, server.accept()[0]:
            assert not ports.is_free(address[1])
        assert client.fileno() == -1
    assert ports.is_free(address[1])


def test_another_servers_answer_is_not_taken_for_ours(
    make_stack: MakeStack, monkeypatch: pytest.MonkeyPatch, only: Only
) -> None:
    with make_stack("mongo_server") as stack:
        port = json.loads((stack.root / "stack.json").read_text())["ports"]["mongo_server"]
        deaf = Command(
            [sys.executable, "-c", "import time; print('nobody is here', flush=True); time.sleep(600)"],
            os.environ,
        )
        monkeypatch.setattr(MongoServer, "command", lambda _: deaf)
        monkeypatch.setattr("local_stack.stack._READY_SECONDS", 0.5)
        monkeypatch.setattr(ports, "is_free", lambda _: True)
        monkeypatch.setattr(ports, "choose", lambda _: port)
        other = Stack(stack.root.with_name("other"), die_with_parent=True, environ=only("mongo_server"))
        with pytest.raises(StackError, match=f"its process does not listen on port {port}"):
            other.start()
        other.remove_data()


def test_a_service_that_ends_is_named_with_its_log_and_the_rest_is_stopped(
    make_stack: MakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Command([sys.executable, "-c", "raise SystemExit('the disk is full')"], os.environ)
    monkeypatch.setattr(MongoServer, "command", lambda _: broken)
    stack = make_stack("mongo_server", "naver_site")
    launched: list[Identity] = []
    launch = processes.launch

    def remember(*arguments: Any) -> "subprocess.Popen[bytes]":
        process = launch(*arguments)
        launched.append(Identity.of(process.pid))
        return process

    monkeypatch.setattr(processes, "launch", remember)
    with pytest.raises(StackError) as raised:
        stack.start()
    message = str(raised.value)
    assert message.startswith("mongo_server ended") and "the disk is full" in message
    assert str(stack.root / "logs" / "mongo_server.log") in message and "local_stack up" in message
    assert len(launched) == 2 and not any(identity.process() for identity in launched)
    assert identities(stack.root) == {}


def test_after_the_first_signal_the_way_out_is_undisturbed() -> None:
    cleaned_up = False

    def interrupted() -> None:
        nonlocal cleaned_up
        with Interruption():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
                cleaned_up = True

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert cleaned_up


def test_a_held_signal_comes_when_the_block_is_over_and_handlers_are_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    done = False

    def interrupted() -> None:
        nonlocal done
        with Interruption().held():
            signal.raise_signal(signal.SIGTERM)
            done = True

    with pytest.raises(SystemExit) as raised:
        interrupted()
    assert done and raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


SLOW_UP = """
import signal, sys
from pathlib import Path
from local_stack import processes, stack
from local_stack.stack import Stack

def wait_for_ever(*_):
    print("launched", flush=True)
    signal.pause()

def stop_slowly(*arguments):
    print("stopping", flush=True)
    sys.stdin.readline()
    stop(*arguments)

stop, processes.stop = processes.stop, stop_slowly
if sys.argv[2] == "in start":
    Stack._wait_until_ready = wait_for_ever
    from local_stack.__main__ import main
    sys.exit(main(["--root", sys.argv[1], "up"]))
with Stack(Path(sys.argv[1])):
    if sys.argv[2] == "in block":
        wait_for_ever()
    print("launched", flush=True)
"""


@pytest.mark.parametrize("where", ["in start", "in block", "at end"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, (130, -2, 1)), (signal.SIGTERM, (143,))])
def test_an_interruption_leaves_nothing_running_however_often_it_is_repeated(
    where: str, number: signal.Signals, code: tuple[int, ...], make_stack: MakeStack, only: Only
) -> None:
    root = make_stack().root
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_UP, str(root), where],
        env={"PATH": os.defpath, **only("mongo_server", "naver_site")},
        cwd=processes.PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as up:
        assert up.stdin and up.stdout
        assert up.stdout.readline() == "launched\n"
        running = identities(root)
        assert set(running) == {"mongo_server", "naver_site"}
        if where != "at end":
            up.send_signal(number)
        assert up.stdout.readline() == "stopping\n"
        for _ in range(3):
            up.send_signal(number)
        assert all(identity.process() for identity in running.values())
        up.stdin.write("\n")
        up.stdin.flush()
        assert up.wait(timeout=20) in code
    assert not any(identity.process() for identity in running.values())
    assert identities(root) == {}


@contextmanager
def parent_of(root: Path, environ: Environ) -> Iterator["subprocess.Popen[str]"]:
    """A process whose services run and die with it."""
    script = (
        "import signal, sys, pathlib; from local_stack.stack import Stack\n"
        "with Stack(pathlib.Path(sys.argv[1]), die_with_parent=True): print('up', flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root)],
        env={"PATH": os.defpath, **environ},
        cwd=processes.PROJECT,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout and parent.stdout.readline() == "up\n"
        yield parent


def test_kill_9_of_the_parent_takes_its_services_along(make_stack: MakeStack, only: Only) -> None:
    root = make_stack().root
    with parent_of(root, only("mongo_server", "postgres")) as parent:
        running = identities(root)
        trees = [
            Identity.of(p.pid) for one in running.values() for p in processes.tree(psutil.Process(one.pid))
        ]
        parent.kill()
    assert len(trees) > 5
    assert processes.wait_until_gone(trees, 10)


def test_what_still_ends_after_kill_9_of_its_parent_is_awaited_and_started_anew(
    make_stack: MakeStack, only: Only, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = make_stack("mongo_server")
    with parent_of(stack.root, only("mongo_server")) as parent:
        old = identities(stack.root)["mongo_server"]
        leaving = psutil.Process(old.pid)
        leaving.suspend()  # it takes its time
        parent.kill()
    await_end = processes.stop

    def stop(targets: Mapping[str, tuple[Identity, signal.Signals]]) -> None:
        leaving.resume()
        await_end(targets)

    monkeypatch.setattr(processes, "stop", stop)
    (mongo,) = [service for service in stack.start() if service.name == "mongo_server"]
    assert mongo.state == RUNNING and mongo.pid != old.pid
    assert old.process() is None


def test_two_ups_at_once_start_each_service_once(make_stack: MakeStack, only: Only) -> None:
    root = make_stack().root
    ups = [command_line(root, "up", environ=only("mongo_server", "naver_site")) for _ in range(2)]
    said = [up.communicate(timeout=60)[0] for up in ups]
    assert [up.returncode for up in ups] == [0, 0], said
    pids = [sorted(line.split("pid ")[1] for line in text.splitlines() if "pid " in line) for text in said]
    assert pids[0] == pids[1] == sorted(str(identity.pid) for identity in identities(root).values())


def test_up_status_and_down_say_what_is_so(make_stack: MakeStack, only: Only) -> None:
    root, environ = make_stack().root, only("mongo_server")

    def run(*arguments: str) -> tuple[int, str]:
        command = command_line(root, *arguments, environ=environ)
        output, _ = command.communicate(timeout=60)
        return command.returncode, output

    assert run("down") == (0, "nothing was running\n")
    code, output = run("status")
    assert code == 1 and "mongo_server" in output and "stopped" in output
    code, output = run("up")
    address = json.loads((root / "stack.json").read_text())["ports"]["mongo_server"]
    assert code == 0 and f"mongodb://127.0.0.1:{address}/granary" in output and f". {root}/env" in output
    assert "their-password" not in output
    assert run("status")[0] == 0
    assert run("down") == (0, "stopped mongo_server\n")
    assert run("status")[0] == 1
    (root / "mine.txt").write_text("not the stack's")
    assert run("clean")[0] == 0
    assert [path.name for path in root.iterdir()] == ["mine.txt"]


def test_clean_removes_the_data_of_postgres_wherever_they_lie(make_stack: MakeStack) -> None:
    stack = make_stack("postgres")
    stack.start()
    data = psutil.Process(identities(stack.root)["postgres"].pid).cmdline()[2]
    assert Path(data, "PG_VERSION").exists()
    stack.remove_data()
    assert not Path(data).parent.exists()
    assert not stack.root.exists()
