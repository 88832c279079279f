"""The gate before an AI provider: shut by the first answer that hits everyone, for all pipelines and runs.

A row in `granary.api_gate` means shut, none means open. While it is shut nothing is claimed. A BUDGET
gate opens by itself at midnight in Seoul; the others let one call through as a probe when it is due.
"""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row

REMEDIES = {
    "QUOTA": "pay the provider's bill or raise its limit, then run the pipeline's job …_resume_suspended",
    "AUTH": "set a valid OPENAI_API_KEY, then run the pipeline's job …_resume_suspended",
    "MODEL": "set OPENAI_MODEL to one that the key may use, then run the pipeline's job …_resume_suspended",
    "BUDGET": "nothing to do: it opens at midnight in Seoul; to go on today, raise DAILY_SPENDING_CAP_USD "
    "and run the pipeline's job …_resume_suspended",
}

_READ = """
SELECT reason, message, since, next_probe_at, next_probe_at <= granary.now() AS probe_is_due
FROM granary.api_gate
WHERE provider_key = %(provider_key)s AND model = %(model)s
  AND NOT (reason = 'BUDGET' AND next_probe_at <= granary.now())
"""

# A shut gate keeps its first reason: later answers of the same storm add nothing.
_SHUT = """
INSERT INTO granary.api_gate AS gate (provider_key, model, reason, message, since, next_probe_at)
VALUES (%(provider_key)s, %(model)s, %(reason)s, %(message)s, granary.now(),
        CASE WHEN %(reason)s = 'BUDGET'
             THEN (granary.today() + 1)::timestamp AT TIME ZONE 'Asia/Seoul'
             ELSE granary.now() + make_interval(mins => %(probe_minutes)s) END)
ON CONFLICT (provider_key, model) DO UPDATE
SET reason = excluded.reason, message = excluded.message, since = excluded.since,
    next_probe_at = excluded.next_probe_at
WHERE gate.reason = 'BUDGET' AND gate.next_probe_at <= granary.now()
RETURNING reason
"""

_OPEN = """
DELETE FROM granary.api_gate WHERE provider_key = %(provider_key)s AND model = %(model)s RETURNING reason
"""

_END_BUDGET = """
DELETE FROM granary.api_gate
WHERE provider_key = %(provider_key)s AND model = %(model)s
  AND reason = 'BUDGET' AND next_probe_at <= granary.now()
RETURNING reason
"""

_CLAIM_PROBE = """
UPDATE granary.api_gate SET next_probe_at = granary.now() + make_interval(mins => %(probe_minutes)s)
WHERE provider_key = %(provider_key)s AND model = %(model)s
  AND reason <> 'BUDGET' AND next_probe_at <= granary.now()
RETURNING reason
"""

_RETURN_PROBE = """
UPDATE granary.api_gate SET next_probe_at = granary.now()
WHERE provider_key = %(provider_key)s AND model = %(model)s AND reason <> 'BUDGET'
"""


@dataclass(frozen=True)
class ShutGate:
    """Why the gate is shut. `since` and `next_probe_at` are aware times of the database's clock."""

    reason: str
    message: str
    since: datetime
    next_probe_at: datetime
    probe_is_due: bool

    def explain(self) -> str:
        """One sentence for the person on call: what happened and what to do."""
        return f"the AI gate is shut ({self.reason}: {self.message}): {REMEDIES[self.reason]}"


@dataclass(frozen=True)
class GateKey:
    """Which gate: a fingerprint of the provider's address and key, and the model."""

    provider_key: str
    model: str

    def _parameters(self, **more: object) -> dict[str, object]:
        return {"provider_key": self.provider_key, "model": self.model, **more}


def read(connection: psycopg.Connection, key: GateKey) -> ShutGate | None:
    """The gate if it is shut, None if it is open."""
    with connection.cursor(row_factory=class_row(ShutGate)) as cursor:
        return cursor.execute(_READ, key._parameters()).fetchone()


def shut(connection: psycopg.Connection, key: GateKey, reason: str, message: str, probe_minutes: int) -> bool:
    """True if this call shut it, False if it was shut already."""
    parameters = key._parameters(reason=reason, message=message[:500], probe_minutes=probe_minutes)
    return connection.execute(_SHUT, parameters).fetchone() is not None


def open_(connection: psycopg.Connection, key: GateKey) -> bool:
    """True if it was shut and is open now."""
    return connection.execute(_OPEN, key._parameters()).fetchone() is not None


def end_budget(connection: psycopg.Connection, key: GateKey) -> bool:
    """True if a BUDGET gate of a day before stood there still, and is gone now."""
    return connection.execute(_END_BUDGET, key._parameters()).fetchone() is not None


def claim_probe(connection: psycopg.Connection, key: GateKey, probe_minutes: int) -> bool:
    """True for exactly one caller once the probe is due; it alone may make one call."""
    parameters = key._parameters(probe_minutes=probe_minutes)
    return connection.execute(_CLAIM_PROBE, parameters).fetchone() is not None


def return_probe(connection: psycopg.Connection, key: GateKey) -> None:
    """Makes the probe due again where its holder found nothing to ask."""
    connection.execute(_RETURN_PROBE, key._parameters())
