"""Cumulative counters, kept in Postgres so that they count exactly what was committed.

Names and labels are Prometheus'. Histograms are kept as `<name>_sum` and `<name>_count`.
"""

from collections.abc import Mapping

import psycopg
from psycopg.types.json import Jsonb

# Sorted, so that two transactions that count the same things take their row locks in the same order.
_ADD = """
INSERT INTO granary.counter AS counter (name, labels, value)
SELECT name, labels, value
FROM jsonb_to_recordset(%(counts)s) AS added (name text, labels jsonb, value double precision)
ORDER BY name, labels::text
ON CONFLICT (name, labels) DO UPDATE SET value = counter.value + excluded.value
"""


class Counts:
    """Collects increments in memory until they are added in one statement."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Counts `amount` more of `name` with these labels."""
        key = (name, tuple(sorted(labels.items())))
        self._amounts[key] = self._amounts.get(key, 0) + amount

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """One observation of a duration in seconds: adds to its sum and to its count."""
        self.add(f"{name}_sum", value, **labels)
        self.add(f"{name}_count", 1, **labels)

    def write(self, connection: psycopg.Connection) -> None:
        """Adds everything in the connection's transaction and forgets it. Call it last in a transaction."""
        counts = [
            {"name": name, "labels": dict(labels), "value": amount}
            for (name, labels), amount in self._amounts.items()
            if amount
        ]
        if counts:
            connection.execute(_ADD, {"counts": Jsonb(counts)})
        self._amounts = {}


def value(connection: psycopg.Connection, name: str, labels: Mapping[str, str]) -> float:
    """The counter's value with exactly these labels, 0 where it was never counted."""
    row = connection.execute(
        "SELECT value FROM granary.counter WHERE name = %s AND labels = %s", (name, Jsonb(dict(labels)))
    ).fetchone()
    return float(row[0]) if row else 0.0
