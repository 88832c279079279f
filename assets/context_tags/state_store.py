"""Statements on the stages of contexts (`ai.context_ai_state`), on a given connection.

Every UPDATE keeps what it expects in its WHERE, so CANCELLED always wins: what is not ours any more is not
in the answer. Opens no connection.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path

import psycopg

from assets.context_tags.models import ContextState, Stage, Start, Status
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "state.sql")

_START = {Stage.EMBEDDING: "start_embedding", Stage.KEYWORD: "start_keyword"}
_FAIL = {Stage.EMBEDDING: "fail_embedding", Stage.KEYWORD: "fail_keyword"}


def states(connection: psycopg.Connection, context_ids: Collection[int]) -> dict[int, ContextState]:
    """Where these stand at the moment, without a lock; a context without a row is not in it.

    Nor is one with a status that is none, NULL for example: nothing of it may be started.
    """
    known = frozenset(Status)
    rows = connection.execute(SQL["states"], {"ids": list(context_ids)})
    return {
        id_: ContextState(Status(embedding), Status(keyword))
        for id_, embedding, keyword in rows
        if embedding in known and keyword in known
    }


def start(
    connection: psycopg.Connection, stage: Stage, context_ids: Collection[int], expiry_seconds: float
) -> dict[int, Start]:
    """Those that are PROCESSING by us now (rule 3): they were PENDING, or PROCESSING for longer than that.

    The keyword stage starts only where the embedding is COMPLETED. Being absent is a normal end.
    """
    parameters = {"ids": list(context_ids), "expiry_seconds": expiry_seconds}
    rows = connection.execute(SQL[_START[stage]], parameters)
    return {id_: Start(token, was_expired) for id_, token, was_expired in rows}


def fail(connection: psycopg.Connection, stage: Stage, tokens: Mapping[int, datetime]) -> set[int]:
    """Those that went from PROCESSING by us to FAILED; the other stage stays as it is."""
    return {id_ for (id_,) in connection.execute(SQL[_FAIL[stage]], claims(tokens))}


def claims(tokens: Mapping[int, datetime]) -> dict[str, list[object]]:
    """The parameters of the statements that take contexts with their tokens."""
    return {"ids": list(tokens), "tokens": list(tokens.values())}


def missing_columns(connection: psycopg.Connection, own_state: bool = False) -> list[str]:
    """What of the contract's tables, columns and grants (`sql/grants.sql`) is missing, a line each.

    With `own_state` also what only CONTEXT_OWN_STATE needs.
    """
    return [line for (line,) in connection.execute(SQL["missing"], {"own_state": own_state})]
