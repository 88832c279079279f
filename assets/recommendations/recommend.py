"""Recommends products to the members in the queue. Usable without Dagster.

A batch is picked, each of its members is ranked and stored by one of a few threads, each on a connection of
its own. What goes wrong with one member fails that member's item; what goes wrong with Postgres ends the run,
and its items come back when their leases end, or sooner when the run is known to have ended.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

import psycopg

from assets.recommendations import product_store, queue_store, trigger_store
from assets.recommendations.models import Catalogue, GenerationType, MemberHistory, QueueItem, Ranked

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

log = logging.getLogger("granary.recommendations")

CATALOGUE_SECONDS = 300
"""How old the catalogue of a long run may get."""

Ranker = Callable[[Catalogue, MemberHistory, datetime, int], list[Ranked]]
"""Catalogue, member, now and how many products: the best first. See `rank.rank`."""


@dataclass
class RecommendCounts:
    """What one run has done.

    lost: items that were not this run's any more when it wanted to store. returned, spent: items of dead runs
    that wait again, and those that failed for good. products: stored rows by the type that found them.
    """

    succeeded: int = 0
    failed: int = 0
    lost: int = 0
    returned: int = 0
    spent: int = 0
    products: Counter[GenerationType] = field(default_factory=Counter)


class Recommender:
    """Works through the queue of some days (None: of all); `pool` has room for `at_once` + 1 connections."""

    def __init__(
        self,
        pool: "ConnectionPool[psycopg.Connection]",
        claimed_by: str,
        days: Sequence[date] | None,
        profile: str,
        *,
        size: int = 20,
        at_once: int = 5,
        pick: int = 10,
        lease_seconds: int = 300,
        rank: Ranker | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._claimed_by = claimed_by
        self._days = days
        self._profile = profile
        self._size = size
        self._at_once = at_once
        self._most = pick
        self._lease_seconds = lease_seconds
        self._rank = rank or _default_rank()
        self._clock = clock
        self._catalogue: Catalogue | None = None
        self._read_at = -math.inf
        self._counts = RecommendCounts()

    def run(self, until: float = math.inf) -> RecommendCounts:
        """Picks, ranks and stores until the queue is empty or the clock says `until`.

        Raises psycopg.OperationalError or InterfaceError where Postgres is not there.
        """
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="recommend") as threads:
            while self._clock() < until and (items := self._pick()):
                with self._pool.connection() as connection:
                    now = trigger_store.now(connection)
                    catalogue = self._current_catalogue(connection)
                self._wait_for(
                    {threads.submit(self._recommend, item, catalogue, now): item.id for item in items}
                )
        return self._counts

    def _pick(self) -> list[QueueItem]:
        with self._pool.connection() as connection:
            back = queue_store.return_dead(connection)
            self._counts.returned += back.returned
            self._counts.spent += back.failed
            return queue_store.pick(connection, self._claimed_by, self._most, self._lease_seconds, self._days)

    def _current_catalogue(self, connection: psycopg.Connection) -> Catalogue:
        if self._catalogue is None or self._clock() - self._read_at > CATALOGUE_SECONDS:
            self._catalogue = product_store.catalogue(connection, self._profile)
            self._read_at = self._clock()
        return self._catalogue

    def _wait_for(self, started: "dict[Future[RecommendCounts], int]") -> None:
        """Counts what the threads have done; leases of what takes long are renewed."""
        waiting = set(started)
        while waiting:
            _, waiting = wait(waiting, self._lease_seconds / 3)
            if waiting:
                with self._pool.connection() as connection:
                    queue_store.renew(
                        connection, self._claimed_by, [started[one] for one in waiting], self._lease_seconds
                    )
        for one in started:
            outcome = one.result()
            self._counts.succeeded += outcome.succeeded
            self._counts.failed += outcome.failed
            self._counts.lost += outcome.lost
            self._counts.products += outcome.products

    def _recommend(self, item: QueueItem, catalogue: Catalogue, now: datetime) -> RecommendCounts:
        """What became of one item. Raises what is not this member's fault."""
        with self._pool.connection() as connection:
            try:
                member = product_store.history(connection, item.member_id, item.wanted)
                ranked = self._rank(catalogue, member, now, self._size)
                if not queue_store.succeed(connection, item, self._claimed_by, ranked):
                    return RecommendCounts(lost=1)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                raise
            except Exception as error:  # a team's own ranker may raise anything
                # Its type only: a message may quote what the member did.
                log.warning("queue item %d failed: %s", item.id, type(error).__name__)
                failed = queue_store.fail(connection, item, self._claimed_by, type(error).__name__)
                return RecommendCounts(failed=1) if failed else RecommendCounts(lost=1)
        return RecommendCounts(succeeded=1, products=Counter(one.candidate_generation_type for one in ranked))


def _default_rank() -> Ranker:
    from assets.recommendations.rank import rank  # numpy costs each import of the definitions its time

    return rank
