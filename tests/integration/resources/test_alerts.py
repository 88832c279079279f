"""Alarms: what is remembered in the real database, and what really arrives at a receiver."""

import json
import logging
from collections.abc import Callable, Iterator

import dagster as dg
import psycopg
import pytest

from resources.alerts import AlertResource
from tests.integration.resources.scripted_server import (
    ScriptedServer,
    always,
    answer,
    scripted,
    unused_address,
)

Connect = Callable[..., psycopg.Connection]

MORNING = "2026-11-30 00:00+09:00"
EVENING = "2026-11-30 23:59:59+09:00"
NEXT_DAY = "2026-12-01 00:00+09:00"
CAUSE = "gate:gpt-4o-mini"


@pytest.fixture
def receiver() -> Iterator[ScriptedServer]:
    with scripted(always(answer(200))) as server:
        yield server


def received(receiver: ScriptedServer) -> list[tuple[str, str]]:
    """Title and message of each alarm that arrived."""
    bodies = [json.loads(request.partition("\r\n\r\n")[2]) for request in receiver.requests]
    return [(body["title"], body["message"]) for body in bodies]


def to(*servers: ScriptedServer) -> AlertResource:
    return AlertResource(urls=", ".join(server.url.replace("http:", "json:") for server in servers))


def test_an_alarm_really_arrives_with_its_cause_and_what_to_do(
    connect: Connect, receiver: ScriptedServer
) -> None:
    assert to(receiver).raise_(connect(MORNING), CAUSE, "요금을 내고 resume_suspended 를 실행하세요") is True
    assert received(receiver) == [(f"Granary: {CAUSE}", "요금을 내고 resume_suspended 를 실행하세요")]


def test_a_cause_has_one_message_a_day_and_another_the_next_day(
    connect: Connect, receiver: ScriptedServer
) -> None:
    alerts = to(receiver)
    went_out = [alerts.raise_(connect(at), CAUSE, at) for at in (MORNING, EVENING, NEXT_DAY, NEXT_DAY)]
    assert went_out == [True, False, True, False]
    assert [message for _, message in received(receiver)] == [MORNING, NEXT_DAY]


def test_another_cause_has_a_message_of_its_own(connect: Connect, receiver: ScriptedServer) -> None:
    alerts = to(receiver)
    assert alerts.raise_(connect(MORNING), CAUSE, "why") and alerts.raise_(connect(MORNING), "layout", "why")
    assert len(received(receiver)) == 2


def test_of_two_runs_that_raise_it_at_once_one_sends(connect: Connect, receiver: ScriptedServer) -> None:
    alerts, first, second = to(receiver), connect(MORNING), connect(MORNING)
    assert [alerts.raise_(one, CAUSE, "why") for one in (first, second)] == [True, False]
    assert len(received(receiver)) == 1


def test_a_cause_that_stood_for_days_is_cleared_with_one_message(
    connect: Connect, receiver: ScriptedServer
) -> None:
    alerts = to(receiver)
    alerts.raise_(connect(MORNING), CAUSE, "why")
    alerts.raise_(connect(NEXT_DAY), CAUSE, "why")
    assert [alerts.clear(connect(NEXT_DAY), CAUSE) for _ in range(2)] == [True, False]
    assert [title for title, _ in received(receiver)] == [
        f"Granary: {CAUSE}",
        f"Granary: {CAUSE}",
        f"Granary: {CAUSE} is over",
    ]


def test_what_was_never_raised_is_cleared_without_a_message(
    connect: Connect, receiver: ScriptedServer
) -> None:
    assert to(receiver).clear(connect(MORNING), CAUSE) is False
    assert received(receiver) == []


def test_clearing_one_cause_leaves_another_standing(connect: Connect, receiver: ScriptedServer) -> None:
    alerts = to(receiver)
    alerts.raise_(connect(MORNING), CAUSE, "why")
    alerts.raise_(connect(MORNING), "layout", "why")
    assert alerts.clear(connect(EVENING), CAUSE)
    assert alerts.clear(connect(EVENING), "layout")


def test_without_an_address_the_log_has_it(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "granary.alerts"):
        assert AlertResource().raise_(connect(MORNING), CAUSE, "pay the bill")
    assert [record.getMessage() for record in caplog.records] == [f"Granary: {CAUSE}: pay the bill"]


def test_every_address_is_told_even_if_one_does_not_answer(
    connect: Connect, receiver: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    urls = f"json://{unused_address()}, {receiver.url.replace('http:', 'json:')}"
    assert AlertResource(urls=urls).raise_(connect(MORNING), CAUSE, "why") is True
    assert len(received(receiver)) == 1
    assert "could not be delivered" in caplog.text


@pytest.mark.parametrize(
    "urls",
    [
        "nonsense",
        "unknown://canary-7431",
        "json://user:canary-7431@127.0.0.1:port",
        "json://127.0.0.1:1/canary-7431",
        ",,",
        "file:///etc/passwd",
    ],
)
def test_a_channel_that_fails_neither_raises_nor_shows_its_address(
    connect: Connect, caplog: pytest.LogCaptureFixture, urls: str
) -> None:
    with caplog.at_level(logging.WARNING, "granary.alerts"):
        assert AlertResource(urls=urls).raise_(connect(MORNING), CAUSE, "why") is True
        assert AlertResource(urls=urls).clear(connect(MORNING), CAUSE) is True
    ours = [record.getMessage() for record in caplog.records if record.name == "granary.alerts"]
    assert ours and "canary" not in "".join(ours)


def test_a_channel_that_breaks_in_a_way_of_its_own_does_not_raise(
    connect: Connect,
    receiver: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object, **__: object) -> bool:
        raise RuntimeError("token canary-7431 is not valid")

    monkeypatch.setattr("apprise.Apprise.notify", broken)
    assert to(receiver).raise_(connect(MORNING), CAUSE, "why") is True
    assert "the alarm channel failed: RuntimeError" in caplog.text
    assert "canary" not in caplog.text


def test_a_receiver_that_refuses_is_logged_and_the_run_goes_on(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted(always(answer(500))) as broken:
        assert to(broken).raise_(connect(MORNING), CAUSE, "why") is True
        assert len(broken.requests) == 1
    assert "could not be delivered" in caplog.text


def test_the_addresses_are_read_from_the_variable_that_dagster_was_given(
    connect: Connect, receiver: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERT_URLS", receiver.url.replace("http:", "json:"))
    with dg.build_resources({"alerts": AlertResource(urls=dg.EnvVar("ALERT_URLS"))}) as resources:
        resources.alerts.raise_(connect(MORNING), CAUSE, "why")
    assert len(received(receiver)) == 1
