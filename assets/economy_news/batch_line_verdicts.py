"""What a line of a batch that brought no answer means for its job. Reasons: resources/batch_lines.py."""

from enum import Enum, auto
from typing import NamedTuple

from resources.api_failure import FAIL, RETRY, SUSPEND, verdict_of

NEVER_ASKED = frozenset({"batch_expired", "batch_cancelled"})


class Effect(Enum):
    """What becomes of the job."""

    UNASKED = auto()
    """Back as it was: its turn never came, or what refused it hits every call."""
    BROKE_A_RULE = auto()
    RETRY = auto()
    FAIL = auto()


class BadLine(NamedTuple):
    """`suspend_reason` shuts the gate. `status` is the call's for the metrics, None where none was made."""

    effect: Effect
    code: str
    status: str | None
    suspend_reason: str | None = None


def bad_line(reason: str, code: str = "") -> BadLine:
    """The verdict on a line's reason, and the code that its response names beside a status, if any."""
    kind, _, detail = reason.partition(":")
    if kind == "error" and detail in NEVER_ASKED:
        return BadLine(Effect.UNASKED, detail, None)
    if kind == "error":
        return _of_verdict(None, detail)
    if kind == "status":
        return _of_verdict(int(detail), code or f"status_{detail}")
    if reason == "finish:length":
        return BadLine(Effect.BROKE_A_RULE, "output_cut", "ok")
    if reason == "empty":
        return BadLine(Effect.BROKE_A_RULE, "invalid_output", "ok")
    if reason == "finish:content_filter":
        return BadLine(Effect.FAIL, "content_filter", "ok")
    if reason == "refused":
        return BadLine(Effect.FAIL, "refusal", "ok")
    return BadLine(Effect.RETRY, "unreadable_answer", "none")


def _of_verdict(status: int | None, code: str) -> BadLine:
    verdict = verdict_of(status, code, None)
    effect = {SUSPEND: Effect.UNASKED, RETRY: Effect.RETRY, FAIL: Effect.FAIL}[verdict.effect]
    return BadLine(effect, code, str(status or "none"), verdict.reason)
