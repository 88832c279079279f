"""What all pipelines rely on in Postgres and pgvector, beyond plain SQL."""

import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector
from psycopg import errors

from migrations.upgrade import upgrade

Connect = Callable[[], psycopg.Connection]


def value(connection: psycopg.Connection, statement: str, *parameters: object) -> object:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return row[0]


def test_the_tables_are_made_and_made_again(database_url: str, connection: psycopg.Connection) -> None:
    upgrade(database_url)
    counted = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
    for schema in ("granary", "news", "raw", "recipe", "ai", "rec"):
        assert value(connection, counted, schema) != 0


def test_the_clock_of_leases_is_that_of_the_server_and_can_be_moved(connection: psycopg.Connection) -> None:
    assert value(connection, "SELECT abs(extract(epoch FROM granary.now() - now())) < 1")
    connection.execute("SELECT set_config('granary.now', '2026-03-02T00:00:00+09:00', false)")
    assert str(value(connection, "SELECT granary.today()")) == "2026-03-02"


def test_texts_of_every_kind_come_back_and_letters_are_letters(connection: psycopg.Connection) -> None:
    text = "두부 🍚 é \u2028 \\ ' %"
    assert connection.execute("SELECT %s::text", (text,)).fetchone() == (text,)
    assert connection.execute("SELECT %s::text", (text.replace("é", "e\u0301"),)).fetchone() != (text,)
    assert value(connection, "SELECT char_length('두부') = 2 AND octet_length('두부') = 6")
    with pytest.raises(psycopg.DataError):
        connection.execute("SELECT %s::text", ("a\0b",))


def test_two_that_claim_at_once_get_different_rows_and_none_waits(connect: Connect) -> None:
    one, other = connect(), connect()
    one.execute("CREATE TABLE claims AS SELECT generate_series(1, 6) AS id")
    other.execute("SELECT set_config('lock_timeout', '1s', false)")
    claim = "SELECT id FROM claims ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED"
    with one.transaction(), other.transaction():
        first = [id_ for (id_,) in one.execute(claim)]
        second = [id_ for (id_,) in other.execute(claim)]
    assert (first, second) == ([1, 2, 3, 4], [5, 6])
    one.execute("DROP TABLE claims")


def test_a_partial_unique_index_lets_one_be_open_and_names_itself(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TEMP TABLE runs (key int, state text)")
    connection.execute("CREATE UNIQUE INDEX one_open ON runs (key) WHERE state = 'open'")
    connection.execute("INSERT INTO runs VALUES (1, 'closed'), (1, 'closed'), (1, 'open')")
    with pytest.raises(errors.UniqueViolation) as refused:
        connection.execute("UPDATE runs SET state = 'open'")
    assert refused.value.diag.constraint_name == "one_open"


def test_an_upsert_tells_an_insert_from_an_update_and_does_nothing_where_told(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TEMP TABLE things (id int CONSTRAINT once PRIMARY KEY, version int DEFAULT 1)")
    upsert = """INSERT INTO things (id) VALUES (7) ON CONFLICT (id) DO UPDATE
        SET version = things.version + 1 RETURNING version, xmax = 0"""
    assert [connection.execute(upsert).fetchone() for _ in range(2)] == [(1, True), (2, False)]
    ignored = "INSERT INTO things (id) VALUES (7), (8) ON CONFLICT ON CONSTRAINT once DO NOTHING RETURNING id"
    assert connection.execute(ignored).fetchall() == [(8,)]


def test_a_write_that_waited_looks_again_at_its_precondition(connect: Connect) -> None:
    one, other, watcher = connect(), connect(), connect()
    one.execute("CREATE TABLE leases AS SELECT 1 AS id, 'RUNNING' AS status")
    late = "UPDATE leases SET status = 'FAILED' WHERE status = 'RUNNING'"
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            one.execute("UPDATE leases SET status = 'DONE'")
            waiting = thread.submit(other.execute, late)
            assert any(value(watcher, waits, other.info.backend_pid) for _ in range(5_000))
        assert waiting.result(timeout=30).rowcount == 0
    assert value(one, "SELECT status FROM leases") == "DONE"
    one.execute("DROP TABLE leases")


def test_a_session_keeps_its_lock_and_its_settings_until_it_ends(connect: Connect) -> None:
    """A pooler that hands statements to any session breaks this: connect to the server itself."""
    one, other = connect(), connect()
    lock = "SELECT pg_try_advisory_lock(hashtext('granary.contract'), 1)"
    one.execute("SELECT set_config('statement_timeout', '12s', false)")
    assert (value(one, lock), value(other, lock)) == (True, False)
    assert value(one, "SELECT current_setting('statement_timeout')") == "12s"
    other.execute("SELECT set_config('lock_timeout', '10s', false)")
    one.close()  # which the server notices a little later
    assert value(other, "SELECT pg_advisory_lock(hashtext('granary.contract'), 1)::text") == ""


@pytest.mark.parametrize(
    ("setting", "statement", "error"),
    [
        ("statement_timeout", "SELECT pg_sleep(60)", errors.QueryCanceled),
        ("lock_timeout", "SELECT count(*) FROM granary.spending_day", errors.LockNotAvailable),
    ],
)
def test_who_would_wait_too_long_is_told(
    connect: Connect, setting: str, statement: str, error: type[Exception]
) -> None:
    holder, waiter = connect(), connect()
    waiter.execute("SELECT set_config(%s, '50ms', false)", (setting,))
    with holder.transaction():
        holder.execute("LOCK TABLE granary.spending_day")
        with pytest.raises(error):
            waiter.execute(statement.encode())


def test_a_row_that_is_held_by_its_key_can_be_referred_to(connect: Connect) -> None:
    one, other = connect(), connect()
    one.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    one.execute("CREATE TABLE child (parent int REFERENCES parent)")
    one.execute("INSERT INTO parent VALUES (1)")
    other.execute("SELECT set_config('lock_timeout', '1s', false)")
    with one.transaction():
        one.execute("SELECT FROM parent FOR NO KEY UPDATE")
        other.execute("INSERT INTO child VALUES (1)")
    one.execute("DROP TABLE child, parent")


def test_rows_come_in_by_copy_and_as_json(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TEMP TABLE stage (domain text, rank int)")
    rows = [("가.kr", 1), ("tab\tand\\.kr", None), ("", 3)]
    with connection.cursor() as cursor, cursor.copy("COPY stage FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    assert connection.execute("SELECT * FROM stage").fetchall() == rows
    read = "SELECT * FROM jsonb_to_recordset(%s::jsonb) AS row(id bigint, name text, share numeric)"
    given = '[{"id": 9007199254740993, "name": "무", "share": 0.1}, {"id": 2}]'
    found = connection.execute(read, (given,)).fetchall()
    assert [(id_, name, str(share)) for id_, name, share in found] == [
        (9007199254740993, "무", "0.1"),
        (2, None, "None"),
    ]


def test_a_connection_that_the_server_ends_is_an_operational_error_and_rolls_back(connect: Connect) -> None:
    one, other = connect(), connect()
    one.execute("CREATE TABLE half (id int)")

    def insert_both() -> None:
        with one.transaction():
            one.execute("INSERT INTO half VALUES (1)")
            assert value(other, "SELECT pg_terminate_backend(%s, 5000)", one.info.backend_pid)
            one.execute("INSERT INTO half VALUES (2)")

    with pytest.raises(psycopg.OperationalError):
        insert_both()
    assert value(other, "SELECT count(*) FROM half") == 0
    other.execute("DROP TABLE half")


def test_vectors_come_back_in_single_precision_and_their_cosine_is_right(
    connection: psycopg.Connection,
) -> None:
    register_vector(connection)
    made = random.Random(7)
    one, other = (np.array([made.gauss(0, 1) for _ in range(1_536)], np.float32) for _ in range(2))
    row = connection.execute(
        "SELECT %(one)b::vector, 1 - (%(one)b::vector <=> %(other)b::vector)", {"one": one, "other": other}
    ).fetchone()
    assert row is not None
    assert np.array_equal(row[0].to_numpy(), one)
    cosine = float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    assert math.isclose(row[1], cosine, abs_tol=1e-5)
    # What the rules of searching keep out: a vector of zeros has no direction.
    zero = connection.execute("SELECT '[0,0]'::vector <=> '[1,0]'::vector").fetchone()
    assert zero is not None and math.isnan(zero[0])


def test_an_index_of_vectors_finds_the_nearest_behind_a_filter_that_leaves_few(
    connection: psycopg.Connection,
) -> None:
    register_vector(connection)
    connection.execute("CREATE TEMP TABLE found (id int, is_published bool, embedding vector(8))")
    made = random.Random(7)
    vectors = [np.array([made.gauss(0, 1) for _ in range(8)], np.float32) for _ in range(1_000)]
    with connection.cursor() as cursor:
        rows = [(id_, id_ % 100 == 0, vector) for id_, vector in enumerate(vectors)]
        cursor.executemany("INSERT INTO found VALUES (%s, %s, %b)", rows)
    nearest = "SELECT id FROM found WHERE is_published ORDER BY embedding <=> %b LIMIT 8"
    wanted = connection.execute(nearest, (vectors[500],)).fetchall()
    connection.execute("CREATE INDEX ON found USING hnsw (embedding vector_cosine_ops)")
    with connection.transaction():
        connection.execute("SET LOCAL enable_seqscan = off")
        plan = connection.execute("EXPLAIN " + nearest, (vectors[500],)).fetchall()
        assert any("found_embedding_idx" in line for (line,) in plan)
        connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")
        assert connection.execute(nearest, (vectors[500],)).fetchall() == wanted
