"""What must hold in the end, however it came to that: told from the bucket, without the pipeline's code."""

import hashlib
import json
from collections import Counter

import httpx
import psycopg

from tests.integration.raw_files.raw_runs import Store

SIGHTINGS = "SELECT key, domain FROM raw.domain_sighting JOIN raw.domain ON id = domain_id ORDER BY 1, 2"
FINISHED = "SELECT key, status, etag, marked_etag, rows, sha256, run_id FROM raw.file ORDER BY key"
FRONT_PAGES = "SELECT domain, status, claimed_by FROM raw.front_page JOIN raw.domain ON id = domain_id"


def assert_files_are_right(connection: psycopg.Connection, store: Store) -> None:
    """Every file is processed in its present version, every domain of it sighted once, every marker says so.

    The files list domains as `raw_runs.document` does, each under its registrable name.
    """
    stored = {key: store.read(key) for key in store.keys("raw/")}
    files = {key: body for key, body in sorted(stored.items()) if key.endswith(".json")}
    named = {key: sorted(set(json.loads(body)["items"])) for key, body in files.items()}

    sightings = [(key, domain) for key, domains in named.items() for domain in domains]
    assert connection.execute(SIGHTINGS).fetchall() == sightings
    finished = connection.execute(FINISHED).fetchall()
    assert [key for key, *_ in finished] == list(files)
    for key, status, etag, marked_etag, rows, sha256, run_id in finished:
        version = hashlib.md5(files[key], usedforsecurity=False).hexdigest()
        assert (status, etag, marked_etag) == ("PROCESSED", version, version), key
        assert (rows, sha256) == (len(named[key]), hashlib.sha256(files[key]).hexdigest()), key
        marker = json.loads(stored[f"{key}.success"])
        assert (marker["run_id"], marker["rows"], marker["sha256"]) == (run_id, rows, sha256), key


def assert_all_is_right(connection: psycopg.Connection, store: Store) -> None:
    """And every sighted domain's front page is fetched, and leased by nobody."""
    assert_files_are_right(connection, store)
    pages = {domain: (status, leased) for domain, status, leased in connection.execute(FRONT_PAGES)}
    wanted = {domain for _, domain in connection.execute(SIGHTINGS)}
    assert {domain: pages.get(domain) for domain in wanted} == dict.fromkeys(wanted, ("FETCHED", None))


def files_stored(connection: psycopg.Connection) -> int:
    """How often a file's domains were stored: counted in the transaction that stores them."""
    counted = "SELECT value FROM granary.counter WHERE name = 'raw_files_total' AND labels->>'outcome' = %s"
    row = connection.execute(counted, ("processed",)).fetchone()
    return int(row[0]) if row else 0


def front_pages_asked(sites: str) -> Counter[str]:
    """How often each site was asked for its front page since the sites are served."""
    asked = httpx.get(f"http://{sites}/_control/requests", timeout=30).raise_for_status().json()["requests"]
    return Counter(host for host, path in asked if path == "/")
