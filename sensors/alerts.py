"""What tells the person on call: failed runs, what is wrong by recorded facts, and the daily heartbeat."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from functools import partial

import dagster as dg
import psycopg

from operations import alarm_facts_store, instance_facts
from operations.alarm_cursor import AlarmCursor, read_cursor
from operations.alarm_facts import SEOUL, Facts, Watched
from operations.alarms import (
    MOST_PROCESSING,
    MOST_WAITING,
    Alarm,
    asks_for_recipes,
    causes_over,
    standing_alarms,
)
from operations.counter_window import CounterWindow
from operations.heartbeat import heartbeat_message
from orchestration.policies import MAX_RETRIES_TAG
from resources.alerts import AlertResource
from resources.postgres import PostgresResource
from sensors import ended_runs

LOOK_SENSOR = "alarms_looked_at"
ONLY_ANSWER = frozenset({"operations_why", "operations_quote"})
"""Who starts them waits for the answer, and a question that has none is nobody's alarm."""
ONE_DAY = timedelta(days=1)
RUN_IS_OVER = "A later run of the job succeeded; if the failed one was of another partition, see to that."
RUNBOOK = 'docs/runbook.md, "A day has to be done again".'


def alarm_sensors(is_on: bool, watched: Watched) -> list[dg.SensorDefinition]:
    """The sensors, running by themselves or stopped until somebody starts them."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.run_failure_sensor(
        name="failed_runs_tell",
        default_status=status,
        minimum_interval_seconds=10,
        description="Raises an alarm for a failed run of any job that will not be tried again.",
    )
    def failed_runs_tell(
        context: dg.RunFailureSensorContext, postgres: PostgresResource, alerts: AlertResource
    ) -> None:
        tell_of_run(context, postgres, alerts)

    @dg.run_status_sensor(
        name="overlong_runs_tell",
        run_status=dg.DagsterRunStatus.CANCELED,
        default_status=status,
        minimum_interval_seconds=10,
        description="The same for a run that was ended for its length and says that it was canceled.",
    )
    def overlong_runs_tell(
        context: dg.RunStatusSensorContext, postgres: PostgresResource, alerts: AlertResource
    ) -> None:
        tell_of_run(context, postgres, alerts)

    # With no job: it starts nothing.
    @dg.sensor(
        name=LOOK_SENSOR,
        minimum_interval_seconds=60,
        default_status=status,
        description="Raises and clears alarms by recorded facts, sends what was not, and the heartbeat.",
    )
    def alarms_looked_at(
        context: dg.SensorEvaluationContext, postgres: PostgresResource, alerts: AlertResource
    ) -> dg.SkipReason:
        cursor = read_cursor(context.cursor)
        with postgres.connect() as connection:
            alerts.tell_waiting(connection)
            beat(connection, context.instance, alerts)
            runs_after = tell_of_missed_runs(connection, context.instance, alerts, cursor.runs_after)
            facts, window = gather(
                connection, context.instance, context.repository_def, watched, cursor.window
            )
            stand, cleared = tell(connection, alerts, facts)
        context.update_cursor(AlarmCursor(window, runs_after).to_text())
        return dg.SkipReason(f"{stand} alarms stand that are looked at here, {cleared} have cleared")

    return [failed_runs_tell, overlong_runs_tell, alarms_looked_at]


def tell_of_run(
    context: dg.RunStatusSensorContext, postgres: PostgresResource, alerts: AlertResource
) -> None:
    """Raises the alarm of the run that the sensor hears of, if it is one."""
    alarm = run_alarm(context.instance, context.dagster_run)
    if alarm is not None:
        with postgres.connect() as connection:
            alerts.raise_(connection, alarm.cause, alarm.message)


def tell_of_missed_runs(
    connection: psycopg.Connection,
    instance: dg.DagsterInstance,
    alerts: AlertResource,
    after: datetime | None,
) -> datetime:
    """After which moment to look the next time; raises what no sensor has told.

    Dagster moves the cursor of a sensor of runs on, even where Postgres was away and nothing could be told.
    """
    found = ended_runs.ended_badly(instance, after, datetime.now(UTC))
    told: set[str] = set()
    for run, ended_at in reversed(found.runs):
        cause = ended_runs.run_cause(run)
        if cause in told:
            continue
        raised_at = alarm_facts_store.raised_at(connection, cause)
        if raised_at is not None and raised_at >= ended_at:
            told.add(cause)
            continue
        alarm = run_alarm(instance, run)
        if alarm is not None:
            told.add(cause)
            if not ended_runs.has_recovered(instance, cause, ended_at):
                alerts.raise_(connection, alarm.cause, alarm.message)
    return found.next_after


def run_alarm(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Alarm | None:
    """The alarm of a run that failed or was canceled; None where it is tried again, or a person ended it."""
    if run.job_name in ONLY_ANSWER:
        return None
    canceled = ended_runs.canceled_for(instance, run.run_id)
    if run.status is dg.DagsterRunStatus.CANCELED:
        if canceled != "length":  # one that was ended for its length says that it was canceled, too
            return None
    elif canceled == "person" or ended_runs.will_be_retried(instance, run):
        return None
    step = None if canceled else ended_runs.failed_step(instance, run.run_id)
    error = f"{step[0]}: {step[1]}" if step else _no_step(canceled)
    return Alarm(ended_runs.run_cause(run), run_message(run, error))


def run_message(run: dg.DagsterRun, error: str) -> str:
    """What failed, how, and who does something about it."""
    made = ended_runs.what_it_made(run)
    if run.tags.get(MAX_RETRIES_TAG) == "0":
        to_do = (
            "Its schedule or sensor brings the work back by itself; if this alarm stays, mend what it says"
        )
    else:
        to_do = "Mend what it says, then launch it again from failure in the UI"
    return (
        f"{run.job_name}{f' ({made})' if made else ''} failed, run {run.run_id}: {error}. {to_do}. {RUNBOOK}"
    )


def gather(
    connection: psycopg.Connection,
    instance: dg.DagsterInstance,
    repository: dg.RepositoryDefinition | None,
    watched: Watched,
    window: CounterWindow,
) -> tuple[Facts, CounterWindow]:
    """The facts of one tick, and the window with its sample; what cannot be read is named in the facts."""
    store, readings = alarm_facts_store, alarm_facts_store.Readings(connection)
    on = watched.pipelines
    now, standing = store.now(connection), store.standing(connection)
    counted = readings.read(("api_errors", "leases_lost"), lambda: store.counted(connection), None)
    window = window if counted is None else window.with_sample(now, counted)
    growth = {} if counted is None else window.growth()
    used_usd, is_spent = readings.read("spending", lambda: store.spending(connection), (Decimal(0), False))
    newest_article_at = None
    if watched.crawls and "economy_news" in on:
        newest_article_at = readings.read(
            "nothing_new:economy_news", lambda: store.newest_article_at(connection), now
        )
    ticks = instance_facts.look_at_instigators(instance, repository, now, besides=LOOK_SENSOR)
    facts = Facts(
        now=now,
        watched=watched,
        standing=standing,
        used_usd=used_usd,
        is_spent=is_spent,
        newest_article_at=newest_article_at,
        on_since=ticks.on_since,
        waiting=_waiting(connection, readings, on),
        running_long=_running_long(connection, readings, on),
        open_batches=_open_batches(connection, readings, on),
        leases_lost=store.leases_lost(growth),
        requests=growth.get(store.REQUESTS, 0),
        errors=growth.get(store.ERRORS, 0),
        late_schedules=ticks.late,
        failing_sensors=ticks.failing_sensors,
        failing_schedules=ticks.failing_schedules,
        recovered=_recovered(connection, instance, standing),
        unreadable=frozenset(readings.unreadable),
    )
    if asks_for_recipes(facts):
        fetched = instance_facts.was_materialised(instance, "recipe_jobs", facts.today.isoformat())
        facts = replace(facts, recipes_fetched_today=fetched)
    return facts, window


def _waiting(
    connection: psycopg.Connection, readings: alarm_facts_store.Readings, on: frozenset[str]
) -> dict[str, datetime]:
    found = {
        pipeline: readings.read(
            f"waiting:{pipeline}", partial(alarm_facts_store.waiting_since, connection, pipeline), None
        )
        for pipeline in alarm_facts_store.WAITED_FOR
        if pipeline in on
    }
    return {pipeline: since for pipeline, since in found.items() if since is not None}


def _running_long(
    connection: psycopg.Connection, readings: alarm_facts_store.Readings, on: frozenset[str]
) -> dict[str, int]:
    after = {"context_tags": MOST_PROCESSING}
    return {
        pipeline: readings.read(
            f"running_long:{pipeline}",
            partial(alarm_facts_store.running_long, connection, pipeline, after.get(pipeline, MOST_WAITING)),
            0,
        )
        for pipeline in alarm_facts_store.LEASED
        if pipeline in on
    }


def _open_batches(
    connection: psycopg.Connection, readings: alarm_facts_store.Readings, on: frozenset[str]
) -> dict[str, datetime]:
    store, news = alarm_facts_store, "economy_news"
    nothing: dict[str, datetime] = {}
    found = dict(readings.read("batch_stuck", lambda: store.reserved_batches(connection), nothing))
    planned_at = None
    if news in on:
        planned_at = readings.read(
            f"batch_stuck:{news}", lambda: store.news_batch_planned_at(connection), None
        )
    if planned_at is not None:
        found[news] = min(planned_at, found.get(news, planned_at))
    return found


def tell(connection: psycopg.Connection, alerts: AlertResource, facts: Facts) -> tuple[int, int]:
    """How many causes stand of those that are looked at, and how many have cleared; each is told once."""
    found = standing_alarms(facts)
    for alarm in found:
        alerts.raise_(connection, alarm.cause, alarm.message)
    over = causes_over(facts, found)
    for cause in over:
        if cause.startswith("run:"):
            alerts.clear(connection, cause, RUN_IS_OVER)
        else:
            alerts.clear(connection, cause)
    return len(found), len(over)


def beat(connection: psycopg.Connection, instance: dg.DagsterInstance, alerts: AlertResource) -> bool:
    """True for the one tick of the day, from 09:00 in Seoul on, that sends the heartbeat."""
    if not alarm_facts_store.heartbeat_is_due(connection):
        return False
    readings = alarm_facts_store.Readings(connection)
    figures = readings.read("yesterday", lambda: alarm_facts_store.yesterday(connection), None)
    yesterday = alarm_facts_store.now(connection).astimezone(SEOUL).date() - ONE_DAY
    start = datetime.combine(yesterday, time.min, SEOUL)
    message = heartbeat_message(
        figures,
        instance_facts.failed_runs(instance, start, start + ONE_DAY),
        sorted(alarm_facts_store.standing(connection)),
        alarm_facts_store.untold(connection),
    )
    return alerts.beat(connection, message)


def _recovered(
    connection: psycopg.Connection, instance: dg.DagsterInstance, standing: Iterable[str]
) -> frozenset[str]:
    """Causes of runs that stand, and whose runs have succeeded since."""
    found = set()
    for cause in standing:
        raised_at = alarm_facts_store.raised_at(connection, cause) if cause.startswith("run:") else None
        if raised_at is not None and ended_runs.has_recovered(instance, cause, raised_at):
            found.add(cause)
    return frozenset(found)


def _no_step(canceled: str | None) -> str:
    if canceled == "length":
        return "it took longer than its maximum run time and was ended"
    return "it ended without a failed step: its process died, or could not start"
