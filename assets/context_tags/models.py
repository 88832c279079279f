"""The words of context_tags: stages and their statuses, requests, presets, judgements, and what a run did.

Texts of users and what was made of them stay out of every `repr`: it may end in a log.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

DEFAULT_PROFILE = "openai-text-embedding-3-small-1536-cosine-v1"


class Stage(StrEnum):
    """A stage of a context; its value is the column of `ai.context_ai_state` that holds its status."""

    EMBEDDING = "embedding_status"
    KEYWORD = "keyword_status"


class Status(StrEnum):
    """Where a stage of a context stands. The application writes PENDING and CANCELLED, we the others."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """One text to embed and tag. `requested_at` (aware) names the attempt; None: not from the inbox."""

    context_id: int
    user_id: int
    record_id: int
    text: str = field(repr=False)
    requested_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ContextState:
    """Both stages of one context, which change independently of each other."""

    embedding: Status
    keyword: Status


@dataclass(frozen=True, slots=True)
class Start:
    """A stage that is ours now. `token`: the `updated_at` (aware) that every finish must still find."""

    token: datetime
    was_expired: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A keyword as the preset file states it. `visibility`: PUBLIC, PRIVATE_ONLY or BLOCKED."""

    id: int
    code: str
    display_name: str
    category: str
    description: str
    examples: tuple[str, ...]
    visibility: str = "PUBLIC"


@dataclass(frozen=True, slots=True)
class PresetSnapshot:
    """The presets that a whole run judges with: active, not BLOCKED, of one profile.

    `vectors`: one of `presets` each, in their order. `version`: the file's, written as `preset_version`.
    """

    version: int
    profile: str
    presets: tuple[Preset, ...]
    vectors: tuple[Sequence[float], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A preset near enough to a text to be judged. `similarity`: cosine, -1 to 1."""

    preset: Preset
    similarity: float


@dataclass(frozen=True, slots=True)
class Selection:
    """A keyword that fits. `confidence`: 0 to 1."""

    keyword_id: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the model answered. `unmatched_concepts` count as the user's text; `model` is who answered."""

    selected: Sequence[Selection] = ()
    unmatched_concepts: Sequence[str] = field(default=(), repr=False)
    model: str = ""


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A checked vector on its way into `ai.context_embedding`, with the token of its stage."""

    request: ContextRequest
    token: datetime
    vector: Sequence[float] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeywordResult:
    """A checked judgement on its way into the tables, with the token of its stage."""

    context_id: int
    token: datetime
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """What decides how contexts are processed; the defaults are the contract's."""

    profile: str = DEFAULT_PROFILE
    dimensions: int = 1_536
    most_candidates: int = 10
    candidate_floor: float = 0.30
    processing_expiry_seconds: float = 600
    concurrency: int = 16
    claimed_at_once: int = 200
    attempts: int = 3
    retry_base_seconds: float = 0.5
    retry_most_seconds: float = 4


@dataclass
class Outcome:
    """What became of the requests, by context id. An id stands in at most one set of each stage.

    embedded, tagged: stored by us and COMPLETED; `without_keywords` is the part of `tagged` with none.
    discarded: what was made was thrown away, since the stage was no longer ours (cancelled, or replaced).
    failed: FAILED by us, with a short reason that holds no text. put_off: left PROCESSING after a passing
    error. not_started: nothing startable. `stopped_by`: the error that hits everyone, which ended the work.
    """

    embedded: set[int] = field(default_factory=set)
    tagged: set[int] = field(default_factory=set)
    without_keywords: set[int] = field(default_factory=set)
    discarded: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    put_off: dict[int, str] = field(default_factory=dict)
    not_started: set[int] = field(default_factory=set)
    retaken: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    """Not begun or not ended when the work was stopped: these stay unhandled."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Parts of judgements that were not usable: `foreign_id`, `confidence`, `duplicate`."""
    started: int = 0
    embedding_requests: int = 0
    stopped_by: Exception | None = None

    @property
    def settled(self) -> int:
        """Stages that came to an end: stored, failed or discarded."""
        return len(self.embedded) + len(self.tagged) + len(self.failed) + len(self.discarded)
