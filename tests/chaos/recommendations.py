"""recommendations in a storm: visits, changed products, opt-outs and erasures while runs are at work.

A run embeds what has changed, checks the triggers and works through the queue, as runs of three sensors do.
What a dead run had picked is freed when its end is told; a trigger that it had leased comes back with its
lease, after five minutes. A run begins as long after the one before: it takes over also what another that
lives still has in hand. Repeated calls are embeddings alone: nothing else is asked outside.
"""

import random
import time
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from assets.recommendations import product_store, queue_store, rank, trigger_store, visit_store
from assets.recommendations.erasure_store import erase_member
from assets.recommendations.models import Catalogue, MemberHistory, Ranked
from assets.recommendations.product_embedding import embed_products
from assets.recommendations.recommend import Recommender
from assets.recommendations.trigger_check import check_triggers
from resources.alerts import AlertResource
from resources.api_failure import RETRY, ApiFailure
from resources.embeddings import EmbeddingResource
from resources.model_gate import ModelGate
from tests.chaos import database, openai_faults
from tests.chaos.recommendations_judging import SIZE, Judge
from tests.chaos.scene import Calls
from tests.chaos.services import Addresses, Service, stand_in
from tests.integration.fatal_calls import at_step
from tests.integration.late_imports import import_all
from tests.integration.openai_clients import embedding_resource
from tests.integration.recommendations.factories import HOUR, MINUTE, PROFILE, a_product, an_event

import_all()

NEEDS: tuple[Service, ...] = ("openai",)

STEPS: tuple[tuple[Any, str], ...] = (
    (psycopg.Cursor, "execute"),
    (psycopg.Cursor, "executemany"),
    (rank, "rank"),
    (EmbeddingResource, "embed"),
)
MOST_STEPS = 120
MEMBERS_A_RUN = 3
PRODUCTS = 12
AT_ONCE = 4
ANSWERS_WITHIN_MS = 3_000
RANKS_FOR_SECONDS = 0.4
_HELD = """
SELECT 'member:' || id AS item FROM rec.queue_item WHERE status = 'RUNNING' AND claimed_by = %(run)s
UNION ALL
SELECT 'trigger:' || lease_token FROM rec.visit_trigger
WHERE lease_token IN (SELECT token FROM leased WHERE run = %(run)s)
"""
_OPEN = """
SELECT 'member:' || id AS item FROM rec.queue_item WHERE status IN ('PENDING', 'RUNNING')
UNION ALL
SELECT 'trigger:' || lease_token FROM rec.visit_trigger WHERE lease_token IS NOT NULL
"""
_FAILED = "SELECT id FROM rec.queue_item WHERE status = 'FAILED'"


class Recommendations:
    """The judge remembers the visits, and who refused profiling or was erased. Member n has viewed."""

    name = "recommendations"
    tick_seconds = 310.0
    starts_at: str | None = None

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._seed: int | None = None
        self._products = PRODUCTS
        self._faults = 0
        self._judge = Judge(at)
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            for id_ in range(1, PRODUCTS + 1):
                a_product(connection, id_, category=_category_of(id_))
        # The first call of all has the stand-in load its encoder.
        self._embeddings(timeout_ms=60_000).embed(["두부"])
        stand_in(at.openai).post("reset", ledger=True)

    def blow(self, seed: int) -> None:
        self._seed = seed

    def calm(self) -> None:
        self._faults += openai_faults.disarm(stand_in(self._at.openai))
        self._seed = None

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        self._faults += openai_faults.arm(stand_in(self._at.openai), f"{self._seed}/{number}")
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            now = trigger_store.now(connection)
            lately = [member for member in list(self._judge.visits)[-20:] if member not in self._judge.erased]
            if lately and draw.random() < 0.3:
                self._judge.opted_out.add(member := draw.choice(lately))
                visit_store.opt_out(connection, member)
            if lately and draw.random() < 0.3:
                self._judge.erased.add(member := draw.choice(lately))
                erase_member(connection, member)
            if draw.random() < 0.8:
                self._change_products(connection, draw)
            for member in self._who_comes_back(now, draw):
                self._visit(connection, member, now - 65 * MINUTE)
            for _ in range(MEMBERS_A_RUN):
                self._new_member(connection, len(self._judge.visits) + 1, now, draw)
            if number % 10 == 0:
                queue_store.requeue_failed(connection)

    def arm(self, seed: int) -> None:
        at_step(STEPS, random.Random(seed).randint(1, MOST_STEPS))

    def work(self, run_id: str, number: int) -> None:
        session: dict[str, Any] = {"autocommit": True, "application_name": run_id}
        embeddings = self._embeddings()
        failure: ApiFailure | None = None
        with (
            psycopg.connect(self._at.database_url, **session) as connection,
            ConnectionPool(
                self._at.database_url, kwargs=session, min_size=0, max_size=AT_ONCE + 1, timeout=10
            ) as pool,
        ):
            if number == 0:  # by now somebody has looked at what failed
                queue_store.requeue_failed(connection)
            gate = ModelGate(connection, embeddings.gate_key, AlertResource(), 10)
            try:
                counts = embed_products(connection, embeddings, gate, None, PROFILE)
                if counts.changed_meanwhile and not counts.embedded:
                    connection.execute("INSERT INTO outdated VALUES (%s)", (run_id,))
            except ApiFailure as failed:  # of a run of its own, which keeps nobody from being recommended
                failure = failed
            check_triggers(connection, limit=5)
            Recommender(
                pool, run_id, None, PROFILE, size=SIZE, at_once=AT_ONCE, pick=AT_ONCE, rank=_unhurried
            ).run()
        if failure is not None:
            raise failure

    def may_fail_with(self, error: BaseException) -> bool:
        return isinstance(error, ApiFailure) and error.verdict.effect == RETRY

    def held(self, run_id: str) -> set[str]:
        return {row["item"] for row in self._rows(_HELD, run=run_id)}

    def release(self, run_id: str) -> None:
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            queue_store.free_of_run(connection, run_id)
        self._judge.ended_badly.add(run_id)

    def done(self, items: set[str]) -> set[str]:
        return items - {row["item"] for row in self._rows(_OPEN)}

    def waiting(self) -> list[str]:
        told = [row["item"] for row in self._rows(_OPEN)]
        told += [f"item {row['id']} has failed" for row in self._rows(_FAILED)]
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            counted = {
                "visits": visit_store.waiting(connection),
                "due triggers": trigger_store.due(connection),
                "changed products": len(product_store.changed(connection, PROFILE, 100)),
            }
        return told + [f"{count} {what}" for what, count in counted.items() if count]

    def judge(self) -> list[str]:
        return self._judge.mistakes()

    def items(self) -> int:
        (row,) = self._rows("SELECT count(DISTINCT item) AS n FROM noted")
        return int(row["n"])

    def calls(self) -> Calls:
        totals = stand_in(self._at.openai).get("ledger/totals")
        return Calls(totals["calls"], self._faults, totals["repeated_requests"])

    def _who_comes_back(self, now: datetime, draw: random.Random) -> list[int]:
        """Somebody whose last visit was long enough ago to be another one."""
        may = [
            member
            for member, visits in self._judge.visits.items()
            if member not in self._judge.erased and visits[-1] < now - 130 * MINUTE
        ]
        return [draw.choice(may)] if may and draw.random() < 0.5 else []

    def _new_member(
        self, connection: psycopg.Connection, member: int, now: datetime, draw: random.Random
    ) -> None:
        an_event(connection, member, draw.randint(1, PRODUCTS), occurred_at=now - HOUR)
        if draw.random() < 0.3:
            self._judge.bought[member] = draw.randint(1, PRODUCTS)
            an_event(connection, member, self._judge.bought[member], "purchase", occurred_at=now - HOUR)
        moment = now - 90 * MINUTE + timedelta(microseconds=draw.randrange(10**8))
        self._visit(connection, member, moment)

    def _visit(self, connection: psycopg.Connection, member: int, moment: datetime) -> None:
        """Posted, or written into the table."""
        self._judge.visits.setdefault(member, []).append(moment)
        if member % 2:
            visit_store.visit(connection, member, moment)
        else:
            connection.execute(
                "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)", (member, moment)
            )

    def _change_products(self, connection: psycopg.Connection, draw: random.Random) -> None:
        """One is new, one says something else, and one more may leave the shop or come back."""
        self._products += 1
        a_product(connection, self._products, category=_category_of(self._products))
        one, other = draw.sample(range(1, self._products + 1), 2)
        connection.execute("UPDATE rec.product SET text = text || ' 새' WHERE id = %s", (one,))
        if other > PRODUCTS:
            connection.execute("UPDATE rec.product SET is_active = NOT is_active WHERE id = %s", (other,))

    def _embeddings(self, timeout_ms: int = ANSWERS_WITHIN_MS) -> EmbeddingResource:
        return embedding_resource(self._at.openai, timeout_ms=timeout_ms)

    def _rows(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters or None)


def _unhurried(catalogue: Catalogue, member: MemberHistory, now: datetime, size: int) -> list[Ranked]:
    """A ranker that takes its time, in which others find its lease run out."""
    time.sleep(RANKS_FOR_SECONDS)
    return rank.rank(catalogue, member, now, size)


def _category_of(product: int) -> str:
    return f"분류 {product % 3}"


SCENE = Recommendations
