"""What a stage tells of its day with the materialisation, and of itself with the run's tags."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg

from assets.recipes.rules import STOPPED_TAG
from assets.recipes.statuses import Status
from resources import gate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def items(counts: Mapping[Status, int], done: Status) -> dict[str, int]:
    """How the day's job records stand, seen from the status that the stage leaves them in."""
    order = list(Status)
    ended = Status.FAILED
    return {
        "items_done": sum(
            counts[one] for one in order if one is not ended and order.index(one) >= order.index(done)
        ),
        "items_waiting": sum(counts[one] for one in order if order.index(one) < order.index(done)),
        "items_failed": counts[ended],
    }


def result(
    context: dg.AssetExecutionContext,
    counts: Mapping[Status, int],
    done: Status,
    outcome: "DataclassInstance",
) -> dg.MaterializeResult:
    """The day's records, what this run did (`pass_…`), and why it stopped before its end."""
    told = {f"pass_{name}": value for name, value in asdict(outcome).items() if isinstance(value, int)}
    stopped_by = told_reason(context, getattr(outcome, "reason", None))
    return dg.MaterializeResult(metadata={**items(counts, done), **told, "stopped_by": stopped_by})


def told_reason(context: dg.AssetExecutionContext, reason: str | None) -> str:
    """As metadata have it. A shut gate or a full queue the sensor sees by itself; others are told it."""
    from assets.recipes.batch_submission import WAITS

    if reason is None:
        return "nothing"
    if reason not in WAITS and reason not in gate.REMEDIES:
        rest(context, reason)
    return reason


def rest(context: dg.AssetExecutionContext, reason: str) -> None:
    """Lets the sensor leave the day alone for a while: the next run would meet the same."""
    context.instance.add_run_tags(context.run_id, {STOPPED_TAG: reason})
