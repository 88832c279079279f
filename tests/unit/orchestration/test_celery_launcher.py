"""When a run in a Celery worker counts as dead, and how it is canceled; the broker is played."""

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.launcher.base import WorkerStatus
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG as TASK

from orchestration.run_launchers import celery as launchers
from orchestration.run_launchers.celery import CheckedCeleryRunLauncher

HOST = "crawl@one"


class Broker:
    """What the workers and the stored results say, in place of a Celery app."""

    def __init__(self) -> None:
        self.state: str = "STARTED"
        self.info: Any = {"pid": 1, "hostname": HOST}
        self.held: dict[str, set[str]] | None = {HOST: {"task"}}
        self.is_away = False
        self.asked: list[str] | None = None
        self.revoked: list[tuple[str, bool, str]] = []
        self.control = SimpleNamespace(inspect=self._inspect)

    def AsyncResult(self, task_id: str) -> Any:
        if self.is_away:
            raise ConnectionError("refused")

        def revoke(terminate: bool, signal: str) -> None:
            self.revoked.append((task_id, terminate, signal))

        return SimpleNamespace(state=self.state, info=self.info, revoke=revoke)

    def _inspect(self, destination: list[str] | None, timeout: float) -> Any:
        self.asked = destination

        def query_task(task_id: str) -> dict[str, dict[str, Any]] | None:
            if self.held is None:
                return None
            asked = self.held if destination is None else self.held.keys() & set(destination)
            return {host: dict.fromkeys(self.held[host]) for host in asked}

        return SimpleNamespace(query_task=query_task)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def launcher(broker: Broker) -> CheckedCeleryRunLauncher:
    made = CheckedCeleryRunLauncher(default_queue="default", broker="redis://", backend="redis://")
    made.celery = broker
    return made


@pytest.fixture
def instance(launcher: CheckedCeleryRunLauncher) -> Iterator[dg.DagsterInstance]:
    """An instance whose runs the launcher finds."""
    with dg.instance_for_test() as made:
        launcher.register_instance(made)
        yield made


def a_run(task: str | None = "task", run_id: str = "11111111-1111-4111-8111-111111111111") -> dg.DagsterRun:
    return dg.DagsterRun(job_name="job", run_id=run_id, tags={TASK: task} if task else {})


def polls(launcher: CheckedCeleryRunLauncher, times: int, run: dg.DagsterRun | None = None) -> list[str]:
    """What each poll of run monitoring learns."""
    return [launcher.check_run_worker_health(run or a_run()).status.name for _ in range(times)]


def test_a_run_that_its_worker_has_is_running_and_only_that_worker_is_asked(
    launcher: CheckedCeleryRunLauncher, broker: Broker
) -> None:
    assert polls(launcher, 3) == ["RUNNING"] * 3
    assert broker.asked == [HOST]


@pytest.mark.parametrize("held", [None, {}, {HOST: set()}, {"llm@two": {"task"}}])
def test_a_run_that_its_worker_misses_twice_is_gone(
    launcher: CheckedCeleryRunLauncher, broker: Broker, held: dict[str, set[str]] | None
) -> None:
    broker.held = held
    assert polls(launcher, 2) == ["RUNNING", "NOT_FOUND"]


def test_a_worker_that_misses_every_other_poll_is_alive(
    launcher: CheckedCeleryRunLauncher, broker: Broker
) -> None:
    for _ in range(3):
        broker.held = None
        assert polls(launcher, 1) == ["RUNNING"]
        broker.held = {HOST: {"task"}}
        assert polls(launcher, 1) == ["RUNNING"]


def test_each_run_has_misses_of_its_own(launcher: CheckedCeleryRunLauncher, broker: Broker) -> None:
    broker.held = {}
    other = a_run(run_id="22222222-2222-4222-8222-222222222222")
    assert polls(launcher, 1) + polls(launcher, 1, other) == ["RUNNING", "RUNNING"]
    assert polls(launcher, 1) + polls(launcher, 1, other) == ["NOT_FOUND", "NOT_FOUND"]


def test_a_living_run_whose_result_the_broker_forgot_goes_on(
    launcher: CheckedCeleryRunLauncher, broker: Broker
) -> None:
    broker.state, broker.info = "PENDING", None
    assert polls(launcher, 3) == ["RUNNING"] * 3
    assert broker.asked is None


@pytest.mark.parametrize("state", ["SUCCESS", "REVOKED", "PENDING"])
def test_a_run_whose_task_ended_without_its_end_being_written_is_gone(
    launcher: CheckedCeleryRunLauncher, broker: Broker, state: str
) -> None:
    broker.state, broker.info, broker.held = state, 1, {HOST: set()}
    assert polls(launcher, 2) == ["RUNNING", "NOT_FOUND"]


def test_a_failed_task_is_a_failed_run_at_once(launcher: CheckedCeleryRunLauncher, broker: Broker) -> None:
    broker.state, broker.info = "FAILURE", RuntimeError("the process was killed")
    result = launcher.check_run_worker_health(a_run())
    assert result.status is WorkerStatus.FAILED
    assert "the process was killed" in (result.msg or "")


def test_a_run_that_was_started_by_hand_is_left_alone(
    launcher: CheckedCeleryRunLauncher, broker: Broker
) -> None:
    broker.held = {}
    assert polls(launcher, 3, a_run(task=None)) == ["RUNNING"] * 3


def test_no_run_dies_while_the_broker_is_away_or_its_workers_are_coming_back(
    launcher: CheckedCeleryRunLauncher, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(launchers, "time", SimpleNamespace(monotonic=lambda: now))
    broker.held = {}
    assert polls(launcher, 1) == ["RUNNING"]
    broker.is_away = True
    assert polls(launcher, 5) == ["RUNNING"] * 5
    broker.is_away = False
    now += launchers.RECONNECTED_WITHIN_SECONDS - 1
    assert polls(launcher, 5) == ["RUNNING"] * 5
    now += 1
    assert polls(launcher, 2) == ["RUNNING", "NOT_FOUND"]


def test_runs_that_ended_after_a_miss_are_forgotten(
    launcher: CheckedCeleryRunLauncher, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launchers, "REMEMBERED", 10)
    broker.held = {}
    for number in range(100):
        polls(launcher, 1, a_run(run_id=f"{number:08}-1111-4111-8111-111111111111"))
        assert len(launcher._missed) <= 10


def test_a_broker_that_accepts_and_says_nothing_holds_run_monitoring_for_seconds_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        launcher = CheckedCeleryRunLauncher(default_queue="default", broker=url, backend=url)
        began = time.monotonic()
        assert polls(launcher, 1) == ["RUNNING"]
    assert time.monotonic() - began < 20


def test_what_dagster_yaml_says_of_the_app_goes_first() -> None:
    given = {"redis_socket_timeout": 77.0}
    launcher = CheckedCeleryRunLauncher("default", "redis://", "redis://", config_source=given)
    assert launcher.celery.conf.redis_socket_timeout == 77
    assert launcher.celery.conf.redis_socket_connect_timeout == launchers.ANSWER_WITHIN_SECONDS


def stored_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, task: str | None) -> str:
    @dg.job
    def job() -> None: ...

    return instance.create_run_for_job(job, status=status, tags={TASK: task} if task else {}).run_id


def status_of(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def test_a_cancel_interrupts_the_task_and_the_run_is_canceling(
    launcher: CheckedCeleryRunLauncher, broker: Broker, instance: dg.DagsterInstance
) -> None:
    run_id = stored_run(instance, dg.DagsterRunStatus.STARTED, "task")
    assert launcher.terminate(run_id)
    assert broker.revoked == [("task", True, "SIGINT")]
    assert status_of(instance, run_id) is dg.DagsterRunStatus.CANCELING


@pytest.mark.parametrize(
    ("status", "task"), [(dg.DagsterRunStatus.SUCCESS, "task"), (dg.DagsterRunStatus.STARTED, None)]
)
def test_a_run_that_has_ended_or_is_no_task_cannot_be_canceled(
    launcher: CheckedCeleryRunLauncher,
    broker: Broker,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
    task: str | None,
) -> None:
    run_id = stored_run(instance, status, task)
    assert not launcher.terminate(run_id)
    assert not launcher.terminate("00000000-0000-4000-8000-000000000000")
    assert broker.revoked == []
    assert status_of(instance, run_id) is status
