"""A persist that kills itself, as the kernel would: `python -m ….killed_persist POINT ADDRESS DATABASE`.

The points stand around the real statements; production code knows nothing of them.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import psycopg
from pymongo import MongoClient

from assets.recipes import job_store
from tests.integration.fatal_calls import after, before
from tests.integration.recipes.parsed_jobs import persist_all

POINTS: dict[str, Callable[[], None]] = {
    "after the claim": lambda: after(job_store, "claim", 0),
    "before the commit": lambda: after(job_store, "renew", 1),
    "between the stores": lambda: before(job_store, "finish", 1),
    "after the finish": lambda: after(job_store, "finish", 1),
}
"""Those in the middle let one recipe go well before."""


def main(point: str, address: str, database: str) -> None:
    with (
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection,
        MongoClient[dict[str, Any]](address, tz_aware=True) as client,
    ):
        POINTS[point]()
        persist_all(client[database], connection, claimed_by="killed:0")


if __name__ == "__main__":
    main(*sys.argv[1:])
