"""What the API says of a batch, read once and typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from resources.api_failure import SUSPEND, verdict_of
from resources.openai_api import safe_code

QUEUE_FULL_CODE = "token_limit_exceeded"
_OVER = frozenset({"completed", "failed", "expired", "cancelled"})
_UNDER_WAY = frozenset({"validating", "in_progress", "finalizing", "cancelling"})


@dataclass(frozen=True)
class BatchCounts:
    """Lines of a batch as the API counts them; all zero until it has read the input."""

    total: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True)
class BatchError:
    """Why a batch failed as a whole: a code that is safe to store, and the input line (from 1) if any."""

    code: str
    line: int | None = None


@dataclass(frozen=True)
class BatchState:
    """A batch at the moment it was looked at. `created_at` is aware, UTC, by the API's clock.

    `status` is the API's own word. A file id is None where there is no such file, whatever the status.
    """

    id: str
    status: str
    endpoint: str
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    counts: BatchCounts = BatchCounts()
    errors: tuple[BatchError, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether it will change no more."""
        return self.status in _OVER

    @property
    def is_known_status(self) -> bool:
        """Whether the status is one that the API's documentation names; others count as under way."""
        return self.status in _OVER or self.status in _UNDER_WAY

    @property
    def queue_was_full(self) -> bool:
        """Whether it failed because the account had too many tokens waiting; its lines are not at fault."""
        return self.status == "failed" and any(error.code == QUEUE_FULL_CODE for error in self.errors)

    @property
    def suspend_reason(self) -> str | None:
        """The gate's reason where it failed for something that hits every call (QUOTA, AUTH, MODEL)."""
        if self.status != "failed":
            return None
        verdicts = (verdict_of(200, error.code, None) for error in self.errors)
        return next((verdict.reason for verdict in verdicts if verdict.effect == SUSPEND), None)


def state_of(batch: Any) -> BatchState:
    """The state from the SDK's object, which takes whatever the API wrote.

    Raises ValueError, TypeError, AttributeError or OverflowError where it is none. A count that is none is 0.
    """
    if not (isinstance(batch.id, str) and batch.id and isinstance(batch.status, str)):
        raise ValueError("no batch")
    files = (batch.input_file_id, batch.output_file_id or None, batch.error_file_id or None)
    if not (isinstance(batch.endpoint, str) and all(isinstance(id_, str | None) for id_ in files)):
        raise ValueError("no batch")
    counts = batch.request_counts
    return BatchState(
        id=batch.id,
        status=safe_code(batch.status),
        endpoint=batch.endpoint,
        input_file_id=files[0] or "",
        output_file_id=files[1],
        error_file_id=files[2],
        created_at=moment_of(batch.created_at),
        metadata={name: text for name, text in dict(batch.metadata or {}).items() if isinstance(text, str)},
        counts=BatchCounts(*map(_count, (counts.total, counts.completed, counts.failed)))
        if counts
        else BatchCounts(),
        errors=tuple(
            BatchError(safe_code(error.code), error.line if isinstance(error.line, int) else None)
            for error in (batch.errors.data if batch.errors else None) or ()
        ),
    )


def moment_of(timestamp: Any) -> datetime:
    """A Unix time of the API's, in UTC. Raises ValueError, TypeError or OverflowError where it is none."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except OSError:  # the C library's word for a year that it cannot count
        raise ValueError("no time") from None


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0
