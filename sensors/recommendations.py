"""What starts runs of recommendations: members who are due, items that wait, and products to embed."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import UTC, date

import dagster as dg

from assets.recommendations import product_store, queue_store, trigger_store, visit_store
from assets.recommendations.rules import RecommendationRules
from orchestration.policies import (
    LOCK_TAG,
    MAX_RETRIES_TAG,
    RECOMMENDATIONS_MAX_SECONDS,
)
from resources import gate
from resources.embeddings import EmbeddingResource
from resources.postgres import PostgresResource
from sensors.day_runs import day_runs
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

MEMBERS_JOB = "recommendations"
PRODUCTS_JOB = "recommendations_products"


def recommendation_runs(
    waiting: Iterable[date], today: date, someone_is_due: bool, held: AbstractSet[str], tick: int
) -> list[dg.RunRequest]:
    """One run per day with items that wait, and today's where members are due; newest day first."""
    days = set(waiting) | ({today} if someone_is_due else set())
    return day_runs(MEMBERS_JOB, days, held, tick)


def recommendations_sensors(is_on: bool) -> list[dg.SensorDefinition]:
    """The sensors, running by themselves or stopped until somebody starts them."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        job_name=MEMBERS_JOB,
        minimum_interval_seconds=30,
        default_status=status,
        description="Starts a run when members are due after a visit, or queue items wait.",
    )
    def members_due(
        context: dg.SensorEvaluationContext, postgres: PostgresResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        with postgres.connect() as connection:
            someone_is_due = bool(trigger_store.due(connection, 1) or visit_store.waiting(connection, 1))
            today = trigger_store.now(connection).astimezone(UTC).date()
            waiting = [day for day, _ in queue_store.days_waiting(connection)]
        if not someone_is_due and not waiting:
            yield dg.SkipReason("nobody is due and no item waits")
            return
        held = held_locks(context.instance, MEMBERS_JOB, 2 * RECOMMENDATIONS_MAX_SECONDS)
        runs = recommendation_runs(waiting, today, someone_is_due, held, next_tick(context))
        yield from runs
        if not runs:
            yield dg.SkipReason("every day with work has a live run")

    @dg.sensor(
        job_name=PRODUCTS_JOB,
        minimum_interval_seconds=60,
        default_status=status,
        description="Embeds products whose text is new or has changed.",
    )
    def product_texts_changed(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        embeddings: EmbeddingResource,
        recommendation_rules: RecommendationRules,
    ) -> dg.RunRequest | dg.SkipReason:
        with postgres.connect() as connection:
            if not product_store.changed(connection, recommendation_rules.profile, 1):
                return dg.SkipReason("every active product has its vector")
            shut = gate.read(connection, embeddings.gate_key)
        if shut is not None and not shut.probe_is_due:
            return dg.SkipReason(f"{shut.explain()}; next probe {shut.next_probe_at:%H:%M %Z}")
        if PRODUCTS_JOB in held_locks(context.instance, PRODUCTS_JOB, RECOMMENDATIONS_MAX_SECONDS):
            return dg.SkipReason("a run embeds them already")
        tags = {LOCK_TAG: PRODUCTS_JOB, MAX_RETRIES_TAG: "0"}
        return dg.RunRequest(run_key=str(next_tick(context)), tags=tags)

    return [members_due, product_texts_changed]
