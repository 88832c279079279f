"""Alarms that are kept instead of being sent."""

from collections.abc import Callable

import psycopg
from pydantic import PrivateAttr

from resources.alerts import AlertResource


class RecordedAlerts(AlertResource):
    """Keeps what would have been sent; `on_sending` is called with each title."""

    _sent: list[str] = PrivateAttr(default_factory=list)
    _on_sending: Callable[[str], object] | None = PrivateAttr(default=None)

    @property
    def sent(self) -> list[str]:
        return self._sent

    def on_sending(self, hook: Callable[[str], object]) -> "RecordedAlerts":
        self._on_sending = hook
        return self

    def _send(self, connection: psycopg.Connection, title: str, body: str) -> bool:
        self._sent.append(title)
        if self._on_sending is not None:
            self._on_sending(title)
        return True
