"""No key and no text of a file is told: in no event, metadata, log, alarm or row for operators."""

import json
import logging
from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.raw_files.faulty_bucket import Fault, FaultyBucket, faulty_bucket
from tests.integration.raw_files.raw_runs import RawRuns, Store, raw_path

CANARY = "kanarienvogel"  # ASCII: no way of writing it down hides it
SECRET = "granary-canary-secret-91c7"
DOMAINS = ("gaon-market.test", "hanbit-news.test")
FAULTS = (
    None,
    Fault.WRONG_SECRET,
    Fault.EXPIRED_SESSION,
    Fault.INTERNAL_ERROR,
    Fault.WEB_PAGE,
    Fault.BROKEN_XML,
)


@pytest.fixture
def proxy(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyBucket]:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with faulty_bucket(store.url) as proxy:
        yield proxy


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name if fault else "nothing")
def test_no_secret_and_no_text_is_told(
    fault: Fault | None,
    database_url: str,
    store: Store,
    sites: str,
    proxy: FaultyBucket,
    connection: psycopg.Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [{"url": one, "title": CANARY, "description": CANARY} for one in DOMAINS]
    store.put(raw_path(1), json.dumps({"country": "kr", "category": "news", "items": items}).encode())
    store.put(raw_path(2), f'["{CANARY}.test", "{CANARY}'.encode())
    runs = RawRuns(database_url, store, sites, bucket_url=proxy.url)
    for name, level in ((None, logging.INFO), ("granary", logging.DEBUG)):
        caplog.set_level(level, name)
    if fault is not None:
        proxy.fail_next(1, fault)
    results = [runs.run(), runs.report()]
    entries = [entry for result in results for entry in runs.instance.all_logs(result.run_id)]
    told = f"{entries} {caplog.text} {for_operators(connection)}"
    password = database_url.split(":")[2].split("@")[0]
    assert len(told) > 5_000
    for secret in (SECRET, password, "QUOTED", CANARY):
        assert secret not in told
    if fault is None:
        stored = connection.execute("SELECT DISTINCT title FROM raw.domain_sighting").fetchall()
        assert stored == [(CANARY,)]


def for_operators(connection: psycopg.Connection) -> str:
    """What the tables for operators say."""
    tables = [b"granary.alert", b"granary.counter", b"raw.failure_log"]
    tables += [b"raw.file", b"raw.partition", b"raw.daily_report"]
    return " ".join(repr(connection.execute(b"SELECT * FROM " + table).fetchall()) for table in tables)
