"""What every stage tells of itself: outcomes and latency as counters, pushed at its end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from resources.counters import Counts
from resources.pushgateway import PushgatewayResource

JOB = "recipe_ingestion"
COUNTED_BY = {
    "persist": ("recipe_ingestion_parse_confidence_total", "recipe_ingestion_ingredient_match_total"),
    "parse-retrieve": ("recipe_ingestion_llm_tokens_total",),
}
"""Counters without a stage of their own, by the one stage that adds to them."""


@contextmanager
def stage(connection: psycopg.Connection, gateway: PushgatewayResource, name: str) -> Iterator[None]:
    """Counts how long the stage took, also where it fails, and pushes its counters."""
    started = time.monotonic()
    try:
        yield
    finally:
        if not connection.closed and not connection.broken:
            counts = Counts()
            counts.observe(f"{JOB}_stage_latency_ms", (time.monotonic() - started) * 1_000, stage=name)
            counts.write(connection)
            gateway.push(connection, JOB, name, COUNTED_BY.get(name, ()))


def outcomes(connection: psycopg.Connection, name: str, **amounts: int) -> None:
    """Adds to the stage's outcomes: success, failed, skipped."""
    counts = Counts()
    for outcome, amount in amounts.items():
        counts.add(f"{JOB}_stage_total", amount, stage=name, outcome=outcome)
    counts.write(connection)
