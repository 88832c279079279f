"""Statements of economy_news on a given connection: what people repair, empty and take down."""

from collections.abc import Sequence

import psycopg

from assets.economy_news import store
from assets.economy_news.job_store import SQL as JOBS
from assets.economy_news.job_store import add_summary_job
from assets.economy_news.store import SQL as ARTICLES


def resume_suspended(
    connection: psycopg.Connection, job_ids: Sequence[int], reason: str | None
) -> dict[int, str]:
    """The jobs that are PENDING again with all attempts, and their models: by id, or all of a reason."""
    parameters = {"job_ids": list(job_ids), "reason": reason}
    return dict(connection.execute(JOBS["resume_suspended"], parameters).fetchall())


def requeue_failed(
    connection: psycopg.Connection, job_ids: Sequence[int], error_code: str | None
) -> set[int]:
    """The jobs that are PENDING again with all attempts: by id, or all of an error code."""
    parameters = {"job_ids": list(job_ids), "error_code": error_code}
    return {row[0] for row in connection.execute(JOBS["requeue_failed"], parameters)}


def statuses(connection: psycopg.Connection, job_ids: Sequence[int]) -> dict[int, str]:
    """The status of each job that exists."""
    return dict(connection.execute(JOBS["statuses"], {"job_ids": list(job_ids)}).fetchall())


def empty_bodies(connection: psycopg.Connection, retention_days: int) -> tuple[int, int]:
    """How many bodies older than that were emptied, and how many summaries can therefore not be made.

    To be called in a transaction.
    """
    emptied = len(connection.execute(ARTICLES["empty_bodies"], {"retention_days": retention_days}).fetchall())
    failed = len(connection.execute(JOBS["fail_jobs_without_body"]).fetchall())
    return emptied, failed


def take_down(
    connection: psycopg.Connection,
    oid: str,
    aid: str,
    *,
    prompt_version: str,
    model: str,
    min_characters: int,
) -> bool:
    """True if the article was stored; now it is gone with all that was made of it, and stays away.

    Its links are closed for every section. The first of its near-duplicates takes its place and gets a
    summary of its own. To be called in a transaction.
    """
    ids = {"oid": oid, "aid": aid}
    store.lock_page(connection, oid, aid)
    connection.execute(ARTICLES["forbid_page"], ids)
    connection.execute(ARTICLES["close_links"], ids)
    row = connection.execute(ARTICLES["article_and_day"], ids).fetchone()
    if row is None:
        return False
    article_id, day = row
    mine = {"article_id": article_id}
    store.lock_day(connection, day)
    connection.execute(ARTICLES["lock_jobs"], mine)
    (heir,) = connection.execute(ARTICLES["heir"], mine).fetchone() or (None,)
    connection.execute(ARTICLES["lock_term_cards"])
    terms = connection.execute(ARTICLES["terms_of_article"], mine).fetchall()
    connection.execute(ARTICLES["promote_heir"], {**mine, "heir": heir})
    connection.execute(ARTICLES["delete_article"], mine)
    connection.execute(ARTICLES["forget_terms"], {"term_ids": [term_id for (term_id,) in terms]})
    if heir is not None:
        add_summary_job(
            connection,
            heir,
            prompt_version=prompt_version,
            model=model,
            min_characters=min_characters,
            skip_duplicates=True,
        )
    return True
