"""raw_files in the demo: a day of the bucket, found by the daily schedule's own tick, judged from outside."""

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from local_stack.demo_raw_files_bucket import demo_files
from local_stack.demo_report import PipelineReport
from local_stack.demo_runs import definitions, run_job, tick_context
from local_stack.front_pages.sites import DISALLOWED

if TYPE_CHECKING:
    from local_stack.demo_economy_news import Steps

PIPELINE = "raw_files"
DEMO_DAY = date(2026, 11, 27)
TICK = datetime(2026, 11, 28, tzinfo=UTC)

_BOOKS = """
SELECT (SELECT count(*) FROM raw.file WHERE status = 'PROCESSED' AND run_id IS NOT NULL) AS files,
       (SELECT count(*) FROM raw.file WHERE status = 'FAILED') AS files_failed,
       (SELECT count(*) FROM raw.domain) AS domains,
       (SELECT count(*) FROM raw.front_page WHERE status = 'FETCHED') AS domains_with_metadata,
       (SELECT count(*) FROM raw.domain_sighting) AS sightings,
       (SELECT count(*) FROM raw.front_page) AS front_pages
"""
_UNDONE = """
SELECT day, source FROM raw.file WHERE day = %(day)s
  AND (status = 'PENDING'
       OR status = 'PROCESSED' AND run_id IS NOT NULL AND marked_etag IS DISTINCT FROM etag)
UNION SELECT day, source FROM raw.partition WHERE day = %(day)s AND status IN ('NEW', 'RUNNING')
ORDER BY 1, 2
"""


@dataclass(frozen=True)
class Books:
    """What the pipeline has stored, and how often the sites' front pages were asked for."""

    rows: Mapping[str, int]
    visits: Mapping[str, int] | None


class RawFilesDemo:
    """Fills the bucket, lets the daily pass find what is new, processes it and writes the report."""

    def __init__(self, external: Mapping[str, str]) -> None:
        self._database_url = os.environ["DATABASE_URL"]
        self._sites = None if "front_pages" in external else os.environ["LOCAL_TEST_SITES"]
        self._files = demo_files(DEMO_DAY)

    def run(self, steps: "Steps") -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before = self._books()
        with steps.step(f"raw_files: {len(self._files)} files into the bucket"):
            self._fill()
        with steps.step("daily_raw_files, the tick of 2026-11-28 00:00 UTC"):
            partitions = self._tick() | set(self._undone())
        claims = {}
        with steps.step(f"raw_files_partitions, {len(partitions)} of 25 partitions"):
            succeeded = [run_job("raw_files_partitions", key) for key in sorted(partitions)]
            claims["every partition's run succeeded"] = all(succeeded)
        if partitions or not self._report():
            with steps.step("raw_files_report"):
                claims["the report was written"] = run_job("raw_files_report", DEMO_DAY.isoformat())
        after = self._books()
        return PipelineReport(
            PIPELINE,
            len({file.source for file in self._files}),
            {name: after.rows[name] for name in list(after.rows)[:4]},
            0,
            0.0,
            time.monotonic() - started,
            _news(before, after),
            claims | self._claims(after),
        )

    def _claims(self, books: Books) -> dict[str, bool]:
        good = [file for file in self._files if file.is_new and not file.is_broken]
        domains = {name for file in good for name in file.domains}
        fetchable = {name for name in domains if not name.startswith("redirect-") and name != DISALLOWED}
        keys = self._bucket_keys()
        summary: dict[str, Any] = self._report() or {"daily_processing_summary": {}, "details": {}}
        numbers = summary["daily_processing_summary"]
        claims = {
            "every new file but the broken one is processed": books.rows["files"] == len(good),
            "the broken file failed alone": books.rows["files_failed"] == 1,
            "every domain of them is there once, and none of what was finished before": (
                books.rows["domains"] == len(domains)
            ),
            "each file tells of each of its domains once": (
                books.rows["sightings"] == sum(len(file.domains) for file in good)
            ),
            "front pages are there but for a site that disallows robots and two that lead inside": (
                books.rows["domains_with_metadata"] == len(fetchable)
            ),
            "every processed file has a marker, the broken one has none": (
                {file.key for file in self._files if f"{file.key}.success" in keys}
                == {file.key for file in self._files if not file.is_broken}
            ),
            "the report counts 25 partitions, 8 with new files, 1 file failed": (
                numbers.get("partitions_scanned"),
                numbers.get("partitions_with_new_files"),
                summary["details"].get("files_failed"),
            )
            == (25, 8, 1),
            "the bucket has the same report": f"reports/date={DEMO_DAY}/summary.json" in keys,
        }
        if books.visits is not None:
            claims["no front page was asked for twice"] = all(
                count == 1 for host, count in books.visits.items() if host in fetchable
            )
        return claims

    def _fill(self) -> None:
        with _client() as client:
            there = self._bucket_keys()
            for file in self._files:
                if file.key not in there:
                    client.put_object(Bucket=os.environ["S3_BUCKET"], Key=file.key, Body=file.body)
                if not file.is_new and f"{file.key}.success" not in there:
                    client.put_object(Bucket=os.environ["S3_BUCKET"], Key=f"{file.key}.success", Body=b"{}")

    def _tick(self) -> set[str]:
        """The partitions that the daily schedule asks for."""
        import dagster as dg

        with tick_context() as given:
            schedule = definitions().resolve_schedule_def("daily_raw_files")
            context = dg.build_schedule_context(scheduled_execution_time=TICK, **given)
            requests = schedule.evaluate_tick(context).run_requests or []
        return {str(request.partition_key) for request in requests}

    def _undone(self) -> list[str]:
        """Partitions that a demo which was broken off had left: in operation a sensor starts them."""
        with psycopg.connect(self._database_url) as connection:
            return [f"{day}|{source}" for day, source in connection.execute(_UNDONE, {"day": DEMO_DAY})]

    def _report(self) -> dict[str, Any] | None:
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(
                "SELECT summary FROM raw.daily_report WHERE day = %s", (DEMO_DAY,)
            ).fetchone()
        return row[0] if row else None

    def _bucket_keys(self) -> set[str]:
        with _client() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=os.environ["S3_BUCKET"])
            return {found["Key"] for page in pages for found in page.get("Contents", [])}

    def _books(self) -> Books:
        with psycopg.connect(self._database_url) as connection:
            cursor = connection.execute(_BOOKS)
            names = [column.name for column in cursor.description or []]
            row = cursor.fetchone() or ()
        return Books(dict(zip(names, row, strict=True)), self._visits())

    def _visits(self) -> dict[str, int] | None:
        if self._sites is None:
            return None
        with urllib.request.urlopen(f"http://{self._sites}/_control/requests", timeout=10) as answer:
            asked = json.load(answer)["requests"]
        visits: dict[str, int] = {}
        for host, path in asked:
            if path == "/":
                visits[host] = visits.get(host, 0) + 1
        return visits


def _client() -> Any:
    from contextlib import closing

    import boto3

    return closing(boto3.session.Session().client("s3", endpoint_url=os.environ["S3_ENDPOINT_URL"]))


def _news(before: Books, after: Books) -> str:
    rows = sum(after.rows.values()) - sum(before.rows.values())
    visits = None
    if after.visits is not None and before.visits is not None:
        visits = sum(after.visits.values()) - sum(before.visits.values())
    if rows == 0 and not visits:
        return "nothing was new: no row added, no page fetched"
    return f"this run added {rows} rows" + ("" if visits is None else f" and fetched {visits} front pages")
