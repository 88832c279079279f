"""What Dagster's database grows to under schedules of five minutes, with and without the daily retention.

Two runs are real: a crawl of eight sections and the enrichment of them, by the default launcher. They are
multiplied with their events, tags and evaluations moved to other days, and the shipped retention clears up
after each of them. The rows of all five pipelines have their own growth and are not in it.
"""

import time
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path

import dagster as dg
import psycopg
from dagster_postgres import DagsterPostgresStorage

from benchmarks.bench import Bench
from benchmarks.row import Row, row
from operations.run_purge import purge_logs, purge_runs
from orchestration.partitions import SECTIONS, news_range_tags
from orchestration.policies import automatic_run_tags
from orchestration.schedules import SEOUL
from orchestration.settings import Settings

JOBS = ("economy_news_crawl", "economy_news_enrich")
RUNS_A_DAY = 288
"""Of each job, if every crawl finds something."""
SHARE = 12
"""One of so many is simulated; what is purged or kept by the run is counted so often."""
MONTH, DAYS = 30, 44
WAITS_SECONDS = 120
TABLES = ("runs", "run_tags", "event_logs", "asset_event_tags", "asset_check_executions")
_OF_RUNS = {
    "runs": "run_id = ANY(%(ids)s)",
    "run_tags": "run_id = ANY(%(ids)s)",
    "event_logs": "run_id = ANY(%(ids)s)",
    "asset_event_tags": "event_id IN (SELECT id FROM event_logs WHERE run_id = ANY(%(ids)s))",
    "asset_check_executions": "run_id = ANY(%(ids)s)",
    "snapshots": "true",
}


def measure(bench: Bench) -> list[Row]:
    """Sizes with indexes, as Postgres keeps them; rows that went leave room that later ones use."""
    today = datetime.now(SEOUL).date()
    ids = _real_runs(bench, today)
    files = sum(_files_bytes(bench, run_id) for run_id in ids) / len(ids)
    source = bench.stack.environment()["DAGSTER_PG_URL"].replace("+psycopg2", "")
    url = _own_database(bench)
    settings = Settings(_env_file=None)
    with psycopg.connect(source) as dagster, psycopg.connect(url, autocommit=True) as own:
        _copy_sample(dagster, own, ids)
        bench.say(f"{DAYS} days of {2 * RUNS_A_DAY // SHARE} runs, one of {SHARE}")
        empty, sizes, seconds = _size(own), {}, []
        with dg.DagsterInstance.ephemeral() as nobodys_files:
            for day in range(DAYS):
                _add_day(own, today, day)
                now = datetime.combine(today + timedelta(days=day + 1), time_of_day(), UTC)
                started = time.monotonic()
                logs = sum(purge_logs(own, nobodys_files, now - timedelta(days=settings.log_retention_days)))
                runs = sum(purge_runs(own, nobodys_files, now - timedelta(days=settings.run_retention_days)))
                if logs or runs:
                    own.execute(f"VACUUM {', '.join(TABLES)}".encode())
                    seconds.append(time.monotonic() - started)
                sizes[day + 1] = _size(own) - empty
        _expect_every_partition(own, today)
        events = own.execute("SELECT count(*) FROM sample_event_logs").fetchone() or (0,)
        # The newest `run_retention_days` have all of theirs.
        whole_days = settings.run_retention_days * len(ids) * RUNS_A_DAY // SHARE
        old_runs = (own.execute("SELECT count(*) FROM runs").fetchone() or (0,))[0] - whole_days
    a_run = (
        sizes[settings.log_retention_days - 1]
        / (settings.log_retention_days - 1)
        / (len(ids) * RUNS_A_DAY // SHARE)
    )
    a_day = a_run * len(ids) * RUNS_A_DAY
    # Then as many runs go as come, but for the newest of each partition: of 288 no more than of these.
    stay = a_run * old_runs / (DAYS - settings.run_retention_days)
    return [
        row("storage_growth: events a run", events[0] / len(ids), "rows"),
        row("storage_growth: a run's rows", a_run / 1e3, "kB"),
        row("storage_growth: a run's printed output", files / 1e3, "kB"),
        row("storage_growth: a day, nothing purged", a_day / 1e6, "MB"),
        row("storage_growth: a month, nothing purged", a_day * MONTH / 1e9, "GB"),
        row("storage_growth: a month, with retention", sizes[MONTH] * SHARE / 1e9, "GB"),
        row(f"storage_growth: {DAYS} days, with retention", sizes[DAYS] * SHARE / 1e9, "GB"),
        row("storage_growth: of a day, what stays for ever", stay / 1e6, "MB"),
        row("storage_growth: the daily purge", max(seconds) * SHARE, "s"),
    ]


def _real_runs(bench: Bench, today: date) -> list[str]:
    """A crawl that finds a new article in each section, and the run that makes their results."""
    early = datetime.combine(today, time_of_day(0, 10), SEOUL)
    bench.control("NAVER_BASE_URL", "clock", now=early.isoformat())
    bench.say("a crawl and an enrichment by the default launcher")
    ids = []
    for job in JOBS:
        tags = {**news_range_tags(today, SECTIONS), **automatic_run_tags(job, today)}
        ids.append(bench.dagster.launch(job, tags))
        ended = bench.dagster.wait(ids[-1], WAITS_SECONDS)
        if ended.status != "SUCCESS":
            raise RuntimeError(f"{job} ended {ended.status}")
    return ids


def _files_bytes(bench: Bench, run_id: str) -> int:
    """What the run's printed output takes on the disk."""
    folder = Path(bench.stack.environment()["DAGSTER_FILES"]) / run_id
    return sum(path.stat().st_blocks * 512 for path in [folder, *folder.rglob("*")])


def _own_database(bench: Bench) -> str:
    """The address of a database with Dagster's tables, empty."""
    url = bench.database("bench_storage_growth", like="template1")
    with psycopg.connect(url, autocommit=True) as connection:
        # What is measured is rows, not the log that a durable server writes of them.
        connection.execute("SET synchronous_commit = off")
    DagsterPostgresStorage(url.replace("postgresql://", "postgresql+psycopg2://"))
    return url


def _copy_sample(source: psycopg.Connection, own: psycopg.Connection, ids: list[str]) -> None:
    """Tables `sample_…` with the rows of the real runs; the snapshots where they belong."""
    own.execute("SET synchronous_commit = off")
    for table, condition in _OF_RUNS.items():
        into = table if table == "snapshots" else f"sample_{table}"
        if into != table:
            own.execute(f"CREATE TABLE {into} (LIKE {table})".encode())
        rows = source.execute(f"SELECT * FROM {table} WHERE {condition}".encode(), {"ids": ids})  # noqa: S608
        columns = ", ".join(column.name for column in rows.description or [])
        with own.cursor().copy(f"COPY {into} ({columns}) FROM STDIN".encode()) as copy:
            for found in rows:
                copy.write_row(found)


def _add_day(own: psycopg.Connection, today: date, day: int) -> None:
    """The day's runs with all that belongs to them, in the order of their ends."""
    moved = {"first": today.isoformat(), "day": (today + timedelta(days=day)).isoformat()}
    parameters: Mapping[str, object] = {**moved, "days": day, "runs": RUNS_A_DAY // SHARE}
    with own.transaction():
        for statement in _ADD_DAY:
            own.execute(statement.encode(), parameters)


def _size(own: psycopg.Connection) -> int:
    query = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name"
    found = own.execute(query, (list(TABLES),)).fetchone() or (0,)
    return int(found[0])


def _expect_every_partition(own: psycopg.Connection, today: date) -> None:
    """Raises where a partition of any day has lost its materialisation."""
    found = own.execute(
        "SELECT count(DISTINCT (asset_key, partition)) FROM event_logs"
        " WHERE dagster_event_type = 'ASSET_MATERIALIZATION'"
    ).fetchone()
    made = own.execute(
        "SELECT count(DISTINCT (asset_key, partition)) * %s FROM sample_event_logs"
        " WHERE dagster_event_type = 'ASSET_MATERIALIZATION'",
        (DAYS,),
    ).fetchone()
    if found != made or found == (0,):
        raise RuntimeError(f"of {made} partitions {found} are left")


_ADD_DAY = (
    """
    CREATE TEMP TABLE copied ON COMMIT DROP AS
    SELECT run_id AS old_id, gen_random_uuid()::text AS new_id, number,
           make_interval(days => %(days)s, mins => number * 1440 / %(runs)s) AS later
    FROM sample_runs CROSS JOIN generate_series(0, %(runs)s - 1) AS number
    """,
    """
    INSERT INTO runs (run_id, snapshot_id, pipeline_name, status, run_body, partition, partition_set,
                      create_timestamp, update_timestamp, start_time, end_time, backfill_id)
    SELECT new_id, snapshot_id, pipeline_name, status,
           replace(replace(run_body, old_id, new_id), %(first)s, %(day)s), partition, partition_set,
           create_timestamp + later, update_timestamp + later, start_time + extract(epoch FROM later),
           end_time + extract(epoch FROM later), backfill_id
    FROM copied JOIN sample_runs ON run_id = old_id ORDER BY number, id
    """,
    """
    INSERT INTO run_tags (run_id, key, value)
    SELECT new_id, key, replace(value, %(first)s, %(day)s)
    FROM copied JOIN sample_run_tags ON run_id = old_id ORDER BY number, id
    """,
    """
    INSERT INTO event_logs (run_id, event, dagster_event_type, timestamp, step_key, asset_key, partition)
    SELECT new_id, replace(replace(event, old_id, new_id), %(first)s, %(day)s), dagster_event_type,
           timestamp + later, step_key, asset_key, replace(partition, %(first)s, %(day)s)
    FROM copied JOIN sample_event_logs ON run_id = old_id ORDER BY number, id
    """,
    """
    INSERT INTO asset_event_tags (event_id, asset_key, key, value, event_timestamp)
    SELECT made.id, tag.asset_key, tag.key, replace(tag.value, %(first)s, %(day)s), made.timestamp
    FROM copied JOIN sample_event_logs AS event ON event.run_id = old_id
    JOIN sample_asset_event_tags AS tag ON tag.event_id = event.id
    JOIN event_logs AS made ON made.run_id = new_id AND made.asset_key = event.asset_key
     AND made.dagster_event_type = event.dagster_event_type
     AND made.partition = replace(event.partition, %(first)s, %(day)s)
    """,
    """
    INSERT INTO asset_check_executions (asset_key, check_name, partition, run_id, execution_status,
        evaluation_event, evaluation_event_timestamp, evaluation_event_storage_id)
    SELECT asset_key, check_name, partition, new_id, execution_status,
           replace(evaluation_event, old_id, new_id), evaluation_event_timestamp + later,
           evaluation_event_storage_id
    FROM copied JOIN sample_asset_check_executions ON run_id = old_id ORDER BY number, id
    """,
)
