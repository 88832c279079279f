"""A run killed at any point loses nothing and stores nothing twice; only a fetch may be repeated."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from assets.raw_files import front_page_store
from resources.bucket import Bucket
from tests.integration.bucket_fixture import BucketAddress
from tests.integration.raw_files.killed_run import POINTS, RUN_ID, until_dead_runs_are_gone
from tests.integration.raw_files.outcomes import (
    assert_all_is_right,
    files_stored,
    front_pages_asked,
)
from tests.integration.raw_files.raw_runs import Store, document, raw_path
from tests.integration.raw_files.work_runs import CLAIMED_AT_ONCE, NEWS, SPORTS, fetch, whole_run

Kill = Callable[[str], int]

FILES = {
    raw_path(1): ("gaon-market.test", "hanbit-news.test", "narae-books.test"),
    raw_path(2): ("narae-books.test", "copper-kettle.test", "gaon-market.test"),
    raw_path(3): ("hanbit-news.test", "quiet-engine.test"),
    raw_path(1, "kr/sports"): ("nuri-sports.test", "hanbit-news.test"),
}
# Where sites may have been asked and their answers are lost, so that asking again is what there is to do.
ASKED_ALREADY = {"during the fetch", "before front pages are stored", "before the commit of front pages"}


@pytest.fixture(scope="module")
def killer(bucket_server: BucketAddress) -> Iterator[subprocess.Popen[str]]:
    """The process whose forks are killed."""
    command = [sys.executable, "-m", "tests.integration.raw_files.killed_run", bucket_server.url]
    environ = {**os.environ, **bucket_server.variables()}
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(timeout=30)


@pytest.fixture
def kill(killer: subprocess.Popen[str], database_url: str, store: Store, sites: str) -> Kill:
    """Has a run over FILES killed at a point; its exit code, once the database has let go of it."""
    for key, domains in FILES.items():
        store.put(key, document(*domains))

    def killed(point: str) -> int:
        asked = {"point": point, "database_url": database_url, "bucket": store.name, "sites": sites}
        assert killer.stdin and killer.stdout
        killer.stdin.write(json.dumps(asked) + "\n")
        killer.stdin.flush()
        code = int(killer.stdout.readline())
        with psycopg.connect(database_url, autocommit=True) as connection:
            until_dead_runs_are_gone(connection)
        return code

    return killed


@pytest.mark.parametrize("point", list(POINTS))
def test_a_killed_run_loses_nothing_and_stores_nothing_twice(
    point: str, kill: Kill, connection: psycopg.Connection, store: Store, sites: str
) -> None:
    asked_before = front_pages_asked(sites)
    assert kill(point) == -signal.SIGKILL
    under_way = {
        domain
        for (domain,) in connection.execute(
            "SELECT domain FROM raw.front_page JOIN raw.domain ON id = domain_id WHERE claimed_by = %s",
            (RUN_ID,),
        )
    }

    front_page_store.release(connection, RUN_ID)
    whole_run(connection, Bucket(store.client, store.name), sites, "next")

    assert_all_is_right(connection, store)
    assert files_stored(connection) == len(FILES)
    assert connection.execute("SELECT count(*) FROM raw.pass WHERE scanned_at IS NOT NULL").fetchone() == (1,)
    states = connection.execute("SELECT day, source, status, run_id FROM raw.partition").fetchall()
    assert sorted(states) == [(*NEWS, "DONE", "next"), (*SPORTS, "DONE", "next")]
    asked = front_pages_asked(sites) - asked_before
    twice = {domain for domain, times in asked.items() if times > 1}
    assert set(asked) == {domain for domains in FILES.values() for domain in domains}
    assert max(asked.values()) <= 2
    assert twice <= (under_way if point in ASKED_ALREADY else set())
    assert len(under_way) <= CLAIMED_AT_ONCE


def test_front_pages_that_a_dead_run_leased_are_left_until_the_lease_runs_out(
    kill: Kill, connect: Callable[..., psycopg.Connection], store: Store, sites: str
) -> None:
    assert kill("after the claim") == -signal.SIGKILL
    now = connect()
    leased = "SELECT count(*) FROM raw.front_page WHERE claimed_by = %s"
    assert now.execute(leased, (RUN_ID,)).fetchone() == (CLAIMED_AT_ONCE,)

    fetch(now, sites, NEWS, "too early")
    assert now.execute(leased, (RUN_ID,)).fetchone() == (CLAIMED_AT_ONCE,)

    (later,) = now.execute("SELECT (now() + interval '6 minutes')::text").fetchone() or ("",)
    then = connect(at=later)
    assert fetch(then, sites, NEWS, "in time").fetched == CLAIMED_AT_ONCE
    assert then.execute(leased, (RUN_ID,)).fetchone() == (0,)
    assert then.execute("SELECT DISTINCT status FROM raw.front_page").fetchall() == [("FETCHED",)]
