"""What the sensor of the alarms keeps between its ticks: counters' samples, and which runs it has seen."""

import json
from dataclasses import dataclass, field
from datetime import datetime

from operations.counter_window import CounterWindow, read_samples


@dataclass(frozen=True)
class AlarmCursor:
    """`runs_after`: the runs that ended after that moment (aware) are to be looked at; None: a first tick."""

    window: CounterWindow = field(default_factory=CounterWindow)
    runs_after: datetime | None = None

    def to_text(self) -> str:
        after = self.runs_after.isoformat() if self.runs_after else None
        return json.dumps({"runs_after": after, "samples": self.window.to_samples()}, separators=(",", ":"))


def read_cursor(text: str | None) -> AlarmCursor:
    """What the text says; of a part that is missing or of another shape, what a first tick begins with."""
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return AlarmCursor()
    if not isinstance(read, dict):
        return AlarmCursor(read_samples(read))
    return AlarmCursor(read_samples(read.get("samples")), _moment(read.get("runs_after")))


def _moment(read: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(read) if isinstance(read, str) else None
    except ValueError:
        return None
    # What is too near to the ends of the calendar has no other time zone.
    return moment if moment and moment.tzinfo and 1970 < moment.year < 9000 else None
