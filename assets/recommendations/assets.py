"""The assets of recommendations in the order of the data flow. Partition: the day (UTC) of queueing."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, timedelta

import dagster as dg

from assets.recommendations import product_store, queue_store, trigger_store
from assets.recommendations.rules import RecommendationRules
from orchestration.failures import failures_by_owner
from orchestration.partitions import recommendation_days
from orchestration.policies import ONE_RUN_PER_RANGE, OPENAI_POOL, RECOMMENDATIONS_SLICE_SECONDS
from resources.alerts import AlertResource
from resources.embeddings import EmbeddingResource
from resources.gate import REMEDIES
from resources.model_gate import ModelGate
from resources.postgres import PostgresResource

GROUP = "recommendations"
OWNERS = ["team:content"]
MOST_COUNTED = 1_000

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
        waiting = len(product_store.changed(connection, rules.profile, MOST_COUNTED))
    counts = {
        "items_waiting": waiting,
        "pass_embedded": done.embedded,
        "pass_skipped": done.skipped,
        "pass_changed_meanwhile": done.changed_meanwhile,
    }
    if done.stopped_by is not None:
        raise dg.Failure(
            description=f"stopped by {done.stopped_by}; the sensor goes on once the gate is open: "
            + REMEDIES.get(done.stopped_by, ""),
            metadata=dict(counts),
            allow_retries=False,
        )
    return dg.MaterializeResult(metadata={**counts, "seconds": time.monotonic() - started})


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
        if trigger_store.now(connection).astimezone(UTC).date() in days:
            counts = check_triggers(
                connection,
                limit=rules.trigger_limit,
                lease_seconds=rules.trigger_lease_seconds,
                session_timeout=timedelta(minutes=rules.visit_session_minutes),
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
    if done.failed and not done.succeeded:
        raise dg.Failure(
            description=f"all {done.failed} members failed; rec.queue_item.error says why, the job "
            "recommendations_requeue_failed queues them again",
            allow_retries=False,
        )
    counts = {name: amount for name, amount in asdict(done).items() if isinstance(amount, int)}
    by_type = {f"products_{kind}": amount for kind, amount in done.products.items()}
    _record(context, by_day, {**_of_pass(counts | by_type), "seconds": time.monotonic() - started})


def _days(context: dg.AssetExecutionContext) -> list[date]:
    return [date.fromisoformat(key) for key in context.partition_keys]


def _of_pass(counts: Mapping[str, int]) -> Metadata:
    return {f"pass_{name}": amount for name, amount in counts.items()}


def _record(
    context: dg.AssetExecutionContext, queued: Sequence[queue_store.QueueCount], done: Metadata
) -> None:
    """How the days' queues stand, and what this run did, with each day's own materialisation."""
    for day in _days(context):
        by_status: Counter[str] = Counter()
        by_type: Counter[str] = Counter()
        for count in (one for one in queued if one.day == day):
            by_status[count.status] += count.items
            by_type[f"queued_{count.wanted}"] += count.items
        metadata = {
            "items_done": by_status["SUCCEEDED"],
            "items_waiting": by_status["PENDING"] + by_status["RUNNING"],
            "items_failed": by_status["FAILED"],
            **by_type,
            **done,
        }
        context.add_asset_metadata(metadata, partition_key=day.isoformat())
