"""The day's report in its three places, when it is asked for, and the alarms that it tells of."""

import json
import re
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest

from assets.raw_files import attempts, partition_store
from resources.alerts import AlertResource
from tests.integration.raw_files.faulty_bucket import Fault, faulty_bucket
from tests.integration.raw_files.raw_runs import DAY, RawRuns, Store, document, raw_path
from tests.integration.raw_files.ticks import (
    MIDNIGHT,
    NOON,
    REPORT_JOB,
    Connect,
    Ticks,
    alarms,
    failure,
    told,
)

MINUTE = timedelta(minutes=1)
ONE_DAY = timedelta(days=1)
OBJECT = f"reports/date={DAY}/summary.json"
ALERTS = AlertResource()

# As the source document's example has them, in its order.
SUMMARY_FIELDS = [
    "date",
    "scheduled_at",
    "completed_at",
    "duration_minutes",
    "partitions_scanned",
    "partitions_with_new_files",
    "partitions_processed_successfully",
    "partitions_failed",
    "total_new_files",
    "total_files_processed",
    "success_rate",
]
FAILED_FIELDS = ["country", "category", "date", "error", "retry_scheduled"]

ADD_FILES = """
INSERT INTO raw.file (key, source, day, etag, size, status, seen_at, processed_at, run_id)
SELECT 'raw/' || %(source)s || %(day)s || number, %(source)s, %(day)s, 'etag', 1, 'PROCESSED', granary.now(),
       granary.now(), 'run'
FROM generate_series(1, %(files)s) AS number
"""


class Recorded:
    """A past that was written down, without a bucket that would have to hold it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    def passed(self, day: date, at: datetime | None = None) -> None:
        """The daily pass that looked for the day, and found nothing to do."""
        tick = datetime.combine(day + ONE_DAY, MIDNIGHT.timetz())
        connection = self._connect(str(at or tick))
        number = partition_store.start_pass(connection, "daily", tick, day)
        assert number is not None
        partition_store.finish_pass(connection, number, 0, 0, 0)

    def succeeded(self, source: str, day: date = DAY, at: datetime = MIDNIGHT, files: int = 1) -> None:
        connection = self._connect(str(at))
        connection.execute(ADD_FILES, {"source": source, "day": day, "files": files})
        partition_store.start_partition(connection, (day, source), f"run {source}", 1_860)
        assert partition_store.finish_partition(connection, (day, source), f"run {source}")

    def failed(self, source: str, day: date = DAY, times: int = 1, at: datetime = MIDNIGHT) -> None:
        connection = self._connect(str(at))
        for number in range(times):
            run = f"{source} {day} {number}"
            partition_store.start_partition(connection, (day, source), run, 1_860)
            assert attempts.fail(connection, ALERTS, (day, source), run, failure(run, "timed out"))


@pytest.fixture
def recorded(connect: Connect) -> Recorded:
    return Recorded(connect)


def stored(connection: psycopg.Connection, day: date = DAY) -> Any:
    return partition_store.daily_report(connection, day)


def checks(result: dg.MaterializeResult[Any]) -> dict[str | None, bool | None]:
    return {one.check_name: one.passed for one in result.check_results or []}


def test_the_report_is_the_source_documents_json_in_all_three_places(
    ticks: Ticks, recorded: Recorded, store: Store, connection: psycopg.Connection
) -> None:
    recorded.passed(DAY)
    recorded.succeeded("kr/shop", at=MIDNIGHT + 15 * MINUTE, files=7)
    recorded.succeeded("us/shop", at=MIDNIGHT + 14 * MINUTE, files=2)
    recorded.failed("kr/news", at=MIDNIGHT + 10 * MINUTE)

    result = ticks.report(MIDNIGHT + 12 * MINUTE)

    summary = json.loads(store.read(OBJECT))
    assert list(summary) == ["daily_processing_summary", "failed_partitions", "details"]
    numbers = summary["daily_processing_summary"]
    assert list(numbers) == SUMMARY_FIELDS
    assert [list(one) for one in summary["failed_partitions"]] == [FAILED_FIELDS]
    assert {name: numbers[name] for name in SUMMARY_FIELDS[:4]} == {
        "date": "2026-11-29",
        "scheduled_at": "2026-11-30T00:00:00Z",
        "completed_at": "2026-11-30T00:15:00Z",
        "duration_minutes": 15.0,
    }
    assert [numbers[name] for name in SUMMARY_FIELDS[5:]] == [3, 2, 1, 9, 9, 0.6667]
    assert summary["failed_partitions"][0]["retry_scheduled"] == "2026-11-30T00:15:00Z"

    assert stored(connection) == summary
    shown = (result.metadata or {})["summary"]
    assert isinstance(shown, dg.MarkdownMetadataValue)
    table = shown.md_str or ""
    rows = dict(re.findall(r"^\| ([a-z ]+) \| ([^|]+) \|$", table, re.MULTILINE))
    assert rows["partitions failed"] == "1"
    assert rows["success rate"] == "0.6667"
    assert "| kr/news | timed out | 2026-11-30T00:15:00Z |" in table


def test_the_files_of_a_real_day_are_counted(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.store.put(raw_path(2), b"[")
    runs.store.put(raw_path(1, "us/shop"), b"")
    for source in ("kr/news", "us/shop"):
        runs.run(source=source)

    result = runs.report()

    assert result.success
    assert runs.checks(result)["partition_failing"]
    assert not runs.checks(result)["failure_rate"]
    numbers = stored(connection)["daily_processing_summary"]
    assert [numbers[name] for name in SUMMARY_FIELDS[5:]] == [2, 1, 1, 3, 1, 0.5]
    assert stored(connection)["details"] == {
        "files_failed": 2,
        "partitions_partly_processed": 1,
        "partitions_unfinished": 0,
    }
    (failed,) = stored(connection)["failed_partitions"]
    assert (failed["country"], failed["category"], failed["date"]) == ("us", "shop", "2026-11-29")
    assert failed["error"].startswith("none of the partition's files could be read; raw.file has the reason")
    assert failed["error"].endswith(", the first: empty file")


def test_a_report_whose_object_was_not_stored_is_asked_for_again_after_a_pause(
    ticks: Ticks, recorded: Recorded, store: Store, database_url: str, connection: psycopg.Connection
) -> None:
    recorded.passed(DAY)
    with faulty_bucket(store.url) as proxy:
        proxy.fail_next(1, Fault.ACCESS_DENIED)
        refused = Ticks(ticks.instance, database_url, store, proxy.url)
        with pytest.raises(dg.Failure, match="AccessDenied"):
            refused.report(MIDNIGHT + MINUTE)
    run = dg.DagsterRun(job_name=REPORT_JOB, tags={"lock": f"{REPORT_JOB}:{DAY}"})
    ticks.instance.add_run(run)
    ticks.instance.report_run_failed(run)
    assert ticks.reports(MIDNIGHT + 2 * MINUTE) == []
    ticks.instance.wipe()

    assert ticks.reports(MIDNIGHT + 12 * MINUTE) == [str(DAY)]
    ticks.report(MIDNIGHT + 12 * MINUTE)
    assert json.loads(store.read(OBJECT)) == stored(connection)


def test_a_report_is_asked_for_after_a_pass_that_found_nothing_and_once(
    ticks: Ticks, connection: psycopg.Connection
) -> None:
    assert ticks.daily() == []

    assert ticks.reports(MIDNIGHT + MINUTE) == [str(DAY)]
    ticks.report(MIDNIGHT + MINUTE)
    assert ticks.sensor("raw_reports_due", MIDNIGHT + 2 * MINUTE) == "every report is up to date"
    assert ticks.supplementary() == []
    assert ticks.reports(NOON + MINUTE) == [str(DAY)]


def test_a_report_waits_until_no_partition_of_its_day_runs(
    ticks: Ticks, recorded: Recorded, store: Store, connect: Connect
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    ticks.daily()
    assert ticks.reports(MIDNIGHT + MINUTE) == []
    later = connect(str(MIDNIGHT + 2 * MINUTE))
    partition_store.start_partition(later, (DAY, "kr/news"), "run", 1_860)
    recorded.succeeded("kr/news", DAY - ONE_DAY)
    assert ticks.reports(MIDNIGHT + 2 * MINUTE) == [str(DAY - ONE_DAY)]

    partition_store.finish_partition(later, (DAY, "kr/news"), "run")

    assert ticks.reports(MIDNIGHT + 3 * MINUTE) == [str(DAY), str(DAY - ONE_DAY)]


def test_a_report_is_not_asked_for_while_one_is_written(ticks: Ticks, recorded: Recorded) -> None:
    recorded.passed(DAY)
    recorded.passed(DAY - ONE_DAY)
    ticks.live_run(f"{REPORT_JOB}:{DAY}", dg.DagsterRunStatus.STARTED, REPORT_JOB)

    assert ticks.reports(MIDNIGHT + MINUTE) == [str(DAY - ONE_DAY)]


def test_a_failed_partition_is_reported_and_its_later_success_too(ticks: Ticks, recorded: Recorded) -> None:
    recorded.failed("kr/news")
    assert ticks.reports(MIDNIGHT + MINUTE) == [str(DAY)]
    ticks.report(MIDNIGHT + MINUTE)
    assert ticks.reports(MIDNIGHT + 2 * MINUTE) == []

    recorded.succeeded("kr/news", at=MIDNIGHT + 6 * MINUTE)

    assert ticks.reports(MIDNIGHT + 7 * MINUTE) == [str(DAY)]


def test_each_alarm_is_a_check_that_fails_one_message_and_one_when_it_clears(
    ticks: Ticks, recorded: Recorded, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    for day in (DAY - 2 * ONE_DAY, DAY - ONE_DAY, DAY):
        recorded.passed(day, at=datetime.combine(day + ONE_DAY, MIDNIGHT.timetz()) + 40 * MINUTE)
        recorded.failed("kr/news", day, times=4 if day == DAY else 1)
    ticks.switch_on(MIDNIGHT - 10 * ONE_DAY)
    raised = [
        "raw_files:daily_processing_failure:kr/news:2026-11-29",
        "raw_files:failure_rate:2026-11-29",
        "raw_files:no_new_files",
        "raw_files:partition_failing:kr/news",
        "raw_files:schedule_late",
    ]

    first = ticks.report(MIDNIGHT + 41 * MINUTE)
    assert told(caplog) == [f"Granary: {cause}" for cause in raised]
    again = ticks.report(MIDNIGHT + 42 * MINUTE)

    names = ["daily_processing_failure", "failure_rate", "no_new_files", "partition_failing", "schedule_late"]
    assert checks(first) == checks(again) == dict.fromkeys(names, False)
    assert alarms(connection) == dict.fromkeys(raised, True)
    assert told(caplog) == []

    recorded.succeeded("kr/news", at=MIDNIGHT + 50 * MINUTE)
    ticks.switch_off()
    last = ticks.report(MIDNIGHT + 51 * MINUTE)

    assert checks(last) == dict.fromkeys(names, True)
    assert alarms(connection) == dict.fromkeys(raised, False)
    assert told(caplog) == [f"Granary: {cause} is over" for cause in raised]


def test_an_alarm_that_stands_the_next_day_is_told_of_again(
    ticks: Ticks, recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    recorded.failed("kr/news")

    for hours in (1, 2, 16):  # the day of messages begins at 15:00 UTC
        ticks.report(MIDNIGHT + timedelta(hours=hours))

    assert told(caplog) == ["Granary: raw_files:failure_rate:2026-11-29"] * 2


def test_an_old_days_report_neither_raises_nor_clears_what_is_said_of_now(
    ticks: Ticks, recorded: Recorded, connection: psycopg.Connection
) -> None:
    old = DAY - 3 * ONE_DAY
    for day in (DAY - 2 * ONE_DAY, DAY - ONE_DAY, DAY):
        recorded.failed("kr/news", day)
        recorded.passed(day)
    recorded.failed("us/shop", old)
    ticks.report(NOON)
    before = alarms(connection)
    assert before["raw_files:partition_failing:kr/news"]
    assert before["raw_files:failure_rate:2026-11-29"]

    ticks.report(NOON, old)
    assert alarms(connection) == {**before, f"raw_files:failure_rate:{old}": True}
    recorded.succeeded("us/shop", old, at=NOON)
    ticks.report(NOON, old)

    assert alarms(connection) == {**before, f"raw_files:failure_rate:{old}": False}
