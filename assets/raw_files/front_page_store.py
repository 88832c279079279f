"""Statements on front pages, on a given connection: claims with a lease, and their finishes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.types.json import Jsonb

from assets.raw_files.store import Partition
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from assets.raw_files.front_page import FrontPage

SQL = read_statements(Path(__file__).parent / "sql" / "front_pages.sql")


@dataclass(frozen=True)
class Claim:
    """A domain whose front page this run may fetch."""

    domain_id: int
    attempt: int
    domain: str


@dataclass(frozen=True)
class Fetched:
    """A front page that was read."""

    claim: Claim
    url: str
    http_status: int
    page: "FrontPage"


@dataclass(frozen=True)
class Unfetched:
    """A front page that was not; `permanent`: the site must change before another try makes sense."""

    claim: Claim
    reason: str
    http_status: int | None
    permanent: bool


@dataclass(frozen=True)
class FrontPageCounts:
    """How the front pages of a partition's domains stand. `failed`: no fetch has ever succeeded."""

    domains: int
    fetched: int
    failed: int
    waiting: int


def claim_of_partition(
    connection: psycopg.Connection, partition: Partition, run_id: str, lease_seconds: float, limit: int
) -> list[Claim]:
    """Leases domains of the partition that have no front page yet or failed and are due."""
    parameters = {
        "day": partition[0],
        "source": partition[1],
        "run_id": run_id,
        "lease": lease_seconds,
        "limit": limit,
    }
    return [Claim(*row) for row in connection.execute(SQL["claim_of_partition"], parameters)]


def claim_oldest(
    connection: psycopg.Connection, run_id: str, lease_seconds: float, older_than_days: int, limit: int
) -> list[Claim]:
    """Leases front pages that are older than the days given, oldest first, and what was never fetched."""
    parameters = {"run_id": run_id, "lease": lease_seconds, "days": older_than_days, "limit": limit}
    return [Claim(*row) for row in connection.execute(SQL["claim_oldest"], parameters)]


def store_outcomes(
    connection: psycopg.Connection, run_id: str, fetched: Sequence[Fetched], unfetched: Sequence[Unfetched]
) -> int:
    """Stores what the run still has the lease of; the number of rows that took it."""
    stored = 0
    if fetched:
        pages = [
            {
                **asdict(one.page),
                "domain_id": one.claim.domain_id,
                "attempt": one.claim.attempt,
                "url": one.url,
                "http_status": one.http_status,
            }
            for one in fetched
        ]
        stored += connection.execute(SQL["store_page"], {"pages": Jsonb(pages), "run_id": run_id}).rowcount
    if unfetched:
        failed = [
            {
                "domain_id": one.claim.domain_id,
                "attempt": one.claim.attempt,
                "reason": one.reason,
                "http_status": one.http_status,
                "permanent": one.permanent,
            }
            for one in unfetched
        ]
        stored += connection.execute(SQL["fail_page"], {"pages": Jsonb(failed), "run_id": run_id}).rowcount
    return stored


def release(connection: psycopg.Connection, run_id: str) -> int:
    """Frees what the run had leased; how many."""
    return connection.execute(SQL["release"], {"run_id": run_id}).rowcount


def counts_of_partition(connection: psycopg.Connection, partition: Partition) -> FrontPageCounts:
    row = connection.execute(
        SQL["counts_of_partition"], {"day": partition[0], "source": partition[1]}
    ).fetchone()
    assert row is not None
    return FrontPageCounts(*row)
