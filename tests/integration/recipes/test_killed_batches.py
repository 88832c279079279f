"""A run killed at any point of a batch stage: every line is sent once, and jobs and money end right."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from assets.recipes import batch_store, recipe_store, repair_store
from local_stack.mongo_server import MongoServer
from tests.integration.recipes import batch_runs
from tests.integration.recipes.batch_runs import (
    Runs,
    assert_settled,
    fetched,
    files,
    intents,
    jobs_of,
    persisted,
    states,
)
from tests.integration.recipes.job_records import Mongo
from tests.integration.recipes.killed_run import LIMITS, POINTS, RUN
from tests.integration.stand_ins import StandIn

Kill = Callable[[str, str, str], int]

HOW_LONG = "70 minutes"
"""After this long whatever a dead run held is free."""
TITLES = ("두부찜", "무조림", "콩나물국")


@pytest.fixture
def api(openai_api: StandIn) -> Iterator[StandIn]:
    with batch_runs.no_batches(openai_api) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[str]"]:
    """The process whose forks are killed. None of them leaves a file behind."""
    command = [sys.executable, "-m", "tests.integration.recipes.killed_run"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    temporary = tmp_path_factory.mktemp("temporary")
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, **pipes) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(timeout=30)
    assert list(temporary.iterdir()) == []


@pytest.fixture
def kill(
    killer: subprocess.Popen[str], database_url: str, mongo_server: MongoServer, db: Mongo, api: StandIn
) -> Kill:
    """Has a run killed at a point of a stage; its exit code."""

    def killed(kind: str, stage: str, point: str) -> int:
        asked = {
            "kind": kind,
            "stage": stage,
            "point": point,
            "database_url": database_url,
            "mongo": mongo_server.address,
            "database": db.name,
            "api": api.url,
        }
        assert killer.stdin and killer.stdout
        killer.stdin.write(json.dumps(asked) + "\n")
        killer.stdin.flush()
        return int(killer.stdout.readline())

    return killed


@pytest.mark.parametrize(
    ("kind", "stage", "point"),
    [(kind, stage, point) for (kind, stage), points in POINTS.items() for point in points],
)
def test_after_a_kill_every_line_is_sent_once_and_all_ends_right(
    kind: str,
    stage: str,
    point: str,
    kill: Kill,
    db: Mongo,
    connect: Callable[..., psycopg.Connection],
    api: StandIn,
) -> None:
    now = connect()
    count = len(fetched(db, 4) if kind == "parse" else persisted(db, now, *TITLES))
    if stage == "retrieve":
        Runs(db, now, api.url).submit(kind, "before:0", LIMITS)
        api.post("batches/advance")
    assert kill(kind, stage, point) == -signal.SIGKILL

    (at,) = now.execute("SELECT (now() + %s::interval)::text", (HOW_LONG,)).fetchone() or ("",)
    then = Runs(db, connect(at=at), api.url)
    then.submit(kind, "next:0", LIMITS)
    api.post("batches/advance")
    then.retrieve(kind, "next:0")

    assert states(db) == {"parse_retrieved" if kind == "parse" else "embed_retrieved": count}
    lines = Counter(one["custom_id"] for one in api.get("ledger")["entries"] if one["custom_id"])
    assert len(lines) == (count if kind == "parse" else 2 * count) and set(lines.values()) == {1}
    assert all(job["retry_count"] == 0 and "claimed_by" not in job for job in jobs_of(db))
    assert {one["state"] for one in intents(db)} <= {"retrieved", "abandoned"}
    assert files(api.url) == []
    assert_settled(now, api)
    if kind == "embed":
        stored = "SELECT (SELECT count(*) FROM recipe.recipe_embedding), count(*), count(embedding_intent) "
        both = "FROM recipe.ingredient JOIN recipe.ingredient_embedding ON ingredient_id = id"
        assert now.execute((stored + both).encode()).fetchone() == (count, count, 0)


def test_what_a_killed_run_has_begun_is_left_alone_until_its_lease_runs_out(
    kill: Kill, db: Mongo, connection: psycopg.Connection, api: StandIn
) -> None:
    fetched(db, 4)
    assert kill("parse", "submit", "before the creation") == -signal.SIGKILL
    sent = Runs(db, connection, api.url).submit("parse", "too early:0")
    assert (sent.lines, sent.settled, states(db)) == (0, 0, {"parse_submitting": 4})
    assert {job["claimed_by"] for job in jobs_of(db)} == {RUN}


def test_what_the_provider_may_still_be_making_is_not_sent_again_though_its_run_is_known_to_be_dead(
    kill: Kill,
    db: Mongo,
    connection: psycopg.Connection,
    connect: Callable[..., psycopg.Connection],
    api: StandIn,
) -> None:
    fetched(db, 4)
    assert kill("parse", "submit", "before the creation") == -signal.SIGKILL
    claims = f"{RUN.partition(':')[0]}:"
    repair_store.release_dead(db, recipe_store.now(connection), claimed_by_prefix=claims)
    batch_store.release_claims(db, claims)

    runs = Runs(db, connection, api.url)
    assert [runs.submit("parse", f"too early {n}:0", LIMITS).settled for n in range(2)] == [0, 0]
    assert Counter(job["status"] for job in jobs_of(db)) == {"parse_submitting": 2, "parse_submitted": 2}
    assert [one["claimed_by"] for one in intents(db) if one["state"] == "uploaded"] == ["too early 0:0"]

    (at,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    assert Runs(db, connect(at=at), api.url).submit("parse", "next:0", LIMITS).settled == 1
    assert states(db) == {"parse_submitted": 4}
