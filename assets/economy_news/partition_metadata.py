"""What a materialisation tells of its partition: numbers under the same names everywhere, for the UI's plots.

items_done, items_waiting, items_failed, items_suspended and items_outdated are of the partition as it
stands, items_submitted those of the waiting ones that are in a batch; tokens, cost_usd and seconds are of
this run. No text from outside, so nothing to escape.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.economy_news.models import (
    ArticleCounts,
    PageCounts,
    Partition,
    PartitionJobs,
    PartitionState,
    UnsettledItem,
)
from orchestration.partitions import news_key
from resources.spending import Usage

Metadata = Mapping[str, int | float | str | dg.MetadataValue]


def article_metadata(
    articles: ArticleCounts, pages: PageCounts, counts: Mapping[str, int], seconds: float
) -> Metadata:
    """Of one partition of `economy_articles`: what is stored, what waits, what this pass did."""
    return {
        **_items(done=articles.articles, waiting=pages.waiting, failed=pages.unreadable),
        **_usage(Usage(), seconds),
        "duplicates": articles.duplicates,
        "without_date": articles.without_date,
        **{f"pass_{name}": amount for name, amount in sorted(counts.items())},
    }


def result_metadata(jobs: PartitionJobs, usage: Usage, seconds: float) -> Metadata:
    """Of one partition of an asset of AI results."""
    return {
        **_items(jobs.done, jobs.waiting, jobs.failed, jobs.suspended, jobs.outdated),
        "items_submitted": jobs.submitted,
        **_usage(usage, seconds),
        "cost_usd_total": jobs.cost_usd,
    }


def completeness_metadata(
    state: PartitionState, unsettled: dg.MarkdownMetadataValue, seconds: float
) -> Metadata:
    """Of one partition of `article_completeness`: an item is an article that should have AI results."""
    return {
        **_items(state.done, state.waiting, state.failed, state.suspended),
        **_usage(Usage(), seconds),
        "articles": state.articles,
        "unsettled": unsettled,
    }


def record(context: dg.AssetExecutionContext, metadata: Mapping[Partition, Metadata]) -> None:
    """Adds each partition's numbers to its own materialisation, which Dagster logs at the step's end."""
    for partition, values in metadata.items():
        context.add_asset_metadata(dict(values), partition_key=news_key(*partition))


def materialise_the_good_ones(
    context: dg.AssetExecutionContext,
    metadata: Mapping[Partition, Metadata],
    check_results: Sequence[dg.AssetCheckResult],
) -> None:
    """Logs what was done and found before the step fails: a failing step logs neither by itself."""
    for result in check_results:
        assert result.check_name is not None
        context.log_event(
            dg.AssetCheckEvaluation(
                asset_key=context.asset_key,
                check_name=result.check_name,
                passed=bool(result.passed),
                metadata=result.metadata,
                severity=result.severity,
            )
        )
    for partition, values in metadata.items():
        context.log_event(
            dg.AssetMaterialization(context.asset_key, partition=news_key(*partition), metadata=dict(values))
        )


def unsettled_items_table(items: Sequence[UnsettledItem]) -> dg.MarkdownMetadataValue:
    """A Markdown table of ids, status and reason; "none" where there is nothing."""
    if not items:
        return dg.MetadataValue.md("none")
    rows = [
        f"| {item.article_id} | {item.job_type} | {item.status} | {item.reason} "
        f"| {item.next_run_at.isoformat(timespec='seconds') if item.next_run_at else ''} |"
        for item in items
    ]
    return dg.MetadataValue.md(
        "\n".join(["| article | job | status | reason | due |", "|---|---|---|---|---|", *rows])
    )


def _items(
    done: int, waiting: int, failed: int, suspended: int = 0, outdated: int = 0
) -> dict[str, int | float]:
    return {
        "items_done": done,
        "items_waiting": waiting,
        "items_failed": failed,
        "items_suspended": suspended,
        "items_outdated": outdated,
    }


def _usage(usage: Usage, seconds: float) -> dict[str, int | float]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": float(usage.cost_usd),
        "seconds": round(seconds, 3),
    }
