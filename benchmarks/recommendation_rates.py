"""100,000 members due at once: what it takes to queue each, and to rank each out of that queue."""

import time
from datetime import timedelta

import numpy as np
import psycopg

from assets.recommendations import product_store
from assets.recommendations.models import GenerationType
from assets.recommendations.recommend import Recommender
from assets.recommendations.trigger_check import check_triggers
from benchmarks.bench import Bench
from benchmarks.row import Row, row
from resources.embedding_profile import DEFAULT_PROFILE as PROFILE
from resources.postgres import PostgresResource

PRODUCTS = 300
EVENTS_A_MEMBER = 12
AT_ONCE = 5
VISITED_AGO = timedelta(hours=2)

_ADD_PRODUCTS = """
INSERT INTO rec.product (id, name, category, text)
SELECT id, 'product ' || id, 'category ' || id %% 12, 'text ' || id
FROM generate_series(1, %(products)s) AS id
"""

# Products far down the list are looked at less, as everywhere.
_ADD_EVENTS = """
INSERT INTO rec.member_event (member_id, product_id, kind, weight, occurred_at)
SELECT member_id, 1 + floor(%(products)s * power(random(), 2)),
       (ARRAY['view', 'like', 'purchase'])[1 + event %% 3], 1 + event %% 3,
       now() - random() * interval '60 days'
FROM generate_series(1, %(members)s) AS member_id CROSS JOIN generate_series(1, %(events)s) AS event
"""

_ADD_TRIGGERS = """
INSERT INTO rec.visit_trigger (member_id, last_visited_at, trigger_at, created_at, updated_at)
SELECT member_id, now() - %(ago)s, now() - %(ago)s + interval '1 hour', now(), now()
FROM generate_series(1, %(members)s) AS member_id
"""


def measure(bench: Bench) -> list[Row]:
    """With the settings that are shipped; 1 ms is 1,000 a second.

    All are queued, and then the oldest are ranked until the time is up: those have a history.
    """
    due, with_history, seconds = bench.size(100_000, 2_000), bench.size(30_000, 2_000), bench.size(20, 2)
    address = bench.database("bench_recommendations")
    with psycopg.connect(address, autocommit=True) as connection:
        _add_products(connection)
        sizes = {"members": with_history, "products": PRODUCTS, "events": EVENTS_A_MEMBER}
        connection.execute(_ADD_EVENTS, sizes)
        connection.execute(_ADD_TRIGGERS, {"members": due, "ago": VISITED_AGO})
        connection.execute("ANALYZE")
        bench.say(f"queueing {due:,} members who are due at once")
        started = time.perf_counter()
        counts = check_triggers(connection)
        queueing = time.perf_counter() - started
    assert (counts.queued, counts.moved) == (due, due), counts
    bench.say(f"ranking {PRODUCTS} products for them, for {seconds} s")
    ranking, members = _rank(address, seconds, with_history)
    name = "recommendation_rates"
    return [
        row(f"{name}: {due:,} due at once", queueing * 1_000 / due, "ms/trigger", at_most=1),
        row(f"{name}: {PRODUCTS} products", ranking * 1_000 / members, "ms/member", at_most=5),
    ]


def _rank(address: str, seconds: int, most: int) -> tuple[float, int]:
    """Seconds that it took, and how many members have their set."""
    with PostgresResource(database_url=address).pool(AT_ONCE + 1) as pool:
        run = Recommender(pool, "bench", None, PROFILE, at_once=AT_ONCE)
        started = time.monotonic()
        counts = run.run(until=started + seconds)
        took = time.monotonic() - started
    assert 0 < counts.succeeded <= most and counts.failed == counts.lost == 0, counts
    assert counts.products.total() == 20 * counts.succeeded
    assert counts.products[GenerationType.G2] > 0
    return took, counts.succeeded


def _add_products(connection: psycopg.Connection) -> None:
    """With vectors that point anywhere: what they say costs nothing."""
    connection.execute(_ADD_PRODUCTS, {"products": PRODUCTS})
    products = product_store.changed(connection, PROFILE, PRODUCTS)
    vectors = np.random.default_rng(7).normal(size=(PRODUCTS, product_store.DIMENSIONS))
    stored = product_store.store(connection, zip(products, vectors.tolist(), strict=True), PROFILE)
    assert stored == PRODUCTS, stored
