"""Thirty in a hundred answers of the OpenAI stand-in are faults that pass; none makes a job fail for good."""

from typing import Any

from tests.integration.stand_ins import StandIn

_FAULTS: tuple[tuple[float, dict[str, Any]], ...] = (
    (0.07, {"status": 503}),
    (0.07, {"status": 429, "code": "rate_limit_exceeded", "headers": {"retry-after": "1"}}),
    (0.06, {"status": 500, "headers": {"retry-after": "0"}}),
    (0.05, {"drop": "before"}),
    (0.04, {"drop": "after"}),
    (0.03, {"hang": True}),
    (0.03, {"delay_seconds": 0.7}),
)
"""Shares that are drawn one after the other: together 30 %.

`drop: after` is carried out and charged, and so is what comes later than a scene waits.
"""
_OF_BATCHES: tuple[tuple[float, dict[str, Any]], ...] = (
    (0.2, {"error_share": 0.2, "shuffle": True}),
    (0.05, {"batch_status": "expired"}),
)


def arm(api: StandIn, seed: object) -> int:
    """Draws anew which requests are answered with a fault; how many were since the last time.

    The same request meets the same fault until then, so a scene does this before each run.
    """
    before = disarm(api)
    for number, (share, fault) in enumerate((*_FAULTS, *_OF_BATCHES)):
        api.fault(share=share, seed=f"{seed}/{number}", **fault)
    return before


def disarm(api: StandIn) -> int:
    """No more faults; how many answers were one since they were armed."""
    before = applied(api)
    api.clear_faults()
    return before


def applied(api: StandIn) -> int:
    """How many answers were faults since they were armed."""
    return sum(int(one["applied"]) for one in api.get("faults")["faults"])
