"""Claim and finish of jobs, and the log that they write, against procrastinate on the same Postgres."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from statistics import median

import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_articles, add_settled_results
from benchmarks.history import LAST_DAY, database_with_history, settled_jobs
from benchmarks.job_queues import (
    GranaryQueue,
    PlainSqlQueue,
    Queue,
    finish_job_rows,
    finish_with_insights,
    finish_with_lineage,
)
from benchmarks.procrastinate_queue import VERSION, ProcrastinateQueue
from benchmarks.rounds import interleaved
from benchmarks.row import Peer, Row, row

DAY = date(2026, 11, 25)
ARTICLES = 250
WAITING = 5_000
PEERS = ("procrastinate, its async connector", "procrastinate, its sync connector")


@dataclass(frozen=True)
class Turn:
    """What one turn gave."""

    jobs_a_second: float
    wal_bytes_a_job: float


def measure(bench: Bench) -> list[Row]:
    """A fresh table first, then one with 100,000 settled jobs; in both 5,000 jobs wait when a turn begins."""
    return [*_fresh(bench), *_with_history(bench)]


def _fresh(bench: Bench) -> list[Row]:
    address = bench.database("bench_claims")
    with psycopg.connect(address, autocommit=True) as connection:
        add_articles(connection, DAY, ARTICLES)
        add_settled_results(connection, DAY, [JobType.SUMMARY])
        peers = _peers(connection, address, settled=ARTICLES)
        lineage = GranaryQueue(connection, DAY, finish_with_lineage)
        job_rows = GranaryQueue(connection, DAY, finish_job_rows)
        as_they_come = GranaryQueue(connection, DAY, finish_with_lineage, finished_together=1)
        plain = PlainSqlQueue(connection)
        insights = GranaryQueue(connection, DAY, finish_with_insights)
        turn = partial(_turn, connection, bench.size(WAITING, 1_000))
        many, few = bench.size(1_500, 500), bench.size(150, 50)
        bench.say("claiming and finishing jobs, in turns with procrastinate")
        found = interleaved(
            bench.size(5, 2),
            {
                "one": partial(turn, lineage, few, 1),
                "batches": partial(turn, lineage, many, 50),
                "as answers come": partial(turn, as_they_come, few, 50),
                "job rows": partial(turn, job_rows, many, 50),
                "insights": partial(turn, insights, many, 50),
                "plain one": partial(turn, plain, few, 1),
                "plain batches": partial(turn, plain, many, 50),
                **{name: partial(turn, peer, few, 1) for name, peer in peers.items()},
            },
        )
    speed = _medians(found, lambda turn: turn.jobs_a_second)
    wal = _medians(found, lambda turn: turn.wal_bytes_a_job)
    fastest = max(PEERS, key=lambda name: speed[name])
    peer = _named(fastest, speed[fastest])
    plain_one = Peer("plain SQL, one by one", speed["plain one"])
    plain_batches = Peer("plain SQL, batches of 50", speed["plain batches"])
    peer_wal = _named(fastest, wal[fastest])
    return [
        row("claims: one by one", speed["one"], "jobs/s", peer, ratio_at_least=3),
        row("claims: batches of 50", speed["batches"], "jobs/s", peer, ratio_at_least=20),
        row("claims: one by one, of the ideal", speed["one"], "jobs/s", plain_one),
        row("claims: batches of 50, of the ideal", speed["batches"], "jobs/s", plain_batches),
        row("claims: claimed by 50, finished singly", speed["as answers come"], "jobs/s", peer),
        row("claims: batches of 50, job rows only", speed["job rows"], "jobs/s", peer),
        row("claims: batches of 50, insights stored", speed["insights"], "jobs/s", peer),
        row("claims: WAL, job rows only", wal["job rows"], "bytes/job", peer_wal, at_most=800),
        row("claims: WAL, with lineage", wal["batches"], "bytes/job", peer_wal),
        row("claims: WAL, insights stored", wal["insights"], "bytes/job", peer_wal),
    ]


def _with_history(bench: Bench) -> list[Row]:
    address = database_with_history(bench, "bench_claims_history")
    with psycopg.connect(address, autocommit=True) as connection:
        settled = settled_jobs(connection)
        bench.say(f"the same with {settled:,} settled jobs in both tables")
        peers = _peers(connection, address, settled)
        ours = GranaryQueue(connection, LAST_DAY, finish_with_lineage)
        turn = partial(_turn, connection, bench.size(WAITING, 1_000))
        found = interleaved(
            bench.size(3, 2),
            {
                "one": partial(turn, ours, bench.size(100, 20), 1),
                "batches": partial(turn, ours, bench.size(1_000, 200), 50),
                **{name: partial(turn, peer, bench.size(300, 50), 1) for name, peer in peers.items()},
            },
        )
    speed = _medians(found, lambda turn: turn.jobs_a_second)
    fastest = max(PEERS, key=lambda name: speed[name])
    peer = _named(fastest, speed[fastest])
    return [
        row("claims: one by one, after a month", speed["one"], "jobs/s", peer, ratio_at_least=3),
        row("claims: batches of 50, after a month", speed["batches"], "jobs/s", peer, ratio_at_least=20),
    ]


def _peers(connection: psycopg.Connection, address: str, settled: int) -> dict[str, ProcrastinateQueue]:
    peers = {
        name: ProcrastinateQueue(connection, address, is_async)
        for name, is_async in zip(PEERS, (True, False), strict=True)
    }
    peers[PEERS[0]].install(settled)
    return peers


def _named(name: str, value: float) -> Peer:
    return Peer(name.replace("procrastinate", f"procrastinate {VERSION}"), value)


def _turn(connection: psycopg.Connection, waiting: int, queue: Queue, jobs: int, batch: int) -> Turn:
    queue.refill(waiting)
    before = _wal_position(connection)
    seconds = queue.settle(jobs, batch)
    return Turn(jobs / seconds, (_wal_position(connection) - before) / jobs)


def _wal_position(connection: psycopg.Connection) -> int:
    found = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert found is not None
    return int(found[0])


def _medians(found: Mapping[str, list[Turn]], of: Callable[[Turn], float]) -> dict[str, float]:
    return {name: median(of(turn) for turn in turns) for name, turns in found.items()}
