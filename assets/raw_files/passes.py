"""One tick's look at the bucket: recorded once, repeated where it fails, with what it found asked for."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

import psycopg

from assets.raw_files import partition_store
from assets.raw_files.partition_store import DELAYS, Failure
from assets.raw_files.plan import wanted_days
from assets.raw_files.scan import Scan, scan_days
from resources.alerts import AlertResource
from resources.bucket import BucketResource
from resources.errors import ServiceError, ServiceUnavailable

SCAN_CAUSE = "raw_files:scan"
NEAR_MISS_CAUSE = "raw_files:near_misses"


def look(
    connection: psycopg.Connection,
    bucket: BucketResource,
    alerts: AlertResource,
    kind: str,
    scheduled_at: datetime,
    catch_up_days: int,
    environment: str,
) -> Scan | None:
    """What the tick found, its partitions asked for; None where the tick had its look before.

    The days are yesterday of the tick (UTC) and those before it. Where the listing fails it is due again
    after 5, 10 and 20 minutes, unless the bucket refuses us, and the error is raised.
    """
    today = scheduled_at.astimezone(UTC).date()
    days = wanted_days(today, catch_up_days)
    pass_id = partition_store.start_pass(connection, kind, scheduled_at, days[-1])
    if pass_id is None:
        return None
    try:
        with bucket.open() as opened:
            found = scan_days(connection, opened, days[0], days[-1])
    except ServiceError as error:
        _failed(connection, alerts, pass_id, kind, scheduled_at, error, environment)
        raise
    with connection.transaction():
        partition_store.finish_pass(
            connection,
            pass_id,
            found.partitions_on(days[-1]),
            found.to_do_on(days[-1]),
            found.new_files_on(days[-1]),
        )
        partition_store.ask_for_partitions(connection, found.to_do())
    alerts.clear(connection, SCAN_CAUSE)
    _tell_of_near_misses(connection, alerts, found)
    return found


def days_of_interest(today: date, catch_up_days: int) -> Sequence[date]:
    """The wanted days and the running one, which files may arrive for already."""
    return [*wanted_days(today, catch_up_days), today]


def _tell_of_near_misses(connection: psycopg.Connection, alerts: AlertResource, found: Scan) -> None:
    """What is ignored and looks meant would be missed by nobody: it has no partition to show it."""
    if not found.near_misses:
        alerts.clear(connection, NEAR_MISS_CAUSE)
        return
    named = ", ".join(repr(key[:150]) for key in found.near_misses[:5])
    alerts.raise_(
        connection,
        NEAR_MISS_CAUSE,
        f"{len(found.near_misses)} keys nearly fit and are ignored: {named}. A key is "
        "raw/country=kr/category=news/date=2026-01-30/raw_0001.json: lower case, four digits, a real date.",
    )


def _failed(
    connection: psycopg.Connection,
    alerts: AlertResource,
    pass_id: int,
    kind: str,
    scheduled_at: datetime,
    error: ServiceError,
    environment: str,
) -> None:
    """A refusal is not repeated: a person must act."""
    delays = DELAYS if isinstance(error, ServiceUnavailable) else []
    again = partition_store.fail_pass(connection, pass_id, str(error), delays)
    partition_store.log_failure(
        connection,
        Failure(
            type=type(error).__name__,
            kind="SCAN",
            error=f"the {kind} pass of {scheduled_at.isoformat()}: {error}",
            environment=environment,
        ),
    )
    if again is None:
        alerts.raise_(
            connection,
            SCAN_CAUSE,
            f"The bucket could not be listed for the {kind} pass of {scheduled_at:%Y-%m-%d %H:%M} UTC and "
            "is not asked again before the next pass; raw.failure_log has the error.",
        )
