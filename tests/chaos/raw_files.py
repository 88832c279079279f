"""raw_files in a storm: files come, are replaced and taken away while the bucket fails three times in ten.

A run is the look of a tick and the partitions that it has found, or that are due again; every fourth one also
fetches front pages of any. Nothing of a file waits for a dead run: in hand are those of its partition that
were not processed yet. Its partition is due again after 5, 10 and 20 minutes or with the next look, its front
pages with the next refresh. Repeated calls are front pages that were fetched again.
"""

import os
import random
from functools import cache
from typing import Any
from unittest.mock import patch
from weakref import finalize

import boto3
import psycopg

from assets.raw_files import attempts, front_page_fetching, front_page_store
from assets.raw_files.partition_store import Failure
from orchestration.partitions import raw_key
from resources.bucket import BucketResource
from resources.errors import ServiceUnavailable
from tests.chaos import database
from tests.chaos.raw_files_judging import UNREACHABLE, Judge
from tests.chaos.raw_files_run import ENVIRONMENT, Run
from tests.chaos.scene import Calls
from tests.chaos.services import Addresses, Service
from tests.chaos.stormy_bucket import StormyBucket
from tests.integration.bucket_fixture import BucketAddress
from tests.integration.fatal_calls import at_step
from tests.integration.raw_files.killed_run import import_all
from tests.integration.raw_files.outcomes import front_pages_asked
from tests.integration.raw_files.random_kills import DOMAINS
from tests.integration.raw_files.random_kills import STEPS as STEPS_AT_FILES
from tests.integration.raw_files.raw_runs import DAY, Store, document, raw_path
from tests.integration.raw_files.work_runs import TICK
from tests.integration.recorded_alerts import RecordedAlerts

import_all()
# The SDK's description of the service takes 0.2 s to read: once, in the process that runs are forked from.
with (
    patch.dict(os.environ, {"AWS_ACCESS_KEY_ID": "-", "AWS_SECRET_ACCESS_KEY": "-"}),
    BucketResource(endpoint_url="http://localhost").open(),
):
    pass

NEEDS: tuple[Service, ...] = ("bucket", "front_pages")

SOURCES = ("kr/news", "kr/sports")
STEPS = (*STEPS_AT_FILES, (front_page_fetching, "fetch_front_page"))
MOST_STEPS = 110
ANSWERS_WITHIN_SECONDS = 2.0

_HELD = """
SELECT 'file:' || key AS item FROM raw.file JOIN raw.partition USING (day, source)
WHERE partition.status = 'RUNNING' AND partition.run_id = %(run)s AND file.status = 'PENDING'
UNION ALL
SELECT 'page:' || domain_id FROM raw.front_page WHERE claimed_by = %(run)s
"""


class RawFiles:
    """The supervisor's judge remembers every version that there was of each file."""

    name = "raw_files"
    tick_seconds = 100.0
    starts_at: str | None = TICK.isoformat()

    def __init__(self, at: Addresses) -> None:
        assert at.bucket is not None
        self._at = at
        self._address = at.bucket
        self._proxy_url = _proxy(at.bucket.url).url
        finalize(self, _proxy(at.bucket.url).stop)
        self._seed: int | None = None
        self._lately: list[str] = []
        self._judge = Judge(at.database_url, self._bucket(), self._sites)
        for source in SOURCES:
            self._upload(raw_path(1, source), DOMAINS[:3])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_judge": None}  # runs need none of it

    def blow(self, seed: int) -> None:
        self._seed = seed
        _proxy(self._address.url).blow(seed)

    def calm(self) -> None:
        self._seed = None
        _proxy(self._address.url).calm()

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        present, gone = self._judge.present(), self._judge.gone
        lately, self._lately = [key for key in self._lately if key not in gone], []
        self._upload(raw_path(number + 1, draw.choice(SOURCES)), draw.sample(DOMAINS, 4))
        if draw.random() < 0.5:
            self._upload(draw.choice(present), draw.sample([*DOMAINS, *UNREACHABLE], 3))
        if draw.random() < 0.2:
            self._put(draw.choice(present), b'{"items": ["gaon-market.test"' + b" " * number)
        if draw.random() < 0.2 and len(present) > len(SOURCES):
            self._take_away(draw.choice(present))
        if draw.random() < 0.3 and lately:  # by now some look has seen it, and maybe no run has read it
            self._take_away(draw.choice(lately))
        if draw.random() < 0.2 and gone:
            self._upload(draw.choice(sorted(gone)), draw.sample(DOMAINS, 3))

    def arm(self, seed: int) -> None:
        at_step(STEPS, random.Random(seed).randint(1, MOST_STEPS))

    def work(self, run_id: str, number: int) -> None:
        os.environ.update(self._address.variables())
        resource = BucketResource(
            endpoint_url=self._proxy_url, bucket=self._address.bucket, timeout_seconds=ANSWERS_WITHIN_SECONDS
        )
        session: dict[str, Any] = {"autocommit": True, "application_name": run_id}
        turn = int(run_id.rpartition("-")[2])
        with psycopg.connect(self._at.database_url, **session) as connection, resource.open() as bucket:
            Run(connection, resource, bucket, self._sites, run_id).whole(turn)

    def may_fail_with(self, error: BaseException) -> bool:
        return isinstance(error, ServiceUnavailable)

    def held(self, run_id: str) -> set[str]:
        return {row["item"] for row in self._rows(_HELD, run=run_id)}

    def release(self, run_id: str) -> None:
        self._judge.ended_badly += 1
        begun = self._rows(
            "SELECT DISTINCT source FROM noted WHERE run = %(run)s AND run_id = %(run)s", run=run_id
        )
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            front_page_store.release(connection, run_id)
            for row in begun:
                failure = _failure(row["source"], run_id)
                attempts.fail(connection, RecordedAlerts(), (DAY, row["source"]), run_id, failure)

    def done(self, items: set[str]) -> set[str]:
        open_ = {f"file:{key}" for key in self._judge.open_files()}
        pages = self._judge.pages()
        open_ |= {f"page:{row['id']}" for row in pages if row["status"] in (None, "WAITING")}
        return items - open_

    def waiting(self) -> list[str]:
        told = list(self._judge.waiting_files())
        for row in self._rows("SELECT source, status FROM raw.partition WHERE status <> 'DONE'"):
            told.append(f"partition {row['source']}: {row['status']}")
        for row in self._judge.pages():
            if row["status"] in (None, "WAITING") or row["claimed_by"] is not None:
                told.append(f"front page {row['domain']}: {row['status']} of {row['claimed_by']}")
        return told

    def judge(self) -> list[str]:
        return self._judge.mistakes()

    def items(self) -> int:
        (files,) = self._rows("SELECT count(*) AS n FROM stored")
        return int(files["n"]) + len(self._judge.pages())

    def calls(self) -> Calls:
        asked = front_pages_asked(self._sites)
        requests, shown = len(_proxy(self._address.url).requests), _proxy(self._address.url).shown
        again = sum(times - 1 for site, times in asked.items() if site not in UNREACHABLE)
        return Calls(asked.total() + requests, shown, again)

    def _upload(self, key: str, domains: list[str]) -> None:
        # No two versions are the same, or one would not have to be stored again.
        self._put(key, document(*domains) + b" " * (1 + len(self._judge.files.get(key, b""))))

    def _put(self, key: str, body: bytes) -> None:
        self._bucket().put(key, body)
        self._judge.was_put(key, body)
        self._lately.append(key)

    def _take_away(self, key: str) -> None:
        self._bucket().client.delete_object(Bucket=self._address.bucket, Key=key)
        self._judge.gone.add(key)

    @property
    def _sites(self) -> str:
        return self._at.front_pages.removeprefix("http://")

    def _bucket(self) -> Store:
        """Past the proxy."""
        return _store(self._address)

    def _rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters or None)


@cache
def _proxy(bucket_url: str) -> StormyBucket:
    """The supervisor's: runs know its address only."""
    return StormyBucket(bucket_url)


@cache
def _store(address: BucketAddress) -> Store:
    client = boto3.session.Session().client(
        "s3",
        endpoint_url=address.url,
        aws_access_key_id=address.access_key_id,
        aws_secret_access_key=address.secret_access_key,
        region_name=address.region,
    )
    return Store(address.url, address.bucket, client)


def _failure(source: str, run_id: str) -> Failure:
    return Failure(
        type="RunFailed",
        kind="RESOURCE",
        error="the run failed",
        environment=ENVIRONMENT,
        partition=raw_key(DAY, source),
        run_id=run_id,
    )


SCENE = RawFiles
