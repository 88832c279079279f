"""A run that kills itself, as the kernel would, at a named point: `python -m ….killed_run BUCKET_URL`.

Reads what to run from its standard input, a JSON object a line, forks a run for each and says how it
ended: the imports, most of such a run's time, are paid once. The points stand around the real statements
and requests; production code knows nothing of them.
"""

import json
import os
import sys
from collections.abc import Callable

import psycopg

from assets.raw_files import front_page_fetching, front_page_store, partition_store, store
from assets.raw_files.domains import registrable_domain
from resources.bucket import Bucket, BucketResource
from tests.integration.fatal_calls import after, before
from tests.integration.raw_files.work_runs import whole_run

RUN_ID = "killed"
ALIVE = 7_307_307
"""An advisory lock that a run holds as long as the server knows its connection."""


# What goes well before the fatal call is counted so that something is done by then, and something is not.
POINTS: dict[str, Callable[[], None]] = {
    "in the middle of the listing": lambda: before(Bucket, "objects", 1),
    "before the listing is recorded": lambda: before(store, "record_files", 0),
    "before the commit of the listing": lambda: after(store, "record_files", 0),
    "after the listing is recorded": lambda: before(partition_store, "finish_pass", 0),
    "after the pass": lambda: before(partition_store, "start_partition", 0),
    "before a file's lock": lambda: before(store, "lock_file", 1),
    "during the COPY": lambda: before(psycopg.Copy, "write_row", 4),
    "before the commit of a file": lambda: after(store, "finish_file", 1),
    "between commit and marker": lambda: before(Bucket, "put", 1),
    "after the marker": lambda: before(store, "marker_written", 1),
    "after the claim": lambda: after(front_page_store, "claim_of_partition", 1),
    "during the fetch": lambda: after(front_page_fetching, "fetch_front_page", 2),
    "before front pages are stored": lambda: before(front_page_store, "store_outcomes", 1),
    "before the commit of front pages": lambda: after(front_page_store, "store_outcomes", 1),
    "after front pages are stored": lambda: before(front_page_store, "claim_of_partition", 2),
    "before the lease is given back": lambda: before(front_page_store, "release", 0),
}


def run(opened: Bucket, point: str, database_url: str, bucket: str, sites: str) -> None:
    opened.name = bucket
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (ALIVE,))
        POINTS[point]()
        whole_run(connection, opened, sites, RUN_ID)


def until_dead_runs_are_gone(connection: psycopg.Connection) -> None:
    """Waits until the server has let go of what a killed run's connection held."""
    connection.execute("SELECT pg_advisory_unlock(%(key)s) FROM pg_advisory_lock(%(key)s)", {"key": ALIVE})


def import_all() -> None:
    """What a run imports and reads only when it needs it, before the forks, once for all."""
    import httpcore  # noqa: F401
    import protego  # noqa: F401

    registrable_domain("gaon-market.test")


def main(bucket_url: str) -> None:
    import_all()
    # Nothing is asked before the forks, so that they share no connection.
    with BucketResource(endpoint_url=bucket_url, timeout_seconds=5).open() as opened:
        for line in sys.stdin:
            child = os.fork()
            if child == 0:
                run(opened, **json.loads(line))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
