"""What is started again, what is not, and what was asked for by hand or has just arrived."""

from datetime import timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.raw_files import attempts, partition_store
from assets.raw_files.partition_store import REQUEST_TAG
from orchestration.policies import MAX_RETRIES_TAG, RAW_FILES_MAX_SECONDS
from resources.alerts import AlertResource
from sensors.raw_files import raw_files_sensors
from tests.integration.raw_files.raw_runs import DAY, RawRuns, Store, document, raw_path
from tests.integration.raw_files.ticks import (
    MIDNIGHT,
    NOON,
    Connect,
    Ticks,
    alarms,
    failure,
    failure_log,
    key,
    lock,
    told,
)

ONE_SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
NEWS = (DAY, "kr/news")
SPENT = "raw_files:daily_processing_failure:kr/news:2026-11-29"
ALERTS = AlertResource()


def start(connect: Connect, at: object, run_id: str) -> None:
    """As a run's first step does."""
    partition_store.start_partition(connect(str(at)), NEWS, run_id, RAW_FILES_MAX_SECONDS + 60)


def fail(connect: Connect, at: object, run_id: str) -> bool:
    return attempts.fail(connect(str(at)), ALERTS, NEWS, run_id, failure(run_id))


def run_keys(requests: list[dg.RunRequest] | str) -> list[str | None]:
    return [] if isinstance(requests, str) else [request.run_key for request in requests]


def stands(connection: psycopg.Connection) -> tuple[str, int, bool]:
    """Status and failures of the only partition, and whether another try is planned."""
    row = connection.execute("SELECT status, failures, due_at IS NOT NULL FROM raw.partition").fetchone()
    assert row is not None
    return row


def test_a_failed_partition_is_tried_5_10_and_20_minutes_after_each_failure_and_then_told_of_once(
    ticks: Ticks, connect: Connect, connection: psycopg.Connection
) -> None:
    start(connect, MIDNIGHT, "run-1")
    fail(connect, MIDNIGHT, "run-1")
    failed = MIDNIGHT
    for attempt, minutes in [(2, 5), (3, 10), (4, 20)]:
        assert ticks.retry(failed + minutes * MINUTE - ONE_SECOND) == []
        assert alarms(connection) == {}
        requests = ticks.sensor("raw_files_retry", failed + minutes * MINUTE)
        assert run_keys(requests) == [f"attempt {attempt}:{attempt - 1}:{key()}"]
        failed += (minutes + 2) * MINUTE
        start(connect, failed - MINUTE, f"run-{attempt}")
        fail(connect, failed, f"run-{attempt}")

    assert stands(connection) == ("FAILED", 4, False)
    assert ticks.retry(failed + 600 * MINUTE) == []
    assert alarms(connection) == {SPENT: True}
    assert failure_log(connection) == [("PARTITION", f"run-{n}") for n in (1, 2, 3, 4)]


def test_a_spent_partition_is_tried_once_by_the_next_pass_and_its_alarm_stands(
    ticks: Ticks,
    connect: Connect,
    store: Store,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store.put(raw_path(1), b"[")
    ticks.daily()
    for number in range(4):
        start(connect, MIDNIGHT, f"run-{number}")
        fail(connect, MIDNIGHT, f"run-{number}")

    assert ticks.supplementary() == [key()]
    ticks.report(NOON)
    start(connect, NOON, "run-5")
    fail(connect, NOON, "run-5")
    ticks.report(NOON)

    assert stands(connection) == ("FAILED", 5, False)
    assert alarms(connection)[SPENT]
    assert told(caplog).count(f"Granary: {SPENT}") == 1


def test_the_tries_are_asked_for_as_new_runs_that_dagster_does_not_repeat(
    ticks: Ticks, connect: Connect
) -> None:
    start(connect, MIDNIGHT, "run-1")
    fail(connect, MIDNIGHT, "run-1")

    first = ticks.sensor("raw_files_retry", MIDNIGHT + 5 * MINUTE)
    again = ticks.sensor("raw_files_retry", MIDNIGHT + 6 * MINUTE)

    assert not isinstance(first, str)
    assert first[0].tags[MAX_RETRIES_TAG] == "0"
    assert run_keys(first) != run_keys(again)
    assert ticks.sources() == ["kr/news"]


@pytest.mark.parametrize(
    "status",
    [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING],
)
def test_a_partition_whose_run_lives_is_not_started_again(
    ticks: Ticks, connect: Connect, status: dg.DagsterRunStatus
) -> None:
    start(connect, MIDNIGHT, "run-1")
    fail(connect, MIDNIGHT, "run-1")
    ticks.live_run(lock("kr/sports"), dg.DagsterRunStatus.STARTED)
    assert ticks.retry(MIDNIGHT + 5 * MINUTE) == [key()]

    ticks.live_run(lock(), status)

    assert ticks.retry(MIDNIGHT + 5 * MINUTE) == []


def test_an_attempt_that_takes_longer_than_a_run_may_has_failed(
    ticks: Ticks, connect: Connect, connection: psycopg.Connection
) -> None:
    start(connect, MIDNIGHT, "run-1")

    ticks.retry(MIDNIGHT + 30 * MINUTE)
    assert stands(connection) == ("RUNNING", 0, True)
    ticks.retry(MIDNIGHT + 31 * MINUTE)
    ticks.retry(MIDNIGHT + 31 * MINUTE)

    assert stands(connection) == ("FAILED", 1, True)
    assert failure_log(connection) == [("TIMEOUT", "run-1")]
    assert ticks.retry(MIDNIGHT + 36 * MINUTE) == [key()]


def test_a_run_that_failed_before_its_first_step_is_one_failure_however_often_it_is_told(
    connect: Connect, connection: psycopg.Connection
) -> None:
    partition_store.ask_for_partitions(connect(str(MIDNIGHT)), [NEWS])

    assert fail(connect, MIDNIGHT, "run-1") is True
    assert fail(connect, MIDNIGHT, "run-2") is False, "another run, before the try is due"
    assert fail(connect, MIDNIGHT + 5 * MINUTE, "run-2") is True
    assert fail(connect, MIDNIGHT + 30 * MINUTE, "run-1") is False, "told again when the third try is due"

    assert stands(connection)[1] == 2


def test_a_request_is_started_once_with_force_and_noted_by_its_run(
    ticks: Ticks, runs: RawRuns, connect: Connect, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    assert runs.run().success
    partition_store.request_partition(connect(str(MIDNIGHT)), "kr", "news", DAY, force=True)

    requests = ticks.sensor("raw_files_requested", MIDNIGHT + MINUTE)

    assert not isinstance(requests, str)
    (request,) = requests
    assert request.partition_key == key()
    assert request.run_config == {"ops": {"raw_file_manifest": {"config": {"force": True}}}}
    ticks.live_run(lock(), dg.DagsterRunStatus.QUEUED)
    assert run_keys(ticks.sensor("raw_files_requested", MIDNIGHT + 2 * MINUTE)) == []

    tags: dict[str, Any] = {REQUEST_TAG: request.tags[REQUEST_TAG]}
    result = runs.run(force=True, **tags)

    assert runs.metadata(result, "raw_domains")["pass_files_processed"] == 1
    assert connection.execute("SELECT run_id FROM raw.request").fetchone() == (result.run_id,)
    assert ticks.sensor("raw_files_requested", MIDNIGHT + 3 * MINUTE) == "no request waits"


def test_requests_of_one_partition_are_started_one_after_the_other(ticks: Ticks, connect: Connect) -> None:
    for force in (False, True):
        partition_store.request_partition(connect(), "kr", "news", DAY, force)
    partition_store.request_partition(connect(), "kr", "shop", DAY, False)

    requests = ticks.sensor("raw_files_requested", MIDNIGHT)

    assert not isinstance(requests, str)
    assert [request.partition_key for request in requests] == [key(), key("kr/shop")]
    assert requests[0].run_config == {}


def test_a_request_for_a_day_that_has_not_begun_waits_and_holds_up_no_other(
    ticks: Ticks, connect: Connect
) -> None:
    partition_store.request_partition(connect(), "kr", "news", DAY + timedelta(days=1), False)
    partition_store.request_partition(connect(), "kr", "shop", DAY, False)

    before = ticks.sensor("raw_files_requested", MIDNIGHT - ONE_SECOND)
    after = ticks.sensor("raw_files_requested", MIDNIGHT)

    assert [request.partition_key for request in before if not isinstance(request, str)] == [key("kr/shop")]
    assert key(day=DAY + timedelta(days=1)) in {
        request.partition_key for request in after if not isinstance(request, str)
    }


def test_a_request_whose_run_could_not_list_keeps_its_force_until_it_is_tried_again(
    ticks: Ticks, store: Store, database_url: str, connect: Connect, connection: psycopg.Connection
) -> None:
    number = partition_store.request_partition(connect(str(MIDNIGHT)), "kr", "news", DAY, force=True)
    missing = RawRuns(database_url, Store(store.url, "no-such-bucket", store.client))
    tags: dict[str, Any] = {REQUEST_TAG: str(number)}
    result = missing.run(force=True, **tags)
    assert not result.success
    connection.execute(
        "UPDATE raw.partition SET status = 'NEW', finished_at = NULL, due_at = NULL, run_id = NULL"
    )
    fail(connect, MIDNIGHT + MINUTE, result.run_id)

    assert ticks.sensor("raw_files_requested", MIDNIGHT + 2 * MINUTE) == "no request waits"
    requests = ticks.sensor("raw_files_requested", MIDNIGHT + 6 * MINUTE)
    assert not isinstance(requests, str)
    assert requests[0].run_config["ops"]["raw_file_manifest"]["config"] == {"force": True}


def test_new_files_of_today_are_noticed_and_a_failed_one_is_left_to_the_next_pass(
    ticks: Ticks, store: Store, connect: Connect, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, day=MIDNIGHT.date()), document("hanbit-news.test"))

    first = ticks.sensor("raw_files_arrived", MIDNIGHT)
    assert run_keys(first) == [f"arrival:1:{key(day=MIDNIGHT.date())}", f"arrival:1:{key()}"]
    assert ticks.sensor("raw_files_arrived", MIDNIGHT + MINUTE) == "no file is new since the last look"
    connection.execute("UPDATE raw.file SET status = 'FAILED', reason = 'the file is empty'")
    assert ticks.sensor("raw_files_arrived", MIDNIGHT + MINUTE) == "no file is new since the last look"

    store.put(raw_path(1), document("nuri-sports.test"))
    assert run_keys(ticks.sensor("raw_files_arrived", MIDNIGHT + MINUTE)) == [f"arrival:2:{key()}"]


def test_a_file_that_arrives_during_its_partitions_run_is_processed_after_it(
    ticks: Ticks, store: Store, connect: Connect
) -> None:
    start(connect, MIDNIGHT, ticks.live_run(lock(), dg.DagsterRunStatus.STARTED))
    ticks.live_run(lock("kr/shop"), dg.DagsterRunStatus.QUEUED)
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, "kr/shop"), document("copper-kettle.test"))

    assert run_keys(ticks.sensor("raw_files_arrived", MIDNIGHT)) == [f"arrival:1:{key()}"]


def test_only_the_sensor_on_arrivals_is_off_by_default() -> None:
    sensors = {one.name: one.default_status for one in raw_files_sensors(is_on=True)}

    assert sensors == {
        "raw_files_arrived": dg.DefaultSensorStatus.STOPPED,
        "raw_files_retry": dg.DefaultSensorStatus.RUNNING,
        "raw_files_requested": dg.DefaultSensorStatus.RUNNING,
        "raw_reports_due": dg.DefaultSensorStatus.RUNNING,
    }


def test_a_lost_schedule_is_told_of_while_no_pass_comes(ticks: Ticks, connection: psycopg.Connection) -> None:
    ticks.switch_on(MIDNIGHT - timedelta(hours=1))

    ticks.retry(MIDNIGHT + 30 * MINUTE)
    assert alarms(connection) == {}
    ticks.retry(MIDNIGHT + 31 * MINUTE)
    ticks.retry(MIDNIGHT + 32 * MINUTE)
    assert alarms(connection) == {"raw_files:schedule_late": True}

    ticks.switch_off()
    ticks.retry(MIDNIGHT + 33 * MINUTE)
    assert alarms(connection) == {"raw_files:schedule_late": False}
