"""Finding 2,000 raw files of the wanted days among 100,000 objects, against a HEAD for each of them."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from assets.raw_files.listing import CONCURRENCY, list_wanted
from benchmarks.bench import Bench, shipped_environment
from benchmarks.rounds import interleaved
from benchmarks.row import Peer, Row, row
from local_stack.bucket import BUCKET
from local_stack.environment import TRIGGERS
from local_stack.stack import Stack
from resources.bucket import Bucket, BucketResource

SOURCES = [
    f"raw/country={country}/category={category}/"
    for country, category in product(("kr", "us"), ("blog", "finance", "news", "shop", "sports"))
]
FILES_A_DAY = 25
WANTED_DAYS = 8
LAST_DAY = date(2026, 1, 30)
FIRST_DAY = LAST_DAY - timedelta(days=WANTED_DAYS - 1)
OBJECTS_A_PAGE = 1_000
DISTANCE_SECONDS = 0.02
MOST_HEADS = 250
OURS, PAGINATOR = "listing", "a paginator for each partition"
ONE_BY_ONE, AT_ONCE = "a HEAD a file, one by one", f"a HEAD a file, {CONCURRENCY} at once"
ACCOUNT = "000000000000"
"""Where ministack keeps the buckets of keys that are no account number."""


@dataclass(frozen=True)
class Found:
    """One way's result; `seconds` as if it had been done for every wanted file."""

    seconds: float
    requests: int


def measure(bench: Bench) -> list[Row]:
    """Against the local server, and with 20 ms added to each request, as to a bucket some way off.

    Ours lists by eight threads; the HEADs are timed one by one, and by as many threads too.
    """
    days = bench.size(400, 40)
    objects = len(SOURCES) * days * FILES_A_DAY
    wanted = len(SOURCES) * WANTED_DAYS * FILES_A_DAY
    with _running_bucket(bench, days) as bucket:
        if len(list_wanted(bucket, FIRST_DAY, LAST_DAY)) != wanted:
            raise RuntimeError("the listing does not give the objects of the wanted days")
        here = _race(bench, bucket, wanted, bench.size(5, 2))
        with _distance(bucket):
            away = _race(bench, bucket, wanted, bench.size(3, 1))
    what = f"raw_listing: {wanted:,} of {objects:,} objects"
    requests = {name: each[0].requests for name, each in here.items()}
    partitions = len(SOURCES) * WANTED_DAYS
    pages = len(SOURCES) * -(-WANTED_DAYS * FILES_A_DAY // OBJECTS_A_PAGE)
    peer = Peer(ONE_BY_ONE, requests[ONE_BY_ONE])
    rows = [
        row(f"{what}, requests", requests[OURS], "requests", peer, at_most=partitions + pages),
        row(f"{what}, requests of a paginator", requests[PAGINATOR], "requests", peer),
    ]
    for where, found in (("on this machine", here), (f"{DISTANCE_SECONDS * 1_000:.0f} ms away", away)):
        seconds = {name: median(one.seconds for one in each) for name, each in found.items()}
        name, peers = f"{what}, {where}", {name: Peer(name, value) for name, value in seconds.items()}
        rows += [
            row(name, seconds[OURS], "s", peers[ONE_BY_ONE], ratio_at_most=1 / 50),
            row(f"{name}, by {CONCURRENCY} threads both", seconds[OURS], "s", peers[AT_ONCE]),
            row(f"{name}, known partitions", seconds[OURS], "s", peers[PAGINATOR]),
        ]
    return rows


def _race(bench: Bench, bucket: Bucket, wanted: int, rounds: int) -> dict[str, list[Found]]:
    bench.say(f"looking for {wanted:,} objects in {rounds} rounds")
    return interleaved(
        rounds,
        {
            OURS: partial(_timed, bucket, lambda: list_wanted(bucket, FIRST_DAY, LAST_DAY)),
            ONE_BY_ONE: partial(_heads, bucket, wanted, 1),
            AT_ONCE: partial(_heads, bucket, wanted, CONCURRENCY),
            PAGINATOR: partial(_timed, bucket, lambda: _paginate(bucket)),
        },
    )


def _timed(bucket: Bucket, find: Callable[[], object]) -> Found:
    before, started = bucket.requests, time.perf_counter()
    find()
    return Found(time.perf_counter() - started, bucket.requests - before)


def _heads(bucket: Bucket, wanted: int, threads: int) -> Found:
    """A HEAD for each file of a known list; some of them stand for all."""
    keys = [key for source in SOURCES for key in _keys(source, WANTED_DAYS)]
    asked = keys[:: -(-len(keys) // MOST_HEADS)]

    def ask(key: str) -> None:
        _client(bucket).head_object(Bucket=BUCKET, Key=key)

    with ThreadPoolExecutor(threads) as pool:
        found = _timed(bucket, lambda: list(pool.map(ask, asked)))
    return Found(found.seconds * wanted / len(asked), found.requests * wanted // len(asked))


def _paginate(bucket: Bucket) -> None:
    """The SDK's paginator over each wanted partition, whose prefixes it is told."""
    paginator = _client(bucket).get_paginator("list_objects_v2")
    for source, day in product(SOURCES, range(WANTED_DAYS)):
        prefix = f"{source}date={LAST_DAY - timedelta(days=day)}/"
        for page in paginator.paginate(Bucket=BUCKET, Prefix=prefix):
            page.get("Contents", [])


def _client(bucket: Bucket) -> Any:
    # The same client for all of them: what differs is what is asked, not how.
    return bucket._client


@contextmanager
def _distance(bucket: Bucket) -> Iterator[None]:
    """Every request waits before it is sent."""
    events = _client(bucket).meta.events

    def wait(**_: Any) -> None:
        threading.Event().wait(DISTANCE_SECONDS)

    events.register("before-send.s3", wait)
    try:
        yield
    finally:
        events.unregister("before-send.s3", wait)


@contextmanager
def _running_bucket(bench: Bench, days: int) -> Iterator[Bucket]:
    """The local stack's bucket alone, with its objects there from the start; stopped afterwards."""
    root = bench.home("raw_listing") / ".local"
    elsewhere = {names[0]: f"https://{name}.example" for name, names in TRIGGERS.items() if name != "bucket"}
    elsewhere["DATABASE_URL"] = "postgresql://nobody:nothing@db.example/none"
    bench.say(f"storing {len(SOURCES) * days * FILES_A_DAY:,} objects")
    _store(root / "bucket", days)
    with Stack(root, die_with_parent=True, environ={**shipped_environment(), **elsewhere}) as stack:
        variables = stack.environment()
        with patch.dict(os.environ, variables), _opened(variables["S3_ENDPOINT_URL"]) as bucket:
            yield bucket


def _opened(url: str) -> Any:
    return BucketResource(endpoint_url=url, bucket=BUCKET).open()


def _store(data_dir: Path, days: int) -> None:
    """Empty files where the server keeps its objects: seconds for 100,000, against minutes by requests."""
    for source in SOURCES:
        for key in _keys(source, days):
            file = data_dir / "objects" / ACCOUNT / BUCKET / key
            if key.endswith("_0000.json"):
                file.parent.mkdir(mode=0o700, parents=True)
            file.touch(mode=0o600)


def _keys(source: str, days: int) -> Iterator[str]:
    """The keys of that many days up to the last wanted one, newest day first."""
    for day, number in product(range(days), range(FILES_A_DAY)):
        yield f"{source}date={LAST_DAY - timedelta(days=day)}/raw_{number:04}.json"
