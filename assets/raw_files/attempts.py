"""What becomes of an attempt at a partition that did not succeed: when it is tried again, who is told."""

import psycopg

from assets.raw_files import partition_store
from assets.raw_files.alarms import daily_processing_failure
from assets.raw_files.partition_store import Failure
from assets.raw_files.store import Partition
from resources.alerts import AlertResource


def fail(
    connection: psycopg.Connection,
    alerts: AlertResource,
    partition: Partition,
    run_id: str,
    failure: Failure,
) -> bool:
    """Notes the failed attempt and when the next is due; the alarm where its tries are spent.

    False, and nothing noted, where the attempt is not this run's: told twice, or taken over.
    """
    day, source = partition
    with connection.transaction():
        failed = partition_store.fail_partition(connection, partition, run_id, failure.error)
        if failed is None:
            return False
        partition_store.log_failure(connection, failure)
    facts = partition_store.partition_facts(connection, day, day)
    for alarm in daily_processing_failure([fact for fact in facts if fact.source == source]):
        alerts.raise_(connection, alarm.cause, alarm.message)
    return True


def time_out(connection: psycopg.Connection, alerts: AlertResource, environment: str) -> int:
    """Fails the attempts that took longer than a run may; how many."""
    overdue = partition_store.overdue_partitions(connection)
    for day, source, run_id in overdue:
        error = "the attempt took longer than a run may, or its run ended without a word"
        failure = Failure(
            type="TimeoutError",
            kind="TIMEOUT",
            error=error,
            environment=environment,
            partition=f"{day.isoformat()}|{source}",
            run_id=run_id,
        )
        fail(connection, alerts, (day, source), run_id, failure)
    return len(overdue)
