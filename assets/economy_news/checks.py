"""The asset checks of economy_news: what each says, and how its answer is made from what was found.

On a range of partitions Dagster keeps one evaluation without a partition, so a check tells of all of them
together and names ids; the numbers per partition are on the materialisations.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.economy_news.models import PartitionState

MOST_NAMED = 50

BODIES = dg.AssetCheckSpec(
    "articles_have_bodies",
    asset="economy_articles",
    description="Under a fifth of the pages that this run fetched had a body: the layout has changed.",
)
DATES = dg.AssetCheckSpec(
    "articles_have_dates",
    asset="economy_articles",
    description="Articles that this run stored without a date of publication.",
)
NUMBERS = dg.AssetCheckSpec(
    "summary_numbers_are_in_the_article",
    asset="article_summaries",
    description="Numbers of a summary that its article does not have; such a summary is not publishable.",
)
TERMS = dg.AssetCheckSpec(
    "terms_are_in_the_summary",
    asset="article_term_cards",
    description="Highlights of term cards that do not occur in their summary.",
)
SETTLED = dg.AssetCheckSpec(
    "jobs_settled",
    asset="article_completeness",
    description="Articles whose AI jobs wait, are suspended or failed.",
)


def bodies(layout_has_changed: bool, share_with_body: float, unreadable: int) -> dg.AssetCheckResult:
    """Fails where the layout seems to have changed."""
    return dg.AssetCheckResult(
        check_name=BODIES.name,
        passed=not layout_has_changed,
        metadata={"share_with_body": share_with_body, "unreadable": unreadable},
    )


def dates(without_date: int, saved: int) -> dg.AssetCheckResult:
    """Warns of articles without a date, with their share of what was saved."""
    return dg.AssetCheckResult(
        check_name=DATES.name,
        passed=without_date == 0,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"without_date": without_date, "share": without_date / saved if saved else 0.0},
    )


def numbers(unpublishable: Mapping[int, Sequence[str]]) -> dg.AssetCheckResult:
    """Fails where a summary has numbers of its own, and names its article and them."""
    rows = [[str(article), ", ".join(found)] for article, found in unpublishable.items()]
    return dg.AssetCheckResult(
        check_name=NUMBERS.name,
        passed=not unpublishable,
        metadata={
            "articles": len(unpublishable),
            "article_ids": list(unpublishable)[:MOST_NAMED],
            "table": _table(["article", "not in it"], rows),
        },
    )


def terms(foreign: Sequence[tuple[int, str]]) -> dg.AssetCheckResult:
    """Fails where a highlight is not in the summary: stored, or refused twice."""
    return dg.AssetCheckResult(
        check_name=TERMS.name,
        passed=not foreign,
        metadata={
            "articles": len({article for article, _ in foreign}),
            "article_ids": sorted({article for article, _ in foreign})[:MOST_NAMED],
            "table": _table(["article", "cards"], [[str(article), how] for article, how in foreign]),
        },
    )


def settled(states: Sequence[PartitionState], reasons: dg.MarkdownMetadataValue) -> dg.AssetCheckResult:
    """Warns where an article waits, is suspended or failed; `reasons` is the table of them."""
    waiting = sum(state.waiting for state in states)
    suspended = sum(state.suspended for state in states)
    failed = sum(state.failed for state in states)
    return dg.AssetCheckResult(
        check_name=SETTLED.name,
        passed=not waiting + suspended + failed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"waiting": waiting, "suspended": suspended, "failed": failed, "reasons": reasons},
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> dg.MarkdownMetadataValue:
    """Of ids and numbers only; no text from outside, so nothing to escape."""
    lines = [heads, ["---"] * len(heads), *rows[:MOST_NAMED]]
    return dg.MetadataValue.md(
        "\n".join("| " + " | ".join(line) + " |" for line in lines) if rows else "none"
    )
