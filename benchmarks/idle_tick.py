"""A tick of a sensor that finds nothing, in a database with 100,000 settled jobs."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import dagster as dg
import psycopg

from assets.economy_news.rules import CrawlRules, EnrichmentRules
from benchmarks.bench import Bench
from benchmarks.economy_news_rows import MODEL
from benchmarks.history import database_with_history, settled_jobs
from benchmarks.rounds import interleaved, medians
from benchmarks.row import Peer, Row, row
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource
from sensors.economy_news import economy_news_sensors


def measure(bench: Bench) -> list[Row]:
    """The sensors' own functions, each tick with a connection of its own. Raises where one asks for a run."""
    address = database_with_history(bench, "bench_idle_tick")
    with psycopg.connect(address) as connection:
        bench.say(f"ticking over {settled_jobs(connection):,} settled jobs")
    sensors = {sensor.name: sensor for sensor in economy_news_sensors(is_on=False)}
    # A code server has its instance; one made for each tick would be most of what is measured.
    with dg.DagsterInstance.ephemeral() as instance:
        ticks: dict[str, Callable[[], float]] = {
            name: partial(_tick_milliseconds, sensor, address, instance) for name, sensor in sensors.items()
        }
        connect = partial(_connect_milliseconds, address)
        found = medians(interleaved(bench.size(60, 10), {**ticks, "connect": connect}))
    peer = Peer("connect and SELECT 1", found["connect"])
    rows = [row(f"idle_tick: {name}", found[name], "ms", peer, at_most=20) for name in sensors]
    return [*rows, _as_dagster_asks(bench)]


def _as_dagster_asks(bench: Bench) -> Row:
    """The same function behind Dagster's web server, gRPC and the opening of its storage."""
    milliseconds = []
    for _ in range(bench.size(15, 3)):
        started = time.perf_counter()
        if bench.dagster.tick("article_jobs_due") is None:
            raise RuntimeError("a tick asked for a run")
        milliseconds.append((time.perf_counter() - started) * 1_000)
    return row("idle_tick: article_jobs_due, all of Dagster's with it", median(milliseconds), "ms")


def _tick_milliseconds(sensor: dg.SensorDefinition, address: str, instance: dg.DagsterInstance) -> float:
    known: dict[str, object] = {
        "postgres": PostgresResource(database_url=address),
        "chat": ChatResource(model=MODEL, api_key="sk-bench"),
        "news_batches": BatchResource(model=MODEL, api_key="sk-bench"),
        "alerts": AlertResource(),
        "news_site": SiteResource(base_url="http://127.0.0.1:1", contact="bench"),
        "crawl_rules": CrawlRules(),
        "enrichment_rules": EnrichmentRules(),
    }
    resources = {key: known[key] for key in sensor.required_resource_keys}
    with dg.build_sensor_context(instance, resources=resources) as context:
        started = time.perf_counter()
        tick = sensor.evaluate_tick(context)
        milliseconds = (time.perf_counter() - started) * 1_000
    if tick.run_requests or not tick.skip_message:
        raise RuntimeError(f"{sensor.name} found something to do")
    return milliseconds


def _connect_milliseconds(address: str) -> float:
    started = time.perf_counter()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT 1")
    return (time.perf_counter() - started) * 1_000
