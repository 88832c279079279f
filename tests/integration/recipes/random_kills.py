"""Runs of all six stages killed at random steps: `python -m ….random_kills SERVICES SEED…`.

One process imports everything and forks a run per seed. Each run frees what the dead one before it held, as
the run-status sensor does, and fetches some more recipes, so that every stage has work.
"""

import json
import os
import random
import sys
from typing import Any

import httpx
import psycopg
from pymongo import MongoClient
from pymongo.collection import Collection

from assets.recipes import batch_store, fetch, recipe_store, repair_store
from assets.recipes.embedding_calls import PIPELINE
from assets.recipes.persist import persist
from local_stack.recipe_api.state import KEY as SOURCE_KEY
from resources.batches import BatchApi
from resources.embeddings import EmbeddingResource
from resources.paid_embeddings import embed_texts
from resources.recipe_api import RecipeApiResource
from tests.integration.fatal_calls import at_step
from tests.integration.late_imports import import_all
from tests.integration.raw_files.killed_run import ALIVE
from tests.integration.recipes.batch_runs import EMBEDDING_MODEL, Runs
from tests.integration.recipes.job_records import DAY, Mongo
from tests.integration.resources.asking import KEY

FETCHED_A_RUN = 2
STATEMENTS = (
    "insert_one",
    "update_one",
    "update_many",
    "bulk_write",
    "find_one_and_update",
    "find_one",
    "find",
    "aggregate",
    "distinct",
)
REQUESTS: tuple[tuple[Any, str], ...] = (
    *((BatchApi, name) for name in ("upload", "create", "look", "download_to", "files_named", "delete_file")),
    (EmbeddingResource, "embed"),
    (RecipeApiResource, "get"),
)
STEPS: tuple[tuple[Any, str], ...] = (
    *((Collection, name) for name in STATEMENTS),
    (psycopg.Cursor, "execute"),
    (psycopg.Cursor, "executemany"),
    *REQUESTS,
)
MOST_STEPS, MOST_REQUESTS = 320, 14
"""As an undisturbed run makes."""


def die_at_random(seed: int) -> None:
    """Kills this process instead of, or right after, one of its steps.

    Every second time around a request, since so few of the steps are one: there most can go wrong.
    """
    steps, most = (STEPS, MOST_STEPS) if seed % 2 else (REQUESTS, MOST_REQUESTS)
    at_step(steps, random.Random(seed).randint(1, most))


def release(db: Mongo, connection: psycopg.Connection, run_id: str) -> None:
    """What the run held is free, as when its end is told."""
    claims = f"{run_id}:"
    repair_store.release_dead(db, recipe_store.now(connection), claimed_by_prefix=claims)
    batch_store.release_claims(db, claims)


def whole_run(
    db: Mongo, connection: psycopg.Connection, source: str, openai: str, run_id: str, fetched: int
) -> None:
    """All six stages, one after the other; every batch ends in between."""
    claimed_by = f"{run_id}:0"
    api = RecipeApiResource(base_url=source, api_key=SOURCE_KEY)
    embeddings = EmbeddingResource(
        model=EMBEDDING_MODEL, base_url=f"{openai}/v1", timeout_ms=10_000, api_key=KEY
    )

    def embed(names: Any) -> dict[str, Any]:
        return dict(zip(names, embed_texts(connection, embeddings, PIPELINE, names, None), strict=True))

    runs = Runs(db, connection, openai)
    if fetched:
        fetch.fetch(db, api, DAY, fetched, recipe_store.now(connection))
    runs.submit("parse", claimed_by)
    end_batches(openai)
    runs.retrieve("parse", claimed_by)
    persist(db, connection, DAY, claimed_by, api.origin, EMBEDDING_MODEL, embed)
    runs.submit("embed", claimed_by)
    end_batches(openai)
    runs.retrieve("embed", claimed_by)


def end_batches(openai: str) -> None:
    """On command, so that no step waits."""
    httpx.post(f"{openai}/_control/batches/advance", timeout=30).raise_for_status()


def run(seed: int, before: int | None, services: dict[str, str]) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(services["mongo"], tz_aware=True)
    db = client[services["database"]]
    with psycopg.connect(services["database_url"], autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (ALIVE,))
        if before is not None:
            release(db, connection, f"killed {before}")
        die_at_random(seed)
        whole_run(db, connection, services["source"], services["openai"], f"killed {seed}", FETCHED_A_RUN)


def main(services: dict[str, str], seeds: list[int]) -> None:
    import_all()
    before = None
    for seed in seeds:
        child = os.fork()
        if child == 0:
            run(seed, before, services)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(seed, os.waitstatus_to_exitcode(status), flush=True)
        before = seed


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
