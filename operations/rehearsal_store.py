"""What a rehearsal reads on a given connection: stored results and their input, and what a redo takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg.rows import dict_row

from assets.economy_news.models import Claim, JobType
from assets.economy_news.result_kinds import Row
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "rehearsal.sql")
NEWEST_ARTICLES = 2_000
"""Among so many the articles of a rehearsal are spread."""


class Tokens(NamedTuple):
    """Tokens of one result; the cached ones are part of the input."""

    input: int
    cached: int
    output: int


@dataclass(frozen=True)
class StoredResult:
    """The result that readers of an article see, and as a claim what its kind would be asked about now.

    `rows` are those of the kind's table; `cost_usd` is what was paid then, second asking included.
    """

    claim: Claim
    url: str
    prompt_version: str
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal
    rows: list[Row]


def articles_to_rehearse(connection: psycopg.Connection, job_type: JobType, most: int) -> list[StoredResult]:
    """Up to `most` articles with a result of the kind, spread over days and sections, newest first.

    Summaries are made from bodies, so an article whose body was emptied is none of theirs.
    """
    parameters = {"job_type": job_type, "articles": most, "pool": max(NEWEST_ARTICLES, most)}
    with connection.cursor(row_factory=dict_row) as cursor:
        return [_stored(row) for row in cursor.execute(SQL["articles_to_rehearse"], parameters)]


def count_outdated(connection: psycopg.Connection, job_type: JobType, prompt_version: str, model: str) -> int:
    """How many results of the kind `redo: outdated` would make again under this prompt and model."""
    parameters = {"job_type": job_type, "prompt_version": prompt_version, "model": model}
    row = connection.execute(SQL["count_outdated"], parameters).fetchone()
    assert row is not None
    return int(row[0])


def usual_tokens(connection: psycopg.Connection, job_types: Sequence[JobType]) -> dict[JobType, Tokens]:
    """What the latest results of each kind took on average; a kind without results is left out."""
    found = connection.execute(SQL["usual_tokens"], {"job_types": list(job_types)})
    return {JobType(row[0]): Tokens(*row[1:]) for row in found}


def taken_today_usd(connection: psycopg.Connection) -> Decimal:
    """What of the day's cap (Asia/Seoul) is spent or reserved."""
    row = connection.execute(SQL["taken_today"]).fetchone()
    assert row is not None
    return Decimal(row[0])


def _stored(row: dict[str, object]) -> StoredResult:
    """No job is claimed: the claim only carries the article to its kind's functions."""
    article = {name: row.pop(name) for name in ("article_id", "day", "section", "title", "text")}
    claim = Claim(job_id=0, run_id="rehearsal", attempt=0, lease_was_lost=False, **article)  # type: ignore[arg-type]
    return StoredResult(claim=claim, **row)  # type: ignore[arg-type]
