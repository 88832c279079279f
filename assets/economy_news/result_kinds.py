"""The AI results of an article: which prompt asks for each, what makes an answer valid, where it is kept.

A new result is a module like `summary.py`, a statement that stores it, and an entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from assets.economy_news import job_store, summary
from assets.economy_news.models import Claim, JobType, Lineage
from assets.economy_news.prompts import Prompt


@dataclass(frozen=True)
class ResultKind:
    """One kind of result. `read` raises InvalidOutput; `store` is False where the claim is no longer ours."""

    job_type: JobType
    prompt: Prompt
    texts: Callable[[Claim], dict[str, str]]
    read: Callable[[str], Any]
    store: Callable[[psycopg.Connection, Claim, Any, Lineage], bool]


SUMMARY = ResultKind(
    job_type=JobType.SUMMARY,
    prompt=summary.PROMPT,
    texts=lambda claim: {"title": claim.title, "body": claim.text},
    read=summary.read_summary,
    store=job_store.finish_summary,
)
