"""The gate: what shuts it, what a shut one holds back, and the probe that opens it."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from resources import gate
from resources.chat import Messages
from tests.integration.economy_news.enriching import a_chat, calls, enrich
from tests.integration.economy_news.factories import (
    MODEL,
    NOON,
    a_job,
    after_noon,
    an_article,
    attempts,
    job_rows,
    jobs_waiting,
    rows,
    statuses,
)
from tests.integration.recorded_alerts import RecordedAlerts
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]

QUOTA = {"status": 429, "code": "insufficient_quota"}
SHUT_TITLE = f"Granary: gate:{MODEL}"
OPEN_TITLE = f"Granary: gate:{MODEL} is over"


def test_the_first_answer_that_hits_everyone_stops_the_run_and_gives_the_rest_back(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 6)
    openai_api.fault(**QUOTA)
    enrich(connection, a_chat(openai_api), concurrency=1, batch_size=3)
    assert statuses(connection) == ["SUSPENDED"] + ["PENDING"] * 5
    assert attempts(connection) == [1, 0, 0, 0, 0, 0]
    assert len(calls(openai_api)) == 1


def test_nothing_is_claimed_while_the_gate_is_shut(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 3)
    openai_api.fault(**QUOTA)
    chat = a_chat(openai_api)
    enrich(connection, chat, concurrency=1)
    openai_api.clear_faults()
    before = job_rows(connection)
    for minutes in (0, 29.99):
        outcome = enrich(connect(at=after_noon(minutes * 60)), chat, run_id="run-2")
        assert outcome.shut is not None and outcome.shut.reason == "QUOTA"
    assert job_rows(connection) == before
    assert len(calls(openai_api)) == 1


def test_the_alarm_goes_out_once_however_many_calls_and_runs_meet_the_same_wall(
    connect: Connect, openai_api: StandIn
) -> None:
    connection, alerts = connect(at=NOON), RecordedAlerts()
    jobs_waiting(connection, 6)
    openai_api.fault(**QUOTA)
    together = threading.Barrier(3, timeout=20)
    chat = a_chat(openai_api).before_asking(lambda _: together.wait())
    enrich(connection, chat, concurrency=3, alerts=alerts)
    assert statuses(connection) == ["SUSPENDED"] * 3 + ["PENDING"] * 3
    for minutes in (5, 31, 62):
        enrich(connect(at=after_noon(minutes * 60)), a_chat(openai_api), alerts=alerts)
    assert alerts.sent == [SHUT_TITLE]
    (alert,) = rows(connection, "SELECT * FROM granary.alert")
    assert "resume_suspended" in alert["message"] and alert["cleared_at"] is None


def test_the_probe_asks_one_alone_and_its_answer_opens_the_gate_for_the_rest(
    connect: Connect, openai_api: StandIn
) -> None:
    connection, watcher, alerts = connect(at=NOON), connect(), RecordedAlerts()
    jobs_waiting(connection, 5)
    openai_api.fault(**QUOTA, times=1)
    chat = a_chat(openai_api)
    enrich(connection, chat, concurrency=1, alerts=alerts)

    gates: list[int] = []
    chat.before_reserving(lambda _: gates.append(len(rows(watcher, "SELECT * FROM granary.api_gate"))))
    later = connect(at=after_noon(1800))
    outcome = enrich(later, chat, run_id="run-2", alerts=alerts)
    assert gates == [1, 0, 0, 0], "a second call was begun before the probe was answered"
    assert (outcome.succeeded, outcome.shut) == (4, None)
    assert statuses(later) == ["SUSPENDED"] + ["SUCCESS"] * 4
    assert alerts.sent == [SHUT_TITLE, OPEN_TITLE]
    assert rows(later, "SELECT * FROM granary.alert")[0]["cleared_at"] is not None


@pytest.mark.parametrize(
    ("fault", "becomes"), [(QUOTA, "SUSPENDED"), ({"status": 500}, "RETRY_WAIT"), ({"status": 400}, "FAILED")]
)
def test_a_probe_that_fails_leaves_the_gate_shut_until_the_next_one(
    fault: dict[str, Any], becomes: str, connect: Connect, openai_api: StandIn
) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 4)
    openai_api.fault(**QUOTA, times=1)
    openai_api.fault(**fault, times=1)
    chat = a_chat(openai_api)
    enrich(connection, chat, concurrency=1)
    for minutes in (30, 59):
        outcome = enrich(connect(at=after_noon(minutes * 60)), chat)
        assert outcome.shut is not None
        assert statuses(connection) == ["SUSPENDED", becomes, "PENDING", "PENDING"]
        assert len(calls(openai_api)) == 2
    assert enrich(connect(at=after_noon(3600)), chat).shut is None


def test_a_probe_that_is_answered_with_nonsense_opens_the_gate_and_is_complained_about(
    connect: Connect, openai_api: StandIn
) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 3)
    openai_api.fault(**QUOTA, times=1)
    openai_api.fault(content="not_json", times=1)
    chat = a_chat(openai_api)
    enrich(connection, chat, concurrency=1)
    assert enrich(connect(at=after_noon(1800)), chat).succeeded == 2
    assert statuses(connection) == ["SUSPENDED", "SUCCESS", "SUCCESS"]


def test_one_run_alone_holds_the_probe(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 3)
    openai_api.fault(**QUOTA, times=2)
    enrich(connection, a_chat(openai_api), concurrency=1)
    first, second = connect(at=after_noon(1800)), connect(at=after_noon(1800))

    def another_run(_: Messages) -> None:
        assert enrich(second, a_chat(openai_api), run_id="run-3").shut is not None

    enrich(first, a_chat(openai_api).before_asking(another_run), run_id="run-2")
    assert len(calls(openai_api)) == 2
    assert {job["claimed_by"] for job in job_rows(connection)} == {"run-1", "run-2"}


def test_a_probe_that_finds_nothing_to_ask_is_due_again_at_once(
    connect: Connect, openai_api: StandIn
) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 1)
    openai_api.fault(**QUOTA, times=1)
    chat = a_chat(openai_api)
    enrich(connection, chat)
    later = connect(at=after_noon(1860))
    enrich(later, chat)
    shut = gate.read(later, chat.gate_key)
    assert shut is not None and shut.probe_is_due
    jobs_waiting(later, 1)
    assert enrich(later, chat).succeeded == 1


def test_a_success_that_was_under_way_when_the_gate_was_shut_does_not_open_it(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    for number, title in enumerate(["한도가 끝난 기사", "이미 물어본 기사", "기다리는 기사"]):
        a_job(connection, an_article(connection, number, title=title))
    openai_api.fault(**QUOTA, contains="한도가 끝난 기사")
    is_shut = threading.Event()

    def wait_for_the_gate(messages: Messages) -> None:
        if "이미 물어본 기사" in messages[1]["content"]:
            assert is_shut.wait(timeout=20)

    alerts = RecordedAlerts().on_sending(lambda _: is_shut.set())
    outcome = enrich(connection, a_chat(openai_api).before_asking(wait_for_the_gate), alerts=alerts)
    assert statuses(connection) == ["SUSPENDED", "SUCCESS", "PENDING"]
    assert outcome.shut is not None
    assert alerts.sent == [SHUT_TITLE]
    assert len(rows(connection, "SELECT * FROM granary.api_gate")) == 1


def test_a_gate_that_another_run_shuts_ends_the_claims_of_this_one(
    connect: Connect, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 3)
    other, chat = connect(), a_chat(openai_api)
    chat.before_asking(lambda _: gate.shut(other, chat.gate_key, "AUTH", "a message", probe_minutes=30))
    enrich(connection, chat, concurrency=1, batch_size=1)
    assert statuses(connection) == ["SUCCESS", "PENDING", "PENDING"]
    assert len(rows(connection, "SELECT * FROM granary.api_gate")) == 1
