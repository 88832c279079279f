"""How partitions stand, read on a given connection: for metadata, checks and people."""

from collections.abc import Sequence

import psycopg
from psycopg.rows import class_row

from assets.economy_news.job_store import SQL
from assets.economy_news.models import JobType, Partition, PartitionJobs, PartitionState, UnsettledItem
from assets.economy_news.store import columns


def jobs_by_partition(
    connection: psycopg.Connection,
    job_type: JobType,
    partitions: Sequence[Partition],
    prompt_version: str,
    model: str,
) -> dict[Partition, PartitionJobs]:
    """The jobs of each partition as they stand now; every one asked for has an entry."""
    parameters = {
        **columns(partitions),
        "job_type": job_type,
        "prompt_version": prompt_version,
        "model": model,
    }
    with connection.cursor(row_factory=class_row(PartitionJobs)) as cursor:
        rows = cursor.execute(SQL["jobs_by_partition"], parameters).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def completeness(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> dict[Partition, PartitionState]:
    """How the articles of each partition stand; every one asked for has an entry."""
    with connection.cursor(row_factory=class_row(PartitionState)) as cursor:
        rows = cursor.execute(SQL["completeness_by_partition"], columns(partitions)).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def unsettled_items(
    connection: psycopg.Connection, partitions: Sequence[Partition], limit: int
) -> list[UnsettledItem]:
    """Jobs that failed, are suspended or wait for a retry, the latest first."""
    rows = connection.execute(SQL["unsettled_items"], {**columns(partitions), "limit": limit})
    return [UnsettledItem(*row) for row in rows]


def unpublishable_summaries(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> dict[int, list[str]]:
    """Article ids whose summary has numbers that the article does not have, with those numbers."""
    return dict(connection.execute(SQL["unpublishable_summaries"], columns(partitions)).fetchall())


def foreign_highlights(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> list[tuple[int, str]]:
    """Article ids with a highlight that their summary lacks: `stored`, or `refused` twice and not stored."""
    return [(row[0], row[1]) for row in connection.execute(SQL["foreign_highlights"], columns(partitions))]
