"""Calls that fail: what becomes of the job, of the gate and of the money (the contract's error table)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from resources import gate
from tests.integration.economy_news.enriching import a_chat, calls, enrich
from tests.integration.economy_news.factories import NOON, job_rows, jobs_waiting, rows, statuses
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]

SUSPENDING: list[tuple[str, dict[str, Any]]] = [
    ("QUOTA", {"status": 429, "code": "insufficient_quota"}),
    ("QUOTA", {"status": 429, "type": "insufficient_quota"}),
    ("QUOTA", {"status": 403, "code": "insufficient_quota"}),
    ("QUOTA", {"status": 500, "code": "insufficient_balance"}),
    ("QUOTA", {"status": 400, "code": "credit_balance_exhausted"}),
    ("QUOTA", {"status": 429, "code": "billing_not_active"}),
    ("QUOTA", {"status": 400, "code": "billing_hard_limit_reached"}),
    ("QUOTA", {"status": 402}),
    ("AUTH", {"status": 401, "code": "invalid_api_key"}),
    ("AUTH", {"status": 400, "code": "invalid_api_key"}),
    ("AUTH", {"status": 403, "code": "unsupported_country_region_territory"}),
    ("AUTH", {"status": 401}),
    ("AUTH", {"status": 403}),
    ("MODEL", {"status": 404, "code": "model_not_found"}),
    ("MODEL", {"status": 403, "code": "model_not_found"}),
]
RETRIED: list[dict[str, Any]] = [
    {"status": 429, "code": "rate_limit_exceeded"},
    {"status": 429},
    {"status": 408},
    {"status": 409},
    {"status": 500},
    {"status": 502, "raw": "<html>Bad Gateway</html>"},
    {"status": 503},
    {"status": 504},
    {"status": 529},
]
FAILING: list[dict[str, Any]] = [
    {"status": 400, "code": "context_length_exceeded"},
    {"status": 400, "code": "content_filter"},
    {"status": 400},
    {"status": 413},
    {"status": 422},
]


def the_gate(connection: psycopg.Connection, api: StandIn) -> gate.ShutGate | None:
    return gate.read(connection, a_chat(api).gate_key)


def reserved(connection: psycopg.Connection) -> Any:
    (row,) = rows(connection, "SELECT reserved_usd FROM granary.spending_day")
    return row["reserved_usd"]


def after_each(
    faults: list[dict[str, Any]], connection: psycopg.Connection, api: StandIn
) -> list[tuple[str, str | None, str | None]]:
    """Status, suspend reason and gate after each fault, each met by a new job with an open gate."""
    found = []
    for fault in faults:
        api.clear_faults()
        api.fault(**fault)
        jobs_waiting(connection, 1)
        outcome = enrich(connection, a_chat(api))
        shut = the_gate(connection, api)
        assert outcome.shut == shut
        gate.open_(connection, a_chat(api).gate_key)
        job = job_rows(connection)[-1]
        assert job["attempt"] == 1
        found.append((job["status"], job["suspend_reason"], shut.reason if shut else None))
    assert len(calls(api)) == len(faults), "the SDK tried by itself"
    assert reserved(connection) == 0
    assert not rows(connection, "SELECT * FROM granary.spending")
    return found


def test_what_hits_everyone_suspends_the_job_and_shuts_the_gate(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    found = after_each([fault for _, fault in SUSPENDING], connection, openai_api)
    assert found == [("SUSPENDED", reason, reason) for reason, _ in SUSPENDING]


def test_what_may_pass_is_tried_again_after_thirty_seconds(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    found = after_each(RETRIED, connection, openai_api)
    assert found == [("RETRY_WAIT", None, None)] * len(RETRIED)
    due = datetime.fromisoformat(NOON) + timedelta(seconds=30)
    assert {job["next_run_at"] for job in job_rows(connection)} == {due}


def test_what_will_never_pass_fails_the_job_at_once(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    found = after_each(FAILING, connection, openai_api)
    assert found == [("FAILED", None, None)] * len(FAILING)


def test_without_a_key_nothing_is_asked_and_the_gate_says_what_to_set(
    connection: psycopg.Connection, openai_api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    jobs_waiting(connection, 1)
    outcome = enrich(connection, a_chat(openai_api, api_key=""))
    (job,) = job_rows(connection)
    assert (job["status"], job["suspend_reason"], job["error_code"]) == ("SUSPENDED", "AUTH", "no_api_key")
    assert outcome.shut is not None and "OPENAI_API_KEY" in outcome.shut.explain()
    assert calls(openai_api) == []
    assert reserved(connection) == 0


@pytest.mark.parametrize(
    ("status", "code", "becomes"),
    [(503, "odd\\u0000\\ud83d", "RETRY_WAIT"), (429, "insufficient_quota", "SUSPENDED")],
)
def test_an_error_that_no_table_would_take_breaks_no_run(
    status: int, code: str, becomes: str, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 2)
    message = "\\u0000\\ud83d, too many \\u0000"
    openai_api.fault(status=status, raw=f'{{"error": {{"message": "{message}", "code": "{code}"}}}}', times=1)
    enrich(connection, a_chat(openai_api), concurrency=1)
    assert statuses(connection)[0] == becomes
    stored = str(job_rows(connection)[0]["error_message"])
    assert stored == f"status {status}"


def test_a_refused_request_is_not_quoted_in_the_database(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    openai_api.fault(status=400, message="Invalid prompt: 금리가 올랐다")
    enrich(connection, a_chat(openai_api))
    assert "금리" not in str(job_rows(connection)) + str(rows(connection, "SELECT * FROM granary.api_gate"))


@pytest.mark.parametrize(
    ("fault", "code"), [({"hang": True}, "timeout"), ({"drop": "after"}, "connection_error")]
)
def test_a_call_without_an_answer_is_tried_again_and_its_money_stays_reserved(
    fault: dict[str, Any], code: str, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    """The provider may have charged it; nobody here can know."""
    jobs_waiting(connection, 1)
    openai_api.fault(**fault)
    enrich(connection, a_chat(openai_api, timeout_ms=1_000))
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"]) == ("RETRY_WAIT", code)
    assert reserved(connection) > 0
    assert len(calls(openai_api)) == 1


def test_a_server_that_cannot_be_reached_costs_nothing(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    enrich(connection, a_chat(openai_api, base_url="http://127.0.0.1:9/v1"))
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"]) == ("RETRY_WAIT", "connection_error")
    assert reserved(connection) == 0


def test_a_retry_after_decides_the_next_try_up_to_an_hour(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    for header, seconds in (("120", 120), ("1.5", 1.5), ("7200", 3_600), ("soon", 30)):
        jobs_waiting(connection, 1)
        openai_api.clear_faults()
        openai_api.fault(status=429, headers={"retry-after": header})
        enrich(connection, a_chat(openai_api))
        due = datetime.fromisoformat(NOON) + timedelta(seconds=seconds)
        assert job_rows(connection)[-1]["next_run_at"] == due, header


def test_a_job_that_never_gets_an_answer_is_asked_six_times_and_fails(
    connect: Connect, openai_api: StandIn
) -> None:
    now, waited = datetime.fromisoformat(NOON), []
    jobs_waiting(connect(at=now.isoformat()), 1)
    openai_api.fault(status=503)
    chat = a_chat(openai_api)
    while True:
        connection = connect(at=now.isoformat())
        enrich(connection, chat)
        (job,) = job_rows(connection)
        if job["status"] != "RETRY_WAIT":
            break
        just_before = (job["next_run_at"] - timedelta(milliseconds=1)).isoformat()
        assert enrich(connect(at=just_before), chat).put_off == 0
        waited.append((job["next_run_at"] - now).total_seconds())
        now = job["next_run_at"]
    assert waited == [30, 60, 120, 240, 480]
    assert (job["status"], job["attempt"], job["error_code"]) == ("FAILED", 6, "server_error")
    assert len(calls(openai_api)) == 6


def test_a_job_that_failed_before_succeeds_when_it_is_due_and_pays_for_one_call(
    connect: Connect, openai_api: StandIn
) -> None:
    jobs_waiting(connect(at=NOON), 2)
    openai_api.fault(status=500, times=1)
    chat = a_chat(openai_api)
    enrich(connect(at=NOON), chat, concurrency=1)
    assert statuses(connect()) == ["RETRY_WAIT", "SUCCESS"]
    later = connect(at=(datetime.fromisoformat(NOON) + timedelta(seconds=30)).isoformat())
    enrich(later, chat)
    assert [(job["status"], job["attempt"], job["error_code"]) for job in job_rows(later)] == [
        ("SUCCESS", 2, None),
        ("SUCCESS", 1, None),
    ]
    assert [call["status"] for call in calls(openai_api)] == [500, 200, 200]
    assert openai_api.get("ledger/totals")["repeated_requests"] == 0
