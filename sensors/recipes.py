"""What starts runs of recipes after the fetch: batches that are over, and job records that wait for a run."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.recipes import batch_store, job_report, recipe_store, repair_store
from assets.recipes.models import BatchIntent, BatchKind, WaitingWork
from assets.recipes.statuses import Status
from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG, PRIORITY_TAG, RECIPES_MAX_SECONDS, SLOW_PRIORITY
from resources import gate
from resources.batches import BatchResource
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from sensors.live_runs import held_locks

SUBMIT, PARSED, EMBEDDED = "recipes_parse_submit", "recipes_parsed", "recipes_embedded"
JOB_OF_WAITING = {Status.FETCHED: SUBMIT, Status.PARSE_RETRIEVED: PARSED, Status.PERSISTED: PARSED}
JOB_OF_BATCH = {BatchKind.PARSE: PARSED, BatchKind.EMBED: EMBEDDED}
RUNS_A_TICK = 10


@dataclass(frozen=True)
class Seen:
    """What a tick found. `over`: partitions with a batch that is over, by kind."""

    waiting: tuple[WaitingWork, ...]
    over: frozenset[tuple[str, BatchKind]]
    may_submit: bool
    """False while the gate is shut or the provider's queue is full: only results are taken in."""


def lock_of_day(run_id: str) -> str:
    """One run at a time for each day: its jobs hand their records to each other."""
    return f"recipes:{run_id}"


def runs_to_start(seen: Seen, held: AbstractSet[str], tick: int) -> list[dg.RunRequest]:
    """One run per day without a live one, oldest day first; the stage that is furthest goes first."""
    wanted: dict[str, str] = {}
    for run_id, kind in sorted(seen.over, key=lambda one: one[1] is BatchKind.PARSE):
        wanted.setdefault(run_id, JOB_OF_BATCH[kind])
    for work in sorted(seen.waiting, key=lambda one: list(Status).index(one.status), reverse=True):
        if seen.may_submit or work.status is Status.PARSE_RETRIEVED:
            wanted.setdefault(work.run_id, JOB_OF_WAITING[work.status])
    return [
        dg.RunRequest(
            run_key=f"{job}:{run_id}:{tick}", job_name=job, partition_key=run_id, tags=_tags(run_id)
        )
        for run_id, job in sorted(wanted.items())
        if lock_of_day(run_id) not in held
    ][:RUNS_A_TICK]


def recipes_sensors(is_on: bool, jobs: Iterable[Any]) -> list[dg.SensorDefinition]:
    """The one sensor that looks at all open batches once a tick."""

    @dg.sensor(
        jobs=list(jobs),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED,
        description="Looks at all open batches once a tick, and starts what is over or waits.",
    )
    def recipe_batches(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        mongo: MongoResource,
        parse_batches: BatchResource,
    ) -> dg.SensorResult | dg.SkipReason:
        with postgres.connect() as connection, mongo.connect() as db:
            now = recipe_store.now(connection)
            repair_store.release_dead(db, now)
            dead = {(one.run_id, one.kind) for one in batch_store.dead_intents(db, now)}
            waiting = (
                *job_report.work_waiting(db),
                *(WaitingWork(run_id, _status_of(kind), 1) for run_id, kind in dead),
            )
            open_batches = batch_store.open_batches(db)
            over = _over(parse_batches, open_batches)
            shut = gate.read(connection, parse_batches.gate_key) if waiting else None
        may_submit = shut is None or shut.probe_is_due
        seen = Seen(tuple(waiting), frozenset(over), may_submit)
        if not seen.waiting and not seen.over:
            return dg.SkipReason(f"{len(open_batches)} batches are open and none is over; nothing waits")
        held = {
            lock
            for job in (SUBMIT, PARSED, EMBEDDED, "recipes_fetch")
            for lock in held_locks(context.instance, job, RECIPES_MAX_SECONDS)
        }
        runs = runs_to_start(seen, held, _next_tick(context))
        if not runs:
            return dg.SkipReason("what is over or waits has a live run, or the AI gate is shut")
        return dg.SensorResult(runs)

    return [recipe_batches]


def _over(api: BatchResource, open_batches: Iterable[BatchIntent]) -> set[tuple[str, BatchKind]]:
    """The partitions with a batch that is over, or that the API does not know: by one list for all."""
    wanted = {one.batch_id: one for one in open_batches if one.batch_id}
    if not wanted:
        return set()
    since = min(one.created_at for one in wanted.values())
    with api.open() as opened:
        states = {state.id: state for state in opened.created_since(since) if state.id in wanted}
    return {
        (one.run_id, one.kind)
        for batch_id, one in wanted.items()
        if batch_id not in states or states[batch_id].is_over
    }


def _status_of(kind: BatchKind) -> Status:
    return Status.FETCHED if kind is BatchKind.PARSE else Status.PERSISTED


def _tags(run_id: str) -> dict[str, str]:
    return {LOCK_TAG: lock_of_day(run_id), MAX_RETRIES_TAG: "0", PRIORITY_TAG: SLOW_PRIORITY}


def _next_tick(context: dg.SensorEvaluationContext) -> int:
    """Counts ticks in the cursor: a tick that is evaluated twice asks for the same run keys."""
    tick = int(context.cursor or 0) + 1
    context.update_cursor(str(tick))
    return tick
