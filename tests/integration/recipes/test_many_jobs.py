"""Twenty thousand jobs: what is asked grows with the chunks, not with the jobs or with their square."""

from assets.recipes import fetch_store, job_store
from assets.recipes.job_store import CHUNK, JOBS
from assets.recipes.statuses import Status
from tests.integration.recipes.job_records import DAY, MINE, NOON, SOURCE, Mongo, a_row, put_jobs
from tests.integration.recipes.round_trips import RoundTrips

MANY = 20_000


def test_many_jobs_are_claimed_in_three_round_trips_a_chunk(db: Mongo, round_trips: RoundTrips) -> None:
    db[JOBS].drop_indexes()  # to be filled in half the time
    put_jobs(db, (f"{n:024}" for n in range(MANY)), Status.FETCHED)
    job_store.ensure_indexes(db)
    steps, half = (Status.FETCHED, Status.PARSE_SUBMITTING), MANY // 2
    with round_trips.counted() as sent:
        jobs = job_store.claim(db, DAY, *steps, MINE, NOON, half)
    assert [job.id for job in jobs] == [f"{n:024}" for n in range(half)]
    # One look at all of them, whose answer comes in two; then for each chunk the claim and what came of it.
    assert sent == {"find": 1 + half // CHUNK, "getMore": 1, "update": half // CHUNK}


def test_many_rows_are_stored_in_two_round_trips_a_chunk(db: Mongo, round_trips: RoundTrips) -> None:
    rows = 2 * CHUNK + 1
    with round_trips.counted() as sent:
        new = fetch_store.store_fetched(db, SOURCE, DAY, (a_row(str(n)) for n in range(rows)), NOON)
    assert (new, sent) == ((rows, 0, 0), {"find": 3, "update": 3})
    with round_trips.counted() as sent:
        known = fetch_store.store_fetched(db, SOURCE, DAY, (a_row(str(n)) for n in range(rows)), NOON)
    assert (known, sent) == ((0, 0, rows), {"find": 3})
