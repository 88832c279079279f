"""Runs killed at every step, and at random ones: nothing is lost, queued twice or stored twice."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta

import psycopg
import pytest

from assets.recommendations import queue_store, trigger_store, visit_store
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    Connect,
    a_product,
    a_trigger,
    an_event,
    an_item,
    at,
    rows,
)
from tests.integration.recommendations.killed_run import Order, until_dead_runs_are_gone, whole_run

KILLS = int(os.environ.get("GRANARY_KILLS", "20"))
KILLED = -signal.SIGKILL
PRODUCTS = 9
SIZE = 5
MOST_RANDOM_STEPS = 150
"""Before and after each step that an undisturbed run makes of ten new visits."""

# Each set that was stored leaves a row, in the transaction that stores it.
AUDIT = """
CREATE TABLE stored (item bigint);
CREATE FUNCTION note_stored() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO stored VALUES (new.id); RETURN new; END $$;
CREATE TRIGGER note_stored AFTER UPDATE OF status ON rec.queue_item FOR EACH ROW
    WHEN (new.status = 'SUCCEEDED') EXECUTE FUNCTION note_stored();
"""
EMPTY = "TRUNCATE stored, rec.member_visit, rec.visit_trigger, rec.queue_item, rec.recommended_product"


class Killer:
    """Runs killed one after the other, each a fork of one process."""

    def __init__(self, process: "subprocess.Popen[str]", database_url: str) -> None:
        self._process = process
        self._database_url = database_url

    def run(self, moment: datetime, run_id: str, fatal_step: int, at_once: int = 1) -> int:
        """The exit code."""
        order = Order(self._database_url, moment.isoformat(), run_id, fatal_step, at_once)
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(asdict(order)), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@contextmanager
def killing(database_url: str) -> Iterator[Killer]:
    command = [sys.executable, "-m", "tests.integration.recommendations.killed_run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Killer(process, database_url)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def a_catalogue(connection: psycopg.Connection) -> None:
    connection.execute(AUDIT)
    for id_ in range(1, PRODUCTS + 1):
        a_product(connection, id_, category=f"분류 {id_ % 3}")
        an_event(connection, id_, id_, occurred_at=NOON - HOUR)


def nothing_waits(connection: psycopg.Connection) -> bool:
    return (
        visit_store.waiting(connection) == 0
        and trigger_store.due(connection) == 0
        and queue_store.days_waiting(connection) == []
        and rows(connection, "SELECT id FROM rec.queue_item WHERE status = 'RUNNING'") == []
        and rows(connection, "SELECT member_id FROM rec.visit_trigger WHERE lease_token IS NOT NULL") == []
    )


def assert_all_is_right(connection: psycopg.Connection, visits: set[tuple[int, datetime]]) -> None:
    """Each visit has led to one item and one stored set, whole and of that item."""
    found = rows(connection, "SELECT member_id, last_visited_at, due_offset, status FROM rec.queue_item")
    assert sorted((row["member_id"], row["last_visited_at"]) for row in found) == sorted(visits)
    assert {(row["due_offset"], row["status"]) for row in found} == {(HOUR, "SUCCEEDED")}
    stored = [row["item"] for row in rows(connection, "SELECT item FROM stored")]
    assert len(stored) == len(set(stored)) == len(visits)
    sets = rows(
        connection,
        "SELECT item.id, array_agg(rank ORDER BY rank) AS ranks FROM rec.queue_item AS item"
        " JOIN rec.recommended_product AS one ON one.queue_item_id = item.id"
        " AND one.member_id = item.member_id GROUP BY item.id",
    )
    assert len(sets) == len(visits)
    assert all(row["ranks"] == list(range(1, SIZE + 1)) for row in sets)
    assert nothing_waits(connection)


def test_a_run_killed_at_any_step_loses_nothing_and_does_nothing_twice(
    database_url: str, connect: Connect
) -> None:
    noon, later = connect(at=at(NOON)), connect(at=at(NOON + 6 * MINUTE))
    a_catalogue(noon)
    visited = NOON - 2 * HOUR
    with killing(database_url) as killer:
        for step in range(1, 1_000):
            noon.execute(EMPTY)
            for member_id in (1, 2):
                noon.execute(
                    "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)",
                    (member_id, visited),
                )
            a_trigger(noon, 3, visited)
            an_item(noon, 4, visited_at=visited)
            code = killer.run(NOON, "killed", step)
            if code == KILLED:
                until_dead_runs_are_gone(noon)
                assert queue_store.free_of_run(later, "killed").failed == 0
                whole_run(database_url, NOON + 6 * MINUTE, "next")
            assert_all_is_right(later, {(member_id, visited) for member_id in (1, 2, 3, 4)})
            if code == 0:
                break
        else:
            pytest.fail("the run does not end")
    assert step > 60  # a run that makes fewer would not have met all that it is to do


def test_what_a_dead_run_held_comes_back_with_its_leases_and_not_sooner(
    database_url: str, connect: Connect
) -> None:
    noon = connect(at=at(NOON))
    a_catalogue(noon)
    for member_id in range(1, 5):
        a_trigger(noon, member_id, NOON - 2 * HOUR)
        an_item(noon, 10 + member_id, visited_at=NOON - 2 * HOUR)
    after_the_lease = 5  # instead of the third statement: the first takes visits, the second has leased
    with killing(database_url) as killer:
        assert killer.run(NOON, "killed", after_the_lease) == KILLED
    until_dead_runs_are_gone(noon)
    assert len(queue_store.pick(noon, "killed", 2, 300)) == 2

    whole_run(database_url, NOON + 4 * MINUTE, "too early")
    done = "SELECT count(*) AS n FROM rec.queue_item WHERE status = 'SUCCEEDED'"
    assert rows(noon, done) == [{"n": 2}]
    whole_run(database_url, NOON + 6 * MINUTE, "in time")
    visited = NOON - 2 * HOUR
    members = (*range(1, 5), *range(11, 15))
    assert_all_is_right(connect(at=at(NOON + 6 * MINUTE)), {(one, visited) for one in members})


def test_after_random_kills_nothing_is_lost_or_done_twice(database_url: str, connect: Connect) -> None:
    noon = connect(at=at(NOON))
    a_catalogue(noon)
    visits: set[tuple[int, datetime]] = set()
    killed = 0
    with killing(database_url) as killer:
        for seed in range(KILLS):
            chance = random.Random(seed)
            # Leases have run out by the next run; no second due time comes within the two hours.
            moment = NOON + (seed % 20) * 6 * MINUTE
            for _ in range(10):
                member_id = len(visits) + 1
                visit = (member_id, NOON - 90 * MINUTE + timedelta(microseconds=chance.randrange(10**9)))
                visits.add(visit)
                noon.execute("INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)", visit)
            fatal_step = chance.randint(1, MOST_RANDOM_STEPS)
            killed += killer.run(moment, f"killed {seed}", fatal_step, at_once=5) == KILLED
            until_dead_runs_are_gone(noon)
            queue_store.free_of_run(noon, f"killed {seed}")
    assert killed >= min(KILLS, 20) // 2  # a run with little left to do may end before its step comes

    end = NOON + 126 * MINUTE
    after = connect(at=at(end))
    whole_run(database_url, end, "last", at_once=5)
    # What two runs died at has failed; nothing was wrong with it.
    spent = rows(noon, "SELECT id, error FROM rec.queue_item WHERE status = 'FAILED'")
    assert {row["error"] for row in spent} <= {"run_ended"}
    assert queue_store.requeue_failed(after) == len(spent)
    whole_run(database_url, end, "after it", at_once=5)
    assert_all_is_right(after, visits)
