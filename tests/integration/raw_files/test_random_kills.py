"""Runs killed at random steps: afterwards everything is there once, and repeated fetches are counted."""

import json
import os
import signal
import subprocess
import sys

import psycopg

from assets.raw_files import front_page_store
from resources.bucket import Bucket
from tests.integration.raw_files.killed_run import until_dead_runs_are_gone
from tests.integration.raw_files.outcomes import assert_all_is_right, files_stored, front_pages_asked
from tests.integration.raw_files.random_kills import DOMAINS, NOTE_STORED_VERSIONS
from tests.integration.raw_files.raw_runs import Store, document, raw_path
from tests.integration.raw_files.work_runs import CLAIMED_AT_ONCE, whole_run

KILLS = int(os.environ.get("GRANARY_KILLS", "20"))
FILES = {
    raw_path(number, source): DOMAINS[3 * number : 3 * number + 6]
    for source in ("kr/news", "kr/sports")
    for number in range(1, 9)
}


def test_after_random_kills_nothing_is_lost_or_stored_twice(
    database_url: str, connection: psycopg.Connection, store: Store, sites: str
) -> None:
    for key, domains in FILES.items():
        store.put(key, document(*domains))
    connection.execute(NOTE_STORED_VERSIONS)
    asked_before = front_pages_asked(sites)
    services = {
        "database_url": database_url,
        "bucket_url": store.url,
        "bucket": store.name,
        "sites": sites,
    }
    command = [sys.executable, "-m", "tests.integration.raw_files.random_kills", json.dumps(services)]
    seeds = [str(seed) for seed in range(KILLS)]
    done = subprocess.run([*command, *seeds], timeout=300, check=True, capture_output=True, text=True)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines()]
    killed = codes.count(-signal.SIGKILL)
    assert set(codes) <= {0, -signal.SIGKILL}
    assert killed >= min(KILLS, 20) // 2  # a run with little left to do may end before its step comes
    until_dead_runs_are_gone(connection)

    front_page_store.release(connection, f"killed {KILLS - 1}")
    whole_run(connection, Bucket(store.client, store.name), sites, "last")

    assert_all_is_right(connection, store)
    stored = connection.execute("SELECT key, etag FROM stored").fetchall()
    assert len(stored) == len(set(stored)) == files_stored(connection)
    assert len(stored) > len(FILES)  # some were replaced after they had been stored
    asked = front_pages_asked(sites) - asked_before
    assert asked.total() - len(asked) <= killed * CLAIMED_AT_ONCE
