"""What the demo's economy_news has stored, spent and asked for, read from outside the pipeline."""

import json
import urllib.request
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

import psycopg
from psycopg.rows import class_row

_BOOKS = """
SELECT (SELECT count(*) FROM news.article WHERE day = %(day)s) AS articles,
       count(*) FILTER (WHERE result.job_type = 'SUMMARY') AS summaries,
       count(*) FILTER (WHERE result.job_type = 'TERM_CARDS') AS term_cards,
       count(*) FILTER (WHERE result.job_type = 'INSIGHT') AS insights,
       count(*) FILTER (WHERE result.job_type = 'QUIZ_CONTENT') AS content_quizzes,
       count(*) FILTER (WHERE result.job_type = 'QUIZ_TERM') AS term_quizzes,
       (SELECT count(*) FROM news.article WHERE day = %(day)s AND duplicate_of IS NOT NULL) AS duplicates,
       (SELECT count(*) FROM news.ai_job WHERE day = %(day)s AND status = 'FAILED') AS failed,
       coalesce(sum(input_tokens + output_tokens), 0)::int AS tokens,
       coalesce(sum(cost_usd), 0)::float AS cost_usd,
       (SELECT coalesce(sum(cost_usd), 0)::float FROM granary.spending
        WHERE pipeline = 'economy_news') AS spent_usd,
       (SELECT count(*) FROM news.ai_job
        WHERE day = %(day)s AND status IN ('PENDING', 'RUNNING', 'RETRY_WAIT')) AS waiting,
       (SELECT count(*) FROM news.ai_job
        WHERE day = %(day)s AND coalesce(lease_until, next_run_at) > granary.now()) AS not_due
FROM news.ai_result AS result JOIN news.article AS article ON article.id = result.article_id
WHERE article.day = %(day)s
"""
_RESULTS = ("summaries", "term_cards", "insights", "content_quizzes", "term_quizzes")


@dataclass(frozen=True)
class Books:
    """What is stored of the demo's day (results by article), what was spent, what the ledger says."""

    articles: int
    summaries: int
    term_cards: int
    insights: int
    content_quizzes: int
    term_quizzes: int
    duplicates: int
    failed: int
    tokens: int
    cost_usd: float
    spent_usd: float
    waiting: int
    not_due: int
    calls: int | None = None
    charged_usd: float | None = None

    def rows(self) -> dict[str, int]:
        """The counts that the demo shows."""
        return {name: getattr(self, name) for name in ("articles", *_RESULTS, "duplicates", "failed")}

    def results(self) -> int:
        """All AI results together."""
        return sum(getattr(self, name) for name in _RESULTS)


def read_books(database_url: str, ledger_url: str | None, day: date) -> Books:
    """The books as they stand now."""
    with (
        psycopg.connect(database_url) as connection,
        connection.cursor(row_factory=class_row(Books)) as cursor,
    ):
        books = cursor.execute(_BOOKS, {"day": day}).fetchone()
    assert books is not None
    if ledger_url is None:
        return books
    totals = get(f"{ledger_url}/_control/ledger/totals")
    known = {field.name: getattr(books, field.name) for field in fields(books)}
    return Books(**{**known, "calls": totals["calls"], "charged_usd": totals["cost_usd"]})


def get(url: str) -> Any:
    """The JSON at a stand-in's address."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
