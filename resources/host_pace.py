"""When a host may be asked: at most one request per interval over all runs and machines, and pauses."""

from datetime import datetime

import psycopg

PAUSE_HOURS = 12

# clock_timestamp(), not granary.now(): the pace is real politeness to a real host, no simulated time.
_NEXT_SLOT = """
INSERT INTO granary.host_pace AS pace (host, next_request_at)
VALUES (%(host)s, clock_timestamp() + make_interval(secs => %(interval)s))
ON CONFLICT (host) DO UPDATE
SET next_request_at =
    greatest(pace.next_request_at, clock_timestamp()) + make_interval(secs => %(interval)s)
WHERE pace.paused_until IS NULL OR pace.paused_until <= clock_timestamp()
RETURNING greatest(
    extract(epoch FROM next_request_at - clock_timestamp()) - %(interval)s, 0)::double precision
"""

_PAUSE = """
INSERT INTO granary.host_pace (host, next_request_at, paused_until, pause_reason)
VALUES (%(host)s, clock_timestamp(), clock_timestamp() + make_interval(hours => %(hours)s), %(reason)s)
ON CONFLICT (host) DO UPDATE
SET paused_until = excluded.paused_until, pause_reason = excluded.pause_reason
"""

_PAUSED = """
SELECT paused_until, pause_reason FROM granary.host_pace
WHERE host = %(host)s AND paused_until > clock_timestamp()
"""


def seconds_until_slot(connection: psycopg.Connection, host: str, interval_seconds: float) -> float | None:
    """How long to wait before the one request that this call is granted; None: the host is paused."""
    row = connection.execute(_NEXT_SLOT, {"host": host, "interval": interval_seconds}).fetchone()
    return None if row is None else float(row[0])


def pause(connection: psycopg.Connection, host: str, reason: str) -> None:
    """Leaves the host alone for twelve hours."""
    connection.execute(_PAUSE, {"host": host, "hours": PAUSE_HOURS, "reason": reason})


def paused_until(connection: psycopg.Connection, host: str) -> tuple[datetime, str] | None:
    """Until when (aware) and why the host is paused, or None."""
    row = connection.execute(_PAUSED, {"host": host}).fetchone()
    return None if row is None else (row[0], row[1])
