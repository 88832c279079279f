"""Runs killed at random steps of all six stages: afterwards everything is there once, asked and paid once."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from assets.recipes import fetch_store
from assets.recipes.fetch import SOURCE
from local_stack.mongo_server import MongoServer
from local_stack.recipe_api.recipes import recipe_rows
from tests.integration.raw_files.killed_run import until_dead_runs_are_gone
from tests.integration.recipes.batch_runs import CHAT_MODEL, created, files, intents, jobs_of, states
from tests.integration.recipes.job_records import Mongo
from tests.integration.recipes.random_kills import FETCHED_A_RUN, release, whole_run
from tests.integration.recipes.recipe_runs import Services

KILLS = int(os.environ.get("GRANARY_KILLS", "20"))


def test_after_random_kills_every_recipe_is_there_once_and_was_paid_once(
    services: Services,
    mongo_server: MongoServer,
    db: Mongo,
    connection: psycopg.Connection,
    connect: Callable[..., psycopg.Connection],
) -> None:
    addresses = {
        "database_url": services.database_url,
        "mongo": services.mongo_uri,
        "database": services.mongo_database,
        "source": services.source.url,
        "openai": services.openai.url,
    }
    command = [sys.executable, "-m", "tests.integration.recipes.random_kills", json.dumps(addresses)]
    seeds = [str(seed) for seed in range(KILLS)]
    done = subprocess.run([*command, *seeds], timeout=300, check=True, capture_output=True, text=True)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines()]
    assert codes.count(-signal.SIGKILL) >= KILLS // 2 and set(codes) <= {0, -signal.SIGKILL}
    until_dead_runs_are_gone(connection)

    release(db, connection, f"killed {KILLS - 1}")
    # Eleven minutes later: until then a batch that the last run was sending may still be in the making.
    (at,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    for last in ("last", "very last"):  # what had to be asked again is in another batch
        whole_run(db, connect(at=at), services.source.url, services.openai.url, last, 0)

    assert_everything_is_there_once(db, connection)
    assert_everything_was_asked_and_paid_once(services, db, connection)


def assert_everything_is_there_once(db: Mongo, connection: psycopg.Connection) -> None:
    """Every row that the cursor has passed is one job and one recipe with its vector."""
    fetched = fetch_store.cursor(db, SOURCE)
    ids = sorted(row["RCP_SEQ"] for row in recipe_rows()[:fetched])
    assert fetched >= FETCHED_A_RUN and sorted(job["source_id"] for job in jobs_of(db)) == ids
    assert states(db) == {"embed_retrieved": fetched}
    stored = connection.execute(
        "SELECT source_recipe_id FROM recipe.recipe JOIN recipe.recipe_embedding ON recipe_id = recipe.id"
    )
    assert sorted(id_ for (id_,) in stored) == ids


def assert_everything_was_asked_and_paid_once(
    services: Services, db: Mongo, connection: psycopg.Connection
) -> None:
    """Every line stands once in the provider's account, every batch once in ours; nothing is left there."""
    asked = [one for one in services.openai.get("ledger")["entries"] if one["custom_id"]]
    assert set(Counter((one["endpoint"], one["custom_id"]) for one in asked).values()) == {1}
    kept = [one for one in intents(db) if one["state"] != "abandoned"]
    assert sorted(one["batch_id"] for one in kept) == sorted(created(services.openai))
    assert {one["state"] for one in kept} == {"retrieved"} and files(services.openai.url) == []

    unsettled = "SELECT count(*) FROM granary.batch_reservation WHERE settled_at IS NULL"
    assert connection.execute(unsettled).fetchone() == (0,)
    paid = "SELECT sum(calls), sum(cost_usd) FROM granary.spending WHERE pipeline = 'recipes' AND model = %s"
    calls, usd = connection.execute(paid, (CHAT_MODEL,)).fetchone() or (0, 0)
    parsed = [one for one in asked if one["model"] == CHAT_MODEL]
    assert calls == len(parsed) == len(jobs_of(db))
    assert float(usd) == pytest.approx(sum(one["cost_usd"] for one in parsed), abs=1e-6)
