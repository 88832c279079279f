"""An alarm is told once, whatever its channel does: refuses, hangs, is gone, or answers while others look."""

import json
import logging
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from resources import counters
from resources.alert_delivery import DELIVERED, FAILED, deliver
from resources.alerts import AlertResource
from tests.integration.resources.scripted_server import (
    ScriptedServer,
    always,
    answer,
    scripted,
    unused_address,
)

Connect = Callable[..., psycopg.Connection]

CAUSE, OTHER = "gate:gpt-4o-mini", "spending:80"
NINE = "2026-11-30 09:00+09:00"
FIVE_PAST, QUARTER_PAST, TWENTY_PAST = (f"2026-11-30 09:{minute}+09:00" for minute in ("05", "15", "20"))
NOON = "2026-11-30 12:00+09:00"
NEXT_MORNING = "2026-12-01 09:00+09:00"
GONE = AlertResource(urls=f"json://{unused_address()}")


@pytest.fixture
def receiver() -> Iterator[ScriptedServer]:
    with scripted(always(answer(200))) as server:
        yield server


def address(server: ScriptedServer, more: str = "") -> str:
    return server.url.replace("http:", "json:") + more


def to(server: ScriptedServer, more: str = "") -> AlertResource:
    return AlertResource(urls=address(server, more))


def titles(server: ScriptedServer) -> list[str]:
    return [json.loads(request.partition("\r\n\r\n")[2])["title"] for request in server.requests]


def messages(server: ScriptedServer) -> list[str]:
    return [json.loads(request.partition("\r\n\r\n")[2])["message"] for request in server.requests]


def hangs(server: ScriptedServer, request: str) -> Iterator[bytes]:
    server.ended.wait()
    yield b""


def test_what_a_channel_refused_is_told_once_by_a_later_tick(
    connection: psycopg.Connection, receiver: ScriptedServer
) -> None:
    with scripted(always(answer(503))) as refusing:
        assert to(refusing).raise_(connection, CAUSE, "pay the bill") is True
        assert to(refusing).tell_waiting(connection) == 0
        assert len(refusing.requests) == 2
    assert [to(receiver).tell_waiting(connection) for _ in range(2)] == [1, 0]
    assert (titles(receiver), messages(receiver)) == ([f"Granary: {CAUSE}"], ["pay the bill"])


def test_a_tick_asks_a_channel_that_is_gone_once_and_not_for_each_alarm(
    connection: psycopg.Connection, receiver: ScriptedServer
) -> None:
    for cause in (CAUSE, OTHER):
        GONE.raise_(connection, cause, "why")
    with scripted(always(answer(503))) as refusing:
        to(refusing).tell_waiting(connection)
        assert len(refusing.requests) == 1
    assert to(receiver).tell_waiting(connection) == 2


def test_a_channel_that_hangs_holds_nobody(receiver: ScriptedServer) -> None:
    with scripted(hangs) as hanging:
        started = time.monotonic()
        urls = [address(hanging, "?rto=2"), address(receiver)]
        assert deliver(urls, "title", "body", within_seconds=0.5) == [FAILED, DELIVERED]
        assert time.monotonic() - started < 1.5
        assert len(receiver.requests) == 1


def test_a_channel_that_hung_is_left_alone_for_a_while(
    connection: psycopg.Connection, receiver: ScriptedServer
) -> None:
    with scripted(hangs) as hanging:
        alerts = to(hanging, "?rto=1.2&cto=1.2")
        alerts.raise_(connection, CAUSE, "why")
        started = time.monotonic()
        for number in range(20):
            alerts.raise_(connection, f"raw_files:partition_failing:{number}", "why")
        assert time.monotonic() - started < 1
        assert len(hanging.requests) == 1
    assert to(receiver).tell_waiting(connection) == 20
    assert to(receiver).tell_waiting(connection) == 1


def test_one_address_that_is_gone_does_not_make_the_others_hear_it_again(
    connection: psycopg.Connection, receiver: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    alerts = AlertResource(urls=f"json://{unused_address()}, {address(receiver)}")
    alerts.raise_(connection, CAUSE, "why")
    assert alerts.tell_waiting(connection) == 0
    assert len(receiver.requests) == 1
    assert "could not be delivered" in caplog.text
    counted = [
        counters.value(connection, "alerts_sent_total", {"outcome": one}) for one in (DELIVERED, FAILED)
    ]
    assert counted == [1, 1]


def test_what_came_and_went_while_the_channel_was_away_is_one_message_that_tells_both(
    connect: Connect, receiver: ScriptedServer
) -> None:
    GONE.raise_(connect(NINE), CAUSE, "pay the bill")
    GONE.clear(connect(TWENTY_PAST), CAUSE)
    assert to(receiver).tell_waiting(connect(NOON)) == 1
    assert titles(receiver) == [f"Granary: {CAUSE} is over"]
    assert "raised at 2026-11-30 09:00 KST: pay the bill" in messages(receiver)[0]


def test_of_a_cause_that_stood_untold_for_days_the_last_message_is_sent(
    connect: Connect, receiver: ScriptedServer
) -> None:
    for at in (NINE, NEXT_MORNING):
        GONE.raise_(connect(at), CAUSE, at)
    assert to(receiver).tell_waiting(connect(NEXT_MORNING)) == 1
    assert messages(receiver) == [NEXT_MORNING]


def test_what_one_process_is_telling_no_other_tells(connect: Connect) -> None:
    told_by_another: list[int] = []

    def while_it_is_told(server: ScriptedServer, request: str) -> Iterator[bytes]:
        told_by_another.append(alerts.tell_waiting(connect()))
        yield answer(200)

    with scripted(while_it_is_told) as server:
        alerts = to(server)
        assert alerts.raise_(connect(), CAUSE, "why")
        assert alerts.tell_waiting(connect()) == 0
        assert len(server.requests) == 1
    assert told_by_another == [0]


def test_an_alarm_whose_process_died_before_telling_is_told_by_the_next_tick(
    connect: Connect, receiver: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> list[str]:
        raise KeyboardInterrupt

    dying = connect()
    with monkeypatch.context() as patched:
        patched.setattr("resources.alerts.deliver", dies)
        with pytest.raises(KeyboardInterrupt):
            to(receiver).raise_(dying, CAUSE, "why")
    assert to(receiver).tell_waiting(connect()) == 1
    assert titles(receiver) == [f"Granary: {CAUSE}"]


def test_what_comes_back_within_the_hour_is_told_only_if_it_stays(
    connect: Connect, receiver: ScriptedServer
) -> None:
    alerts = to(receiver)
    alerts.raise_(connect(NINE), CAUSE, "why")
    alerts.clear(connect(FIVE_PAST), CAUSE)
    assert alerts.raise_(connect(FIVE_PAST), CAUSE, "again") is False
    assert alerts.standing(connect(FIVE_PAST), CAUSE) == [CAUSE]
    assert [alerts.tell_waiting(connect(at)) for at in (FIVE_PAST, QUARTER_PAST, QUARTER_PAST)] == [0, 0, 0]
    assert len(receiver.requests) == 2
    alerts.clear(connect(QUARTER_PAST), CAUSE)
    alerts.raise_(connect(TWENTY_PAST), CAUSE, "again")
    alerts.clear(connect(TWENTY_PAST), CAUSE)
    alerts.tell_waiting(connect(NOON))
    assert titles(receiver)[:2] == [f"Granary: {CAUSE}", f"Granary: {CAUSE} is over"]


def test_a_cause_that_comes_and_goes_every_five_minutes_is_two_messages(
    connect: Connect, receiver: ScriptedServer
) -> None:
    alerts = to(receiver)
    for minute in range(0, 60, 5):
        now = connect(f"2026-11-30 09:{minute:02}+09:00")
        alerts.tell_waiting(now)
        alerts.raise_(now, CAUSE, "why") if minute % 2 == 0 else alerts.clear(now, CAUSE)
    assert titles(receiver) == [f"Granary: {CAUSE}", f"Granary: {CAUSE} is over"]


def test_what_comes_back_and_stays_is_told_with_its_end(connect: Connect, receiver: ScriptedServer) -> None:
    alerts = to(receiver)
    alerts.raise_(connect(NINE), CAUSE, "QUOTA")
    alerts.clear(connect(FIVE_PAST), CAUSE)
    alerts.raise_(connect("2026-11-30 09:06+09:00"), CAUSE, "AUTH")
    assert [alerts.tell_waiting(connect(at)) for at in (QUARTER_PAST, TWENTY_PAST, TWENTY_PAST)] == [0, 1, 0]
    alerts.clear(connect(NOON), CAUSE)
    assert titles(receiver) == [f"Granary: {CAUSE}", f"Granary: {CAUSE} is over"] * 2
    assert messages(receiver)[2] == "AUTH"


def test_what_comes_back_after_hours_is_told_at_once(connect: Connect, receiver: ScriptedServer) -> None:
    alerts = to(receiver)
    alerts.raise_(connect(NINE), CAUSE, "why")
    alerts.clear(connect(FIVE_PAST), CAUSE)
    assert alerts.raise_(connect(NOON), CAUSE, "again") is True
    assert len(receiver.requests) == 3


def test_a_heartbeat_is_sent_once_a_day_never_stands_and_is_tried_again(
    connect: Connect, receiver: ScriptedServer
) -> None:
    assert [GONE.beat(connect(NINE), "120 articles") for _ in range(2)] == [True, False]
    assert to(receiver).standing(connect(NINE), "heartbeat") == []
    assert [to(receiver).tell_waiting(connect(NOON)) for _ in range(2)] == [1, 0]
    assert to(receiver).beat(connect(NEXT_MORNING), "90 articles")
    assert titles(receiver) == ["Granary: heartbeat"] * 2
    assert messages(receiver) == ["120 articles", "90 articles"]


@pytest.mark.parametrize(
    "url",
    [
        "nonsense-canary",
        "slakc://canary-111/canary-222/",
        "slack://canary-111/canary-222",
        "tgram://canary/",
        "json://user:canary-7431@127.0.0.1:port",
        "unknown://canary-7431",
    ],
)
def test_an_address_that_is_not_understood_is_named_by_its_number(
    caplog: pytest.LogCaptureFixture, url: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        assert deliver([url], "title", "body") == [FAILED]
    ours = [record.getMessage() for record in caplog.records if record.name == "granary.alerts"]
    assert ours and "canary" not in caplog.text


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_address_that_leads_elsewhere_has_taken_nothing(receiver: ScriptedServer, status: int) -> None:
    leads = f"HTTP/1.1 {status} Moved\r\nLocation: {receiver.url}/login\r\nContent-Length: 0\r\n\r\n"

    def moved(server: ScriptedServer, request: str) -> Iterator[bytes]:
        yield leads.encode()

    with scripted(moved) as server:
        assert deliver([address(server)], "title", "body") == [FAILED]
    assert receiver.requests == []


def test_a_slow_channel_that_is_well_is_given_a_bounded_time(connection: psycopg.Connection) -> None:
    for number in range(3):
        GONE.raise_(connection, f"raw_files:partition_failing:{number}", "why")

    def slow(server: ScriptedServer, request: str) -> Iterator[bytes]:
        server.ended.wait(0.3)
        yield answer(200)

    with scripted(slow) as server:
        assert to(server).tell_waiting(connection, within_seconds=0.2) == 1
        assert to(server).tell_waiting(connection) == 2


def test_a_message_that_could_not_be_counted_is_not_sent_again(
    connection: psycopg.Connection, receiver: ScriptedServer
) -> None:
    connection.execute("ALTER TABLE granary.counter RENAME TO elsewhere")
    assert to(receiver).raise_(connection, CAUSE, "why")
    assert to(receiver).tell_waiting(connection) == 0
    assert titles(receiver) == [f"Granary: {CAUSE}"]
