"""raw_files in a storm: files come, are replaced and taken away while the bucket fails three times in ten.

A run is the look of a tick and the partitions that it has found, or that are due again; every fourth one also
fetches front pages of any. Nothing of a file waits for a dead run: in hand are those of its partition that
were not processed yet. Its partition is due again after 5, 10 and 20 minutes or with the next look, its front
pages with the next refresh. Repeated calls are front pages that were fetched again.
"""

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar
from weakref import finalize

import boto3
import psycopg

from assets.raw_files import attempts, front_page_fetching, front_page_store, partition_store
from assets.raw_files.file_processing import process_files
from assets.raw_files.front_page_fetching import collect
from assets.raw_files.front_page_store import Claim
from assets.raw_files.passes import look
from assets.raw_files.scan import scan_partition
from assets.raw_files.store import Partition
from orchestration.partitions import raw_key
from resources.alerts import AlertResource
from resources.bucket import Bucket, BucketResource, _session
from resources.errors import ServiceUnavailable
from tests.chaos import database
from tests.chaos.services import Addresses, Service
from tests.chaos.storm import Calls
from tests.chaos.stormy_bucket import StormyBucket
from tests.integration.bucket_fixture import BucketAddress
from tests.integration.economy_news.enriching import RecordedAlerts
from tests.integration.fatal_calls import at_step
from tests.integration.raw_files.killed_run import import_all
from tests.integration.raw_files.outcomes import front_pages_asked
from tests.integration.raw_files.random_kills import DOMAINS, NOTE_STORED_VERSIONS
from tests.integration.raw_files.random_kills import STEPS as STEPS_AT_FILES
from tests.integration.raw_files.raw_runs import DAY, Store, document, raw_path
from tests.integration.raw_files.work_runs import CLAIMED_AT_ONCE, LEASE_SECONDS, TICK, a_fetcher

import_all()
# Its description of the service takes 0.2 s to read: once, in the process that runs are forked from.
_session("").client("s3", region_name="auto", aws_access_key_id="-", aws_secret_access_key="-")

Result = TypeVar("Result")

NEEDS: tuple[Service, ...] = ("bucket", "front_pages")

SOURCES = ("kr/news", "kr/sports")
UNREACHABLE = ("down.test", "missing.test")
"""Sites whose front page fails whatever we do: such a row is right."""
STEPS = (*STEPS_AT_FILES, (front_page_fetching, "fetch_front_page"))
MOST_STEPS = 110
TRIES_A_STEP = 4
"""The step's own and the three later ones that it asks for where the bucket is away (`failures_by_owner`)."""
ANSWERS_WITHIN_SECONDS = 2.0
RUN_SECONDS = 1_860
DAYS_BEFORE_ANEW = 7
ENVIRONMENT = "tests"

# By whom a partition is begun and ended.
NOTE_PARTITIONS = """
CREATE TABLE noted (id bigserial, source text, status text, run_id text, run text);
CREATE FUNCTION note_partition() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted (source, status, run_id, run)
    VALUES (new.source, new.status, new.run_id, current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_partition AFTER INSERT OR UPDATE OF status ON raw.partition FOR EACH ROW
    EXECUTE FUNCTION note_partition();
"""
_HELD = """
SELECT 'file:' || key AS item FROM raw.file JOIN raw.partition USING (day, source)
WHERE partition.status = 'RUNNING' AND partition.run_id = %(run)s AND file.status = 'PENDING'
UNION ALL
SELECT 'page:' || domain_id FROM raw.front_page WHERE claimed_by = %(run)s
"""
_PAGES = """
SELECT domain.id, domain, page.status, page.claimed_by FROM raw.domain
LEFT JOIN raw.front_page AS page ON page.domain_id = domain.id
WHERE EXISTS (SELECT FROM raw.domain_sighting AS sighting WHERE sighting.domain_id = domain.id)
ORDER BY domain
"""
_FILES = """
SELECT key, status, etag, marked_etag, rows, sha256, run_id,
       ARRAY(SELECT domain FROM raw.domain_sighting AS sighting JOIN raw.domain ON domain.id = domain_id
             WHERE sighting.key = file.key ORDER BY domain) AS domains
FROM raw.file ORDER BY key
"""
_FETCHED = """
SELECT coalesce(sum(value), 0)::integer AS n FROM granary.counter
WHERE name = 'raw_front_pages_total' AND labels ->> 'outcome' = 'fetched'
"""


class RawFiles:
    """The supervisor remembers what the files of the bucket name, and every version that there was."""

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
        self._files: dict[str, bytes] = {}
        self._gone: set[str] = set()
        self._ended_badly = 0
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            connection.execute(NOTE_STORED_VERSIONS)
            connection.execute(NOTE_PARTITIONS)
        for source in SOURCES:
            self._upload(raw_path(1, source), DOMAINS[:3])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}  # runs need none of it

    def blow(self, seed: int) -> None:
        self._seed = seed
        _proxy(self._address.url).blow(seed)

    def calm(self) -> None:
        self._seed = None
        _proxy(self._address.url).calm()

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        present = sorted(self._files.keys() - self._gone)
        self._upload(raw_path(number + 1, draw.choice(SOURCES)), draw.sample(DOMAINS, 4))
        if draw.random() < 0.5:
            self._upload(draw.choice(present), draw.sample([*DOMAINS, *UNREACHABLE], 3))
        if draw.random() < 0.2:
            self._put(draw.choice(present), b'{"items": ["gaon-market.test"' + b" " * number)
        if draw.random() < 0.2 and len(present) > len(SOURCES):
            self._take_away(draw.choice(present))
        if draw.random() < 0.2 and self._gone:
            self._upload(draw.choice(sorted(self._gone)), draw.sample(DOMAINS, 3))

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
            if turn % 4 == 0:
                self._fetch(connection, run_id, None)
            for partition in self._asked_for(connection, resource, turn):
                self._process(connection, bucket, partition, run_id)
                self._fetch(connection, run_id, partition)

    def may_fail_with(self, error: BaseException) -> bool:
        return isinstance(error, ServiceUnavailable)

    def held(self, run_id: str) -> set[str]:
        return {row["item"] for row in self._rows(_HELD, run=run_id)}

    def release(self, run_id: str) -> None:
        self._ended_badly += 1
        begun = self._rows(
            "SELECT DISTINCT source FROM noted WHERE run = %(run)s AND run_id = %(run)s", run=run_id
        )
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            front_page_store.release(connection, run_id)
            for row in begun:
                attempts.fail(
                    connection,
                    RecordedAlerts(),
                    (DAY, row["source"]),
                    run_id,
                    _failure(row["source"], run_id),
                )

    def done(self, items: set[str]) -> set[str]:
        files = self._rows("SELECT key FROM raw.file WHERE status = 'PENDING'")
        open_ = {f"file:{row['key']}" for row in files if row["key"] not in self._gone}
        open_ |= {f"page:{row['id']}" for row in self._rows(_PAGES) if row["status"] in (None, "WAITING")}
        return items - open_

    def waiting(self) -> list[str]:
        rows = {row["key"]: row for row in self._rows(_FILES)}
        told = []
        for key in self._files.keys() - self._gone:
            row = rows.get(key)
            if row is None or row["status"] == "PENDING" or row["etag"] != _etag(self._files[key]):
                told.append(f"file {key}: {row and row['status']}")
            elif row["status"] == "PROCESSED" and row["marked_etag"] != row["etag"]:
                told.append(f"the marker of {key}")
        for row in self._rows("SELECT source, status FROM raw.partition WHERE status <> 'DONE'"):
            told.append(f"partition {row['source']}: {row['status']}")
        for row in self._rows(_PAGES):
            if row["status"] in (None, "WAITING") or row["claimed_by"] is not None:
                told.append(f"front page {row['domain']}: {row['status']} of {row['claimed_by']}")
        return told

    def judge(self) -> list[str]:
        return [*self._wrong_files(), *self._wrong_pages(), *self._wrong_writes(), *self._wrong_calls()]

    def items(self) -> int:
        (files,) = self._rows("SELECT count(*) AS n FROM stored")
        return int(files["n"]) + len(self._rows(_PAGES))

    def calls(self) -> Calls:
        asked = front_pages_asked(self._sites)
        requests, shown = len(_proxy(self._address.url).requests), _proxy(self._address.url).shown
        again = sum(times - 1 for site, times in asked.items() if site not in UNREACHABLE)
        return Calls(asked.total() + requests, shown, again)

    def _wrong_files(self) -> Iterator[str]:
        rows = {row["key"]: row for row in self._rows(_FILES)}
        bucket = self._bucket()
        markers = {key for key in bucket.keys("raw/") if key.endswith(".success")}
        for key in self._files.keys() - self._gone:
            row, body = rows[key], self._files[key]
            named = _domains_in(body)
            wanted = "FAILED" if named is None else "PROCESSED"
            if (row["status"], row["etag"]) != (wanted, _etag(body)):
                yield f"{key} is {row['status']}, not {wanted}, in version {row['etag']}"
            elif named is not None:
                yield from self._wrong_version(row, body, named)
                marker = json.loads(bucket.read(f"{key}.success")) if f"{key}.success" in markers else {}
                said = {name: marker.get(name) for name in ("run_id", "rows", "sha256")}
                if said != {name: row[name] for name in said}:
                    yield f"the marker of {key} says {said}"
        for key in rows.keys() - self._files.keys():
            yield f"{key} is none of our files"

    def _wrong_version(self, row: dict[str, Any], body: bytes, named: list[str]) -> Iterator[str]:
        if (row["domains"], row["rows"]) != (named, len(named)):
            yield f"{row['key']}: sighted {row['domains']} ({row['rows']}), it names {named}"
        if row["sha256"] != hashlib.sha256(body).hexdigest():
            yield f"{row['key']}: the digest is of other bytes"

    def _wrong_pages(self) -> Iterator[str]:
        for row in self._rows(_PAGES):
            wanted = "FAILED" if row["domain"] in UNREACHABLE else "FETCHED"
            if row["status"] != wanted:
                yield f"front page {row['domain']} is {row['status']}, not {wanted}"

    def _wrong_writes(self) -> Iterator[str]:
        """A version is stored once; a partition is ended by the run that has begun it."""
        for row in self._rows(
            "SELECT key, etag, count(*) AS n FROM stored GROUP BY 1, 2 HAVING count(*) > 1"
        ):
            yield f"{row['key']}: {row['n']} times stored in one version"
        for row in self._rows(
            "SELECT source, run_id, run FROM noted WHERE status = 'DONE' AND run <> run_id"
        ):
            yield f"{row['source']} was ended by {row['run']} in the place of {row['run_id']}"

    def _wrong_calls(self) -> Iterator[str]:
        """A fetch was written down, unless its run ended badly with it in hand."""
        asked = front_pages_asked(self._sites)
        made = sum(times for site, times in asked.items() if site not in UNREACHABLE)
        (row,) = self._rows(_FETCHED)
        if not row["n"] <= made <= row["n"] + CLAIMED_AT_ONCE * self._ended_badly:
            yield f"{made} front pages were asked for, {row['n']} written down"

    def _asked_for(
        self, connection: psycopg.Connection, resource: BucketResource, turn: int
    ) -> Iterable[Partition]:
        """What the look of this tick has found, and those that failed before; what is due again."""
        found: set[Partition] = set()
        again = [at for _, _, at in partition_store.passes_due(connection)]
        for at in [*again, TICK + timedelta(minutes=turn)]:
            with suppress(ServiceUnavailable):  # due again by its row
                found.update(_with_later_tries(partial(self._look, connection, resource, at)))
        due = partition_store.partitions_due(connection, len(SOURCES))
        return found | {(one.day, one.source) for one in due}

    def _look(
        self, connection: psycopg.Connection, resource: BucketResource, at: datetime
    ) -> list[Partition]:
        seen = look(connection, resource, AlertResource(), "supplementary", at, 1, ENVIRONMENT)
        return seen.to_do() if seen else []

    def _process(
        self, connection: psycopg.Connection, bucket: Bucket, partition: Partition, run_id: str
    ) -> None:
        """As the steps raw_file_manifest and raw_domains do it."""
        partition_store.start_partition(connection, partition, run_id, RUN_SECONDS)
        _with_later_tries(lambda: scan_partition(connection, bucket, partition))
        _with_later_tries(lambda: process_files(connection, bucket, partition, run_id))
        partition_store.finish_partition(connection, partition, run_id)

    def _fetch(self, connection: psycopg.Connection, run_id: str, partition: Partition | None) -> None:
        """Front pages of the partition, or of all as domain_metadata_refresh does."""

        def claim() -> list[Claim]:
            if partition is None:
                return front_page_store.claim_oldest(
                    connection, run_id, LEASE_SECONDS, DAYS_BEFORE_ANEW, CLAIMED_AT_ONCE
                )
            return front_page_store.claim_of_partition(
                connection, partition, run_id, LEASE_SECONDS, CLAIMED_AT_ONCE
            )

        collect(connection, a_fetcher(self._sites), claim, run_id, slice_seconds=60)

    def _upload(self, key: str, domains: list[str]) -> None:
        # No two versions are the same, or one would not have to be stored again.
        self._put(key, document(*domains) + b" " * (1 + len(self._files.get(key, b""))))

    def _put(self, key: str, body: bytes) -> None:
        self._bucket().put(key, body)
        self._files[key] = body
        self._gone.discard(key)

    def _take_away(self, key: str) -> None:
        self._bucket().client.delete_object(Bucket=self._address.bucket, Key=key)
        self._gone.add(key)

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


def _with_later_tries(step: Callable[[], Result]) -> Result:
    for _ in range(TRIES_A_STEP - 1):
        with suppress(ServiceUnavailable):
            return step()
    return step()


def _failure(source: str, run_id: str) -> partition_store.Failure:
    return partition_store.Failure(
        type="RunFailed",
        kind="RESOURCE",
        error="the run failed",
        environment=ENVIRONMENT,
        partition=raw_key(DAY, source),
        run_id=run_id,
    )


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def _domains_in(body: bytes) -> list[str] | None:
    """What a file that `document` made names; None: it breaks off."""
    try:
        return sorted(set(json.loads(body)["items"]))
    except ValueError:
        return None


SCENE = RawFiles
