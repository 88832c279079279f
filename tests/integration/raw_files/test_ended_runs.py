"""What is noted of a partition's run that ended without success, by the words that Dagster itself says."""

import logging
import time
import uuid
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.execution.plan.objects import ErrorSource, StepFailureData
from dagster._daemon.monitoring.run_monitoring import check_run_timeout
from dagster_shared.error import SerializableErrorInfo

from assets.raw_files import partition_store
from orchestration.policies import MAX_RUNTIME_TAG
from tests.integration.raw_files.raw_runs import DAY, RawRuns, Store, document, raw_path
from tests.integration.raw_files.ticks import (
    MIDNIGHT,
    PARTITIONS_JOB,
    Connect,
    Ticks,
    definitions,
    failure_log,
    key,
)

NEWS = (DAY, "kr/news")
FAILED = "failed_runs_free_their_work"
CANCELED = "canceled_runs_free_their_work"
INTERRUPTED = SerializableErrorInfo("DagsterExecutionInterruptedError\n", [], "Interrupt")


class EndedRuns:
    """Runs of the instance that come to an end, told to the sensors as often as a test likes."""

    def __init__(self, ticks: Ticks, connect: Connect) -> None:
        self._ticks = ticks
        self._connect = connect
        self.instance = ticks.instance

    def begin(self, seconds_ago: int = 60, job: str = PARTITIONS_JOB, **more: Any) -> dg.DagsterRun:
        """A run that has begun; its first step has not."""
        run = dg.DagsterRun(
            job_name=job,
            run_id=str(uuid.uuid4()),
            status=dg.DagsterRunStatus.STARTING,
            tags={"dagster/partition": key(), MAX_RUNTIME_TAG: "1800", **more.pop("tags", {})},
            **more,
        )
        self.instance.add_run(run)
        self.say(run, dg.DagsterEventType.RUN_START, timestamp=time.time() - seconds_ago)
        return run

    def say(self, run: dg.DagsterRun, kind: dg.DagsterEventType, timestamp: Any = None, **more: Any) -> None:
        event = dg.DagsterEvent(kind.value, run.job_name, **more)
        self.instance.report_dagster_event(event, run.run_id, timestamp=timestamp)

    def fail_step(self, run: dg.DagsterRun, error: SerializableErrorInfo, source: ErrorSource) -> None:
        data = StepFailureData(error, None, error_source=source)  # type: ignore[no-untyped-call]
        self.say(run, dg.DagsterEventType.STEP_FAILURE, step_key="raw_domains", event_specific_data=data)

    def hold(self, run: dg.DagsterRun) -> None:
        """The partition is RUNNING by this run."""
        partition_store.start_partition(self._connect(str(MIDNIGHT)), NEWS, run.run_id, 1_860)

    def tell(
        self, run: dg.DagsterRun, sensor: str = FAILED, instance: dg.DagsterInstance | None = None
    ) -> None:
        """Evaluates the sensor for the run's last event of that kind."""
        instance = instance or self.instance
        failed = sensor == FAILED
        kind = dg.DagsterEventType.RUN_FAILURE if failed else dg.DagsterEventType.RUN_CANCELED
        record = instance.get_records_for_run(run.run_id, of_type=kind).records[-1]
        context = dg.build_run_status_sensor_context(
            sensor_name=sensor,
            dagster_event=record.event_log_entry.get_dagster_event(),
            dagster_instance=instance,
            dagster_run=run,
            resources=self._ticks.resources(MIDNIGHT),
        )
        definition = definitions().get_repository_def().get_sensor_def(sensor)
        assert isinstance(definition, dg.RunStatusSensorDefinition)
        definition(context.for_run_failure() if failed else context)


@pytest.fixture
def ended(ticks: Ticks, connect: Connect) -> EndedRuns:
    return EndedRuns(ticks, connect)


def noted(connection: psycopg.Connection) -> tuple[str, int, str | None, bool]:
    """The only partition's status, failures and error, and whether another try is planned."""
    row = connection.execute(
        "SELECT status, failures, error, due_at IS NOT NULL FROM raw.partition"
    ).fetchone()
    assert row is not None
    return row


def test_a_failed_run_is_one_failure_with_its_cause_however_often_it_is_told(
    ended: EndedRuns, database_url: str, store: Store, connection: psycopg.Connection
) -> None:
    runs = RawRuns(database_url, Store(store.url, "no-such-bucket", store.client))
    result = runs.run()
    for _ in range(2):
        ended.tell(result.dagster_run, instance=runs.instance)

    status, failures, error, again = noted(connection)
    assert (status, failures, again) == ("FAILED", 1, True)
    assert error is not None
    assert error.startswith("resources.bucket_failure.BucketRefused: the bucket refuses (NoSuchBucket")
    assert "\n" not in error
    rows = connection.execute("SELECT type, kind, error, environment, partition, run_id FROM raw.failure_log")
    assert rows.fetchall() == [("BucketRefused", "PARTITION", error, "tests", key(), result.run_id)]
    stack = connection.execute("SELECT stack FROM raw.failure_log").fetchone()
    assert stack is not None
    assert "in failures_by_owner" in stack[0]


def test_what_the_step_has_noted_itself_is_not_noted_again(
    ended: EndedRuns, runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), b"[")
    result = runs.run()

    ended.tell(result.dagster_run, instance=runs.instance)

    assert noted(connection)[1] == 1
    assert failure_log(connection) == [("PARTITION", result.run_id)]


def test_a_run_whose_process_died_lacked_a_resource(ended: EndedRuns, connection: psycopg.Connection) -> None:
    run = ended.begin()
    ended.hold(run)
    said = "Detected run worker status NOT_FOUND. Marking run as failed."
    ended.instance.report_run_failed(run, said)

    ended.tell(run)

    assert noted(connection) == ("FAILED", 1, said, True)
    assert failure_log(connection) == [("RESOURCE", run.run_id)]


def test_a_run_that_was_interrupted_from_outside_tells_how_it_ended(
    ended: EndedRuns, connection: psycopg.Connection
) -> None:
    run = ended.begin()
    ended.hold(run)
    ended.fail_step(run, INTERRUPTED, ErrorSource.INTERRUPT)
    said = "Execution was interrupted unexpectedly. No user initiated termination request was found"
    ended.instance.report_run_failed(run, said)

    ended.tell(run)

    assert noted(connection) == ("FAILED", 1, said, True)
    assert failure_log(connection) == [("RESOURCE", run.run_id)]


@pytest.mark.parametrize("error", ["the file ends in \x00", "half a pair: \ud800"])
def test_an_error_that_postgres_cannot_store_is_noted_all_the_same(
    ended: EndedRuns, connection: psycopg.Connection, error: str
) -> None:
    run = ended.begin()
    ended.hold(run)
    ended.fail_step(run, SerializableErrorInfo(error, [], "ValueError"), ErrorSource.USER_CODE_ERROR)
    ended.instance.report_run_failed(run)

    ended.tell(run)

    assert noted(connection)[:2] == ("FAILED", 1)
    assert failure_log(connection) == [("PARTITION", run.run_id)]


@pytest.mark.parametrize("ends", ["at once", "after its step was interrupted", "by force", "as canceled"])
def test_a_run_that_took_too_long_has_timed_out(
    ended: EndedRuns, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    run = ended.begin(seconds_ago=1_801)
    ended.hold(run)

    def terminate(run_id: str) -> bool:
        if ends == "after its step was interrupted":
            ended.fail_step(run, INTERRUPTED, ErrorSource.INTERRUPT)
        if ends == "as canceled":
            ended.instance.report_run_canceled(run)
        return ends not in ("by force", "as canceled")

    monkeypatch.setattr(ended.instance.run_launcher, "terminate", terminate)
    record = ended.instance.get_run_record_by_id(run.run_id)
    assert record is not None
    check_run_timeout(ended.instance, record, logging.getLogger("tests"), 3_600)

    ended.tell(run, CANCELED if ends == "as canceled" else FAILED)

    assert noted(connection) == ("FAILED", 1, "the run took longer than 1800 seconds", True)
    assert failure_log(connection) == [("TIMEOUT", run.run_id)]


@pytest.mark.parametrize("ran", ["long", "short"])
def test_a_run_that_a_person_canceled_is_not_tried_again(
    ended: EndedRuns, ticks: Ticks, connection: psycopg.Connection, ran: str
) -> None:
    run = ended.begin(seconds_ago=1_830 if ran == "long" else 60)
    ended.hold(run)
    cancel(ended, run)

    assert noted(connection) == ("FAILED", 0, "canceled", False)
    assert failure_log(connection) == []
    assert ticks.retry(MIDNIGHT.replace(hour=10)) == []


def test_a_try_that_a_person_canceled_in_the_queue_is_the_last(
    ended: EndedRuns, ticks: Ticks, connection: psycopg.Connection
) -> None:
    first = ended.begin()
    ended.hold(first)
    ended.instance.report_run_failed(first)
    ended.tell(first)
    connection.execute("UPDATE raw.partition SET due_at = %s", (MIDNIGHT,))
    assert ticks.retry(MIDNIGHT) == [key()]

    cancel(ended, ended.begin())

    assert noted(connection) == ("FAILED", 1, "canceled", False)
    assert ticks.retry(MIDNIGHT.replace(hour=10)) == []


def test_a_request_that_a_person_canceled_in_the_queue_is_not_started_again(
    ended: EndedRuns, ticks: Ticks, connect: Connect
) -> None:
    number = partition_store.request_partition(connect(), "kr", "news", DAY, True)

    cancel(ended, ended.begin(tags={partition_store.REQUEST_TAG: str(number)}))

    assert ticks.sensor("raw_files_requested", MIDNIGHT) == "no request waits"


def test_a_run_that_was_started_from_an_assets_page_is_an_attempt_too(
    ended: EndedRuns, connection: psycopg.Connection
) -> None:
    selected = frozenset({dg.AssetKey("raw_domains")})
    run = ended.begin(job="__ASSET_JOB", asset_selection=selected)
    ended.hold(run)
    ended.instance.report_run_failed(run, "gone")

    ended.tell(run)

    assert noted(connection) == ("FAILED", 1, "gone", True)


def test_a_failed_report_is_no_attempt_at_a_partition(
    ended: EndedRuns, connection: psycopg.Connection
) -> None:
    run = ended.begin(job="raw_files_report", tags={"dagster/partition": DAY.isoformat()})
    ended.instance.report_run_failed(run)

    ended.tell(run)

    assert failure_log(connection) == []


def test_a_run_that_ended_well_before_it_was_told_of_keeps_its_partition_done(
    ended: EndedRuns, runs: RawRuns, connection: psycopg.Connection
) -> None:
    """As where fetching front pages, which comes last, fails."""
    runs.store.put(raw_path(1), document("gaon-market.test"))
    result = runs.run()
    run = result.dagster_run
    runs.instance.report_run_failed(run)

    ended.tell(run, instance=runs.instance)

    assert noted(connection) == ("DONE", 0, None, False)


def cancel(ended: EndedRuns, run: dg.DagsterRun) -> None:
    """As the button does."""
    ended.instance.report_run_canceling(run)
    ended.instance.report_run_canceled(run)
    ended.tell(run, CANCELED)
