"""AI jobs that another has taken the place of: nobody can resume them, so they neither stay nor count."""

import psycopg
import pytest

from assets.economy_news import job_store
from assets.economy_news.models import JobType
from operations import queue_store, quote_store
from tests.integration.economy_news.factories import DAY, MODEL, SECTION, a_job, an_article
from tests.integration.operations.test_retention_tables import a_result

Connection = psycopg.Connection
CARDS = JobType.TERM_CARDS


def follow_a_new_summary(connection: Connection, article_id: int) -> None:
    with connection.transaction():
        job_store.add_following_jobs(connection, {article_id: "of the new summary"}, {CARDS: "v1"}, MODEL)


def jobs(connection: Connection) -> list[tuple[int, str]]:
    return connection.execute("SELECT id, status FROM news.ai_job ORDER BY id").fetchall()


@pytest.mark.parametrize("status", ["PENDING", "RETRY_WAIT", "SUSPENDED"])
def test_what_waits_or_is_suspended_makes_way_for_its_successor(connection: Connection, status: str) -> None:
    article = an_article(connection)
    old = a_job(connection, article, status, job_type=CARDS)
    follow_a_new_summary(connection, article)
    [(new, now)] = jobs(connection)
    assert new != old and now == "PENDING"


@pytest.mark.parametrize("status", ["PENDING", "RETRY_WAIT", "SUSPENDED"])
def test_one_that_was_redone_keeps_the_result_that_readers_see(connection: Connection, status: str) -> None:
    article = an_article(connection)
    old = a_job(connection, article, status, job_type=CARDS)
    result = a_result(connection, old)
    connection.execute("UPDATE news.ai_job SET redo_number = 1, asked_at = granary.now()")
    follow_a_new_summary(connection, article)
    (kept, successor) = jobs(connection)
    assert kept == (old, "SUCCESS") and successor[1] == "PENDING"
    assert connection.execute("SELECT id FROM news.newest_result").fetchall() == [(result,)]
    assert connection.execute("SELECT id FROM news.newest_job").fetchall() == [(successor[0],)]


@pytest.mark.parametrize("status", ["RUNNING", "SUBMITTED", "FAILED", "SUCCESS"])
def test_what_is_at_the_model_or_has_ended_stays(connection: Connection, status: str) -> None:
    article = an_article(connection)
    old = a_job(connection, article, status, job_type=CARDS)
    follow_a_new_summary(connection, article)
    assert jobs(connection)[0] == (old, status) and len(jobs(connection)) == 2


@pytest.mark.parametrize("status", ["SUSPENDED", "FAILED"])
def test_of_jobs_that_stopped_only_the_one_that_counts_is_counted(
    connection: Connection, status: str
) -> None:
    span = {"first": DAY, "last": DAY, "sections": [SECTION]}
    replaced, standing = an_article(connection, 0), an_article(connection, 1)
    for article in (replaced, standing):
        a_job(connection, article, status, job_type=CARDS)
    assert quote_store.news_jobs_at_rest(connection, span) == {status: 2}
    a_job(connection, replaced, "SUCCESS", job_type=CARDS, prompt_version="v2")
    assert quote_store.news_jobs_at_rest(connection, span) == {status: 1}
    told = queue_store.figures(connection, None)
    assert told.news_jobs == [(CARDS, status, 1)]
    assert told.queues[0].sizes[status] == 1
