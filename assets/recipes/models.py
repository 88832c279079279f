"""What passes between the modules of recipes: job records, planned batches, and counts of what was done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from assets.recipes.statuses import Status


class FetchedRow(NamedTuple):
    """A row of the source; the hash tells whether it was edited since."""

    source_id: str
    raw_data: Mapping[str, str]
    raw_hash: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job record. `raw_data` and `retrieved_data` are None unless they were asked for."""

    id: str
    source: str
    source_id: str
    run_id: str
    status: Status
    retry_count: int
    raw_data: Mapping[str, str] | None = None
    retrieved_data: Mapping[str, Any] | None = None
    parse_batch_id: str | None = None
    embed_batch_id: str | None = None
    new_ingredient_ids: tuple[int, ...] = ()


class FetchCounts(NamedTuple):
    """`changed`: known before and restarted, since the source edited them."""

    new: int
    changed: int
    unchanged: int


class FailCounts(NamedTuple):
    """`returned` may be tried again; `failed` had been tried as often as may be."""

    returned: int
    failed: int


class ReleaseCounts(NamedTuple):
    """`released` cost nothing, `counted` a retry; `failed` had no retry left."""

    released: int
    counted: int
    failed: int


class WaitingWork(NamedTuple):
    """How many jobs of a partition wait in a status for a run to take them."""

    run_id: str
    status: Status
    jobs: int


class BatchKind(StrEnum):
    """What a batch asks for."""

    PARSE = "parse"
    EMBED = "embed"


class IntentState(StrEnum):
    """Intended, uploaded, submitted, retrieved; or abandoned before, or failed after the submission."""

    INTENDED = "intended"
    UPLOADED = "uploaded"
    SUBMITTED = "submitted"
    RETRIEVED = "retrieved"
    ABANDONED = "abandoned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchIntent:
    """A batch from its plan to its end. Before it is `submitted`, whether it exists is for its holder to say.

    `job_ids` are recipe lines, `ingredient_ids` those of new ingredients (embed only). Times are UTC.
    """

    id: str
    kind: BatchKind
    run_id: str
    shard: int
    lines_sha256: str
    line_count: int
    byte_count: int
    estimated_tokens: int
    model: str
    created_at: datetime
    claimed_by: str | None
    job_ids: tuple[str, ...] = field(default=(), repr=False)
    ingredient_ids: tuple[int, ...] = field(default=(), repr=False)
    state: IntentState = IntentState.INTENDED
    input_file_id: str | None = None
    uploaded_at: datetime | None = None
    batch_id: str | None = None
    submitted_at: datetime | None = None
    claimed_at: datetime | None = None
    last_status: str | None = None
    counts: Mapping[str, int] | None = None
    usage: Mapping[str, int] | None = None
    error: str | None = None
    died: bool = False
    """Abandoned because its run died: that counts against its jobs from the third time."""
