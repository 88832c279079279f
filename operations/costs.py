"""What the models cost, as a person or a program reads it. Pure; days and times are of Asia/Seoul."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from operations.text_tables import aligned, usd

HEADINGS = ("day", "pipeline", "model", "calls", "input", "cached", "output", "USD")
LEAST_HOURS = 0.25
"""After midnight the day's own pace says nothing yet."""


@dataclass(frozen=True)
class ModelDay:
    """Calls of one pipeline to one model on one day; `cached_tokens` are part of `input_tokens`."""

    day: date
    pipeline: str
    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: Decimal


@dataclass(frozen=True)
class DayTotal:
    """The row that the cap is checked against. What is reserved of a past day holds nothing back any more."""

    day: date
    spent_usd: Decimal
    reserved_usd: Decimal


@dataclass(frozen=True)
class OpenBatches:
    """Batches of one model, planned on one day, whose end has not been booked; USD that they may cost."""

    pipeline: str
    model: str
    day: date
    batches: int
    usd: Decimal


@dataclass(frozen=True)
class Costs:
    """The last `days` days, newest first. `now` has no zone: it is the time in Seoul."""

    now: datetime
    days: int
    spent: Sequence[ModelDay]
    totals: Sequence[DayTotal]
    open_batches: Sequence[OpenBatches]

    @property
    def today(self) -> DayTotal:
        """Of the running day; zeros where nothing was asked yet."""
        nothing = DayTotal(self.now.date(), Decimal(0), Decimal(0))
        return next((total for total in self.totals if total.day == self.now.date()), nothing)

    @property
    def average_usd(self) -> Decimal | None:
        """Of the full days since the first with a call, days without one among them; None without one."""
        before = [total for total in self.totals if total.day < self.now.date()]
        if not before:
            return None
        full_days = (self.now.date() - min(total.day for total in before)).days
        return sum((total.spent_usd for total in before), Decimal(0)) / full_days

    def room_usd(self, cap: Decimal) -> Decimal:
        """What the cap leaves today, never below zero."""
        return max(cap - self.today.spent_usd - self.today.reserved_usd, Decimal(0))

    def lines(self, cap: Decimal | None) -> list[str]:
        """The table by day, pipeline and model, then today, open batches and how far the cap reaches."""
        return [
            *self._table(),
            "",
            self._today(cap),
            *(
                f"in {one.batches} open {'batch' if one.batches == 1 else 'batches'} of {one.pipeline} "
                f"({one.model}, planned {one.day}): up to {usd(one.usd)} USD reserved"
                for one in self.open_batches
            ),
            f"{self._average()}; {self._reach(cap)}",
        ]

    def as_json(self, cap: Decimal | None) -> dict[str, Any]:
        """The same for a program; money as text in USD, null for no cap, no average."""
        average = self.average_usd
        return {
            "asked_at": f"{self.now.isoformat(timespec='seconds')}+09:00",
            "cap_usd": None if cap is None else str(cap),
            "spent_today_usd": str(self.today.spent_usd),
            "reserved_today_usd": str(self.today.reserved_usd),
            "average_day_usd": None if average is None else str(round(average, 8)),
            "days": [_plain(asdict(one)) for one in self.totals],
            "spent": [_plain(asdict(one)) for one in self.spent],
            "open_batches": [_plain(asdict(one)) for one in self.open_batches],
        }

    def _table(self) -> list[str]:
        if not self.spent:
            return [f"no model was asked in the last {self.days} days"]
        rows: list[tuple[str, ...]] = []
        for day in sorted({one.day for one in self.spent}, reverse=True):
            of_day = [one for one in self.spent if one.day == day]
            rows += [(str(day), one.pipeline, one.model, *_numbers([one])) for one in of_day]
            if len(of_day) > 1:
                rows.append((str(day), "total", "", *_numbers(of_day)))
        return aligned(HEADINGS, rows, texts=3)

    def _today(self, cap: Decimal | None) -> str:
        told = f"today ({self.now:%Y-%m-%d %H:%M} KST): {usd(self.today.spent_usd)} USD spent, "
        told += f"{usd(self.today.reserved_usd)} reserved"
        if cap is None:
            return f"{told}; no cap (DAILY_SPENDING_CAP_USD=none)"
        return f"{told}; the cap is {usd(cap)} (DAILY_SPENDING_CAP_USD), {usd(self.room_usd(cap))} is left"

    def _average(self) -> str:
        average = self.average_usd
        return (
            "no full day to tell an average of"
            if average is None
            else f"a day costs {usd(average)} USD on average"
        )

    def _reach(self, cap: Decimal | None) -> str:
        if cap is None:
            return "nothing caps today"
        if cap == 0:
            return "the cap is 0, so no call is made"
        room, pace = self.room_usd(cap), self._usd_an_hour()
        if room == 0:
            return "the cap is reached: the gate opens at midnight in Seoul"
        if not pace:
            return "nothing was spent yet that would tell how long the cap lasts today"
        midnight = datetime.combine(self.now.date() + timedelta(days=1), datetime.min.time())
        hours = float(room / pace)
        if hours >= (midnight - self.now).total_seconds() / 3600:
            return "at today's pace the cap lasts beyond midnight"
        ends_at = self.now + timedelta(hours=hours)
        return f"at today's pace the cap is reached at about {ends_at:%H:%M} KST"

    def _usd_an_hour(self) -> Decimal:
        """By today's own hours where it has spent; else by an average day."""
        midnight = datetime.combine(self.now.date(), datetime.min.time())
        hours = (self.now - midnight).total_seconds() / 3600
        if self.today.spent_usd and hours >= LEAST_HOURS:
            return self.today.spent_usd / Decimal(hours)
        return (self.average_usd or Decimal(0)) / 24


def _numbers(some: Sequence[ModelDay]) -> tuple[str, ...]:
    counts = ("calls", "input_tokens", "cached_tokens", "output_tokens")
    return (
        *(f"{sum(getattr(one, name) for one in some):,}" for name in counts),
        usd(sum((one.usd for one in some), Decimal(0))),
    )


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, Decimal | date) else value for name, value in fields.items()
    }
