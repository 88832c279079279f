"""A front page is stored by the run that holds its lease, in its present try, and by no other."""

from collections.abc import Callable

import psycopg
import pytest

from assets.raw_files import front_page_store
from assets.raw_files.front_page import FrontPage
from assets.raw_files.front_page_fetching import collect
from assets.raw_files.front_page_store import Claim, Fetched, Unfetched
from resources.bucket import Bucket
from tests.integration.raw_files.raw_runs import Store, document, raw_path
from tests.integration.raw_files.work_runs import NEWS, a_fetcher, process

Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def first(connect: Connect, store: Store) -> psycopg.Connection:
    """The connection of a run; two domains wait for their front pages."""
    store.put(raw_path(1), document("gaon-market.test", "hanbit-news.test"))
    connection = connect()
    process(connection, Bucket(store.client, store.name))
    return connection


@pytest.fixture
def second(first: psycopg.Connection, connect: Connect) -> psycopg.Connection:
    """The connection of another run, at a time when every lease of the first is over."""
    (later,) = first.execute("SELECT (now() + interval '1 hour')::text").fetchone() or ("",)
    return connect(at=later)


def a_page(claim: Claim) -> Fetched:
    return Fetched(claim, f"https://{claim.domain}/", 200, FrontPage(content_hash="0" * 64))


def a_failure(claim: Claim) -> Unfetched:
    return Unfetched(claim, "status 503", 503, permanent=False)


def front_pages(connection: psycopg.Connection) -> list[tuple[str, str | None, int]]:
    return connection.execute("SELECT status, claimed_by, attempt FROM raw.front_page").fetchall()


def claim(connection: psycopg.Connection, run_id: str) -> list[Claim]:
    return front_page_store.claim_of_partition(connection, NEWS, run_id, 60, 10)


def test_a_front_page_whose_lease_was_taken_over_is_stored_by_the_other_run_only(
    first: psycopg.Connection, second: psycopg.Connection
) -> None:
    page, failure = claim(first, "first")
    taken = claim(second, "second")
    assert [one.domain for one in taken] == [page.domain, failure.domain]

    assert front_page_store.store_outcomes(first, "first", [a_page(page)], [a_failure(failure)]) == 0
    assert front_pages(first) == [("WAITING", "second", 2)] * 2

    assert front_page_store.store_outcomes(second, "second", [a_page(one) for one in taken], []) == 2
    assert front_pages(first) == [("FETCHED", None, 2)] * 2


def test_an_earlier_try_of_the_same_run_stores_nothing(first: psycopg.Connection) -> None:
    page, failure = claim(first, "first")
    front_page_store.release(first, "first")
    assert front_page_store.store_outcomes(first, "first", [a_page(page)], [a_failure(failure)]) == 0
    assert len(claim(first, "first")) == 2

    assert front_page_store.store_outcomes(first, "first", [a_page(page)], [a_failure(failure)]) == 0
    assert front_pages(first) == [("WAITING", "first", 2)] * 2


def test_leases_that_a_run_lost_are_counted(
    first: psycopg.Connection, second: psycopg.Connection, sites: str
) -> None:
    def claim_and_lose() -> list[Claim]:
        claimed = claim(first, "first")
        claim(second, "second")
        return claimed

    collected = collect(first, a_fetcher(sites), claim_and_lose, "first", slice_seconds=60)

    assert (collected.fetched, collected.leases_lost) == (2, 2)
    assert front_pages(first) == [("WAITING", "second", 2)] * 2
