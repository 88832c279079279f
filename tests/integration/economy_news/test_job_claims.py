"""Claims and leases: who holds a job, until when, and what becomes of those who come too late."""

from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg

from assets.economy_news import job_store
from assets.economy_news.models import JobType
from assets.economy_news.result_kinds import SUMMARY
from assets.economy_news.retry_times import RetryTimes
from resources import gate
from resources.gate import GateKey
from tests.integration.economy_news.factories import (
    A_SUMMARY,
    HERE,
    MODEL,
    NOON,
    PROVIDER_KEY,
    SECTION,
    a_failure,
    a_job,
    after_noon,
    an_article,
    claim,
    finish_failure,
    finish_summary,
    job_row,
    job_rows,
    jobs_waiting,
    release_claim,
    rows,
    statuses,
)

Connect = Callable[..., psycopg.Connection]
GATE = GateKey(PROVIDER_KEY, MODEL)
MOST_RETRIES = 5


def test_a_run_that_was_declared_dead_cannot_overwrite_what_the_next_run_stored(connect: Connect) -> None:
    jobs_waiting(connect(at=NOON), 1)
    (dead,) = claim(connect(at=NOON), "run-1")
    later = connect(at=after_noon(601))
    (alive,) = claim(later, "run-2")
    assert alive.lease_was_lost and not dead.lease_was_lost

    too_late = A_SUMMARY.model_copy(update={"summary_full": "너무 늦은 답이다."})
    assert not finish_summary(later, dead, too_late)
    assert finish_summary(later, alive, A_SUMMARY)
    assert not finish_summary(later, dead, too_late)
    assert not finish_failure(later, dead, a_failure("FAILED"))

    (stored,) = rows(
        later,
        "SELECT summary_full, run_id FROM news.summary JOIN news.ai_result AS made ON made.id = result_id",
    )
    assert stored == {"summary_full": A_SUMMARY.summary_full, "run_id": "run-2"}
    assert statuses(later) == ["SUCCESS"]


def test_a_run_that_was_freed_and_comes_back_finishes_nothing(connect: Connect) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 1)
    (held,) = claim(connection, "run-1")
    assert job_store.free_jobs_of_run(connection, "run-1") == 1
    assert not finish_summary(connection, held, A_SUMMARY)
    assert job_store.renew_leases(connection, "run-1", [held.job_id], 600) == set()
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"]) == ("RETRY_WAIT", "run_ended")
    assert job["next_run_at"] == datetime.fromisoformat(after_noon(60))


def test_an_earlier_try_of_the_same_run_cannot_finish_what_the_later_one_claimed(connect: Connect) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 1)
    (earlier,) = claim(connection, "run-1")
    assert claim(connection, "run-1") == []
    job_store.expire_leases_of_run(connection, JobType.SUMMARY, "run-1")
    (later,) = claim(connection, "run-1")
    assert (earlier.attempt, later.attempt) == (1, 2)
    assert not finish_summary(connection, earlier, A_SUMMARY)
    assert finish_summary(connection, later, A_SUMMARY)


def test_a_lease_ends_by_the_clock_of_the_database(connect: Connect) -> None:
    jobs_waiting(connect(at=NOON), 1)
    (held,) = claim(connect(at=NOON), "run-1")
    (job,) = job_rows(connect())
    assert job["lease_until"] == datetime.fromisoformat(after_noon(600))
    # The machine's clock is months away from all of these.
    assert claim(connect(at=after_noon(599)), "run-2") == []
    assert claim(connect(at=after_noon(600)), "run-2") == []
    assert job_store.renew_leases(connect(at=after_noon(600)), "run-1", [held.job_id], 600) == {held.job_id}
    assert claim(connect(at=after_noon(1_200)), "run-2") == []
    (lost,) = claim(connect(at=after_noon(1_200.001)), "run-2")
    assert (lost.job_id, lost.attempt, lost.lease_was_lost) == (held.job_id, 2, True)


def test_a_claim_keeps_to_its_partitions_and_its_limit_oldest_first(connection: psycopg.Connection) -> None:
    here = jobs_waiting(connection, 3)
    jobs_waiting(connection, 1, HERE._replace(section="STOCK"))
    jobs_waiting(connection, 1, HERE._replace(day=HERE.day + timedelta(days=1)))
    assert [one.job_id for one in claim(connection, "run-1", limit=2)] == here[:2]
    assert [one.job_id for one in claim(connection, "run-1", limit=2)] == here[2:]
    assert statuses(connection) == ["RUNNING"] * 3 + ["PENDING"] * 2


def test_a_claim_hands_out_the_text_and_the_result_tells_what_was_asked(
    connection: psycopg.Connection,
) -> None:
    article_id = an_article(connection, title="금리 인하", body="본문이다.")
    a_job(connection, article_id, prompt_version="old-version", model="old-model")
    (held,) = claim(connection, "run-1")
    assert (held.article_id, held.section, held.title) == (article_id, SECTION, "금리 인하")
    assert "본문이다." in held.text
    assert finish_summary(connection, held)
    (job,) = job_rows(connection)
    (result,) = rows(connection, "SELECT prompt_version, model FROM news.ai_result")
    assert (job["prompt_version"], job["model"]) == ("old-version", "old-model")
    assert (result["prompt_version"], result["model"]) == (SUMMARY.prompt.version, MODEL)


def test_two_claimers_at_once_get_different_jobs(connect: Connect) -> None:
    first, second = connect(), connect()
    second.execute("SET lock_timeout = '5s'")
    ids = jobs_waiting(first, 5)
    with first.transaction():
        taken = [one.job_id for one in claim(first, "run-1", limit=2)]
        also_taken = [one.job_id for one in claim(second, "run-2", limit=50)]
    assert (taken, also_taken) == (ids[:2], ids[2:])
    assert [job["claimed_by"] for job in job_rows(second)] == ["run-1"] * 2 + ["run-2"] * 3
    assert claim(second, "run-3") == []


def test_a_claim_over_partitions_holds_no_more_than_its_limit(connect: Connect) -> None:
    first, second, there = connect(), connect(), HERE._replace(section="STOCK")
    second.execute("SET lock_timeout = '5s'")
    ids = jobs_waiting(first, 2) + jobs_waiting(first, 4, there)
    with first.transaction():
        taken = [one.job_id for one in claim(first, "run-1", 3, [HERE, there])]
        left = [one.job_id for one in claim(second, "run-2", 50, [HERE, there])]
    assert (taken, left) == (ids[:3], ids[3:])


def test_a_claim_that_is_rolled_back_leaves_its_jobs_to_others(connect: Connect) -> None:
    first, second = connect(), connect()
    second.execute("SET lock_timeout = '5s'")
    (job_id,) = jobs_waiting(first, 1)
    with first.transaction(force_rollback=True):
        assert len(claim(first, "run-1")) == 1
        assert claim(second, "run-2") == []
    assert [(one.job_id, one.attempt) for one in claim(second, "run-2")] == [(job_id, 1)]


def test_nothing_is_claimed_while_the_gate_is_shut_but_by_its_probe(connection: psycopg.Connection) -> None:
    ids = jobs_waiting(connection, 4)
    for reason, job_id in zip(("QUOTA", "AUTH", "MODEL", "BUDGET"), ids, strict=True):
        gate.shut(connection, GATE, reason, "a message", probe_minutes=30)
        assert claim(connection, "run-1") == [], reason
        assert [one.job_id for one in claim(connection, "run-1", limit=1, is_probe=True)] == [job_id]
        gate.open_(connection, GATE)
    jobs_waiting(connection, 1)
    assert len(claim(connection, "run-1")) == 1


def test_the_gate_of_another_key_or_model_holds_nothing_back(connection: psycopg.Connection) -> None:
    for other in (GateKey("another-key", MODEL), GateKey(PROVIDER_KEY, "another-model")):
        jobs_waiting(connection, 1)
        gate.shut(connection, other, "QUOTA", "a message", probe_minutes=30)
        assert len(claim(connection, "run-1")) == 1


def test_a_budget_gate_holds_until_midnight_in_seoul_and_no_longer(connect: Connect) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 1)
    gate.shut(connection, GATE, "BUDGET", "a message", probe_minutes=30)
    assert claim(connect(at="2026-03-02T23:59:59.9+09:00"), "run-1") == []
    assert len(claim(connect(at="2026-03-03T00:00:00+09:00"), "run-1")) == 1


def test_each_retry_is_due_at_its_very_second_and_the_sixth_failure_is_the_last(connect: Connect) -> None:
    (job_id,) = jobs_waiting(connect(at=NOON), 1)
    now, waited = 0.0, []
    while statuses(connect())[0] != "FAILED":
        connection = connect(at=after_noon(now))
        (held,) = claim(connection, "run-1")
        delay = RetryTimes().delay_seconds(held.attempt, None)
        failure = a_failure("FAILED" if delay is None else "RETRY_WAIT", delay_seconds=delay)
        assert finish_failure(connection, held, failure)
        if delay is not None:
            waited.append(delay)
            due = job_row(connection, job_id)["next_run_at"]
            assert due == datetime.fromisoformat(after_noon(now + delay))
            assert claim(connect(at=after_noon(now + delay - 0.001)), "run-2") == []
            now += delay
    assert waited == [30, 60, 120, 240, 480]
    assert job_row(connect(), job_id)["settled_at"] == datetime.fromisoformat(after_noon(sum(waited)))


def test_a_claim_that_is_released_costs_no_attempt(connection: psycopg.Connection) -> None:
    jobs_waiting(connection, 1)
    for run_id in ("run-1", "run-2"):
        (held,) = claim(connection, run_id)
        assert held.attempt == 1
        assert release_claim(connection, held)
        assert not release_claim(connection, held)
        assert (job_rows(connection)[0]["status"], job_rows(connection)[0]["attempt"]) == ("PENDING", 0)


def test_a_job_whose_runs_always_die_is_given_up_after_five_retries(connect: Connect) -> None:
    """Whether its leases run out, or the run-status sensor frees it each time."""
    jobs_waiting(connect(at=NOON), 2)
    claims = 0
    for seconds in range(0, 10_000, 1_000):
        connection = connect(at=after_noon(seconds))
        job_store.fail_spent_leases(connection, JobType.SUMMARY, MOST_RETRIES)
        held = claim(connection, f"run-{seconds}")
        if not held:
            break
        claims += 1
        # The second job's run is declared dead; the first one's lease is left to run out.
        free = "UPDATE news.ai_job SET claimed_by = 'run-freed' WHERE id = %s"
        connection.execute(free, (held[-1].job_id,))
        assert job_store.free_jobs_of_run(connection, "run-freed") == 1
    assert claims == MOST_RETRIES + 1
    assert [(job["status"], job["error_code"]) for job in job_rows(connect())] == [
        ("FAILED", "lease_lost")
    ] * 2
