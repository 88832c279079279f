"""What must hold after a storm over raw_files, by Postgres, the bucket's markers and the sites' account."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import psycopg

from tests.chaos import database
from tests.integration.raw_files.outcomes import front_pages_asked
from tests.integration.raw_files.random_kills import NOTE_STORED_VERSIONS
from tests.integration.raw_files.raw_runs import Store
from tests.integration.raw_files.work_runs import CLAIMED_AT_ONCE

UNREACHABLE = ("down.test", "missing.test")
"""Sites whose front page fails whatever we do: such a row is right."""

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


class Judge:
    """Remembers every version that there was of each file, and tells by it what is wrong.

    `files` are the last versions by key, also of what is `gone`.
    """

    def __init__(self, database_url: str, store: Store, sites: str) -> None:
        self._database_url = database_url
        self._store = store
        self._sites = sites
        self._versions: dict[str, dict[str, bytes]] = {}
        self.files: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.ended_badly = 0
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(NOTE_STORED_VERSIONS)
            connection.execute(NOTE_PARTITIONS)

    def was_put(self, key: str, body: bytes) -> None:
        self._versions.setdefault(key, {})[_etag(body)] = body
        self.files[key] = body
        self.gone.discard(key)

    def present(self) -> list[str]:
        return sorted(self.files.keys() - self.gone)

    def pages(self) -> list[dict[str, Any]]:
        """The domains that some file names, with the state of their front pages."""
        return self._rows(_PAGES)

    def open_files(self) -> set[str]:
        """The keys of files that wait for a run."""
        return {row["key"] for row in self._rows(_FILES) if self._waits(row)}

    def waiting_files(self) -> Iterator[str]:
        """What still waits for a run, in words."""
        rows = {row["key"]: row for row in self._rows(_FILES)}
        for key in sorted(self.files.keys() | rows.keys()):
            row = rows.get(key)
            is_old = key not in self.gone and (row is None or row["etag"] != _etag(self.files[key]))
            if is_old or (row and self._waits(row)):
                told = row and row["status"]
                yield f"file {key}: {told}" + (", and it is gone" if key in self.gone else "")
            elif row and row["status"] == "PROCESSED" and row["marked_etag"] != row["etag"]:
                yield f"the marker of {key}"

    def mistakes(self) -> list[str]:
        return [*self._wrong_files(), *self._wrong_pages(), *self._wrong_writes(), *self._wrong_calls()]

    def _waits(self, row: dict[str, Any]) -> bool:
        """Not where it is gone and nobody knows which version was stored: its run died before the marker."""
        is_left = row["key"] in self.gone and row["sha256"] is not None and row["marked_etag"] is None
        return row["status"] == "PENDING" and not is_left

    def _wrong_files(self) -> Iterator[str]:
        rows = {row["key"]: row for row in self._rows(_FILES)}
        markers = {key for key in self._store.keys("raw/") if key.endswith(".success")}
        for key in self.present():
            row, body = rows[key], self.files[key]
            wanted = "FAILED" if _domains_in(body) is None else "PROCESSED"
            if (row["status"], row["etag"]) != (wanted, _etag(body)):
                yield f"{key} is {row['status']}, not {wanted}, in version {row['etag']}"
            elif wanted == "PROCESSED":
                yield from self._wrong_version(row, body, markers)
        for key in rows.keys() & self.gone:
            yield from self._wrong_gone(rows[key], markers)
        for key in rows.keys() - self.files.keys():
            yield f"{key} is none of our files"

    def _wrong_gone(self, row: dict[str, Any], markers: set[str]) -> Iterator[str]:
        """Whatever version it was left in, there was; so was what is stored of it, of that one or before."""
        what, versions = f"{row['key']} is gone and {row['status']}", self._versions[row["key"]]
        body = versions.get(row["etag"])
        if body is None or self._waits(row):
            yield f"{what} in version {row['etag']}"
        elif row["status"] == "PROCESSED":
            yield from self._wrong_version(row, body, markers)
        elif row["status"] == "FAILED" and _domains_in(body) is not None:
            yield f"{what}, though it could be read"
        elif row["sha256"] is not None:
            stored = [one for one in versions.values() if _sha256(one) == row["sha256"]]
            if [_domains_in(one) for one in stored] != [row["domains"]]:
                yield f"{what}: sighted {row['domains']}, which no version of that digest names"
        elif row["domains"]:
            yield f"{what}: sighted {row['domains']}, and never processed"

    def _wrong_version(self, row: dict[str, Any], body: bytes, markers: set[str]) -> Iterator[str]:
        key, named = row["key"], _domains_in(body)
        if named is None or (row["domains"], row["rows"]) != (named, len(named)):
            yield f"{key}: sighted {row['domains']} ({row['rows']}), it names {named}"
        if row["sha256"] != _sha256(body):
            yield f"{key}: the digest is of other bytes"
        marker = json.loads(self._store.read(f"{key}.success")) if f"{key}.success" in markers else {}
        # The row of a file that is gone may name a run that could not read a later version.
        names = ("rows", "sha256") if key in self.gone else ("run_id", "rows", "sha256")
        said = {name: marker.get(name) for name in names}
        if said != {name: row[name] for name in said}:
            yield f"the marker of {key} says {said}"

    def _wrong_pages(self) -> Iterator[str]:
        for row in self.pages():
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
        written = database.counted(self._database_url, "raw_front_pages_total", outcome="fetched")
        if not written <= made <= written + CLAIMED_AT_ONCE * self.ended_badly:
            yield f"{made} front pages were asked for, {written} written down"

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return database.rows(self._database_url, query)


def _etag(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _domains_in(body: bytes) -> list[str] | None:
    """What a file that `document` made names; None: it breaks off."""
    try:
        return sorted(set(json.loads(body)["items"]))
    except ValueError:
        return None
