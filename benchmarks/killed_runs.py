"""kill -9 for a run that holds leases, until another run has done its work: the time that takes."""

import time
from dataclasses import dataclass, field
from datetime import date, timedelta
from statistics import median

import psycopg

from assets.economy_news.models import JobType
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_articles, add_due_jobs
from benchmarks.rounds import percentile
from benchmarks.row import Row, row

FIRST_DAY = date(2026, 8, 1)
ARTICLES_A_DAY = 10
SENSORS = ("article_jobs_due", "failed_runs_free_their_work")
# While the victims work the model is slow, so that they hold leases; what follows has one of a second.
SLOW_SECONDS = 8
BETWEEN_KILLS_SECONDS = 4
PATIENCE_SECONDS = 300

_HOLDING = """
SELECT claimed_by FROM news.ai_job
WHERE status = 'RUNNING' AND day >= %(first)s AND day < %(first)s + %(days)s
  AND NOT claimed_by = ANY(%(killed)s)
GROUP BY claimed_by ORDER BY min(id) LIMIT 1
"""
_LEASED = "SELECT array_agg(id) FROM news.ai_job WHERE status = 'RUNNING' AND claimed_by = %s"
_STAGES = """
SELECT bool_and(status <> 'RUNNING' OR claimed_by <> %(run_id)s), bool_and(claimed_by <> %(run_id)s),
       bool_and(status = 'SUCCESS'), extract(epoch FROM max(settled_at))
FROM news.ai_job WHERE id = ANY(%(jobs)s)
"""


@dataclass
class Kill:
    """A killed run, the jobs that it had leased, and how many seconds later each stage was over."""

    run_id: str
    moment: float
    jobs: list[int]
    seconds: dict[str, float] = field(default_factory=dict)


def measure(bench: Bench) -> list[Row]:
    """Runs of different days, started and started again by the sensors alone, killed one after the other."""
    kills = bench.size(6, 2)
    dagster = bench.dagster
    with psycopg.connect(bench.stack.environment()["DATABASE_URL"], autocommit=True) as connection:
        days = kills + 2  # should one be done before its turn comes
        for number in range(days):
            day = FIRST_DAY + timedelta(days=number)
            add_articles(connection, day, ARTICLES_A_DAY)
            add_due_jobs(connection, day, JobType.SUMMARY, ARTICLES_A_DAY)
        bench.control("OPENAI_BASE_URL", "latency", seconds=SLOW_SECONDS)
        dagster.turn_on(*SENSORS)
        try:
            bench.say(f"killing {kills} runs, and waiting until others have done their work")
            killed = _kill_and_watch(bench, connection, kills, days)
        finally:
            dagster.turn_off(*SENSORS)
            bench.control("OPENAI_BASE_URL", "reset")
    for stage in ("freed", "claimed", "done"):
        bench.say(f"{stage} after {median(kill.seconds[stage] for kill in killed):.0f} s, the median")
    waits = [kill.seconds["done"] for kill in killed]
    return [row("killed_runs: kill to work done elsewhere, p95", percentile(waits, 95), "s", at_most=90)]


def _kill_and_watch(bench: Bench, connection: psycopg.Connection, kills: int, days: int) -> list[Kill]:
    """The kills, once all the jobs of all of them are in SUCCESS. Raises TimeoutError."""
    killed: list[Kill] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(killed) < kills or any("done" not in kill.seconds for kill in killed):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all was done after {PATIENCE_SECONDS} s: {killed}")
        recently = bool(killed) and time.time() - killed[-1].moment < BETWEEN_KILLS_SECONDS
        if len(killed) < kills and not recently:
            killed += _kill_one(bench, connection, days, [kill.run_id for kill in killed])
            if len(killed) == kills:
                bench.control("OPENAI_BASE_URL", "latency", seconds=1)
        _look(connection, killed)
        time.sleep(0.2)
    return killed


def _kill_one(bench: Bench, connection: psycopg.Connection, days: int, killed: list[str]) -> list[Kill]:
    """Kills a run that holds leases, if there is one."""
    parameters = {"first": FIRST_DAY, "days": days, "killed": killed}
    holder = connection.execute(_HOLDING, parameters).fetchone()
    if holder is None:
        return []
    process = bench.dagster.process_of(holder[0])
    process.kill()
    moment = time.time()
    process.wait(5)
    leased = connection.execute(_LEASED, [holder[0]]).fetchone()
    return [Kill(holder[0], moment, leased[0])] if leased is not None and leased[0] else []


def _look(connection: psycopg.Connection, killed: list[Kill]) -> None:
    """Notes the stages that are over by now."""
    for kill in killed:
        stages = connection.execute(_STAGES, {"run_id": kill.run_id, "jobs": kill.jobs}).fetchone()
        assert stages is not None
        freed, claimed, done, settled_at = stages
        now = time.time() - kill.moment
        if freed:
            kill.seconds.setdefault("freed", now)
        if claimed:
            kill.seconds.setdefault("claimed", now)
        if done:
            kill.seconds.setdefault("done", float(settled_at) - kill.moment)
