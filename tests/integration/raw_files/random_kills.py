"""Runs killed one after the other at random steps: `python -m ….random_kills SERVICES SEED…`.

One process imports everything and forks a run per seed. Each run takes over from the dead one before it, as
the run-status sensor has it do, and now and then somebody replaces a file between two of them.
"""

import json
import os
import random
import sys
from typing import Any

import psycopg

from assets.raw_files import front_page_store
from local_stack.front_pages.sites import DISALLOWED, SITES
from resources.bucket import Bucket, BucketResource
from tests.integration.fatal_calls import at_step
from tests.integration.raw_files.killed_run import ALIVE, import_all
from tests.integration.raw_files.raw_runs import document
from tests.integration.raw_files.work_runs import whole_run

MOST_STEPS = 70
DOMAINS = sorted(set(SITES) - {DISALLOWED})
# Every version that was stored leaves a row, in the transaction that stores it. What stands again, since
# the next version was taken away, has its marker; what was just stored has none.
NOTE_STORED_VERSIONS = """
CREATE TABLE stored (key text, etag text);
CREATE FUNCTION note_stored() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO stored VALUES (new.key, new.etag); RETURN new; END $$;
CREATE TRIGGER note_stored AFTER UPDATE OF status ON raw.file FOR EACH ROW
    WHEN (old.status <> 'PROCESSED' AND new.status = 'PROCESSED' AND new.marked_etag IS NULL)
    EXECUTE FUNCTION note_stored();
"""
STEPS = ((psycopg.Cursor, "execute"), (psycopg.Copy, "write_row"), (Bucket, "put"), (Bucket, "read"))


def replace_one(connection: psycopg.Connection, opened: Bucket, seed: int) -> None:
    """Another version of a file that is processed."""
    processed = "SELECT key FROM raw.file WHERE status = 'PROCESSED' ORDER BY key"
    keys = [key for (key,) in connection.execute(processed)]
    if keys:
        key, domains = keys[seed % len(keys)], (DOMAINS[seed % len(DOMAINS)], DOMAINS[-1])
        opened.put(key, document(*domains), "application/json")


def run(opened: Bucket, seed: int, before: int | None, database_url: str, sites: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (ALIVE,))
        if before is not None:
            front_page_store.release(connection, f"killed {before}")
        if seed % 4 == 3:
            replace_one(connection, opened, seed)
        at_step(STEPS, random.Random(seed).randint(1, MOST_STEPS))
        whole_run(connection, opened, sites, f"killed {seed}")


def main(services: dict[str, Any], seeds: list[int]) -> None:
    import_all()
    with BucketResource(endpoint_url=services["bucket_url"], bucket=services["bucket"]).open() as opened:
        before = None
        for seed in seeds:
            child = os.fork()
            if child == 0:
                run(opened, seed, before, services["database_url"], services["sites"])
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(seed, os.waitstatus_to_exitcode(status), flush=True)
            before = seed


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
