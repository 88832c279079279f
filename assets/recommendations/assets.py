"""The assets of recommendations in the order of the data flow. Partition: the day (UTC) of queueing."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime

import dagster as dg

from assets.recommendations import product_store, queue_store
from assets.recommendations.rules import RecommendationRules
from orchestration.failures import failures_by_owner
from orchestration.partitions import recommendation_days
from orchestration.policies import ONE_RUN_PER_RANGE, OPENAI_POOL, RECOMMENDATIONS_SLICE_SECONDS
from resources.alerts import AlertResource
from resources.embeddings import EmbeddingResource
from resources.model_gate import ModelGate
from resources.postgres import PostgresResource

GROUP = "recommendations"
OWNERS = ["team:content"]

Metadata = Mapping[str, int | float]


@dg.asset(group_name=GROUP, owners=OWNERS, kinds={"postgres", "openai"}, pool=OPENAI_POOL, code_version="1")
def product_embeddings(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    embeddings: EmbeddingResource,
    alerts: AlertResource,
    recommendation_rules: RecommendationRules,
) -> dg.MaterializeResult:
    """A vector of every active product whose text is new or has changed (rec.product_embedding)."""
    from assets.recommendations.product_embedding import embed_products

    rules, started = recommendation_rules, time.monotonic()
    with failures_by_owner(context), postgres.connect() as connection:
        gate = ModelGate(connection, embeddings.gate_key, alerts, rules.gate_probe_minutes)
        done = embed_products(connection, embeddings, gate, rules.cap_usd, rules.profile)
        counts = product_store.counts(connection, rules.profile)
    return dg.MaterializeResult(
        metadata={**asdict(counts), **_of_pass(asdict(done)), "seconds": time.monotonic() - started}
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    partitions_def=recommendation_days,
    backfill_policy=ONE_RUN_PER_RANGE,
    code_version="1",
)
def recommendation_queue(
    context: dg.AssetExecutionContext, postgres: PostgresResource, recommendation_rules: RecommendationRules
) -> None:
    """Queue items of the members who became due, by their visits (rec.queue_item). A past day queues none."""
    from assets.recommendations.trigger_check import check_triggers

    rules, started = recommendation_rules, time.monotonic()
    days = _days(context)
    done: Metadata = {}
    with failures_by_owner(context), postgres.connect() as connection:
        if datetime.now(UTC).date() in days:
            counts = check_triggers(
                connection,
                limit=rules.trigger_limit,
                lease_seconds=rules.trigger_lease_seconds,
                until=started + RECOMMENDATIONS_SLICE_SECONDS,
            )
            done = _of_pass(asdict(counts))
        by_day = queue_store.counts_by_day(connection, days)
    _record(context, by_day, {**done, "seconds": time.monotonic() - started})


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    partitions_def=recommendation_days,
    backfill_policy=ONE_RUN_PER_RANGE,
    code_version="1",
    deps=[recommendation_queue, product_embeddings],
)
def recommended_products(
    context: dg.AssetExecutionContext, postgres: PostgresResource, recommendation_rules: RecommendationRules
) -> None:
    """What each queued member is recommended, replaced as a whole (rec.recommended_product).

    One member's failure fails its own queue item; the run fails where it ranked members and none succeeded.
    """
    from assets.recommendations.recommend import Recommender  # numpy takes a while to import

    rules, started = recommendation_rules, time.monotonic()
    days = _days(context)
    with (
        failures_by_owner(context),
        postgres.connect() as connection,
        postgres.pool(rules.concurrency + 1) as pool,
    ):
        done = Recommender(
            pool,
            claimed_by=context.run_id,
            days=days,
            size=rules.size,
            at_once=rules.concurrency,
            pick=rules.pick_limit,
            profile=rules.profile,
        ).run(until=started + RECOMMENDATIONS_SLICE_SECONDS)
        by_day = queue_store.counts_by_day(connection, days)
    _record(context, by_day, {**_of_pass(asdict(done)), "seconds": time.monotonic() - started})
    if done.failed and not done.succeeded:
        raise dg.Failure(
            description=f"all {done.failed} members failed; rec.queue_item.error says why, the job "
            "recommendations_requeue_failed queues them again",
            allow_retries=False,
        )


def _days(context: dg.AssetExecutionContext) -> list[date]:
    return [date.fromisoformat(key) for key in context.partition_keys]


def _of_pass(counts: Mapping[str, int]) -> Metadata:
    return {f"pass_{name}": amount for name, amount in counts.items()}


def _record(
    context: dg.AssetExecutionContext, by_day: Mapping[date, queue_store.DayCounts], done: Metadata
) -> None:
    for day, counts in by_day.items():
        metadata = {
            "items_done": counts.succeeded,
            "items_waiting": counts.pending + counts.running,
            "items_failed": counts.failed,
            **done,
        }
        context.add_asset_metadata(metadata, partition_key=day.isoformat())
