"""Runs over the inbox killed at random steps: `python -m ….random_kills SERVICES SEED…`.

One process imports everything and forks a run per seed. Before each the application posts two new contexts,
cancels one now and then, and posts again what is not final; by then the dead run's claims have expired.
"""

import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from tests.integration.context_tags.killed_run import run_at
from tests.integration.context_tags.paid_runs import post, whole_run
from tests.integration.fatal_calls import at_step
from tests.integration.late_imports import import_all

NEW_A_RUN = 2
STEPS: tuple[tuple[Any, str], ...] = (
    (psycopg.Connection, "execute"),
    (psycopg.Cursor, "execute"),
    (psycopg.Transaction, "__enter__"),
    (psycopg.Transaction, "__exit__"),
    (ChatResource, "ask"),
    (EmbeddingResource, "embed_unchecked"),
)
MOST_STEPS = 100
"""About as an undisturbed run makes."""

FINAL = ("COMPLETED", "FAILED", "CANCELLED")


def play_core(connection: psycopg.Connection, new: tuple[int, ...]) -> None:
    """What the application does before a run."""
    connection.execute("SELECT set_config('test.core', 'yes', false)")
    cancelled = [id_ - NEW_A_RUN for id_ in new if id_ % 3 == 0]
    for column in ("embedding_status", "keyword_status"):
        statement = sql.SQL(
            "UPDATE ai.context_ai_state SET {column} = 'CANCELLED', updated_at = granary.now()"
            " WHERE context_id = ANY(%s) AND {column} IN ('PENDING', 'PROCESSING')"
        )
        connection.execute(statement.format(column=sql.Identifier(column)), (cancelled,))
    for id_ in new:
        connection.execute(
            "INSERT INTO ai.context_ai_state (context_id, updated_at) VALUES (%s, granary.now())", (id_,)
        )
    waiting = connection.execute(
        "SELECT context_id FROM ai.context_ai_state"
        " WHERE embedding_status <> ALL(%(final)s) OR (keyword_status <> ALL(%(final)s)"
        " AND embedding_status = 'COMPLETED')",
        {"final": list(FINAL)},
    ).fetchall()
    post(connection, *(id_ for (id_,) in waiting))


def run(seed: int, services: dict[str, str]) -> None:
    at = datetime.now(UTC) + timedelta(minutes=11) * (seed + 1)
    with run_at(services["database_url"], at.isoformat()) as (connection, pool):
        with psycopg.connect(
            services["database_url"], autocommit=True, options=f"-c granary.now={at.isoformat()}"
        ) as core:
            play_core(core, tuple(range(NEW_A_RUN * seed + 1, NEW_A_RUN * (seed + 1) + 1)))
        at_step(STEPS, random.Random(seed).randint(1, MOST_STEPS))
        whole_run(connection, pool, services["api"], concurrency=2)


def main(services: dict[str, str], seeds: list[int]) -> None:
    import_all()
    for seed in seeds:
        child = os.fork()
        if child == 0:
            run(seed, services)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(seed, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
