"""Persist, killed or run twice at once: nothing half, nothing double, nobody waits for good."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assets.recipes import recipe_store, repair_store
from assets.recipes.persist import Persisted
from assets.recipes.statuses import Status
from local_stack.mongo_server import MongoServer
from tests.integration.recipes.job_records import Mongo, record, statuses
from tests.integration.recipes.killed_persist import POINTS
from tests.integration.recipes.parsed_jobs import (
    Embedding,
    ingredient_names,
    ingredients_of,
    persist_all,
    put_parsed,
    row_counts,
)

Connect = Callable[..., psycopg.Connection]
ROOT = Path(__file__).resolve().parents[3]
STORED = {"after the claim": 0, "before the commit": 1, "between the stores": 2, "after the finish": 2}


def release(db: Mongo, connection: psycopg.Connection) -> None:
    """As after ten minutes."""
    repair_store.release_dead(db, recipe_store.now(connection) + timedelta(minutes=11))


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_leaves_whole_recipes_and_the_next_stores_the_rest_once(
    db: Mongo, mongo_server: MongoServer, connection: psycopg.Connection, database_url: str, point: str
) -> None:
    for job_id in ("a", "b", "c"):
        put_parsed(db, job_id, "두부", f"재료{job_id}")
    command = [sys.executable, "-m", "tests.integration.recipes.killed_persist", point]
    killed = subprocess.run(
        [*command, mongo_server.address, db.name],
        env={**os.environ, "DATABASE_URL": database_url},
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr.decode()
    stored = STORED[point]
    counts = row_counts(connection)
    assert (counts["recipe"], counts["step"], counts["recipe_ingredient"]) == (stored, 2 * stored, 2 * stored)

    release(db, connection)
    persist_all(db, connection, claimed_by="next:0")
    assert statuses(db) == dict.fromkeys("abc", Status.PERSISTED)
    assert all(record(db, job_id)["retry_count"] == 0 for job_id in "abc")
    counts = row_counts(connection)
    assert (counts["recipe"], counts["step"], counts["recipe_ingredient"]) == (3, 6, 6)
    assert sorted(ingredient_names(connection)) == ["두부", "재료a", "재료b", "재료c"]


def until_waiting(connection: psycopg.Connection, count: int) -> None:
    """Returns once so many connections of this database wait for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 30
    while connection.execute(waiting).fetchone() != (count,):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def at_once(
    db: Mongo, connect: Connect, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> tuple[Persisted, Persisted]:
    """Persists both jobs in two runs; the first has added an ingredient when the second comes to add one."""
    watcher, added = connect(), threading.Event()
    one, other = connect(), connect()
    real = recipe_store.add_ingredient

    def add_and_let_the_other_come(connection: psycopg.Connection, *arguments: Any) -> Any:
        found = real(connection, *arguments)
        if connection is one and not added.is_set():
            added.set()
            until_waiting(watcher, 1)
        return found

    monkeypatch.setattr(recipe_store, "add_ingredient", add_and_let_the_other_come)
    with ThreadPoolExecutor(2) as threads:
        earlier = threads.submit(persist_all, db, one, None, "one:0", [first])
        assert added.wait(30)
        later = threads.submit(persist_all, db, other, None, "other:0", [second])
        return earlier.result(60), later.result(60)


def test_the_same_new_ingredients_in_opposite_order_are_added_once_and_nobody_dies(
    db: Mongo, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_parsed(db, "a", "두부", "소금", "간장")
    put_parsed(db, "b", "간장", "소금", "두부")
    both = at_once(db, connect, monkeypatch, "a", "b")
    assert both == (Persisted(stored=1, published=1), Persisted(stored=1, published=1))
    connection = connect()
    assert ingredient_names(connection) == ["두부", "소금", "간장"]
    assert [method for _, _, method in ingredients_of(connection, "a")] == ["new"] * 3
    assert [method for _, _, method in ingredients_of(connection, "b")] == ["exact"] * 3
    assert row_counts(connection)["ingredient_embedding"] == 3


def test_two_words_for_a_food_that_come_at_once_are_one_ingredient(
    db: Mongo, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_parsed(db, "a", "달걀")
    put_parsed(db, "b", "계란")
    at_once(db, connect, monkeypatch, "a", "b")
    connection = connect()
    assert ingredient_names(connection) == ["달걀"]
    assert ingredients_of(connection, "b") == [("계란", "달걀", "alias")]


def test_two_runs_share_the_jobs_of_a_day(db: Mongo, connect: Connect) -> None:
    names = ["두부", "소금", "간장", "설탕", "파", "마늘", "참기름"]
    for number in range(60):
        put_parsed(db, f"job-{number:02}", *(names[(number + step) % 7] for step in range(3)))
    runs = [(connect(), f"run-{number}:0") for number in range(2)]
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(lambda run: persist_all(db, run[0], Embedding(), run[1]), runs))
    assert sum(one.stored for one in outcomes) == 60
    counts = row_counts(connect())
    assert (counts["recipe"], counts["ingredient"], counts["recipe_ingredient"]) == (60, 7, 180)


def test_a_review_that_is_decided_while_its_recipe_is_stored_settles_it(
    db: Mongo, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher, writer, decider = connect(), connect(), connect()
    put_parsed(db, "known", "콩나물")
    persist_all(db, writer)
    embed = Embedding({"숙주": ("콩나물", 0.87)})
    put_parsed(db, "a", "숙주")
    persist_all(db, writer, embed)
    (review_id,) = watcher.execute("SELECT id FROM recipe.ingredient_review").fetchone() or (0,)
    real = recipe_store.replace_ingredients
    decided: list[Any] = []

    def decide() -> bool:
        with decider.transaction():
            return recipe_store.decide_review(decider, review_id, True)

    with ThreadPoolExecutor(1) as threads:

        def the_decision_comes(*arguments: Any) -> None:
            real(*arguments)
            decided.append(threads.submit(decide))
            until_waiting(watcher, 1)

        monkeypatch.setattr(recipe_store, "replace_ingredients", the_decision_comes)
        put_parsed(db, "b", "숙주")
        assert persist_all(db, writer, embed).stored == 1
        assert decided[0].result(30) is True
    for job_id in ("a", "b"):
        assert ingredients_of(watcher, job_id) == [("숙주", "콩나물", "alias")]


def test_a_decision_that_adds_an_ingredient_waits_for_its_turn(db: Mongo, connect: Connect) -> None:
    watcher, writer, decider = connect(), connect(), connect()
    put_parsed(db, "known", "콩나물")
    persist_all(db, writer)
    put_parsed(db, "a", "숙주")
    persist_all(db, writer, Embedding({"숙주": ("콩나물", 0.87)}))
    (review_id,) = watcher.execute("SELECT id FROM recipe.ingredient_review").fetchone() or (0,)

    def reject() -> bool:
        with decider.transaction():
            return recipe_store.decide_review(decider, review_id, False)

    with ThreadPoolExecutor(1) as threads:
        with writer.transaction():
            recipe_store.one_at_a_time(writer)
            decided = threads.submit(reject)
            until_waiting(watcher, 1)
        assert decided.result(30) is True
    assert ingredients_of(watcher, "a") == [("숙주", "숙주", "new")]
