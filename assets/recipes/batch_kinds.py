"""The two kinds of batches, and what their lines and answers are to whoever sends and retrieves them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from assets.recipes.models import BatchIntent, BatchKind, Job
from assets.recipes.statuses import Status
from resources.batch_lines import Body

INGREDIENT = "ingredient:"
"""Starts the custom_id of a line that is an ingredient's and no job's."""


@dataclass(frozen=True)
class Stages:
    """The statuses that a job passes through in a kind of batch; `…_stage` is what metrics call a half."""

    kind: BatchKind
    endpoint: Literal["/v1/chat/completions", "/v1/embeddings"]
    waiting: Status
    submitting: Status
    submitted: Status
    retrieving: Status
    retrieved: Status
    submit_stage: str
    retrieve_stage: str
    most_output_tokens: int

    def batch_of(self, job: Job) -> str | None:
        """The batch that the job is in."""
        return job.parse_batch_id if self.kind == BatchKind.PARSE else job.embed_batch_id


@dataclass(frozen=True, slots=True)
class Line:
    """One request, without its bytes. `document_hash`: of the text that a recipe's vector is asked for."""

    custom_id: str
    bytes: int
    most_output_tokens: int
    document_hash: str = ""

    @property
    def most_input_tokens(self) -> int:
        """Never below the real count: no tokenizer makes more tokens than bytes."""
        return self.bytes

    @property
    def queued_tokens(self) -> int:
        """What it takes of the provider's queue: a token for a syllable or for three letters."""
        return -(-self.bytes // 3)


@dataclass
class Written:
    """Lines with their bytes. `skipped` jobs need none, `unusable` ones cannot have one, for the reason."""

    lines: list[tuple[Line, bytes]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)


@dataclass
class Read:
    """What answers say of their jobs: results with the fields to store, reasons, and what is out of date."""

    good: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)


class BatchContent(Protocol):
    """What differs between the kinds."""

    @property
    def stages(self) -> Stages: ...

    def write(self, jobs: Sequence[Job], claimed_by: str) -> Written:
        """The lines for jobs that the caller has claimed, and what else is to be sent with them."""
        ...

    def planned(self, intent: BatchIntent, lines: Sequence[Line]) -> None:
        """The lines belong to this intent from now on; nothing of it has been sent."""
        ...

    def given_up(self, holder: str) -> None:
        """What an intent or a run held beside its jobs is free again; nothing where it is free already."""
        ...

    def read(self, intent: BatchIntent, jobs: Sequence[Job], bodies: Mapping[str, Body]) -> Read:
        """What the answers (by job id) say; what belongs into Postgres is stored there by then."""
        ...

    def read_ingredients(self, intent: BatchIntent, bodies: Mapping[int, Body]) -> dict[int, str]:
        """Stores what is asked for ingredients; the reasons of those whose answer is of no use."""
        ...


PARSE = Stages(
    BatchKind.PARSE,
    "/v1/chat/completions",
    Status.FETCHED,
    Status.PARSE_SUBMITTING,
    Status.PARSE_SUBMITTED,
    Status.PARSE_RETRIEVING,
    Status.PARSE_RETRIEVED,
    submit_stage="parse-submit",
    retrieve_stage="parse-retrieve",
    most_output_tokens=8_192,
)
EMBED = Stages(
    BatchKind.EMBED,
    "/v1/embeddings",
    Status.PERSISTED,
    Status.EMBED_SUBMITTING,
    Status.EMBED_SUBMITTED,
    Status.EMBED_RETRIEVING,
    Status.EMBED_RETRIEVED,
    submit_stage="embed-submit",
    retrieve_stage="embed-retrieve",
    most_output_tokens=0,
)
