"""The quote of raw_files: files that are not processed, and front pages to fetch. No model is asked."""

from collections.abc import Mapping
from typing import Any

import psycopg

from assets.raw_files.front_page_fetching import CONCURRENCY
from operations import quote_store
from operations.quote_answer import HostWork, Work
from operations.quote_parts import Parts
from operations.quote_request import QuoteRequest
from orchestration.policies import FRONT_PAGES_SLICE_SECONDS
from orchestration.settings import Settings

REQUESTS_A_PAGE = 2
"""robots.txt and the page itself; redirects and a second try by http come on top."""
GUESSED_SECONDS_A_PAGE = 3.0
GUESSED_DOMAINS_A_FILE = 50.0
WAITING, AGAIN = "not processed", "to process again"


def parts_of(connection: psycopg.Connection, settings: Settings, request: QuoteRequest) -> Parts:
    """The files, and the requests to the sites of their domains."""
    span = {
        "first": request.first_day,
        "last": request.last_day,
        "sources": list(request.parts) or None,
    }
    partitions, files, unprocessed, failed = quote_store.raw_files(connection, span)
    again = files - unprocessed if request.redo == "all" else 0
    notes = [f"{partitions:,} partitions with {files:,} files; what no pass has listed yet is not counted"]
    if failed:
        notes.append(f"{failed:,} of the files failed before: a run tries each again")
    if request.redo == "outdated":
        notes.append("a replaced file is found by the listing of the bucket, which a quote does not read")
    if request.redo == "all":
        notes.append("to process all again, launch with force: true")
    hosts: list[HostWork] = []
    if settings.fetch_metadata:
        hosts = _front_pages(connection, span, unprocessed)
    else:
        notes.append("FETCH_METADATA=false: no front page is fetched")
    if hosts:
        minutes = FRONT_PAGES_SLICE_SECONDS // 60
        notes.append(f"a run fetches for {minutes} minutes; the schedule metadata_sync brings what is left")
    return Parts([Work("raw files", "", {WAITING: unprocessed, AGAIN: again})], hosts, notes, ())


def _front_pages(connection: psycopg.Connection, span: Mapping[str, Any], unprocessed: int) -> list[HostWork]:
    known = quote_store.raw_front_pages(connection, span)
    measured = quote_store.raw_domains_a_file(connection)
    a_file = GUESSED_DOMAINS_A_FILE if measured is None else measured
    expected = round(unprocessed * a_file)
    if not known + expected:
        return []
    source = "a built-in guess" if measured is None else "the average of the last 30 days"
    basis = f"{known:,} front pages wait"
    if expected:
        basis += f", {expected:,} more are expected of new files ({a_file:,.1f} new domains a file: {source})"
    return [
        HostWork(
            host="the domains' own sites",
            requests=(known + expected) * REQUESTS_A_PAGE,
            seconds=(known + expected) * GUESSED_SECONDS_A_PAGE / CONCURRENCY,
            basis=f"{basis}; {CONCURRENCY} at once, one at a time per host, each "
            f"{GUESSED_SECONDS_A_PAGE:g} s by a guess",
        )
    ]
