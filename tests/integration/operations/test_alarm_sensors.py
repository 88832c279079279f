"""Ticks of the alarm sensors over a real database, an instance of Dagster and a receiver of messages."""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster_shared.error import SerializableErrorInfo

from operations.alarm_facts import Watched
from resources.alerts import AlertResource
from resources.postgres import PostgresResource
from sensors.alerts import alarm_sensors
from tests.integration.job_runs import clocked
from tests.integration.resources.scripted_server import ScriptedServer, always, answer, scripted

Connect = Callable[..., psycopg.Connection]

REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("granary"), "__repository__")
WATCHED = Watched(
    frozenset({"economy_news", "context_tags", "recommendations"}),
    crawls=True,
    fetches_recipes=False,
    spending_cap_usd=Decimal(5),
)
RETRIES = {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False}
CANARY = "canary-7431"
NIGHT = datetime(2026, 11, 30, 18, tzinfo=UTC)
"""03:00 of the next day in Seoul."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dg.op
def breaks() -> None:
    raise ValueError(f"the article says {CANARY}")


@dg.op
def says_why() -> None:
    raise dg.Failure(description="MONGODB_URI is not set:\n  start the stack", allow_retries=False)


@dg.job
def broken_job() -> None:
    breaks()


@dg.job
def failing_job() -> None:
    says_why()


@dg.job
def operations_why() -> None:
    says_why()


@dg.schedule(
    name="economy_news_every_five_minutes",
    job=failing_job,
    cron_schedule="*/5 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def every_five_minutes() -> None:
    """Never evaluated here."""


@dg.sensor(name="members_due", job=failing_job, default_status=dg.DefaultSensorStatus.RUNNING)
def members_due() -> None:
    """Never evaluated here."""


class Alarms:
    """The sensors in a code location of their own; ticks keep their cursor."""

    def __init__(self, instance: dg.DagsterInstance, database_url: str, receiver: ScriptedServer) -> None:
        self.instance = instance
        self.receiver = receiver
        self.alerts = AlertResource(urls=receiver.url.replace("http:", "json:"))
        self._database_url = database_url
        self.watches(WATCHED)
        self._repository = dg.Definitions(
            jobs=[broken_job, failing_job],
            schedules=[every_five_minutes],
            sensors=[members_due, *self._sensors.values()],
            resources=self._resources(),
        ).get_repository_def()
        self._cursor: str | None = None

    def watches(self, watched: Watched) -> None:
        self._sensors = {sensor.name: sensor for sensor in alarm_sensors(True, watched)}

    def _resources(self, at: datetime | None = None) -> dict[str, Any]:
        url = clocked(self._database_url, at) if at else self._database_url
        return {"postgres": PostgresResource(database_url=url), "alerts": self.alerts}

    def tick(self, at: datetime | None = None) -> str:
        """One tick of `alarms_looked_at`, now or at another time of the database; what it says."""
        made = dg.build_sensor_context(
            instance=self.instance,
            cursor=self._cursor,
            repository_def=self._repository,
            resources=self._resources(at),
        )
        with made as context:
            said: Any = self._sensors["alarms_looked_at"](context)
            self._cursor = context.cursor
        return str(said.skip_message)

    def run(self, job: dg.JobDefinition, **tags: str) -> str:
        """The id of a run of the job that has ended."""
        result = job.execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            tags={name.replace("__", "/"): value for name, value in tags.items()},
            run_config=QUIET,
        )
        return result.run_id

    def hears_of(self, run_id: str, canceled: bool = False) -> None:
        """The sensor for failed (or canceled) runs hears of this one."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        kind = dg.DagsterEventType.RUN_CANCELED if canceled else dg.DagsterEventType.RUN_FAILURE
        name = "overlong_runs_tell" if canceled else "failed_runs_tell"
        context = dg.build_run_status_sensor_context(
            sensor_name=name,
            dagster_event=dg.DagsterEvent(kind.value, run.job_name),
            dagster_instance=self.instance,
            dagster_run=run,
            resources=self._resources(),
        )
        sensor = self._sensors[name]
        assert isinstance(sensor, dg.RunStatusSensorDefinition)
        sensor(context if canceled else context.for_run_failure())

    def told(self) -> list[str]:
        """The titles that arrived, without the heartbeat."""
        sent = [json.loads(request.partition("\r\n\r\n")[2]) for request in self.receiver.requests]
        titles = [body["title"].removeprefix("Granary: ") for body in sent]
        return [title for title in titles if title != "heartbeat"]

    def message(self) -> str:
        return str(json.loads(self.receiver.requests[-1].partition("\r\n\r\n")[2])["message"])

    def state(self, name: str, kind: InstigatorType, data: Any) -> InstigatorState:
        """The instigator's state as the daemon keeps it, on as declared in code."""
        origin = RemoteInstigatorOrigin(REPOSITORY, name)
        state = InstigatorState(origin, kind, InstigatorStatus.DECLARED_IN_CODE, data)
        return self.instance.add_instigator_state(state)

    def ticked(self, state: InstigatorState, at: datetime, *statuses: TickStatus) -> None:
        """Ticks of it, a second apart."""
        for number, status in enumerate(statuses):
            tick = TickData(
                state.instigator_origin_id,
                state.instigator_name,
                state.instigator_type,
                status,
                at.timestamp() + number,
                selector_id=state.selector_id,
                run_ids=[] if status is TickStatus.SUCCESS else None,
                error=SerializableErrorInfo("down", [], "OSError") if status is TickStatus.FAILURE else None,
            )
            self.instance.create_tick(tick)


@pytest.fixture(scope="module")
def kept_instance() -> Iterator[dg.DagsterInstance]:
    """One for all tests: to make its files takes seconds."""
    with dg.DagsterInstance.local_temp(overrides={"run_retries": RETRIES}) as instance:
        yield instance


@pytest.fixture
def alarms(kept_instance: dg.DagsterInstance, database_url: str, connect: Connect) -> Iterator[Alarms]:
    """With the heartbeat of the day sent, so that no test depends on its hour."""
    AlertResource().beat(connect(), "sent")
    with scripted(always(answer(200))) as receiver:
        yield Alarms(kept_instance, database_url, receiver)
    kept_instance.wipe()
    assert kept_instance.schedule_storage is not None
    kept_instance.schedule_storage.wipe()


# --- failed runs --------------------------------------------------------------------------------------------


def test_a_failed_run_is_told_once_with_what_failed_and_what_to_do(alarms: Alarms) -> None:
    failed = alarms.run(failing_job, dagster__partition="2026-11-30")
    for _ in range(2):
        alarms.hears_of(failed)
    assert alarms.told() == ["run:failing_job"]
    said = alarms.message()
    failure = "says_why: MONGODB_URI is not set: start the stack. "
    assert said.startswith(f"failing_job (2026-11-30) failed, run {failed}: {failure}")
    assert "launch it again from failure in the UI" in said and "docs/runbook.md" in said


def test_the_text_of_an_error_is_not_told_but_its_class(alarms: Alarms) -> None:
    alarms.hears_of(alarms.run(broken_job, dagster__max_retries="0"))
    assert "breaks: ValueError. Its schedule or sensor brings the work back" in alarms.message()
    assert CANARY not in "".join(alarms.receiver.requests)


def test_the_range_of_partitions_is_named(alarms: Alarms) -> None:
    ends = {
        "dagster__asset_partition_range_start": "2026-11-29|STOCK",
        "dagster__asset_partition_range_end": "2026-11-29|WORLD",
    }
    alarms.hears_of(alarms.run(failing_job, **ends))
    assert "failing_job (2026-11-29|STOCK to 2026-11-29|WORLD) failed" in alarms.message()


@pytest.mark.parametrize(("tags", "told"), [({}, False), ({"dagster__max_retries": "0"}, True)])
def test_a_run_whose_process_died_is_told_unless_dagster_tries_it_again(
    alarms: Alarms, tags: dict[str, str], told: bool
) -> None:
    run_id = str(uuid.uuid4())
    named = {name.replace("__", "/"): value for name, value in tags.items()}
    run = dg.DagsterRun("failing_job", run_id, status=dg.DagsterRunStatus.STARTED, tags=named)
    alarms.instance.add_run(run)
    alarms.instance.report_run_failed(run, "the code server does not know the run any more")
    known = alarms.instance.get_run_by_id(run_id)
    assert known is not None and known.tags["dagster/will_retry"] == str(not told).lower()
    alarms.hears_of(run_id)
    assert alarms.told() == (["run:failing_job"] if told else [])


def test_without_the_tag_it_is_decided_as_dagster_decides(alarms: Alarms) -> None:
    for job, retries in ((failing_job, "2"), (broken_job, "0")):
        run = dg.DagsterRun(
            job.name,
            str(uuid.uuid4()),
            status=dg.DagsterRunStatus.FAILURE,
            tags={"dagster/max_retries": retries},
        )
        alarms.instance.add_run(run)
        alarms.hears_of(run.run_id)
    assert alarms.told() == ["run:broken_job"]


@pytest.mark.parametrize(
    ("why", "told"),
    [("Canceling due to exceeding maximum runtime of 600 seconds.", ["run:failing_job"]), (None, [])],
)
@pytest.mark.parametrize("canceled", [True, False])
def test_a_canceled_run_is_told_only_where_it_was_ended_for_its_length(
    alarms: Alarms, why: str | None, told: list[str], canceled: bool
) -> None:
    run = dg.DagsterRun(
        "failing_job",
        str(uuid.uuid4()),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/max_retries": "0"},
    )
    alarms.instance.add_run(run)
    alarms.instance.report_run_canceling(run, message=why)
    if canceled:
        alarms.instance.report_run_canceled(run)
    else:
        alarms.instance.report_run_failed(run, "Exceeded maximum runtime")
    alarms.hears_of(run.run_id, canceled)
    assert alarms.told() == told


def test_a_failed_run_is_over_when_the_last_run_of_its_job_went_well(alarms: Alarms) -> None:
    alarms.hears_of(alarms.run(failing_job))
    alarms.tick()
    ended(alarms, "failing_job", dg.DagsterRunStatus.SUCCESS)
    ended(alarms, "failing_job", dg.DagsterRunStatus.FAILURE)
    alarms.tick()
    assert alarms.told() == ["run:failing_job"]
    ended(alarms, "broken_job", dg.DagsterRunStatus.SUCCESS)
    ended(alarms, "failing_job", dg.DagsterRunStatus.SUCCESS)
    alarms.tick()
    alarms.tick()
    assert alarms.told() == ["run:failing_job", "run:failing_job is over"]


def ended(alarms: Alarms, job: str, status: dg.DagsterRunStatus, assets: Iterable[str] = ()) -> None:
    run = dg.DagsterRun(
        job,
        str(uuid.uuid4()),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/max_retries": "0"},
        asset_selection=frozenset(map(dg.AssetKey, assets)) or None,
    )
    alarms.instance.add_run(run)
    good = status is dg.DagsterRunStatus.SUCCESS
    kind = dg.DagsterEventType.RUN_SUCCESS if good else dg.DagsterEventType.RUN_FAILURE
    alarms.instance.report_dagster_event(dg.DagsterEvent(kind.value, job), run.run_id)


def test_what_a_person_asked_and_got_no_answer_to_is_no_alarm(alarms: Alarms) -> None:
    alarms.hears_of(alarms.run(operations_why))
    assert alarms.told() == []


def test_a_failed_run_that_no_sensor_could_tell_is_told_by_the_next_look(alarms: Alarms) -> None:
    alarms.tick()
    failed = alarms.run(failing_job)
    alarms.tick()
    alarms.tick()
    assert alarms.told() == ["run:failing_job"]
    assert f"run {failed}: says_why: MONGODB_URI is not set" in alarms.message()


def test_a_missed_run_is_told_no_second_time_and_not_after_its_job_went_well(alarms: Alarms) -> None:
    alarms.tick()
    alarms.hears_of(alarms.run(failing_job))
    ended(alarms, "broken_job", dg.DagsterRunStatus.FAILURE)
    ended(alarms, "broken_job", dg.DagsterRunStatus.SUCCESS)
    ended(alarms, "failing_job", dg.DagsterRunStatus.SUCCESS)
    for _ in range(3):
        alarms.tick()
    assert alarms.told() == ["run:failing_job", "run:failing_job is over"]


@pytest.mark.parametrize(("why", "told"), [("maximum runtime", ["run:failing_job"]), (None, [])])
def test_a_missed_run_that_was_canceled_is_told_where_it_was_ended_for_its_length(
    alarms: Alarms, why: str | None, told: list[str]
) -> None:
    run = dg.DagsterRun("failing_job", str(uuid.uuid4()), status=dg.DagsterRunStatus.STARTED)
    alarms.instance.add_run(run)
    alarms.instance.report_run_canceling(run, message=why)
    alarms.instance.report_run_canceled(run)
    alarms.tick()
    assert alarms.told() == told


def test_runs_that_end_while_a_look_is_full_are_seen_by_the_next(
    alarms: Alarms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sensors.ended_runs.MOST_RUNS", 2)
    for job in ("failing_job", "failing_job", "broken_job"):
        ended(alarms, job, dg.DagsterRunStatus.FAILURE)
    alarms.tick()
    assert alarms.told() == ["run:failing_job"]
    alarms.tick()
    assert alarms.told() == ["run:failing_job", "run:broken_job"]


def test_runs_of_assets_by_hand_are_told_and_over_by_their_assets(alarms: Alarms) -> None:
    failure, success = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
    for assets in (["news"], ["recipes", "jobs"]):
        ended(alarms, "__ASSET_JOB", failure, assets)
    alarms.tick()
    by_news, by_both = "run:__ASSET_JOB:news", "run:__ASSET_JOB:jobs,recipes"
    assert sorted(alarms.told()) == [by_both, by_news]
    ended(alarms, "__ASSET_JOB", success, ["recipes"])
    ended(alarms, "__ASSET_JOB", failure, ["news", "recipes"])
    alarms.tick()
    assert alarms.told()[2:] == ["run:__ASSET_JOB:news,recipes"]
    ended(alarms, "__ASSET_JOB", success, ["recipes", "jobs", "news"])
    alarms.tick()
    assert len(alarms.told()) == 6 and all(title.endswith(" is over") for title in alarms.told()[3:])


def test_the_cause_of_many_assets_stays_short(alarms: Alarms) -> None:
    many = [f"an_asset_of_a_long_name_{number:03}" for number in range(300)]
    for assets in (many, many[:-1]):
        ended(alarms, "__ASSET_JOB", dg.DagsterRunStatus.FAILURE, assets)
    alarms.tick()
    assert len(set(alarms.told())) == 2 and all(len(title) < 300 for title in alarms.told())
    ended(alarms, "__ASSET_JOB", dg.DagsterRunStatus.SUCCESS, many)
    alarms.tick()
    assert len([title for title in alarms.told() if title.endswith(" is over")]) == 1


# --- what is looked at --------------------------------------------------------------------------------------


def test_where_all_is_well_a_tick_tells_nothing(alarms: Alarms) -> None:
    assert alarms.tick() == "0 alarms stand that are looked at here, 0 have cleared"
    assert alarms.told() == []


def test_spending_is_told_at_four_fifths_and_at_the_cap_and_is_over_the_next_day(
    alarms: Alarms, connect: Connect
) -> None:
    spend = "INSERT INTO granary.spending_day VALUES ('2026-12-01', 1, 3)"  # the day in Seoul at NIGHT
    connect().execute(spend)
    for _ in range(2):
        alarms.tick(NIGHT)
    connect().execute("UPDATE granary.spending_day SET spent_usd = 4")
    alarms.tick(NIGHT)
    assert alarms.told() == ["spending:80", "spending:100"]
    connect().execute("UPDATE granary.spending_day SET spent_usd = 0")
    alarms.tick(NIGHT)
    assert len(alarms.told()) == 2
    alarms.tick(NIGHT + timedelta(days=1))
    assert sorted(alarms.told()[2:]) == ["spending:100 is over", "spending:80 is over"]


def test_a_request_that_waits_and_one_that_is_handled(alarms: Alarms, connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO granary.context_request"
        " (context_id, user_id, record_id, text, text_hmac, requested_at, text_since)"
        " VALUES (1, 1, 1, 'a text', 'hmac', granary.now() - interval '11 minutes', granary.now())"
    )
    alarms.tick()
    assert "A context posted waits since" in alarms.message()
    connection.execute("UPDATE granary.context_request SET handled_at = granary.now()")
    alarms.tick()
    assert alarms.told() == ["waiting:context_tags", "waiting:context_tags is over"]


def test_a_member_who_is_due_and_one_that_a_run_has(alarms: Alarms, connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO rec.visit_trigger (member_id, last_visited_at, trigger_at, created_at, updated_at)"
        " VALUES (1, granary.now() - interval '1 day', granary.now() - interval '11 minutes', now(), now())"
    )
    alarms.tick()
    connection.execute(
        "UPDATE rec.visit_trigger"
        " SET lease_until = granary.now() + interval '1 minute', lease_token = gen_random_uuid()"
    )
    alarms.tick()
    assert alarms.told() == ["waiting:recommendations", "waiting:recommendations is over"]


def test_stages_and_batches_that_nobody_ends(alarms: Alarms, connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO ai.context_ai_state VALUES"
        " (1, 'PROCESSING', 'PENDING', 0, granary.now() - interval '21 minutes'),"
        " (2, 'COMPLETED', 'PROCESSING', 0, granary.now() - interval '19 minutes')"
    )
    connection.execute("INSERT INTO granary.spending_day (day) VALUES (granary.today())")
    connection.execute(
        "INSERT INTO granary.batch_reservation VALUES"
        " ('old', 'recipes', 'm', granary.today(), 1, granary.now() - interval '27 hours', NULL),"
        " ('done', 'other', 'm', granary.today(), 1, granary.now() - interval '27 hours', granary.now())"
    )
    alarms.tick()
    assert sorted(alarms.told()) == ["batch_stuck:recipes", "running_long:context_tags"]


def test_lost_leases_and_errors_are_told_by_their_growth(
    alarms: Alarms, connection: psycopg.Connection
) -> None:
    count(connection, leases=50, ok=0, failed=100)
    alarms.tick()
    assert alarms.told() == []
    count(connection, leases=52, ok=40, failed=101)
    alarms.tick()
    assert alarms.told() == []
    count(connection, leases=53, ok=40, failed=103)
    alarms.tick()
    assert sorted(alarms.told()) == ["api_errors", "leases_lost:economy_news"]
    alarms.tick(datetime.now(UTC) + timedelta(minutes=15))
    assert sorted(alarms.told()[2:]) == ["api_errors is over", "leases_lost:economy_news is over"]


def count(connection: psycopg.Connection, leases: int, ok: int, failed: int) -> None:
    connection.execute("DELETE FROM granary.counter WHERE name <> 'alerts_sent_total'")
    connection.execute(
        "INSERT INTO granary.counter VALUES"
        """ ('ai_leases_lost_total', '{"pipeline": "economy_news"}', %s),"""
        """ ('openai_api_requests_total', '{"status": "ok"}', %s),"""
        """ ('openai_api_requests_total', '{"status": "500"}', %s)""",
        (leases, ok, failed),
    )


def test_a_table_that_is_away_silences_no_other_alarm(alarms: Alarms, connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO granary.spending_day VALUES (granary.today(), 1, 3)")
    connection.execute(
        "INSERT INTO granary.alert VALUES ('running_long:context_tags', granary.today(), 'stands',"
        " granary.now() - interval '1 hour', NULL, granary.now())"
    )
    connection.execute("ALTER TABLE ai.context_ai_state RENAME TO elsewhere")
    alarms.tick()
    assert sorted(alarms.told()) == ["facts_unreadable:running_long:context_tags", "spending:80"]
    connection.execute("ALTER TABLE ai.elsewhere RENAME TO context_ai_state")
    alarms.tick()
    unreadable = "facts_unreadable:running_long:context_tags is over"
    assert sorted(alarms.told()[2:]) == [unreadable, "running_long:context_tags is over"]


def test_counters_that_are_away_are_told_and_messages_are_sent_once(
    alarms: Alarms, connection: psycopg.Connection
) -> None:
    connection.execute("ALTER TABLE granary.counter RENAME TO elsewhere")
    alarms.tick()
    alarms.tick()
    assert sorted(alarms.told()) == ["facts_unreadable:api_errors", "facts_unreadable:leases_lost"]


def test_the_tables_of_a_pipeline_that_is_off_are_not_read(
    alarms: Alarms, connection: psycopg.Connection
) -> None:
    alarms.watches(replace(WATCHED, pipelines=frozenset({"recipes"})))
    connection.execute(
        "ALTER TABLE ai.context_ai_state RENAME TO elsewhere;"
        "ALTER TABLE rec.queue_item RENAME TO elsewhere;"
        "ALTER TABLE news.ai_batch RENAME TO elsewhere"
    )
    alarms.tick()
    assert alarms.told() == []


# --- schedules and sensors ----------------------------------------------------------------------------------


def test_a_schedule_without_a_tick_ten_minutes_after_its_time_is_late(alarms: Alarms) -> None:
    now = datetime.now(UTC)
    crawl = alarms.state(
        "economy_news_every_five_minutes",
        InstigatorType.SCHEDULE,
        ScheduleInstigatorData("*/5 * * * *", (now - timedelta(hours=2)).timestamp()),
    )
    alarms.ticked(crawl, now - timedelta(minutes=21), TickStatus.SUCCESS)
    alarms.tick()
    alarms.ticked(crawl, now - timedelta(minutes=1), TickStatus.SKIPPED)
    alarms.tick()
    name = "schedule_late:economy_news_every_five_minutes"
    assert alarms.told() == [name, f"{name} is over"]


@pytest.mark.parametrize("status", [InstigatorStatus.STOPPED, InstigatorStatus.DECLARED_IN_CODE])
def test_a_schedule_that_is_off_or_was_just_switched_on_is_not_late(
    alarms: Alarms, status: InstigatorStatus
) -> None:
    since = datetime.now(UTC) - timedelta(minutes=11 if status is InstigatorStatus.STOPPED else 4)
    crawl = alarms.state(
        "economy_news_every_five_minutes",
        InstigatorType.SCHEDULE,
        ScheduleInstigatorData("*/5 * * * *", since.timestamp()),
    )
    alarms.instance.update_instigator_state(crawl.with_status(status))
    alarms.tick()
    assert alarms.told() == []


def test_a_sensor_that_failed_three_times_in_a_row_is_told(alarms: Alarms) -> None:
    failed, now = TickStatus.FAILURE, datetime.now(UTC)
    sensor = alarms.state("members_due", InstigatorType.SENSOR, SensorInstigatorData())
    alarms.ticked(sensor, now - timedelta(minutes=9), TickStatus.SUCCESS, failed, failed)
    alarms.tick()
    assert alarms.told() == []
    alarms.ticked(sensor, now - timedelta(minutes=5), failed, TickStatus.STARTED)
    alarms.tick()
    alarms.tick()
    assert alarms.told() == ["sensor_failing:members_due"]
    well = SensorInstigatorData(last_tick_success_timestamp=now.timestamp())
    alarms.instance.update_instigator_state(sensor.with_data(well))
    alarms.tick()
    assert alarms.told() == ["sensor_failing:members_due", "sensor_failing:members_due is over"]


# --- the heartbeat ------------------------------------------------------------------------------------------


def test_the_heartbeat_comes_once_a_day_from_nine_in_seoul_on(alarms: Alarms) -> None:
    eight, nine = (datetime(2027, 1, 5, hour, tzinfo=UTC) - timedelta(hours=9) for hour in (8, 9))
    alarms.tick(eight)
    assert alarms.receiver.requests == []
    alarms.tick(nine)
    alarms.tick(nine + timedelta(minutes=1))
    (request,) = alarms.receiver.requests
    assert "2027-01-04: 0 articles, 0 recipes, 0 contexts" in request
    alarms.tick(nine + timedelta(days=1))
    assert len(alarms.receiver.requests) == 2


def test_the_heartbeat_and_what_waits_to_be_told_come_before_what_cannot_be_read(
    alarms: Alarms, connection: psycopg.Connection
) -> None:
    AlertResource(urls="nonsense").raise_(connection, "gate:x", "pay the bill")
    connection.execute("DELETE FROM granary.alert WHERE cause = 'heartbeat'")
    connection.execute("ALTER TABLE rec.queue_item RENAME TO elsewhere")
    alarms.tick(datetime(2027, 1, 5, tzinfo=UTC))
    assert alarms.told() == ["gate:x", "facts_unreadable:running_long:recommendations"]
    assert "Yesterday's figures could not be read." in alarms.receiver.requests[1]
