"""Statements of economy_news on a given connection: the rows of results, and what completes an article."""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.types.json import Jsonb

from assets.economy_news.job_store import SQL


def add_rows(connection: psycopg.Connection, statement: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Stores the rows of one kind of result by its statement (`add_summaries`, `add_term_cards`, …)."""
    if rows:
        connection.execute(SQL[statement], {"rows": Jsonb(list(rows))})


def complete_articles(connection: psycopg.Connection, article_ids: Sequence[int]) -> int:
    """How many of the articles have all five results now, for the first time."""
    parameters = {"article_ids": list(article_ids)}
    connection.execute(SQL["lock_articles"], parameters)
    return len(connection.execute(SQL["complete_articles"], parameters).fetchall())
