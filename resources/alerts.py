"""Alarms: one message per cause and day (Asia/Seoul), one when it clears.

They go to the addresses of ALERT_URLS in apprise's notation, and always to the log. A channel that
fails is logged and never fails a run.
"""

import logging

import dagster as dg
import psycopg
from pydantic import Field

log = logging.getLogger("granary.alerts")

_RAISE = """
INSERT INTO granary.alert AS alert (cause, day, message, raised_at)
VALUES (%(cause)s, granary.today(), %(message)s, granary.now())
ON CONFLICT (cause, day) DO UPDATE
SET message = excluded.message, raised_at = excluded.raised_at, cleared_at = NULL
WHERE alert.cleared_at IS NOT NULL
RETURNING cause
"""

_CLEAR = """
UPDATE granary.alert SET cleared_at = granary.now()
WHERE cause = %(cause)s AND cleared_at IS NULL
RETURNING cause
"""


_STANDING = """
SELECT DISTINCT cause FROM granary.alert
WHERE cleared_at IS NULL AND (cause = %(of)s OR starts_with(cause, %(of)s || ':'))
ORDER BY cause
"""


class AlertResource(dg.ConfigurableResource):
    """Where alarms go."""

    # One text, so that Dagster can be given the variable's name: these addresses hold tokens, and what is
    # configured is shown in the UI.
    urls: str = Field(default="", description="apprise addresses, comma-separated; empty: only the log.")

    def raise_(self, connection: psycopg.Connection, cause: str, message: str) -> bool:
        """True if a message went out, False if this cause had its message today.

        `cause` is a short stable name such as `gate:gpt-4o-mini`; `message` says what to do.
        """
        row = connection.execute(_RAISE, {"cause": cause, "message": message}).fetchone()
        if row is None:
            return False
        self._send(f"Granary: {cause}", message)
        return True

    def clear(self, connection: psycopg.Connection, cause: str) -> bool:
        """True if the cause was standing and is cleared now; one message says so."""
        if not connection.execute(_CLEAR, {"cause": cause}).fetchall():
            return False
        self._send(f"Granary: {cause} is over", "It has cleared; nothing to do.")
        return True

    def standing(self, connection: psycopg.Connection, of: str) -> list[str]:
        """The causes that stand uncleared: `of` itself, and those that go on from it with a colon."""
        return [cause for (cause,) in connection.execute(_STANDING, {"of": of})]

    def _send(self, title: str, body: str) -> None:
        log.warning("%s: %s", title, body)
        urls = [url.strip() for url in self.urls.split(",") if url.strip()]
        if not urls:
            return
        try:
            import apprise

            channels = apprise.Apprise()
            refused = [number for number, url in enumerate(urls, 1) if not channels.add(url)]
            if refused:
                log.error("ALERT_URLS: address number %s is not understood", refused)
            if len(refused) < len(urls) and not channels.notify(title=title, body=body):
                log.error("an alarm could not be delivered to every address of ALERT_URLS")
        except Exception as error:  # whatever a chat service does, the run goes on; the log has the alarm
            log.error("the alarm channel failed: %s", type(error).__name__)
