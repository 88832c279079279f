"""Statements on what a backfill finds to do and what such work took before. Read only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from operations.call_pricing import Measured
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "quote.sql")


class Clock(NamedTuple):
    """The database's moment (aware), its days in Seoul and in UTC, and the first day that is crawled live."""

    now: datetime
    seoul_day: date
    utc_day: date
    first_live_day: date


class ArticlesByJobs(NamedTuple):
    """So many articles with the same kinds of results waiting, in a batch, redoable and outdated."""

    waiting: frozenset[str]
    in_batch: frozenset[str]
    redoable: frozenset[str]
    outdated: frozenset[str]
    articles: int


class SectionDay(NamedTuple):
    """What is known of a day's list: whether it was read to its end, its links, those still to be fetched."""

    day: date
    section: str
    was_read: bool
    listed: int
    to_fetch: int


class CrawledDays(NamedTuple):
    """What the lists of so many days of a section brought, all together."""

    section: str
    days: int
    listed: int
    fetched: int
    articles: int
    summaries: int


@dataclass(frozen=True)
class PipelineCalls:
    """Calls of a pipeline to one model in the last 30 days."""

    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int


def clock(connection: psycopg.Connection) -> Clock:
    return Clock(*_row(connection, "clock"))


def spent_today(connection: psycopg.Connection) -> Decimal:
    """What takes room of the day's cap: spent and reserved, in USD."""
    return Decimal(_row(connection, "spent_today")[0])


def seconds_a_call(connection: psycopg.Connection) -> dict[tuple[str, str], float]:
    """How long a call takes on average, by model and schema."""
    return {(model, schema): seconds for model, schema, seconds in connection.execute(SQL["seconds_a_call"])}


def asked_again(connection: psycopg.Connection) -> dict[str, float]:
    """The share of results that took a second call, by kind."""
    return dict(connection.execute(SQL["asked_again"]).fetchall())


def calls_of_pipeline(connection: psycopg.Connection, pipeline: str) -> dict[str, PipelineCalls]:
    """By model."""
    found = connection.execute(SQL["calls_of_pipeline"], {"pipeline": pipeline})
    return {row[0]: PipelineCalls(*row) for row in found}


def news_results(connection: psycopg.Connection) -> list[Measured]:
    return [Measured(*row) for row in connection.execute(SQL["news_results"])]


def news_articles_by_jobs(
    connection: psycopg.Connection,
    span: Mapping[str, Any],
    prompt_versions: Mapping[str, str],
    model: str,
) -> list[ArticlesByJobs]:
    """The stored articles of the span (`first`, `last`, `sections`); outdated by these versions and model."""
    parameters = {
        **span,
        "kinds": list(prompt_versions),
        "prompt_versions": list(prompt_versions.values()),
        "model": model,
    }
    return [
        ArticlesByJobs(
            frozenset(waiting), frozenset(in_batch), frozenset(redoable), frozenset(outdated), articles
        )
        for waiting, in_batch, redoable, outdated, articles in connection.execute(
            SQL["news_articles_by_jobs"], parameters
        )
    ]


def news_jobs_at_rest(connection: psycopg.Connection, span: Mapping[str, Any]) -> dict[str, int]:
    """How many jobs are SUSPENDED and FAILED."""
    return dict(connection.execute(SQL["news_jobs_at_rest"], span).fetchall())


def news_section_days(connection: psycopg.Connection, span: Mapping[str, Any]) -> list[SectionDay]:
    return [SectionDay(*row) for row in connection.execute(SQL["news_section_days"], span)]


def news_crawled_days(connection: psycopg.Connection) -> list[CrawledDays]:
    return [CrawledDays(*row) for row in connection.execute(SQL["news_crawled_days"])]


def raw_files(connection: psycopg.Connection, span: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Partitions with files, files, those that are not processed, and of them those that failed."""
    partitions, files, unprocessed, failed = _row(connection, "raw_files", span)
    return partitions, files, unprocessed, failed


def raw_front_pages(connection: psycopg.Connection, span: Mapping[str, Any]) -> int:
    """How many domains wait for their front page."""
    return int(_row(connection, "raw_front_pages", span)[0])


def raw_domains_a_file(connection: psycopg.Connection) -> float | None:
    """How many domains a file named for the first time, on average; None where no file was processed."""
    files, domains = _row(connection, "raw_domains_a_file")
    return domains / files if files else None


def contexts(connection: psycopg.Connection, span: Mapping[str, Any]) -> tuple[int, int, int]:
    """Contexts to embed, contexts to judge, and the bytes of the texts to embed."""
    to_embed, to_judge, text_bytes = _row(connection, "contexts", span)
    return to_embed, to_judge, text_bytes


def contexts_of_older_presets(connection: psycopg.Connection, span: Mapping[str, Any]) -> int:
    return int(_row(connection, "contexts_of_older_presets", span)[0])


def products_to_embed(
    connection: psycopg.Connection, profile: str, version: str, at_once: int, bytes_a_call: int
) -> tuple[int, int, int]:
    """Products, the bytes of their texts, and in how many calls they are asked for."""
    parameters = {"profile": profile, "version": version, "at_once": at_once, "bytes_a_call": bytes_a_call}
    products, text_bytes, calls = _row(connection, "products_to_embed", parameters)
    return products, text_bytes, calls


def members(connection: psycopg.Connection, span: Mapping[str, Any]) -> tuple[int, int]:
    """Members who are due, and queue items that wait."""
    due, waiting = _row(connection, "members", span)
    return due, waiting


def _row(
    connection: psycopg.Connection, statement: str, parameters: Mapping[str, Any] | None = None
) -> Sequence[Any]:
    row = connection.execute(SQL[statement], parameters).fetchone()
    assert row is not None
    return row
