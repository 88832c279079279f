"""Faults on request: which calls they hit and what they do to them."""

from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from local_stack.openai_stand_in.calls import Call, fraction_of
from local_stack.openai_stand_in.errors import ApiError

Share = Annotated[float, Field(ge=0, le=1)]
ContentEffect = Literal[
    "truncated",
    "not_json",
    "markdown_fence",
    "wrong_number",
    "foreign_term",
    "broken_highlight",
    "too_few",
    "refusal",
    "content_filter",
    "number_for_text",
    "nul",
    "lone_surrogate",
]


class BatchEffects(BaseModel):
    """What happens to a batch as a whole; a kept batch keeps them over a restart.

    `shown_in_progress`: the status that the API shows in place of in_progress, which may be one that nobody
    knows. `missing_share`: lines in neither file. `error_share`: lines with a 500 in the error file.
    `duplicate_lines` and `unknown_lines`: that many additional output lines. `u2028`: a raw U+2028 in every
    answer. `empty_file_ids`: "" in place of null for a file that there is not.
    """

    model_config = ConfigDict(extra="forbid")

    batch_status: Literal["failed", "expired", "cancelled"] | None = None
    shown_in_progress: str | None = Field(default=None, min_length=1)
    missing_share: Share = 0.0
    error_share: Share = 0.0
    duplicate_lines: int = Field(default=0, ge=0)
    unknown_lines: int = Field(default=0, ge=0)
    shuffle: bool = False
    u2028: bool = False
    empty_file_ids: bool = False
    token_limit_exceeded: bool = False


class Fault(BatchEffects):
    """A fault as it is posted: filters, how often, effects. A filter that is absent matches everything.

    `endpoint` is a ledger endpoint ("batches/create") or its first part ("batches"). `share` picks calls by
    a hash of their request and `seed`; `skip` lets the first n matching calls pass, `times` ends the fault
    after n. `hang` leaves the client waiting before the call is carried out, or "after" it; `drop` closes the
    connection at either time. `raw` is the exact content of a chat answer or, with a status of 400 or more,
    the whole body. A fault with batch effects is looked at once for each batch created, `contains` then
    meaning its input file.
    """

    endpoint: str | None = None
    model: str | None = None
    schema_name: str | None = Field(default=None, alias="schema")
    contains: str | None = None
    share: Share = 1.0
    seed: str | int = ""
    times: int | None = Field(default=None, ge=1)
    skip: int = Field(default=0, ge=0)

    status: int | None = Field(default=None, ge=400, le=599)
    code: str | None = None
    type: str | None = None
    message: str = "A fault of the local stand-in, as asked for."
    headers: dict[str, str] = Field(default_factory=dict)
    delay_seconds: float = Field(default=0.0, ge=0)
    hang: bool | Literal["after"] = False
    drop: Literal["before", "after"] | None = None
    content: ContentEffect | None = None
    raw: str | None = None
    vector: Literal["short", "zero", "nan", "missing"] | None = None

    def batch_effects(self) -> BatchEffects | None:
        """The effects on whole batches, None if it has none."""
        effects = BatchEffects(**{name: getattr(self, name) for name in BatchEffects.model_fields})
        return effects if effects != BatchEffects() else None

    def error(self) -> ApiError | None:
        """The refusal it asks for, if any."""
        if self.status is None:
            return None
        return ApiError(
            self.status, self.message, code=self.code, error_type=self.type, headers=dict(self.headers)
        )

    def call_effects(self) -> bool:
        """Whether it does anything to single calls."""
        direct = (self.status, self.hang, self.drop, self.content, self.vector, self.delay_seconds)
        return any(direct) or self.raw is not None

    def hits(self, call: Call) -> bool:
        """Whether the filters let it touch this call (how often is the table's affair)."""
        if (
            self.content or (self.raw is not None and not self.status)
        ) and call.endpoint != "chat/completions":
            return False
        if self.vector and call.endpoint != "embeddings":
            return False
        return (
            _same_endpoint(self.endpoint, call.endpoint)
            and self.model in (None, call.model)
            and self.schema_name in (None, call.schema)
            and (self.contains is None or self.contains in call.text)
            and (self.share >= 1.0 or fraction_of(f"{self.seed}:{call.sha256}") < self.share)
        )


@dataclass
class Armed:
    """A fault in force; `matched` counts the calls its filters hit, `applied` those it was done to."""

    id: str
    fault: Fault
    matched: int = 0
    applied: int = 0

    def take(self, call: Call) -> bool:
        """Counts the call; whether the fault is to be applied to it."""
        spent = self.fault.times is not None and self.applied >= self.fault.times
        if spent or not self.fault.hits(call):
            return False
        self.matched += 1
        if self.matched <= self.fault.skip:
            return False
        self.applied += 1
        return True


class FaultTable:
    """The faults in force, in the order they were added; the first that applies to a call is the only one."""

    def __init__(self) -> None:
        self._armed: list[Armed] = []
        self._ids = count(1)

    def add(self, fault: Fault) -> str:
        """The new fault's id; ValueError unless it has effects either on calls or on whole batches."""
        if fault.call_effects() is (fault.batch_effects() is not None):
            raise ValueError("a fault needs effects on calls or on whole batches, and not both")
        armed = Armed(f"fault-{next(self._ids)}", fault)
        self._armed.append(armed)
        return armed.id

    def listed(self) -> list[dict[str, object]]:
        """Every fault as posted, with id, matched and applied."""
        return [
            {
                "id": one.id,
                "matched": one.matched,
                "applied": one.applied,
                **one.fault.model_dump(by_alias=True, exclude_unset=True),
            }
            for one in self._armed
        ]

    def clear(self) -> None:
        """Removes all faults."""
        self._armed.clear()

    def take(self, call: Call) -> Fault | None:
        """The fault to apply to a call, counted as applied."""
        return self._first(call, for_batches=False)

    def take_for_batch(self, call: Call) -> BatchEffects | None:
        """The effects for a new batch; `call` carries the batch's input file as its text."""
        fault = self._first(call, for_batches=True)
        return fault.batch_effects() if fault else None

    def _first(self, call: Call, *, for_batches: bool) -> Fault | None:
        for one in self._armed:
            if (one.fault.batch_effects() is not None) is for_batches and one.take(call):
                return one.fault
        return None


def _same_endpoint(wanted: str | None, actual: str) -> bool:
    if wanted is None:
        return True
    wanted = wanted.strip("/").removeprefix("v1/")
    return actual == wanted or actual.startswith(f"{wanted}/")
