"""recommendations in the demo: 500 members over ten days by the moved clock, judged from outside."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

from local_stack import shop
from local_stack.demo_report import PipelineReport
from local_stack.demo_runs import run_job

if TYPE_CHECKING:
    from local_stack.demo_economy_news import Steps

PIPELINE = "recommendations"
ENDS = [shop.FIRST_DAY + timedelta(days=day + 1, minutes=-30) for day in range(shop.DAYS)]
"""When each day's run looks: half an hour before midnight, UTC."""
LEASE = timedelta(minutes=6)
OURS = {"first": shop.FIRST_ID, "last": shop.FIRST_ID + shop.MEMBERS - 1}

_PRODUCT = """
INSERT INTO rec.product (id, name, category, text, is_active) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_DEED = """
INSERT INTO rec.member_event (member_id, product_id, kind, weight, occurred_at) VALUES (%s, %s, %s, %s, %s)
"""
_OPT_OUT = "INSERT INTO rec.member_opt_out (member_id) VALUES (%s) ON CONFLICT DO NOTHING"
_VISIT = """
INSERT INTO rec.member_visit (member_id, occurred_at)
SELECT %(member_id)s, %(moment)s WHERE NOT EXISTS (
    SELECT FROM rec.member_visit WHERE member_id = %(member_id)s AND occurred_at = %(moment)s)
"""
_IS_THERE = "SELECT EXISTS (SELECT FROM rec.member_event WHERE member_id BETWEEN %(first)s AND %(last)s)"
_ROWS = """
SELECT (SELECT count(*) FROM rec.member_visit WHERE member_id BETWEEN %(first)s AND %(last)s) AS visits,
       (SELECT count(*) FROM rec.visit_trigger WHERE member_id BETWEEN %(first)s AND %(last)s) AS triggers,
       (SELECT count(*) FROM rec.queue_item WHERE member_id BETWEEN %(first)s AND %(last)s) AS queued,
       (SELECT count(DISTINCT member_id) FROM rec.recommended_product
        WHERE member_id BETWEEN %(first)s AND %(last)s) AS members_recommended,
       (SELECT count(*) FROM rec.product_embedding
        WHERE product_id BETWEEN %(first)s AND %(last)s) AS embedded
"""
_QUEUE = """
SELECT candidate_generation_type, status, count(*) FROM rec.queue_item
WHERE member_id BETWEEN %(first)s AND %(last)s GROUP BY 1, 2 ORDER BY 1, 2
"""
_DAYS_WAITING = """
SELECT DISTINCT (queued_at AT TIME ZONE 'UTC')::date::text FROM rec.queue_item
WHERE member_id BETWEEN %(first)s AND %(last)s AND status IN ('PENDING', 'RUNNING') ORDER BY 1
"""
_SPENT = """
SELECT coalesce(sum(input_tokens + output_tokens), 0)::int, coalesce(sum(cost_usd), 0)::float
FROM granary.spending WHERE pipeline = 'recommendations'
"""
_UNEVEN_SETS = """
SELECT count(*) FROM (
    SELECT member_id FROM rec.recommended_product WHERE member_id BETWEEN %(first)s AND %(last)s
    GROUP BY member_id HAVING count(*) NOT BETWEEN 1 AND 20 OR max(rank) <> count(*)) AS uneven
"""
_FORBIDDEN = """
SELECT count(*) FROM rec.recommended_product AS row JOIN rec.product AS product ON product.id = row.product_id
WHERE row.member_id BETWEEN %(first)s AND %(last)s AND (NOT product.is_active OR EXISTS (
    SELECT FROM rec.member_event AS event
    WHERE event.member_id = row.member_id AND event.product_id = row.product_id AND event.kind = 'purchase'
      AND event.occurred_at > row.created_at - interval '30 days' AND event.occurred_at <= row.created_at))
"""
_TYPES_OF_UNPROFILED = """
SELECT DISTINCT candidate_generation_type FROM rec.recommended_product AS row
WHERE member_id BETWEEN %(first)s AND %(last)s AND (
    EXISTS (SELECT FROM rec.member_opt_out AS refused WHERE refused.member_id = row.member_id)
    OR NOT EXISTS (SELECT FROM rec.member_event AS event WHERE event.member_id = row.member_id))
"""
_WRONG_TYPES = """
SELECT count(*) FROM rec.queue_item WHERE member_id BETWEEN %(first)s AND %(last)s
AND NOT EXISTS (SELECT FROM rec.member_opt_out AS refused WHERE refused.member_id = queue_item.member_id)
AND candidate_generation_type <> CASE WHEN due_offset <= interval '72 hours' THEN 'G2' ELSE 'G1' END
"""


@dataclass(frozen=True)
class Books:
    """What is stored, the queue by type and status, and what it cost."""

    rows: Mapping[str, int]
    queue: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tokens: int = 0
    cost_usd: float = 0.0


class RecommendationsDemo:
    """Fills a shop, lets ten days pass, and looks at what members were recommended."""

    def __init__(self) -> None:
        self._database_url = os.environ["DATABASE_URL"]

    def run(self, steps: "Steps") -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before = self._books()
        self._fill_shop()
        claims = {}
        with steps.step(f"recommendations: {shop.PRODUCTS} products embedded"):
            claims["the products that are sold have their vectors"] = run_job("recommendations_products")
        with steps.step(f"recommendations: {shop.MEMBERS} members over {shop.DAYS} simulated days"):
            claims["every run succeeded"] = self._let_days_pass()
        after = self._books()
        claims |= self._claims(after)
        return PipelineReport(
            PIPELINE,
            shop.DAYS,
            after.rows,
            after.tokens,
            after.cost_usd,
            time.monotonic() - started,
            _news(before, after),
            claims,
            {"queue_items": {kind: dict(by_status) for kind, by_status in after.queue.items()}},
        )

    def _fill_shop(self) -> None:
        """In one transaction, so that a demo that was broken off finds all of it or nothing."""
        with psycopg.connect(self._database_url) as connection, connection.cursor() as cursor:
            cursor.executemany(
                _PRODUCT,
                [(one.id, one.name, one.category, one.text, one.is_active) for one in shop.products()],
            )
            cursor.executemany(_OPT_OUT, [(member_id,) for member_id in shop.opted_out()])
            if cursor.execute(_IS_THERE, OURS).fetchone() == (False,):
                cursor.executemany(
                    _DEED,
                    [
                        (one.member_id, one.product_id, one.kind, one.weight, one.occurred_at)
                        for one in shop.deeds()
                    ],
                )

    def _let_days_pass(self) -> bool:
        """A run a day at its evening; what a demo that was broken off had leased comes back at the end."""
        succeeded = True
        visits = shop.visits()
        for evening in ENDS:
            with psycopg.connect(self._database_url) as connection:
                connection.cursor().executemany(
                    _VISIT,
                    [
                        {"member_id": member_id, "moment": moment}
                        for member_id, moment in visits
                        if evening - timedelta(days=1) < moment <= evening
                    ],
                )
            with _clock_at(evening, self._database_url):
                if _someone_is_due():  # as the sensor looks before it starts a run
                    succeeded = run_job("recommendations", evening.date().isoformat()) and succeeded
        for day_waiting in self._days_waiting():
            with _clock_at(ENDS[-1] + LEASE, self._database_url):
                succeeded = run_job("recommendations", day_waiting) and succeeded
        return succeeded

    def _days_waiting(self) -> list[str]:
        with psycopg.connect(self._database_url) as connection:
            return [day for (day,) in connection.execute(_DAYS_WAITING, OURS)]

    def _claims(self, after: Books) -> dict[str, bool]:
        def count(statement: str) -> int:
            row = connection.execute(statement, OURS).fetchone()
            return int(row[0]) if row else 0

        with psycopg.connect(self._database_url) as connection:
            unprofiled = {kind for (kind,) in connection.execute(_TYPES_OF_UNPROFILED, OURS)}
            statuses = Counter[str]()
            for by_status in after.queue.values():
                statuses.update(by_status)
            return {
                "every member who came is recommended products, and no item waits": (
                    after.rows["members_recommended"] == shop.MEMBERS and set(statuses) == {"SUCCEEDED"}
                ),
                "every set has ranks from 1 without a gap, 20 at most": count(_UNEVEN_SETS) == 0,
                "nothing that is not sold or was bought lately is recommended": count(_FORBIDDEN) == 0,
                "who refused profiling or did nothing yet gets what is popular": unprofiled == {"G0"},
                "up to three days after a visit G2 is asked for, then G1": count(_WRONG_TYPES) == 0,
            }

    def _books(self) -> Books:
        with psycopg.connect(self._database_url) as connection:
            cursor = connection.execute(_ROWS, OURS)
            names = [column.name for column in cursor.description or []]
            rows = dict(zip(names, cursor.fetchone() or (), strict=True))
            queue: dict[str, dict[str, int]] = {}
            for kind, status, items in connection.execute(_QUEUE, OURS):
                queue.setdefault(kind, {})[status] = items
            tokens, usd = connection.execute(_SPENT).fetchone() or (0, 0.0)
        return Books(rows, queue, tokens, usd)


def _someone_is_due() -> bool:
    from assets.recommendations import trigger_store, visit_store

    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        return bool(trigger_store.due(connection, 1) or visit_store.waiting(connection, 1))


@contextmanager
def _clock_at(moment: datetime, database_url: str) -> Iterator[None]:
    """The database's clock as runs see it: a setting of each session that they open."""
    option = quote(f"-c granary.now={moment.isoformat()}", safe="")
    os.environ["DATABASE_URL"] = f"{database_url}{'&' if '?' in database_url else '?'}options={option}"
    try:
        yield
    finally:
        os.environ["DATABASE_URL"] = database_url


def _news(before: Books, after: Books) -> str:
    rows = sum(after.rows.values()) - sum(before.rows.values())
    if rows == 0 and before.tokens == after.tokens:
        return "nothing was new: no row added, no product embedded"
    cost = after.cost_usd - before.cost_usd
    return f"this run added {rows} rows and cost {cost:.4f} USD"
