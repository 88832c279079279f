"""What tells the person on call: failed runs, what is wrong by recorded facts, and the daily heartbeat."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, time, timedelta

import dagster as dg
import psycopg

from operations import alarm_facts_store, instance_facts
from operations.alarm_facts import SEOUL, Facts, Watched
from operations.alarms import (
    MOST_PROCESSING,
    MOST_WAITING,
    asks_for_recipes,
    causes_over,
    standing_alarms,
)
from operations.counter_window import CounterWindow, read_window
from operations.heartbeat import heartbeat_message
from orchestration.policies import MAX_RETRIES_TAG
from resources.alerts import AlertResource
from resources.postgres import PostgresResource

LOOK_SENSOR = "alarms_looked_at"
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
        run, instance = context.dagster_run, context.instance
        canceled = instance_facts.canceled_for(instance, run.run_id)
        if canceled == "person" or instance_facts.will_be_retried(instance, run):
            return
        step = None if canceled else instance_facts.failed_step(context)
        error = f"{step[0]}: {step[1]}" if step else _no_step(canceled)
        with postgres.connect() as connection:
            alerts.raise_(connection, f"run:{run.job_name}", run_message(run, error))

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
        run = context.dagster_run
        if instance_facts.canceled_for(context.instance, run.run_id) != "length":
            return
        with postgres.connect() as connection:
            alerts.raise_(connection, f"run:{run.job_name}", run_message(run, _no_step("length")))

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
        with postgres.connect() as connection:
            now = alarm_facts_store.now(connection)
            counted = alarm_facts_store.counted(connection)
            window = read_window(context.cursor).with_sample(now, counted)
            facts = gather(connection, context.instance, context.repository_def, watched, window, now)
            alerts.tell_waiting(connection)
            stand, cleared = tell(connection, alerts, facts)
            beat(connection, context.instance, alerts)
        context.update_cursor(window.to_cursor())
        return dg.SkipReason(f"{stand} alarms stand that are looked at here, {cleared} have cleared")

    return [failed_runs_tell, overlong_runs_tell, alarms_looked_at]


def run_message(run: dg.DagsterRun, error: str) -> str:
    """What failed, how, and who does something about it."""
    made = instance_facts.what_it_made(run)
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
    now: datetime,
) -> Facts:
    """The facts of one tick."""
    standing = alarm_facts_store.standing(connection)
    used_usd, is_spent = alarm_facts_store.spending(connection)
    ticks = instance_facts.look_at_instigators(instance, repository, now, besides=LOOK_SENSOR)
    growth = window.growth()
    facts = Facts(
        now=now,
        watched=watched,
        standing=standing,
        used_usd=used_usd,
        is_spent=is_spent,
        newest_article_at=alarm_facts_store.newest_article_at(connection) if watched.crawls else None,
        on_since=ticks.on_since,
        waiting=alarm_facts_store.oldest_waiting(connection),
        running_long=alarm_facts_store.running_long(connection, MOST_WAITING, MOST_PROCESSING),
        open_batches=alarm_facts_store.open_batches(connection),
        leases_lost=alarm_facts_store.leases_lost(growth),
        requests=growth.get(alarm_facts_store.REQUESTS, 0),
        errors=growth.get(alarm_facts_store.ERRORS, 0),
        late_schedules=ticks.late,
        failing_sensors=ticks.failing_sensors,
        failing_schedules=ticks.failing_schedules,
        recovered=_recovered(connection, instance, standing),
    )
    if not asks_for_recipes(facts):
        return facts
    fetched = instance_facts.was_materialised(instance, "recipe_jobs", facts.today.isoformat())
    return replace(facts, recipes_fetched_today=fetched)


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
    figures = alarm_facts_store.yesterday(connection)
    start = datetime.combine(figures.day, time.min, SEOUL)
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
    """Jobs whose alarm stands and that have succeeded since."""
    found = set()
    for cause in standing:
        kind, _, job = cause.partition(":")
        raised_at = alarm_facts_store.raised_at(connection, cause) if kind == "run" else None
        if raised_at is not None and instance_facts.has_recovered(instance, job, raised_at):
            found.add(job)
    return frozenset(found)


def _no_step(canceled: str | None) -> str:
    if canceled == "length":
        return "it took longer than its maximum run time and was ended"
    return "it ended without a failed step: its process died, or could not start"
