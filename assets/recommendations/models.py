"""The words of recommendations: generation types, what is ranked, and who it is ranked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class GenerationType(StrEnum):
    """How candidates are found: G2 near the member's taste, G1 popular within it, G0 popular with all."""

    G2 = "G2"
    G1 = "G1"
    G0 = "G0"


class EventKind(StrEnum):
    """What a member did with a product."""

    VIEW = "view"
    LIKE = "like"
    PURCHASE = "purchase"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a member did. `occurred_at` is aware; `weight` is 0 or more."""

    product_id: int
    kind: EventKind
    weight: float
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class MemberHistory:
    """What is known of a member. `wanted`: the type that its queue item asks for."""

    member_id: int
    events: Sequence[Event] = ()
    opted_out: bool = False
    wanted: GenerationType = GenerationType.G2


@dataclass(frozen=True, eq=False)
class Catalogue:
    """All products, as arrays of one length and order.

    product_ids: int64, each once. categories: str objects. is_active: bool. vectors: float32, rows of length
    1, or of zeros where a product has none. popularity: float64, 0 or more, events decayed to one moment
    with a half-life of seven days.
    """

    product_ids: "NDArray[np.int64]"
    categories: "NDArray[np.object_]"
    is_active: "NDArray[np.bool_]"
    vectors: "NDArray[np.float32]"
    popularity: "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One recommended product. `score`: higher is better, comparable within one type only."""

    product_id: int
    score: float
    candidate_generation_type: GenerationType


@dataclass(frozen=True, slots=True)
class DueTrigger:
    """A trigger that is ours until its lease ends. Times are aware."""

    member_id: int
    last_visited_at: datetime
    trigger_at: datetime
    lease_token: str


@dataclass(frozen=True, slots=True)
class Finalised:
    """What becomes of a due trigger: its queue item, and when it is due next (None: never again)."""

    trigger: DueTrigger
    due_offset: timedelta
    generation_type: GenerationType
    next_trigger_at: datetime | None


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A queue item that is ours until its lease ends."""

    id: int
    member_id: int
    wanted: GenerationType
