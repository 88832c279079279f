"""Alarms: one message per cause and day (Asia/Seoul), one when it clears.

They go to the addresses of ALERT_URLS in apprise's notation, and always to the log. A channel that
fails never fails a run: the row stays to be told, and the sensor `alarms_looked_at` tries again. What
comes back within the hour is the same trouble, and is told again only where it stays.
"""

import logging
import time
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

import dagster as dg
import psycopg
from psycopg.rows import class_row
from pydantic import Field

from resources.alert_delivery import FAILED, deliver
from resources.counters import Counts

log = logging.getLogger("granary.alerts")

HEARTBEAT = "heartbeat"
"""The cause of the one message a day that says that alarms arrive; it never stands."""
AT_ONCE = 20
TELL_SECONDS = 20.0
"""How long a tick goes on to begin messages that wait: a channel may be slow and well."""
ONLY_LOGGED = "only_logged"
_SEOUL = ZoneInfo("Asia/Seoul")

# delivered_at is NULL while what the row says now was not told, and before raised_at where it came back so
# soon after it had cleared that it is not told yet.
_RAISE = """
INSERT INTO granary.alert AS alert (cause, day, message, raised_at)
VALUES (%(cause)s, granary.today(), %(message)s, granary.now())
ON CONFLICT (cause, day) DO UPDATE
SET message = excluded.message, raised_at = excluded.raised_at, cleared_at = NULL,
    delivered_at = CASE WHEN alert.cleared_at > granary.now() - interval '1 hour' THEN alert.delivered_at END
WHERE alert.cleared_at IS NOT NULL
RETURNING day, delivered_at IS NULL AS is_to_be_told
"""

_CLEAR = """
WITH cleared AS (
    UPDATE granary.alert AS alert
    SET cleared_at = granary.now(),
        delivered_at = CASE WHEN alert.delivered_at < alert.raised_at THEN alert.delivered_at END
    WHERE alert.cause = %(cause)s AND alert.cleared_at IS NULL
    RETURNING alert.day, alert.delivered_at IS NULL AS is_to_be_told
)
SELECT day, is_to_be_told FROM cleared ORDER BY day DESC LIMIT 1
"""

_BEAT = """
INSERT INTO granary.alert (cause, day, message, raised_at, cleared_at)
VALUES (%(cause)s, granary.today(), %(message)s, granary.now(), granary.now())
ON CONFLICT (cause, day) DO NOTHING
RETURNING day
"""

_STANDING = """
SELECT DISTINCT cause FROM granary.alert
WHERE cleared_at IS NULL AND (cause = %(of)s OR starts_with(cause, %(of)s || ':'))
ORDER BY cause
"""

# Of a cause that stood for days the newest row speaks for all.
_TO_BE_TOLD = """
SELECT cause, day FROM granary.alert AS alert
WHERE (delivered_at IS NULL
       OR cleared_at IS NULL AND delivered_at < raised_at
          AND raised_at <= granary.now() - interval '10 minutes')
  AND NOT EXISTS (SELECT FROM granary.alert AS newer
                  WHERE newer.cause = alert.cause AND newer.day > alert.day)
ORDER BY raised_at LIMIT %(limit)s
"""

# One process tells of a cause at a time; its lock goes with its connection.
_LOCK = "SELECT pg_try_advisory_lock(hashtext('granary.alert'), hashtext(%(cause)s))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('granary.alert'), hashtext(%(cause)s))"

_READ = """
SELECT cause, day, message, raised_at, cleared_at FROM granary.alert
WHERE cause = %(cause)s AND day = %(day)s AND (delivered_at IS NULL OR delivered_at < raised_at)
"""

_TOLD = """
UPDATE granary.alert SET delivered_at = granary.now()
WHERE cause = %(cause)s AND day = %(day)s AND raised_at = %(raised_at)s
  AND cleared_at IS NOT DISTINCT FROM %(cleared_at)s
"""


@dataclass(frozen=True)
class _Row:
    cause: str
    day: date
    message: str
    raised_at: datetime
    cleared_at: datetime | None

    def title(self) -> str:
        is_over = self.cleared_at is not None and self.cause != HEARTBEAT
        return f"Granary: {self.cause} is over" if is_over else f"Granary: {self.cause}"

    def body(self, over: str) -> str:
        if self.cleared_at is None or self.cause == HEARTBEAT:
            return self.message
        return (
            f"{over} It was raised at {self.raised_at.astimezone(_SEOUL):%Y-%m-%d %H:%M} KST: {self.message}"
        )


class AlertResource(dg.ConfigurableResource):
    """Where alarms go."""

    # One text, so that Dagster can be given the variable's name: these addresses hold tokens, and what is
    # configured is shown in the UI.
    urls: str = Field(default="", description="apprise addresses, comma-separated; empty: only the log.")

    def raise_(self, connection: psycopg.Connection, cause: str, message: str) -> bool:
        """True if there was something new to tell, False if this cause had its message today.

        `cause` is a short stable name such as `gate:gpt-4o-mini`; `message` says what to do.
        """
        row = connection.execute(_RAISE, {"cause": cause, "message": message}).fetchone()
        if row is None:
            return False
        day, is_to_be_told = row
        if is_to_be_told:
            self._tell(connection, cause, day)
        else:
            log.warning("Granary: %s: again: %s", cause, message)
        return bool(is_to_be_told)

    def clear(
        self, connection: psycopg.Connection, cause: str, over: str = "It has cleared; nothing to do."
    ) -> bool:
        """True if the cause was standing and is cleared now; one message says so, beginning with `over`."""
        row = connection.execute(_CLEAR, {"cause": cause}).fetchone()
        if row is None:
            return False
        day, is_to_be_told = row
        if is_to_be_told:
            self._tell(connection, cause, day, over)
        return True

    def beat(self, connection: psycopg.Connection, message: str) -> bool:
        """True for the one caller of the day (Asia/Seoul) whose heartbeat it is."""
        row = connection.execute(_BEAT, {"cause": HEARTBEAT, "message": message}).fetchone()
        if row is None:
            return False
        self._tell(connection, HEARTBEAT, row[0])
        return True

    def standing(self, connection: psycopg.Connection, of: str) -> list[str]:
        """The causes that stand uncleared: `of` itself, and those that go on from it with a colon."""
        return [cause for (cause,) in connection.execute(_STANDING, {"of": of})]

    def tell_waiting(self, connection: psycopg.Connection, within_seconds: float = TELL_SECONDS) -> int:
        """How many messages went out that could not be sent before, or came back and stay.

        Ends at the first that fails again, so that a tick waits for a channel once; and begins none later
        than `within_seconds`.
        """
        told = 0
        ends_at = time.monotonic() + within_seconds
        for cause, day in connection.execute(_TO_BE_TOLD, {"limit": AT_ONCE}).fetchall():
            if time.monotonic() >= ends_at:
                break
            is_told = self._tell(connection, cause, day)
            if is_told is False:
                break
            told += bool(is_told)
        return told

    def _tell(
        self,
        connection: psycopg.Connection,
        cause: str,
        day: date,
        over: str = "It has cleared; nothing to do.",
    ) -> bool | None:
        """Whether it could be delivered; None where another process tells it, or has."""
        if connection.execute(_LOCK, {"cause": cause}).fetchone() != (True,):
            return None
        try:
            with connection.cursor(row_factory=class_row(_Row)) as cursor:
                row = cursor.execute(_READ, {"cause": cause, "day": day}).fetchone()
            if row is None:
                return None
            is_told = self._send(connection, row.title(), row.body(over))
            if is_told:
                known = {"raised_at": row.raised_at, "cleared_at": row.cleared_at}
                connection.execute(_TOLD, {"cause": cause, "day": day, **known})
            return is_told
        finally:
            connection.execute(_UNLOCK, {"cause": cause})

    def _send(self, connection: psycopg.Connection, title: str, body: str) -> bool:
        """Whether one address took it, or there is none; one that is gone is no reason to send twice."""
        log.warning("%s: %s", title, body)
        urls = [url.strip() for url in self.urls.split(",") if url.strip()]
        outcomes = deliver(urls, title, body) if urls else [ONLY_LOGGED]
        counts = Counts()
        for outcome in outcomes:
            counts.add("alerts_sent_total", outcome=outcome)
        try:
            with connection.transaction():
                counts.write(connection)
        except psycopg.Error as error:  # what was sent is sent, and must not be sent again
            log.error("a message could not be counted: %s", type(error).__name__)
        return any(outcome != FAILED for outcome in outcomes)
