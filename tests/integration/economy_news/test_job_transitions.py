"""What may become of a job: every status met by every event, on the statements that run in production."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import errors

from assets.economy_news import job_store
from assets.economy_news.models import JobType
from tests.integration.economy_news.factories import (
    A_SUMMARY,
    HERE,
    NOON,
    SECTION,
    a_failure,
    a_job,
    a_token,
    an_article,
    claim,
    finish_failure,
    finish_summary,
    job_row,
    job_rows,
    jobs_waiting,
    release_claim,
    rows,
)

Connect = Callable[..., psycopg.Connection]
MOST_RETRIES = 5


# Every status, and where time or attempts make a difference, more than once.
SITUATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "PENDING": ("PENDING", {}),
    "RUNNING": ("RUNNING", {}),
    "RUNNING, lease lost": ("RUNNING", {"lease_seconds": -5}),
    "RUNNING, last attempt": ("RUNNING", {"attempt": MOST_RETRIES + 1}),
    "RUNNING, lease lost in the last attempt": (
        "RUNNING",
        {"lease_seconds": -5, "attempt": MOST_RETRIES + 1},
    ),
    "SUBMITTED": ("SUBMITTED", {}),
    "SUCCESS": ("SUCCESS", {}),
    "RETRY_WAIT, not due": ("RETRY_WAIT", {}),
    "RETRY_WAIT, due": ("RETRY_WAIT", {"due_seconds": 0}),
    "RETRY_WAIT, last attempt": ("RETRY_WAIT", {"attempt": MOST_RETRIES + 1, "due_seconds": 0}),
    "RETRY_WAIT, run ended in the last attempt": (
        "RETRY_WAIT",
        {"attempt": MOST_RETRIES + 1, "due_seconds": 60, "error_code": "run_ended"},
    ),
    "SUSPENDED": ("SUSPENDED", {}),
    "FAILED": ("FAILED", {}),
}
RUNNING = [name for name, (status, _) in SITUATIONS.items() if status == "RUNNING"]
LOST = [name for name in RUNNING if "lease lost" in name]
DUE = ["RETRY_WAIT, due", "RETRY_WAIT, last attempt"]

Event = Callable[[psycopg.Connection, int, int], object]
"""Meets a job (id, attempt) as run-1, which holds it or believes so."""

EVENTS: dict[str, tuple[Event, dict[str, str]]] = {
    "claim by another run": (
        lambda connection, job_id, attempt: claim(connection, "run-2"),
        dict.fromkeys(["PENDING", *LOST, *DUE], "RUNNING"),
    ),
    "finish with success": (
        lambda connection, job_id, attempt: finish_summary(
            connection, a_token(job_id, attempt=attempt), A_SUMMARY
        ),
        dict.fromkeys(RUNNING, "SUCCESS"),
    ),
    **{
        f"finish with {status}": (
            lambda connection, job_id, attempt, status=status: finish_failure(  # type: ignore[misc]
                connection, a_token(job_id, attempt=attempt), a_failure(status)
            ),
            dict.fromkeys(RUNNING, status),
        )
        for status in ("RETRY_WAIT", "SUSPENDED", "FAILED")
    },
    "release": (
        lambda connection, job_id, attempt: release_claim(connection, a_token(job_id, attempt=attempt)),
        dict.fromkeys(RUNNING, "PENDING"),
    ),
    "free": (
        lambda connection, job_id, attempt: job_store.free_jobs_of_run(connection, "run-1"),
        dict.fromkeys(RUNNING, "RETRY_WAIT"),
    ),
    "renew": (
        lambda connection, job_id, attempt: job_store.renew_leases(connection, "run-1", [job_id], 900),
        dict.fromkeys(RUNNING, "RUNNING"),
    ),
    "expire": (
        lambda connection, job_id, attempt: job_store.expire_leases_of_run(
            connection, JobType.SUMMARY, "run-1"
        ),
        dict.fromkeys(RUNNING, "RUNNING"),
    ),
    "give up": (
        lambda connection, job_id, attempt: job_store.fail_spent_leases(
            connection, JobType.SUMMARY, MOST_RETRIES
        ),
        dict.fromkeys(
            ["RUNNING, lease lost in the last attempt", "RETRY_WAIT, run ended in the last attempt"], "FAILED"
        ),
    ),
}


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_moves_the_jobs_that_it_may_move_and_changes_nothing_else(
    event: str, connect: Connect
) -> None:
    connection = connect(at=NOON)
    happen, legal = EVENTS[event]
    moved = {}
    for number, (name, (status, columns)) in enumerate(SITUATIONS.items()):
        job_id = a_job(connection, an_article(connection, number), status, **columns)
        before = job_row(connection, job_id)
        happen(connection, job_id, before["attempt"])
        after = job_row(connection, job_id)
        if after != before:
            moved[name] = after["status"]
        # What stays in the table must not be met by the next round's event.
        connection.execute("DELETE FROM news.ai_job WHERE id = %s", (job_id,))
    assert moved == legal


def test_a_failure_cannot_be_written_as_another_status(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, an_article(connection), "RUNNING", batch_id="batch-1")
    before = job_row(connection, job_id)
    for status in ("PENDING", "RUNNING", "SUBMITTED", "SUCCESS", "CANCELLED"):
        assert not finish_failure(connection, a_token(job_id), a_failure(status)), status
    assert job_row(connection, job_id) == before


def test_the_table_refuses_a_failure_that_contradicts_itself(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, an_article(connection), "RUNNING")
    before = job_row(connection, job_id)
    for failure in (
        a_failure("RETRY_WAIT", delay_seconds=None),
        a_failure("SUSPENDED", suspend_reason=None),
        a_failure("SUSPENDED", suspend_reason="BUDGET"),
        a_failure("FAILED", suspend_reason="QUOTA"),
    ):
        with pytest.raises(errors.CheckViolation):
            finish_failure(connection, a_token(job_id), failure)
    assert job_row(connection, job_id) == before


def test_the_table_refuses_a_job_that_contradicts_itself(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    for status, column, value in (
        ("RUNNING", "lease_seconds", None),
        ("RUNNING", "claimed_by", None),
        ("PENDING", "lease_seconds", 600),
        ("SUCCESS", "lease_seconds", 600),
        ("SUBMITTED", "batch_plan", None),
        ("SUBMITTED", "lease_seconds", 600),
        ("RETRY_WAIT", "due_seconds", None),
        ("FAILED", "due_seconds", 30),
        ("SUSPENDED", "suspend_reason", None),
        ("PENDING", "suspend_reason", "AUTH"),
        ("PENDING", "attempt", -1),
        ("PENDING", "job_type", "POEM"),
    ):
        with pytest.raises(errors.CheckViolation):
            a_job(connection, article_id, status, **{column: value})
    assert job_rows(connection) == []


def test_the_same_question_about_an_article_is_one_job(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id, "SUCCESS")
    with pytest.raises(errors.UniqueViolation, match="ai_job_is_asked_once"):
        a_job(connection, article_id)


def test_nothing_changes_without_the_token_of_now(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, an_article(connection), "RUNNING", attempt=2)
    before = job_row(connection, job_id)
    for run_id, attempt in (("run-2", 2), ("run-1", 1), ("run-1", 3)):
        token = a_token(job_id, run_id, attempt)
        assert not finish_summary(connection, token, A_SUMMARY)
        for status in ("RETRY_WAIT", "SUSPENDED", "FAILED"):
            assert not finish_failure(connection, token, a_failure(status))
        assert not release_claim(connection, token)
    assert job_row(connection, job_id) == before
    assert not rows(connection, "SELECT * FROM news.summary")


def test_another_run_can_neither_renew_nor_expire_nor_free_a_lease(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, an_article(connection), "RUNNING")
    before = job_row(connection, job_id)
    assert job_store.renew_leases(connection, "run-2", [job_id], 900) == set()
    job_store.expire_leases_of_run(connection, JobType.SUMMARY, "run-2")
    assert job_store.free_jobs_of_run(connection, "run-2") == 0
    assert job_row(connection, job_id) == before


def test_one_claim_takes_what_is_pending_due_and_lost_and_nothing_else(connect: Connect) -> None:
    connection = connect(at=NOON)
    ids = {
        name: a_job(connection, an_article(connection, number), status, **columns)
        for number, (name, (status, columns)) in enumerate(SITUATIONS.items())
    }
    taken = {one.job_id: one for one in claim(connection, "run-2")}
    assert set(taken) == {ids[name] for name in ["PENDING", *LOST, *DUE]}
    assert {one.job_id for one in taken.values() if one.lease_was_lost} == {ids[name] for name in LOST}
    assert claim(connection, "run-3") == []


def test_what_is_due_is_told_by_day_and_section(connect: Connect) -> None:
    connection = connect(at=NOON)
    for number, (status, columns) in enumerate(SITUATIONS.values()):
        a_job(connection, an_article(connection, number), status, **columns)
    jobs_waiting(connection, 2, HERE._replace(day=HERE.day + timedelta(days=1)))
    assert [tuple(due) for due in job_store.due_jobs_by_partition(connection, limit=10)] == [
        (HERE.day + timedelta(days=1), SECTION, 2),
        (HERE.day, SECTION, len(["PENDING", *LOST, *DUE])),
    ]
