"""The gate of a model as a run passes it: while it is shut nothing is claimed or asked, but for its probe."""

import psycopg

from resources import gate
from resources.alerts import AlertResource
from resources.api_failure import SUSPEND, ApiFailure
from resources.gate import GateKey, ShutGate


class ModelGate:
    """The gate of one key and model for one run; alarms go out when it shuts and when it opens."""

    def __init__(
        self, connection: psycopg.Connection, key: GateKey, alerts: AlertResource, probe_minutes: int
    ) -> None:
        self._connection = connection
        self._key = key
        self._alerts = alerts
        self._probe_minutes = probe_minutes
        self.is_probe = False
        self._has_asked = False

    def pass_(self, only: str | None = None) -> ShutGate | None:
        """None if this run may ask: the gate is open, or this run holds its probe.

        With `only` no other reason keeps it: what is paid for may be taken in.
        """
        if gate.end_budget(self._connection, self._key):
            self._alerts.clear(self._connection, self._cause)
        shut = gate.read(self._connection, self._key)
        if shut is None or only not in (None, shut.reason):
            return None
        if shut.probe_is_due:
            self.is_probe = gate.claim_probe(self._connection, self._key, self._probe_minutes)
        return None if self.is_probe else shut

    def shut(self, reason: str, message: str) -> None:
        """Shuts it; one alarm, by whoever shuts it first."""
        self.is_probe = False
        if gate.shut(self._connection, self._key, reason, message, self._probe_minutes):
            standing = gate.read(self._connection, self._key)
            if standing is not None:
                self._alerts.raise_(self._connection, self._cause, standing.explain())

    def shut_for(self, failure: ApiFailure) -> bool:
        """Whether the failure hits every call, and so has shut it."""
        if failure.verdict.effect != SUSPEND or failure.verdict.reason is None:
            return False
        self.shut(failure.verdict.reason, failure.message)
        return True

    def answered(self) -> None:
        """What the probe asked was answered, so the gate is open for all."""
        if self.is_probe and gate.open_(self._connection, self._key):
            self._alerts.clear(self._connection, self._cause)
        self.is_probe = False

    def asks(self) -> None:
        """A call is about to be made; a probe that gets no answer is then not due again before its time."""
        self._has_asked = True

    def asked_nothing(self) -> None:
        """A probe that found nothing to ask is due again at once."""
        if self.is_probe and not self._has_asked:
            gate.return_probe(self._connection, self._key)
        self.is_probe = False

    @property
    def _cause(self) -> str:
        return f"gate:{self._key.model}"
