"""A quote as a person or a program reads it, and where each of its figures comes from. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from operations.quote_request import QuoteRequest
from operations.text_tables import aligned, duration, escaped, markdown, usd

HEADINGS = ("what", "model", "items", "calls", "input tokens", "output tokens", "USD")


@dataclass(frozen=True)
class Work:
    """Calls of one kind to one model, which is "" where none is asked.

    `items` tells how many come from where. `most_usd`: what is reserved for them, all together. `seconds`:
    how long they take, as many at once as are allowed.
    """

    what: str
    model: str
    items: Mapping[str, int]
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: Decimal = Decimal(0)
    most_usd: Decimal = Decimal(0)
    seconds: float = 0
    basis: str = ""

    @property
    def item_count(self) -> int:
        return sum(self.items.values())


@dataclass(frozen=True)
class HostWork:
    """Requests to hosts that are no model's, and how long they take at their pace."""

    host: str
    requests: int
    seconds: float
    basis: str


@dataclass(frozen=True)
class Room:
    """The day's cap (None: none) and what it leaves today, in USD."""

    cap: Decimal | None
    left: Decimal | None

    def days(self, cost: Decimal) -> int | None:
        """On how many days, the running one among them, so much is spent; None: never, the cap is 0."""
        if self.cap is None or self.left is None or cost <= max(self.left, Decimal(0)):
            return 1
        if self.cap == 0:
            return None
        return 1 + math.ceil((cost - max(self.left, Decimal(0))) / self.cap)


@dataclass(frozen=True)
class Quote:
    """What a backfill will take, as far as can be told by `asked_at` (aware). Nothing was done for it."""

    request: QuoteRequest
    asked_at: datetime
    works: Sequence[Work]
    hosts: Sequence[HostWork]
    room: Room
    gates: Sequence[str] = ()
    notes: Sequence[str] = field(default=())

    @property
    def items(self) -> int:
        return sum(work.item_count for work in self.works)

    @property
    def calls(self) -> int:
        return sum(work.calls for work in self.works)

    @property
    def input_tokens(self) -> int:
        return sum(work.input_tokens for work in self.works)

    @property
    def output_tokens(self) -> int:
        return sum(work.output_tokens for work in self.works)

    @property
    def usd(self) -> Decimal:
        return sum((work.usd for work in self.works), Decimal(0))

    @property
    def most_usd(self) -> Decimal:
        """What is reserved for all of it together; more than it costs."""
        return sum((work.most_usd for work in self.works), Decimal(0))

    @property
    def host_requests(self) -> int:
        return sum(host.requests for host in self.hosts)

    @property
    def hours(self) -> float:
        """The longer of both: models are asked while pages are still fetched. Without waiting for the cap."""
        model = sum(work.seconds for work in self.works)
        return max(model, sum(host.seconds for host in self.hosts)) / 3600

    def lines(self) -> list[str]:
        """For a terminal."""
        return [self._title(), "", *aligned(HEADINGS, self._rows(), texts=2), "", *self._sentences()]

    def markdown(self) -> str:
        """For the UI."""
        told = [f"- {escaped(sentence)}" for sentence in self._sentences()]
        table = markdown(HEADINGS, self._rows(), texts=2)
        return "\n".join([f"**{escaped(self._title())}**", "", *table, "", *told])

    def as_json(self) -> dict[str, Any]:
        """For a program: money as text in USD, `cap_days` null where the cap is 0."""
        return {
            "pipeline": self.request.pipeline,
            "first_day": self.request.first_day.isoformat(),
            "last_day": self.request.last_day.isoformat(),
            "parts": list(self.request.parts),
            "mode": self.request.mode,
            "redo": self.request.redo,
            "asked_at": self.asked_at.isoformat(timespec="seconds"),
            "items": self.items,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "usd": _money(self.usd),
            "reserved_at_most_usd": _money(self.most_usd),
            "hours": round(self.hours, 3),
            "host_requests": self.host_requests,
            "cap_usd": None if self.room.cap is None else _money(self.room.cap),
            "cap_left_usd": None if self.room.left is None else _money(self.room.left),
            "cap_days": self.room.days(self.usd),
            "gates_shut": list(self.gates),
            "work": [_work(work) for work in self.works],
            "hosts": [vars(host) for host in self.hosts],
            "notes": list(self.notes),
        }

    def _title(self) -> str:
        return (
            f"{self.request.title()}: a quote of {self.asked_at:%Y-%m-%d %H:%M} KST; nothing was written, "
            "no call was made"
        )

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (
                work.what,
                work.model or "none",
                f"{work.item_count:,}",
                f"{work.calls:,}",
                f"{work.input_tokens:,}",
                f"{work.output_tokens:,}",
                usd(work.usd),
            )
            for work in self.works
        ]
        tokens = (f"{self.input_tokens:,}", f"{self.output_tokens:,}")
        return [*rows, ("total", "", f"{self.items:,}", f"{self.calls:,}", *tokens, usd(self.usd))]

    def _sentences(self) -> list[str]:
        return [
            *(_told(work) for work in self.works if work.item_count),
            *(
                f"{host.requests:,} requests to {host.host}, {duration(host.seconds / 3600)}: {host.basis}"
                for host in self.hosts
            ),
            f"about {duration(self.hours)} in all, without what waits for the cap or for other runs",
            self._cap(),
            *(self.gates or ["the gate is open"] if self.calls else []),
            *self.notes,
        ]

    def _cap(self) -> str:
        if self.room.cap is None or self.room.left is None:
            return f"{usd(self.usd)} USD; there is no cap (DAILY_SPENDING_CAP_USD=none)"
        days = self.room.days(self.usd)
        left = usd(max(self.room.left, Decimal(0)))
        told = f"{usd(self.usd)} USD; of today's cap of {usd(self.room.cap)}, {left} is left"
        if days is None:
            return f"{told}: no call is made while DAILY_SPENDING_CAP_USD is 0"
        if days == 1:
            return f"{told}: it fits today"
        return f"{told}: it takes {days} days of DAILY_SPENDING_CAP_USD, more where others are asked too"


def _told(work: Work) -> str:
    parts = ", ".join(f"{count:,} {name}" for name, count in work.items.items() if count)
    return f"{work.what}: {parts}" + (f"; {work.basis}" if work.basis else "")


def _work(work: Work) -> dict[str, Any]:
    money = {"usd": _money(work.usd), "most_usd": _money(work.most_usd), "seconds": round(work.seconds, 1)}
    return {**vars(work), "items": dict(work.items), **money}


def _money(amount: Decimal) -> str:
    return f"{amount:.8f}"
