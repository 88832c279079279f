"""What a materialisation tells of its day: numbers alone, so nothing of a user's text.

items_… are of the day as it stands; pass_… and seconds are of this run.
"""

from collections.abc import Mapping

import dagster as dg

from assets.context_tags.models import Outcome
from assets.context_tags.request_store import DayCounts
from resources.spending import Usage

EMBEDDINGS = dg.AssetKey("context_embeddings")
KEYWORDS = dg.AssetKey("context_keywords")

Metadata = Mapping[str, int | float | str]
ByPartition = Mapping[str, Mapping[dg.AssetKey, Metadata]]


def embeddings_metadata(day: DayCounts, outcome: Outcome, usage: Usage, seconds: float) -> Metadata:
    """Of one day of `context_embeddings`."""
    return {
        "items_done": day.embedded,
        "items_waiting": day.waiting,
        "items_failed": day.failed,
        "requests": day.requests,
        "cancelled": day.cancelled,
        "pass_embedded": len(outcome.embedded),
        **_of_run(outcome, usage, seconds),
    }


def keywords_metadata(day: DayCounts, outcome: Outcome, usage: Usage, seconds: float) -> Metadata:
    """Of one day of `context_keywords`."""
    return {
        "items_done": day.tagged,
        "items_waiting": day.waiting,
        "items_failed": day.failed,
        "requests": day.requests,
        "cancelled": day.cancelled,
        "without_state": day.without_state,
        "texts_kept": day.with_text,
        "pass_tagged": len(outcome.tagged),
        "pass_without_keywords": len(outcome.without_keywords),
        **_of_run(outcome, usage, seconds),
    }


def record(context: dg.AssetExecutionContext, told: ByPartition) -> None:
    """Adds each partition's numbers to its own materialisation, which Dagster logs at the step's end."""
    for partition, by_asset in told.items():
        for asset, metadata in by_asset.items():
            context.add_asset_metadata(dict(metadata), asset_key=asset, partition_key=partition)


def materialise_before_failing(context: dg.AssetExecutionContext, told: ByPartition) -> None:
    """Logs what was done before the step fails: a failing step logs nothing by itself."""
    for partition, by_asset in told.items():
        for asset, metadata in by_asset.items():
            context.log_event(dg.AssetMaterialization(asset, partition=partition, metadata=dict(metadata)))


def _of_run(outcome: Outcome, usage: Usage, seconds: float) -> Metadata:
    return {
        "pass_failed": len(outcome.failed),
        "pass_put_off": len(outcome.put_off),
        "pass_discarded": len(outcome.discarded),
        "calls": usage.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost_usd": float(usage.cost_usd),
        "seconds": seconds,
    }
