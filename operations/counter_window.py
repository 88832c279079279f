"""How much counters grew in the last ten minutes, from samples in a sensor's cursor: small, bounded JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

WINDOW = timedelta(minutes=10)
_TOLERANCE = timedelta(seconds=90)
_MOST_SAMPLES = 15
_MOST_NAMES = 50


@dataclass(frozen=True)
class CounterWindow:
    """Samples of counters (aware time, value by name), oldest first."""

    samples: tuple[tuple[datetime, Mapping[str, float]], ...] = ()

    def with_sample(self, now: datetime, values: Mapping[str, float]) -> "CounterWindow":
        """With today's newest sample, without those that are too old, or of a time to come."""
        kept = [one for one in self.samples if now - WINDOW - _TOLERANCE <= one[0] < now]
        numbers = {name: value for name, value in values.items() if math.isfinite(value)}
        sample = dict(sorted(numbers.items())[:_MOST_NAMES])
        return CounterWindow((*kept, (now, sample))[-_MOST_SAMPLES:])

    def growth(self) -> dict[str, float]:
        """By how much each counter grew from the oldest sample to the newest.

        One that a sample does not know was 0 there; one that is less than it was counts from 0 again.
        """
        if not self.samples:
            return {}
        oldest, newest = self.samples[0][1], self.samples[-1][1]
        grown = {name: value - oldest.get(name, 0.0) for name, value in newest.items()}
        return {name: by if by >= 0 else newest[name] for name, by in grown.items()}

    def to_samples(self) -> list[list[object]]:
        """As `read_samples` reads it, of what JSON has."""
        return [[moment.isoformat(timespec="seconds"), values] for moment, values in self.samples]


def read_samples(read: object) -> CounterWindow:
    """The window in parsed JSON; an empty one where it is of another shape, or holds what is no number."""
    if not isinstance(read, list):
        return CounterWindow()
    try:
        samples = [
            (datetime.fromisoformat(moment), {str(name): float(value) for name, value in values.items()})
            for moment, values in read
        ]
    except (ValueError, TypeError, AttributeError, OverflowError):
        return CounterWindow()
    if not all(moment.tzinfo and _are_finite(values) for moment, values in samples):
        return CounterWindow()
    return CounterWindow(tuple(sorted(samples, key=lambda one: one[0])))


def _are_finite(values: Mapping[str, float]) -> bool:
    return all(math.isfinite(value) for value in values.values())
