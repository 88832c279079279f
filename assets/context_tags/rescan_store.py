"""Brings stuck contexts back, or gives them up, where no application does it (CONTEXT_OWN_STATE).

The only statements of ours that touch `retry_count`, or a stage that is not ours.
"""

from pathlib import Path

import psycopg

from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "rescan.sql")


def is_due(connection: psycopg.Connection) -> bool:
    """Whether `resend` or `finalise` would change anything."""
    row = connection.execute(SQL["is_due"]).fetchone()
    assert row is not None
    return bool(row[0])


def resend(connection: psycopg.Connection) -> int:
    """How many contexts are tried once more: stuck in PENDING for 5 minutes or in PROCESSING for 10.

    Each at most three times; its request waits again, where it is still there.
    """
    with connection.transaction():
        locked = [id_ for (id_,) in connection.execute(SQL["lock_stuck_requests"])]
        retried = {id_ for (id_,) in connection.execute(SQL["count_retry"])}
        connection.execute(SQL["resend"], {"ids": [id_ for id_ in locked if id_ in retried]})
        return len(retried)


def finalise(connection: psycopg.Connection) -> int:
    """How many stages are FAILED now: stuck after their third retry, or waiting for a FAILED embedding."""
    with connection.transaction():
        embedding = connection.execute(SQL["finalise_embedding"]).fetchall()
        keyword = connection.execute(SQL["finalise_keyword"]).fetchall()
        return len(embedding) + len(keyword)
