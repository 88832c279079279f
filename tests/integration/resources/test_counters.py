"""Cumulative counters, on the real database."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from resources.counters import Counts, value

Connect = Callable[..., psycopg.Connection]


def all_counters(connection: psycopg.Connection) -> list[tuple[str, dict[str, str], float]]:
    return connection.execute("SELECT name, labels, value FROM granary.counter ORDER BY name").fetchall()


def test_what_was_never_counted_is_nothing(connection: psycopg.Connection) -> None:
    assert value(connection, "crawler_articles_total", {"section": "STOCK"}) == 0


def test_counts_add_up_over_statements_and_connections(connect: Connect) -> None:
    for connection, amount in ((connect(), 2.0), (connect(), 0.5)):
        counts = Counts()
        counts.add("ai_cost_usd_total", amount, pipeline="economy_news", model="gpt-4o-mini")
        counts.add("ai_cost_usd_total", amount, model="gpt-4o-mini", pipeline="economy_news")
        counts.write(connection)
    labels = {"pipeline": "economy_news", "model": "gpt-4o-mini"}
    assert all_counters(connect()) == [("ai_cost_usd_total", labels, 5.0)]
    assert value(connect(), "ai_cost_usd_total", labels) == 5


def test_other_labels_are_another_counter(connection: psycopg.Connection) -> None:
    counts = Counts()
    counts.add("jobs_total", type="SUMMARY", result="success")
    counts.add("jobs_total", type="SUMMARY", result="failed")
    counts.add("jobs_total")
    counts.write(connection)
    assert value(connection, "jobs_total", {"result": "success", "type": "SUMMARY"}) == 1
    assert value(connection, "jobs_total", {}) == 1
    assert value(connection, "jobs_total", {"type": "SUMMARY"}) == 0


def test_labels_may_be_called_name_and_amount(connection: psycopg.Connection) -> None:
    counts = Counts()
    counts.add("jobs_total", 2, name="a", amount="b")
    counts.write(connection)
    assert value(connection, "jobs_total", {"name": "a", "amount": "b"}) == 2


def test_an_observation_adds_to_a_sum_and_a_count(connection: psycopg.Connection) -> None:
    counts = Counts()
    for seconds in (0.25, 1.5, 0.0):
        counts.observe("ai_job_duration_seconds", seconds, type="SUMMARY")
    counts.write(connection)
    assert value(connection, "ai_job_duration_seconds_sum", {"type": "SUMMARY"}) == 1.75
    assert value(connection, "ai_job_duration_seconds_count", {"type": "SUMMARY"}) == 3


def test_what_was_written_is_not_written_again(connection: psycopg.Connection) -> None:
    counts = Counts()
    counts.add("jobs_total")
    counts.write(connection)
    counts.write(connection)
    assert value(connection, "jobs_total", {}) == 1


def test_counts_of_nothing_make_no_row(connection: psycopg.Connection) -> None:
    counts = Counts()
    counts.add("jobs_total", 0)
    counts.write(connection)
    assert all_counters(connection) == []


def test_counts_are_committed_with_their_transaction_or_not_at_all(connect: Connect) -> None:
    writer, reader = connect(), connect()
    counts = Counts()
    counts.add("jobs_total")
    with writer.transaction(force_rollback=True):
        counts.write(writer)
        assert value(writer, "jobs_total", {}) == 1
    assert value(reader, "jobs_total", {}) == 0

    counts.add("jobs_total")
    with writer.transaction():
        counts.write(writer)
        assert value(reader, "jobs_total", {}) == 0
    assert value(reader, "jobs_total", {}) == 1


def test_two_that_count_the_same_names_in_different_orders_do_not_block_each_other_for_ever(
    connect: Connect,
) -> None:
    first, second, holder, watcher = (connect() for _ in range(4))
    count(holder, "a", "m", "n", "z")
    with ThreadPoolExecutor(2) as threads:
        with holder.transaction():
            # In the orders that they were counted in, the first would now hold z and wait for m, the second
            # hold a and wait for n: neither could end, whoever is let go first.
            holder.execute("SELECT FROM granary.counter WHERE name IN ('m', 'n') FOR UPDATE")
            both = [
                threads.submit(count, first, "z", "m", "a"),
                threads.submit(count, second, "a", "n", "z"),
            ]
            for connection in (first, second):
                wait_until_blocked(watcher, connection.info.backend_pid)
        for one in both:
            one.result(timeout=30)
    amounts = {name: amount for name, _, amount in all_counters(watcher)}
    assert amounts == {"a": 3, "m": 2, "n": 2, "z": 3}


def count(connection: psycopg.Connection, *names: str) -> None:
    counts = Counts()
    for name in names:
        counts.add(name)
    counts.write(connection)


def wait_until_blocked(watcher: psycopg.Connection, pid: int) -> None:
    deadline = time.monotonic() + 20
    while watcher.execute("SELECT cardinality(pg_blocking_pids(%s))", (pid,)).fetchone() == (0,):
        assert time.monotonic() < deadline, "it waits for nobody: the test does not test what it should"
