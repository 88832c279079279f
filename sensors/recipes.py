"""What starts runs of recipes after the fetch: batches that are over, and job records that wait for a run."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg

from assets.recipes import batch_store, batch_submission, job_report, recipe_store, repair_store
from assets.recipes.batch_kinds import EMBED, PARSE
from assets.recipes.batch_room import BUDGET
from assets.recipes.models import BatchIntent, BatchKind, WaitingWork
from assets.recipes.rules import STOPPED_TAG, RecipeRules
from assets.recipes.statuses import LEASE_SECONDS, Status
from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG, PRIORITY_TAG, RECIPES_MAX_SECONDS, SLOW_PRIORITY
from resources import gate
from resources.alerts import AlertResource
from resources.api_failure import ApiFailure
from resources.batch_state import BatchState
from resources.batches import BatchResource
from resources.model_gate import ModelGate
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

FETCH, SUBMIT = "recipes_fetch", "recipes_parse_submit"
PARSED, EMBEDDED = "recipes_parsed", "recipes_embedded"
RECIPES_JOBS = (FETCH, SUBMIT, PARSED, EMBEDDED)
RECIPES_ASSETS = frozenset(
    {
        "recipe_jobs",
        "recipe_parse_batches",
        "recipe_parse_results",
        "recipes",
        "recipe_embedding_batches",
        "recipe_embeddings",
    }
)
JOB_OF_WAITING = {Status.FETCHED: SUBMIT, Status.PARSE_RETRIEVED: PARSED, Status.PERSISTED: PARSED}
JOB_OF_INTENT = {BatchKind.PARSE: SUBMIT, BatchKind.EMBED: PARSED}
JOB_OF_RESULTS = {BatchKind.PARSE: PARSED, BatchKind.EMBED: EMBEDDED}
ASKS_FOR = {
    Status.FETCHED: BatchKind.PARSE,
    Status.PARSE_RETRIEVED: BatchKind.EMBED,
    Status.PERSISTED: BatchKind.EMBED,
}
"""Which model the next stage asks: for a recipe to be stored, its ingredients' names may be embedded."""
STAGES = {BatchKind.PARSE: PARSE, BatchKind.EMBED: EMBED}
FURTHEST_FIRST = (BatchKind.EMBED, BatchKind.PARSE)
RUNS_A_TICK = 10
REST = timedelta(minutes=5)
"""An API that is away, or a fault of ours, is not met by a run a minute."""

DayAndKind = tuple[str, BatchKind]


@dataclass(frozen=True)
class Seen:
    """What a tick found.

    `dead`: intents of dead runs, of which nobody knows yet whether they became batches. `over`: batches whose
    results can be taken in. `shut`: why nothing of a kind may be asked, until a probe of its gate is due.
    `no_room`: what a new batch of a kind would wait for. `open`: batches that are not over, too.
    """

    waiting: tuple[WaitingWork, ...] = ()
    dead: frozenset[DayAndKind] = frozenset()
    over: frozenset[DayAndKind] = frozenset()
    shut: Mapping[BatchKind, str] = field(default_factory=dict)
    no_room: Mapping[BatchKind, str] = field(default_factory=dict)
    open: int = 0


def lock_of_day(run_id: str) -> str:
    """One run at a time for each day: its jobs hand their records to each other."""
    return f"recipes:{run_id}"


def runs_to_start(seen: Seen, held: AbstractSet[str], tick: int) -> list[dg.RunRequest]:
    """One run per day without a live one, oldest day first; the stage that is furthest goes first."""
    wanted: dict[str, str] = {}
    for run_id, job in _worth_a_run(seen):
        wanted.setdefault(run_id, job)
    return [
        dg.RunRequest(
            run_key=f"{job}:{run_id}:{tick}", job_name=job, partition_key=run_id, tags=_tags(run_id)
        )
        for run_id, job in sorted(wanted.items())
        if lock_of_day(run_id) not in held
    ][:RUNS_A_TICK]


def why_none(seen: Seen) -> str:
    """Why a tick starts nothing, for whoever looks at the sensor."""
    if not seen.waiting and not seen.dead and not seen.over:
        return f"{seen.open} batches are open and none is over; nothing waits" + _reasons(seen.shut)
    return "what is over or waits has a live run, rests, or must wait" + _reasons(
        {**seen.no_room, **seen.shut}
    )


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
        embed_batches: BatchResource,
        alerts: AlertResource,
        recipe_rules: RecipeRules,
    ) -> dg.SensorResult | dg.SkipReason:
        apis = {BatchKind.PARSE: parse_batches, BatchKind.EMBED: embed_batches}
        with postgres.connect() as connection, mongo.connect() as db:
            seen = _Look(connection, db, apis, alerts, recipe_rules).seen()
        if not any(_worth_a_run(seen)):
            return dg.SkipReason(why_none(seen))
        held = {lock for job in RECIPES_JOBS for lock in _kept_back(context.instance, job)}
        runs = runs_to_start(seen, held, next_tick(context))
        return dg.SensorResult(runs) if runs else dg.SkipReason(why_none(seen))

    return [recipe_batches]


def free_work_of(run: dg.DagsterRun, postgres: PostgresResource, mongo: MongoResource) -> int:
    """How many job records and batches of a run that has ended may be taken by others at once.

    Of another pipeline's run: none, and MongoDB is not asked.
    """
    assets = {asset.to_user_string() for asset in run.asset_selection or ()}
    if run.job_name not in RECIPES_JOBS and not assets & RECIPES_ASSETS:
        return 0
    claims = f"{run.run_id}:"  # of all its attempts
    with postgres.connect() as connection, mongo.connect() as db:
        now = recipe_store.now(connection)
        freed = repair_store.release_dead(db, now, claimed_by_prefix=claims)
        return sum(freed) + batch_store.release_claims(db, claims)


def _worth_a_run(seen: Seen) -> Iterator[tuple[str, str]]:
    """Days and the jobs that would find something to do there, what is furthest first."""
    for kind in FURTHEST_FIRST:
        if seen.shut.get(kind) != "AUTH":  # what is paid for is taken in, whatever may be asked
            yield from ((run_id, JOB_OF_RESULTS[kind]) for run_id, of in sorted(seen.over) if of is kind)
    for kind in FURTHEST_FIRST:
        if kind not in seen.shut:  # settling needs no room, and makes some
            yield from ((run_id, JOB_OF_INTENT[kind]) for run_id, of in sorted(seen.dead) if of is kind)
    for work in sorted(seen.waiting, key=lambda one: list(Status).index(one.status), reverse=True):
        kind = ASKS_FOR[work.status]
        lacks = seen.no_room.get(kind)
        if work.status is Status.PARSE_RETRIEVED and lacks != BUDGET:
            lacks = None  # names are asked for at once, and not in a batch that could find a full queue
        if kind not in seen.shut and lacks is None:
            yield work.run_id, JOB_OF_WAITING[work.status]


class _Look:
    """One tick's look at both databases and, where batches are open, at the provider's list."""

    def __init__(
        self,
        connection: psycopg.Connection,
        db: "Mongo",
        apis: Mapping[BatchKind, BatchResource],
        alerts: AlertResource,
        rules: RecipeRules,
    ) -> None:
        self._connection = connection
        self._db = db
        self._apis = apis
        self._alerts = alerts
        self._rules = rules

    def seen(self) -> Seen:
        """What there is to do, after what dead runs held was freed."""
        now = recipe_store.now(self._connection)
        repair_store.release_dead(self._db, now)
        batch_store.settle_ended(self._db, now)
        waiting = job_report.work_waiting(self._db)
        dead = {(one.run_id, one.kind) for one in batch_store.dead_intents(self._db, now)}
        open_batches = batch_store.open_batches(self._db)
        over, away = self._over([one for one in open_batches if not _is_held(one, now)])
        waiting_for = {ASKS_FOR[work.status] for work in waiting}
        asked = {*waiting_for, *(kind for _, kind in (*dead, *over))}
        return Seen(
            tuple(waiting),
            frozenset(dead),
            over,
            {**self._shut(asked), **away},
            self._no_room(waiting_for, now, bool(open_batches)),
            len(open_batches),
        )

    def _over(
        self, open_batches: Iterable[BatchIntent]
    ) -> tuple[frozenset[DayAndKind], Mapping[BatchKind, str]]:
        """Where batches are over, by one list for all; where it cannot be read, why nothing is asked."""
        wanted = {one.batch_id: one for one in open_batches if one.batch_id}
        if not wanted:
            return frozenset(), {}
        api = self._apis[BatchKind.PARSE]
        passing = ModelGate(self._connection, api.gate_key, self._alerts, self._rules.gate_probe_minutes)
        if shut := passing.pass_(only="AUTH"):
            return frozenset(), dict.fromkeys(BatchKind, shut.reason)
        try:
            states = _states(api, wanted)
            passing.answered()
        except ApiFailure as failure:
            passing.shut_for(failure)
            passing.asked_nothing()
            return frozenset(), dict.fromkeys(BatchKind, failure.verdict.reason or failure.code)
        # One that the API does not know is over as well.
        ended = [one for id_, one in wanted.items() if id_ not in states or states[id_].is_over]
        return frozenset((one.run_id, one.kind) for one in ended), {}

    def _shut(self, kinds: Iterable[BatchKind]) -> dict[BatchKind, str]:
        gates = {kind: gate.read(self._connection, self._apis[kind].gate_key) for kind in kinds}
        return {kind: shut.reason for kind, shut in gates.items() if shut and not shut.probe_is_due}

    def _no_room(self, kinds: Iterable[BatchKind], now: datetime, is_open: bool) -> dict[BatchKind, str]:
        found = {}
        for kind in kinds:
            model = self._apis[kind].priced_model.in_batch()
            reason = batch_submission.waits_for(
                self._db, self._connection, STAGES[kind], model, self._rules, now
            )
            # Without a batch that may give money back the day is over, and it is a run that says so.
            if reason and (is_open or reason != BUDGET):
                found[kind] = reason
        return found


def _states(api: BatchResource, wanted: Mapping[str, BatchIntent]) -> dict[str, BatchState]:
    """As the API lists them, newest first, until the last of those that are wanted."""
    since = min(one.created_at for one in wanted.values())
    states: dict[str, BatchState] = {}
    with api.open() as opened:
        for state in opened.created_since(since):
            if state.id in wanted:
                states[state.id] = state
            if len(states) == len(wanted):
                break
    return states


def _is_held(batch: BatchIntent, now: datetime) -> bool:
    """Whether a run takes in its results, or died over them less than a lease ago."""
    since = now - timedelta(seconds=LEASE_SECONDS)
    return batch.claimed_by is not None and batch.claimed_at is not None and batch.claimed_at >= since


def _kept_back(instance: dg.DagsterInstance, job: str) -> set[str]:
    """The locks of the job's live runs, and of those that could not go on a moment ago."""
    lately = dg.RunsFilter(job_name=job, updated_after=datetime.now(UTC) - REST)
    stopped = [run for run in instance.get_runs(lately, limit=100) if STOPPED_TAG in run.tags]
    return {run.tags.get(LOCK_TAG, "") for run in stopped} | held_locks(instance, job, RECIPES_MAX_SECONDS)


def _reasons(by_kind: Mapping[BatchKind, str]) -> str:
    return "".join(f"; {kind}: {reason}" for kind, reason in sorted(by_kind.items()))


def _tags(run_id: str) -> dict[str, str]:
    return {LOCK_TAG: lock_of_day(run_id), MAX_RETRIES_TAG: "0", PRIORITY_TAG: SLOW_PRIORITY}
