"""What batches answer that is no good: bad lines, missing ones, refusals as a whole, no answer at all."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.integration.economy_news.batching import (
    a_step,
    batches,
    created,
    end_batches,
    files,
    lines_paid,
    money,
    states,
    waiting_for_a_batch,
)
from tests.integration.economy_news.enriching import paid
from tests.integration.economy_news.factories import job_rows, rows
from tests.integration.resources.batching import late_upload
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def provider(openai_api: StandIn) -> Iterator[StandIn]:
    """The stand-in, where a batch ends only on command."""
    openai_api.post("batches/pace")
    yield openai_api
    openai_api.post("reset", batches=True)


def make_due(connection: psycopg.Connection) -> None:
    connection.execute("UPDATE news.ai_job SET next_run_at = now() WHERE status = 'RETRY_WAIT'")


def alarms(connection: psycopg.Connection) -> list[tuple[str, bool]]:
    """Causes, and whether they are over."""
    return connection.execute("SELECT cause, cleared_at IS NOT NULL FROM granary.alert").fetchall()


def round_trip(connection: psycopg.Connection, provider: StandIn, run_id: str = "run-1") -> None:
    a_step(connection, provider.url, run_id)
    end_batches(provider.url)


def spent_is_paid(connection: psycopg.Connection, provider: StandIn) -> bool:
    return float(money(connection)["spent"]) == pytest.approx(float(paid(provider)), abs=1e-7)


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_of_a_batch_that_ended_early_only_the_rest_is_sent_again(
    status: str, connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 8)
    provider.fault(batch_status=status)
    round_trip(connection, provider)
    provider.clear_faults()
    taken = a_step(connection, provider.url)
    assert 0 < taken.jobs.succeeded < 8
    assert taken.returned == taken.lines == 8 - taken.jobs.succeeded
    end_batches(provider.url)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 8}
    assert {job["attempt"] for job in job_rows(connection)} == {1}
    ids = [line["custom_id"] for line in lines_paid(provider)]
    assert len(ids) == len(set(ids)) == 8
    assert spent_is_paid(connection, provider)
    assert batches(connection)[0]["reason"] == status


def test_lines_missing_unknown_and_doubled_do_no_harm(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 8)
    provider.fault(missing_share=0.4, duplicate_lines=2, unknown_lines=3, shuffle=True)
    round_trip(connection, provider)
    provider.clear_faults()
    taken = a_step(connection, provider.url)
    counts = batches(connection)[0]["answers"]
    assert (counts["unknown"], counts["doubled"]) == (3, 2)
    assert taken.returned == 8 - taken.jobs.succeeded > 0
    end_batches(provider.url)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 8}
    assert spent_is_paid(connection, provider)


def test_a_batch_whose_lines_all_failed_has_no_output_and_tries_them_again_later(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    provider.fault(error_share=1.0, empty_file_ids=True)
    round_trip(connection, provider)
    provider.clear_faults()
    taken = a_step(connection, provider.url)
    assert (taken.jobs.put_off, taken.sent) == (2, 0)
    assert {(job["status"], job["error_code"]) for job in job_rows(connection)} == {
        ("RETRY_WAIT", "server_error")
    }
    assert money(connection)["reserved"] == 0
    assert files(provider.url) == []
    make_due(connection)
    round_trip(connection, provider)
    a_step(connection, provider.url)
    assert {(job["status"], job["attempt"]) for job in job_rows(connection)} == {("SUCCESS", 2)}


@pytest.mark.parametrize(("content", "code"), [("not_json", "invalid_output"), ("too_few", "invalid_output")])
def test_an_answer_that_breaks_a_rule_is_asked_for_once_more(
    content: str, code: str, connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(content=content, endpoint="chat/completions")
    round_trip(connection, provider)
    again = a_step(connection, provider.url)
    assert (again.jobs.put_off, again.sent) == (1, 1)
    assert job_rows(connection)[0]["mode"] == "batch"
    end_batches(provider.url)
    a_step(connection, provider.url)
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"], job["attempt"]) == ("FAILED", code, 2)
    assert spent_is_paid(connection, provider)


def test_a_second_answer_that_keeps_the_rules_is_stored(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(content="not_json", endpoint="chat/completions", times=1)
    round_trip(connection, provider)
    round_trip(connection, provider)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 1}


@pytest.mark.parametrize("content", ["refusal", "content_filter"])
def test_what_the_model_will_not_answer_fails(
    content: str, connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(content=content, endpoint="chat/completions")
    round_trip(connection, provider)
    a_step(connection, provider.url)
    assert [(job["status"], job["error_code"]) for job in job_rows(connection)] == [("FAILED", content)]


def test_lines_refused_for_the_quota_shut_the_gate_and_cost_no_attempt(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    provider.fault(status=429, code="insufficient_quota", endpoint="chat/completions")
    round_trip(connection, provider)
    taken = a_step(connection, provider.url)
    assert (taken.returned, taken.sent, taken.reason) == (2, 0, "QUOTA")
    assert {(job["status"], job["attempt"]) for job in job_rows(connection)} == {("PENDING", 0)}
    assert alarms(connection) == [("gate:gpt-4o-mini", False)]


def test_a_batch_that_failed_as_a_whole_counts_an_attempt_and_costs_nothing(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    provider.fault(batch_status="failed")
    round_trip(connection, provider)
    provider.clear_faults()
    taken = a_step(connection, provider.url)
    assert taken.jobs.put_off == 2
    assert {(job["status"], job["attempt"]) for job in job_rows(connection)} == {("RETRY_WAIT", 1)}
    assert (batches(connection)[0]["status"], money(connection)["reserved"]) == ("ABANDONED", 0)
    make_due(connection)
    round_trip(connection, provider)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 2}


def test_a_full_queue_is_nobodys_failure(connection: psycopg.Connection, provider: StandIn) -> None:
    waiting_for_a_batch(connection, 2)
    provider.fault(token_limit_exceeded=True)
    round_trip(connection, provider)
    provider.clear_faults()
    assert a_step(connection, provider.url).sent == 0
    assert {(job["status"], job["attempt"], job["error_code"]) for job in job_rows(connection)} == {
        ("RETRY_WAIT", 0, "token_limit_exceeded")
    }
    waits = rows(
        connection, "SELECT min(next_run_at - now()) > interval '9 minutes' AS long FROM news.ai_job"
    )
    assert waits == [{"long": True}]
    assert money(connection)["reserved"] == 0


def test_a_queue_that_refuses_the_creation_is_asked_again_later(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(status=400, code="token_limit_exceeded", endpoint="batches/create")
    sent = a_step(connection, provider.url)
    assert (sent.sent, sent.reason) == (0, "token_limit_exceeded")
    assert [(job["status"], job["attempt"]) for job in job_rows(connection)] == [("RETRY_WAIT", 0)]
    assert files(provider.url) == []
    assert rows(connection, "SELECT * FROM granary.api_gate") == []


@pytest.mark.parametrize("endpoint", ["files/upload", "batches/create"])
def test_a_refused_key_shuts_the_gate_and_suspends_nothing(
    endpoint: str, connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(status=401, code="invalid_api_key", endpoint=endpoint)
    assert a_step(connection, provider.url).reason == "AUTH"
    assert [(job["status"], job["attempt"]) for job in job_rows(connection)] == [("PENDING", 0)]
    assert (alarms(connection), money(connection)["reserved"]) == ([("gate:gpt-4o-mini", False)], 0)
    provider.clear_faults()
    assert a_step(connection, provider.url).sent == 0

    connection.execute("UPDATE granary.api_gate SET next_probe_at = now() - interval '1 second'")
    assert a_step(connection, provider.url).sent == 1
    assert rows(connection, "SELECT * FROM granary.api_gate") == []
    assert alarms(connection) == [("gate:gpt-4o-mini", True)]


def test_a_creation_without_an_answer_is_looked_for_and_not_repeated(
    connection: psycopg.Connection, connect: Connect, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    provider.fault(drop="after", endpoint="batches/create")
    assert a_step(connection, provider.url).sent == 0
    provider.clear_faults()
    assert [one["status"] for one in batches(connection)] == ["PLANNED"]
    assert a_step(connection, provider.url, "too early").settled == 0

    (later,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    then = connect(at=later)
    end_batches(provider.url)
    assert a_step(then, provider.url, "next").settled == 1
    a_step(then, provider.url, "next")
    assert states(then) == {"SUCCESS": 2}
    assert len(created(provider)) == 1
    assert files(provider.url) == []


def test_an_upload_that_is_carried_out_after_its_run_gave_it_up_is_deleted_too(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(status=503, endpoint="files/upload", times=1)
    assert a_step(connection, provider.url).sent == 0
    (given_up,) = batches(connection)
    assert given_up["files_left"] and files(provider.url) == []

    late_upload(provider, given_up["files_left"][0])
    assert a_step(connection, provider.url, "next").sent == 1
    (of_the_next,) = files(provider.url)
    assert of_the_next not in given_up["files_left"]
    assert [one["files_left"] for one in batches(connection)] == [[], []]


def test_an_upload_that_never_comes_is_not_looked_for_for_ever(
    connection: psycopg.Connection, connect: Connect, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    provider.fault(status=503, endpoint="files/upload", times=1)
    a_step(connection, provider.url)
    (later,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    a_step(connect(at=later), provider.url, "next")
    assert [one["files_left"] for one in batches(connection)] == [[], []]


def test_a_batch_that_the_provider_has_forgotten_is_asked_again_and_its_money_kept_back(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    a_step(connection, provider.url)
    provider.post("reset", batches=True)
    provider.post("batches/pace")
    taken = a_step(connection, provider.url)
    assert (taken.jobs.put_off, states(connection)) == (1, {"RETRY_WAIT": 1})
    assert money(connection)["reserved"] > 0


def test_what_cannot_be_read_now_is_read_by_the_next_run(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    round_trip(connection, provider)
    provider.fault(status=503, endpoint="files/content")
    assert a_step(connection, provider.url).taken_in == 0
    provider.clear_faults()
    assert states(connection) == {"SUBMITTED": 1}
    assert a_step(connection, provider.url, "next").jobs.succeeded == 1
