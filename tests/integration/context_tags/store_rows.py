"""Rows of a store's test, put and read by SQL of its own, and a second connection that must wait."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import product
from typing import Any

import psycopg
from psycopg import sql

from assets.context_tags.models import (
    DEFAULT_PROFILE,
    ContextRequest,
    Judgement,
    KeywordResult,
    Preset,
    Selection,
    Status,
    StoredVector,
)

OTHER_PROFILE = "openai-text-embedding-3-large-1536-cosine-v1"
ALL_STATES = [(embedding.value, keyword.value) for embedding, keyword in product(Status, Status)]

Connection = psycopg.Connection


def vector(*first: float) -> list[float]:
    """A vector that begins with these."""
    return [*first, *[0.0] * (1_536 - len(first))]


def ask(context_id: int, text: str = "한강에서 치킨", user_id: int = 1, record_id: int = 1) -> ContextRequest:
    return ContextRequest(context_id, user_id, record_id, text)


def put_state(
    connection: Connection,
    *context_ids: int,
    embedding: str = "PENDING",
    keyword: str = "PENDING",
    minutes_ago: float = 0,
    retries: int = 0,
) -> dict[int, datetime]:
    """The rows as another would leave them, with their `updated_at`."""
    rows = connection.execute(
        "INSERT INTO ai.context_ai_state"
        " (context_id, embedding_status, keyword_status, retry_count, updated_at)"
        " SELECT id, %s, %s, %s, granary.now() - make_interval(secs => %s) FROM unnest(%s::bigint[]) AS id"
        " ON CONFLICT (context_id) DO UPDATE SET embedding_status = excluded.embedding_status,"
        " keyword_status = excluded.keyword_status, retry_count = excluded.retry_count,"
        " updated_at = excluded.updated_at"
        " RETURNING context_id, updated_at",
        (embedding, keyword, retries, minutes_ago * 60, list(context_ids)),
    )
    return dict(rows.fetchall())


def put_all_states(connection: Connection, minutes_ago: float = 0) -> dict[int, tuple[str, str]]:
    """A context for each pair of statuses, by its id."""
    states = dict(enumerate(ALL_STATES, 1))
    for context_id, (embedding, keyword) in states.items():
        put_state(connection, context_id, embedding=embedding, keyword=keyword, minutes_ago=minutes_ago)
    return states


def put_preset(connection: Connection, *ids: int) -> None:
    for id_ in ids:
        connection.execute(
            "INSERT INTO ai.keyword_preset (id, code, display_name, category, description)"
            " VALUES (%s, %s, '이름', 'ACTIVITY', '설명')",
            (id_, f"CODE_{id_}"),
        )


def put_embedding(
    connection: Connection,
    context_id: int,
    values: Sequence[float],
    user_id: int = 1,
    record_id: int = 1,
    profile: str = DEFAULT_PROFILE,
    is_deleted: bool = False,
) -> None:
    connection.execute(
        "INSERT INTO ai.context_embedding VALUES (%s, %s, %s, %s::real[]::vector, %s, %s)",
        (context_id, user_id, record_id, list(values), profile, is_deleted),
    )


def states_of(connection: Connection) -> dict[int, tuple[str, str]]:
    rows = connection.execute("SELECT context_id, embedding_status, keyword_status FROM ai.context_ai_state")
    return {id_: (embedding, keyword) for id_, embedding, keyword in rows}


def tokens_of(connection: Connection) -> dict[int, datetime]:
    """The `updated_at` of every state."""
    rows = connection.execute("SELECT context_id, updated_at FROM ai.context_ai_state")
    return dict(rows.fetchall())


def all_rows(connection: Connection, table: str) -> list[tuple[Any, ...]]:
    """Every row of the table, in the order of its first column."""
    statement = sql.SQL("SELECT * FROM {} ORDER BY 1, 2").format(sql.Identifier(*table.split(".")))
    return connection.execute(statement).fetchall()


def made_vector(context_id: int, token: datetime, values: Sequence[float] = (1.0,)) -> StoredVector:
    return StoredVector(ask(context_id), token, vector(*values))


def judged(
    context_id: int, token: datetime, *keyword_ids: int, concepts: Sequence[str] = ()
) -> KeywordResult:
    selected = tuple(Selection(id_, 0.75) for id_ in keyword_ids)
    return KeywordResult(context_id, token, Judgement(selected, tuple(concepts), "gpt-test"))


def preset(id_: int, **fields: Any) -> Preset:
    stated = {
        "code": f"CODE_{id_}",
        "display_name": "이름",
        "category": "ACTIVITY",
        "description": f"설명 {id_}",
    }
    return Preset(id=id_, **{**stated, "examples": ("예문",), **fields})


class Waiting:
    """Something that runs in a thread; `waits_for_a_lock` returns when Postgres says so."""

    def __init__(self, connection: Connection, act: Callable[[], object]) -> None:
        self._pid = connection.info.backend_pid
        self._outcome: list[object] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[], object]) -> None:
        try:
            self._outcome.append(act())
        except BaseException as error:
            self._error = error

    def waits_for_a_lock(self, witness: Connection) -> None:
        for _ in range(20_000):
            row = witness.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (self._pid,)).fetchone()
            if row == (True,):
                return
            assert self._thread.is_alive(), "it did not wait"
        raise AssertionError("it neither waits nor ends")

    def result(self) -> Any:
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._outcome[0]


@contextmanager
def held(connection: Connection, table: str, context_ids: Iterable[int]) -> Iterator[None]:
    """Rows that the connection has locked until the end of the block."""
    with connection.transaction():
        statement = sql.SQL("SELECT FROM {} WHERE context_id = %s FOR UPDATE")
        for context_id in context_ids:
            connection.execute(statement.format(sql.Identifier(*table.split("."))), (context_id,))
        yield
