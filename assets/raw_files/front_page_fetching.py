"""Fetches the front pages of domains through the guarded fetch: sixteen at once, one at a time per host."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg

from assets.raw_files import front_page_store
from assets.raw_files.front_page import read_front_page
from assets.raw_files.front_page_store import Claim, Fetched, Unfetched
from resources.counters import Counts
from resources.errors import CrawlNotAllowed, FetchFailed
from resources.guarded_fetch import AnsweredBadly, FetchRefused, GuardedFetcher
from resources.robots import Robots

CONCURRENCY = 16
CLAIMED_AT_ONCE = 32
# Two rounds of sixteen. A hostile chain of redirects takes some 140 seconds, with a robots.txt at every hop.
LEASE_SECONDS = 900.0

Claims = Callable[[], Sequence[Claim]]


@dataclass
class Collected:
    """How many front pages a run fetched, could not fetch, and lost the lease of."""

    fetched: int = 0
    failed: int = 0
    leases_lost: int = 0


def collect(
    connection: psycopg.Connection,
    fetcher: GuardedFetcher,
    claim: Claims,
    run_id: str,
    slice_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Collected:
    """Fetches what `claim` leases, until it leases nothing or the slice is used up. An error is a row too."""
    collected = Collected()
    robots = Robots(fetcher)
    end = clock() + slice_seconds
    try:
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            while clock() < end and (claims := claim()):
                outcomes = list(pool.map(lambda one: fetch_front_page(fetcher, robots, one), claims))
                _store(connection, run_id, outcomes, collected)
    finally:
        front_page_store.release(connection, run_id)
    return collected


def fetch_front_page(fetcher: GuardedFetcher, robots: Robots, claim: Claim) -> Fetched | Unfetched:
    """The domain's front page by https, else by http. Never raises for what a site does."""
    problem: Unfetched | None = None
    for scheme in ("https", "http"):
        try:
            page = fetcher.get(f"{scheme}://{claim.domain}/", ask_before=robots.require)
        except (FetchRefused, CrawlNotAllowed) as error:
            return Unfetched(claim, str(error), None, permanent=True)
        except AnsweredBadly as error:  # it answers by https: http would answer the same
            return Unfetched(claim, str(error), error.status, permanent=False)
        except FetchFailed as error:
            problem = Unfetched(claim, str(error), None, permanent=False)
        else:
            found = read_front_page(page.body, page.charset, page.url)
            return Fetched(claim, page.url, page.status, found)
    assert problem is not None
    return problem


def _store(
    connection: psycopg.Connection,
    run_id: str,
    outcomes: Sequence[Fetched | Unfetched],
    collected: Collected,
) -> None:
    fetched = [one for one in outcomes if isinstance(one, Fetched)]
    unfetched = [one for one in outcomes if isinstance(one, Unfetched)]
    counts = Counts()
    counts.add("raw_front_pages_total", len(fetched), outcome="fetched")
    counts.add("raw_front_pages_total", len(unfetched), outcome="failed")
    with connection.transaction():
        stored = front_page_store.store_outcomes(connection, run_id, fetched, unfetched)
        counts.write(connection)
    collected.fetched += len(fetched)
    collected.failed += len(unfetched)
    collected.leases_lost += len(outcomes) - stored
