"""Runs that settle jobs: what is asked, stored and paid."""

import threading
from collections.abc import Callable

import psycopg
import pytest

from assets.economy_news.result_kinds import SUMMARY
from assets.economy_news.summary import sentences
from resources.chat import Messages
from resources.counters import value
from tests.integration.economy_news.enriching import (
    a_chat,
    calls,
    enrich,
    paid,
    spending,
    summaries,
)
from tests.integration.economy_news.factories import (
    HERE,
    MODEL,
    claim,
    job_rows,
    jobs_waiting,
    rows,
    statuses,
)
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]


def test_every_job_is_summarised_and_paid_once(connection: psycopg.Connection, openai_api: StandIn) -> None:
    jobs_waiting(connection, 7)
    outcome = enrich(connection, a_chat(openai_api), batch_size=3)

    assert (outcome.succeeded, outcome.failed, outcome.put_off, outcome.leases_lost) == (7, 0, 0, 0)
    assert {(job["status"], job["attempt"]) for job in job_rows(connection)} == {("SUCCESS", 1)}
    assert len(summaries(connection)) == 7
    for summary in summaries(connection):
        assert len(summary["summary3"]) == 3
        assert 7 <= len(sentences(str(summary["summary_full"]))) <= 9
    totals = openai_api.get("ledger/totals")
    assert (totals["calls"], totals["failed_calls"], totals["repeated_requests"]) == (7, 0, 0)


def test_what_results_say_they_cost_is_what_the_provider_charged(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 5)
    outcome = enrich(connection, a_chat(openai_api))

    stored = [
        (one["input_tokens"], one["cached_tokens"], one["output_tokens"]) for one in summaries(connection)
    ]
    charged = [
        (call["prompt_tokens"], call["cached_tokens"], call["completion_tokens"])
        for call in calls(openai_api)
    ]
    assert sorted(stored) == sorted(charged)
    costs = rows(connection, "SELECT sum(cost_usd) AS usd FROM news.ai_result")
    assert costs == [{"usd": paid(openai_api)}]
    spent = spending(connection)
    assert (spent["calls"], spent["cost_usd"], spent["spent_usd"]) == (5, paid(openai_api), paid(openai_api))
    assert spent["reserved_usd"] == 0
    assert outcome.usage_of(HERE).cost_usd == paid(openai_api)


def test_a_result_says_where_it_comes_from(connection: psycopg.Connection, openai_api: StandIn) -> None:
    (job_id,) = jobs_waiting(connection, 1)
    enrich(connection, a_chat(openai_api), run_id="run-7")
    (stored,) = summaries(connection)
    article_id = stored["article_id"]
    assert stored["job_id"] == job_id
    assert (stored["model"], stored["prompt_version"]) == (MODEL, SUMMARY.prompt.version)
    assert (stored["run_id"], stored["ai_generated"], stored["publishable"]) == ("run-7", True, True)
    assert rows(connection, "SELECT url FROM news.article WHERE id = %s", article_id) == [
        {"url": stored["original_url"]}
    ]


def test_usage_is_told_by_partition_and_other_partitions_are_left_alone(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    stock, living = HERE._replace(section="STOCK"), HERE._replace(section="LIVING")
    for partition, count in ((HERE, 1), (stock, 2), (living, 1)):
        jobs_waiting(connection, count, partition)
    outcome = enrich(connection, a_chat(openai_api), partitions=[HERE, stock])
    assert [outcome.usage_of(one).calls for one in (HERE, stock, living)] == [1, 2, 0]
    assert statuses(connection) == ["SUCCESS"] * 3 + ["PENDING"]


def test_never_more_calls_are_under_way_than_allowed(
    connect: Connect, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    """Each call waits until three are under way, so there are never fewer either."""
    jobs_waiting(connection, 9)
    watcher = connect()
    under_way: list[int] = []

    def count(_: Messages) -> None:
        """Calls begun so far without those that are settled, just before another is begun."""
        settled = sum(row["calls"] for row in rows(watcher, "SELECT calls FROM granary.spending"))
        under_way.append(len(under_way) - settled)

    together = threading.Barrier(3, timeout=20)
    chat = a_chat(openai_api).before_reserving(count).before_asking(lambda _: together.wait())
    outcome = enrich(connection, chat, concurrency=3, batch_size=4)
    assert outcome.succeeded == 9
    assert max(under_way) == 2


def test_a_lease_lost_during_the_call_drops_its_answer_and_counts_it(
    connect: Connect, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 1)
    other = connect()

    def take_away(_: Messages) -> None:
        other.execute("UPDATE news.ai_job SET lease_until = granary.now() - interval '1 second'")
        assert len(claim(other, "run-2")) == 1

    outcome = enrich(connection, a_chat(openai_api).before_asking(take_away))
    assert (outcome.succeeded, outcome.leases_lost) == (0, 1)
    (job,) = job_rows(connection)
    assert (job["status"], job["claimed_by"], job["attempt"]) == ("RUNNING", "run-2", 2)
    assert summaries(connection) == []
    assert spending(connection)["cost_usd"] == paid(openai_api)
    assert value(connection, "ai_jobs_events_total", {"type": "SUMMARY", "event": "late_finish"}) == 1


def test_a_step_that_is_tried_again_takes_back_what_it_had_leased(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 2)
    assert len(claim(connection, "run-1", limit=1)) == 1
    assert enrich(connection, a_chat(openai_api), run_id="run-1").succeeded == 2
    assert [job["attempt"] for job in job_rows(connection)] == [2, 1]
    assert value(connection, "ai_leases_lost_total", {"pipeline": "economy_news"}) == 1


def test_leases_are_renewed_while_calls_take_their_time(
    connect: Connect, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    """A lease of an instant is renewed each time that an answer comes, for the waiting claims too."""
    jobs_waiting(connection, 3)
    other = connect()
    leases: list[list[object]] = []

    def look(_: Messages) -> None:
        leases.append(
            [row["lease_until"] for row in rows(other, "SELECT lease_until FROM news.ai_job ORDER BY id")]
        )

    enrich(connection, a_chat(openai_api).before_reserving(look), concurrency=1, lease_seconds=0.003)
    first, _, third = leases
    assert third[2] > first[2]  # type: ignore[operator]


def test_counters_tell_what_happened(connection: psycopg.Connection, openai_api: StandIn) -> None:
    jobs_waiting(connection, 3)
    openai_api.fault(content="not_json", times=1)
    openai_api.fault(status=500, times=1)
    enrich(connection, a_chat(openai_api), concurrency=1)

    def events(name: str, **labels: str) -> float:
        return value(connection, name, {"type": "SUMMARY", **labels})

    assert events("ai_jobs_events_total", event="claimed") == 3
    assert events("ai_jobs_events_total", event="asked_again") == 1
    assert events("ai_jobs_processed_total", result="success", error_code="none") == 2
    assert events("ai_jobs_processed_total", result="retry_wait", error_code="server_error") == 1
    assert events("ai_job_duration_seconds_count") == 2
    assert value(
        connection, "ai_cost_usd_total", {"pipeline": "economy_news", "model": MODEL}
    ) == pytest.approx(float(paid(openai_api)))
    requests = {"model": MODEL, "schema": SUMMARY.prompt.schema_name}
    ok = {**requests, "status": "ok", "error_code": "none"}
    failed = {**requests, "status": "500", "error_code": "server_error"}
    assert value(connection, "openai_api_requests_total", ok) == 3
    assert value(connection, "openai_api_requests_total", failed) == 1
