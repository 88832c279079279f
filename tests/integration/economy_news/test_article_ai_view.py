"""What each article has and what it waits for (news.article_ai), and how a partition stands by it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg

from assets.economy_news import job_report
from tests.integration.economy_news.factories import (
    A_SUMMARY,
    HERE,
    NOON,
    a_job,
    a_token,
    an_article,
    finish_summary,
    rows,
)

Connect = Callable[..., psycopg.Connection]

STATES = {
    "PENDING": "WAITING",
    "RUNNING": "WAITING",
    "SUBMITTED": "WAITING",
    "RETRY_WAIT": "WAITING",
    "SUCCESS": "DONE",
    "SUSPENDED": "SUSPENDED",
    "FAILED": "FAILED",
}


def seen(connection: psycopg.Connection, article_id: int) -> dict[str, Any]:
    """The article's row in the view."""
    (row,) = rows(connection, "SELECT * FROM news.article_ai WHERE article_id = %s", article_id)
    return row


def a_summarised_article(connection: psycopg.Connection, number: int, text: str) -> int:
    article_id = an_article(connection, number)
    a_summary_of(connection, article_id, text)
    return article_id


def a_summary_of(connection: psycopg.Connection, article_id: int, text: str, **columns: Any) -> None:
    job_id = a_job(connection, article_id, "RUNNING", **columns)
    summary = A_SUMMARY.model_copy(update={"summary_full": text})
    assert finish_summary(connection, a_token(job_id), summary)


def test_an_article_stands_as_its_job_stands(connection: psycopg.Connection) -> None:
    found = {}
    for number, status in enumerate(STATES):
        article_id = an_article(connection, number)
        a_job(connection, article_id, status)
        found[status] = seen(connection, article_id)["state"]
    assert found == STATES


def test_an_article_without_a_job_has_nothing_to_wait_for(connection: psycopg.Connection) -> None:
    row = seen(connection, an_article(connection))
    assert (row["state"], row["summary_id"], row["next_run_at"]) == ("NONE", None, None)


def test_the_worst_of_several_jobs_decides(connection: psycopg.Connection) -> None:
    article_id, states = an_article(connection), []
    for number, status in enumerate(("SUCCESS", "FAILED", "PENDING", "SUSPENDED")):
        a_job(connection, article_id, status, prompt_version=f"version-{number}")
        states.append(seen(connection, article_id)["state"])
    assert states == ["DONE", "FAILED", "WAITING", "SUSPENDED"]


def test_a_done_article_shows_its_summary(connection: psycopg.Connection) -> None:
    article_id = a_summarised_article(connection, 0, "요약이다.")
    row = seen(connection, article_id)
    assert (row["state"], row["summary_full"], row["publishable"]) == ("DONE", "요약이다.", True)
    assert row["summary3"] == list(A_SUMMARY.summary3)


def test_readers_see_the_newest_summary_and_the_old_one_until_there_is_a_newer(
    connection: psycopg.Connection,
) -> None:
    article_id = a_summarised_article(connection, 0, "옛 요약이다.")
    a_job(connection, article_id, prompt_version="newer")
    row = seen(connection, article_id)
    assert (row["state"], row["summary_full"]) == ("WAITING", "옛 요약이다.")
    a_summary_of(connection, article_id, "새 요약이다.", prompt_version="newest")
    assert seen(connection, article_id)["summary_full"] == "새 요약이다."


def test_an_article_that_waits_for_a_retry_says_until_when(connect: Connect) -> None:
    connection = connect(at=NOON)
    article_id = an_article(connection)
    a_job(connection, article_id, "RETRY_WAIT", due_seconds=120)
    due = datetime.fromisoformat(NOON) + timedelta(seconds=120)
    assert seen(connection, article_id)["next_run_at"] == due


def test_a_duplicate_shows_the_results_and_the_state_of_its_original(connection: psycopg.Connection) -> None:
    original = an_article(connection, 0)
    copy = an_article(connection, 1, duplicate_of=original)
    assert seen(connection, copy)["state"] == "NONE"
    job_id = a_job(connection, original, "RUNNING")
    assert seen(connection, copy)["state"] == "WAITING"
    assert finish_summary(connection, a_token(job_id), A_SUMMARY)
    row = seen(connection, copy)
    assert (row["article_id"], row["duplicate_of"], row["state"]) == (copy, original, "DONE")
    assert row["summary_id"] == seen(connection, original)["summary_id"] is not None
    assert len(rows(connection, "SELECT * FROM news.summary")) == 1


def test_a_duplicate_with_a_job_of_its_own_stands_for_itself(connection: psycopg.Connection) -> None:
    original = a_summarised_article(connection, 0, "원본 요약이다.")
    copy = an_article(connection, 1, duplicate_of=original)
    job_id = a_job(connection, copy, "RUNNING")
    row = seen(connection, copy)
    assert (row["state"], row["summary_full"]) == ("WAITING", None)
    own = A_SUMMARY.model_copy(update={"summary_full": "자기 요약이다."})
    assert finish_summary(connection, a_token(job_id), own)
    assert seen(connection, copy)["summary_full"] == "자기 요약이다."
    assert seen(connection, original)["summary_full"] == "원본 요약이다."


def test_a_partition_counts_each_article_once_by_its_state(connection: psycopg.Connection) -> None:
    for number, status in enumerate(STATES):
        a_job(connection, an_article(connection, number), status)
    an_article(connection, 20)
    elsewhere, empty = HERE._replace(section="STOCK"), HERE._replace(section="LIVING")
    a_job(connection, an_article(connection, 21, partition=elsewhere), "FAILED")
    states = job_report.completeness(connection, [HERE, elsewhere, empty])
    here = states[HERE]
    assert (here.articles, here.done, here.waiting, here.failed, here.suspended) == (8, 1, 4, 1, 1)
    there = states[elsewhere]
    assert (there.articles, there.done, there.waiting, there.failed, there.suspended) == (1, 0, 0, 1, 0)
    assert states[empty].articles == 0


def test_what_needs_a_look_is_listed_with_ids_and_reasons_and_no_text(connection: psycopg.Connection) -> None:
    for number, status in enumerate(STATES):
        a_job(connection, an_article(connection, number, title="비밀 제목"), status)
    items = job_report.unsettled_items(connection, [HERE], limit=10)
    assert {(item.status, item.reason) for item in items} == {
        ("RETRY_WAIT", "timeout"),
        ("SUSPENDED", "QUOTA: insufficient_quota"),
        ("FAILED", "invalid_output"),
    }
    assert "비밀" not in str(items)
    assert len(job_report.unsettled_items(connection, [HERE], limit=2)) == 2
