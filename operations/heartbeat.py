"""The message that comes every morning, so that silence means that the alarm path is broken."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

HEARTBEAT_HOUR = 9
"""Of Asia/Seoul."""
_MOST_NAMED = 10


@dataclass(frozen=True)
class DayFigures:
    """What became of a day (Asia/Seoul). `failed_jobs`: AI jobs of its articles."""

    day: date
    articles: int
    recipes: int
    contexts: int
    recommendations: int
    spent_usd: Decimal
    failed_jobs: int


def heartbeat_message(
    figures: DayFigures | None, failed_runs: int, standing: Sequence[str], untold: int
) -> str:
    """Yesterday in a few lines. `untold`: messages that wait for a channel; `standing`: causes.

    Figures that could not be read are None: the message comes all the same.
    """
    named = ", ".join(standing[:_MOST_NAMED])
    more = f" and {len(standing) - _MOST_NAMED} more" if len(standing) > _MOST_NAMED else ""
    told = ["Yesterday's figures could not be read.", f"Failed: {failed_runs} runs."]
    if figures is not None:
        told = [
            f"{figures.day}: {figures.articles} articles, {figures.recipes} recipes, {figures.contexts} "
            f"contexts, {figures.recommendations} members with recommendations, {figures.spent_usd:.4f} USD.",
            f"Failed: {failed_runs} runs, {figures.failed_jobs} AI jobs.",
        ]
    lines = [
        *told,
        f"Standing alarms: {named}{more}." if standing else "No alarm stands.",
    ]
    if untold:
        lines.append(f"{untold} messages could not be delivered yet: look at the addresses of ALERT_URLS.")
    return "\n".join(lines)
