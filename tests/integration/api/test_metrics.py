"""What /metrics tells of queues, money, gates and alarms, and what it does without MongoDB."""

import re

import psycopg
import pytest
from fastapi.testclient import TestClient

from api import metrics
from local_stack.ports import LOOPBACK, choose
from resources.chat import ChatResource
from resources.counters import Counts
from tests.integration.api.conftest import OpenDoor
from tests.integration.api.queues import fill_queues

MINUTE, HOUR = 60, 3_600
AWAITED = {
    'ai_leases_lost_total{pipeline="economy_news"}',
    'alerts_sent_total{outcome="failed"}',
    "context_contract_breaches_total",
}


def told(door: TestClient) -> dict[str, float]:
    answered = door.get("/metrics")
    assert answered.status_code == 200
    lines = [line.rsplit(" ", 1) for line in answered.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def sizes(samples: dict[str, float], pipeline: str) -> dict[str, float]:
    wanted = re.compile(rf'granary_queue_size{{pipeline="{pipeline}",status="(\w+)"}}')
    return {found[1]: value for name, value in samples.items() if (found := wanted.fullmatch(name)) and value}


def test_every_pipelines_queue_is_told_without_what_ended_well(
    open_door: OpenDoor, connection: psycopg.Connection, mongo_database: str
) -> None:
    fill_queues(connection, mongo_database)
    samples = told(open_door(mongodb_database=mongo_database))
    assert sizes(samples, "economy_news") == {
        "PENDING": 1,
        "RUNNING": 1,
        "RETRY_WAIT": 1,
        "SUSPENDED": 1,
        "SUBMITTED": 7,
    }
    assert sizes(samples, "raw_files") == {"NEW": 1}
    assert sizes(samples, "context_tags") == {"PENDING": 1, "PROCESSING": 1, "FAILED": 1}
    assert sizes(samples, "recommendations") == {"DUE": 1}
    assert sizes(samples, "recipes") == {"fetched": 1, "parse_retrieved": 1, "failed": 1}
    assert samples['ai_jobs_queue_size{status="PENDING",type="SUMMARY"}'] == 1
    assert samples["context_requests_waiting"] == 1
    assert not [name for name in samples if "SUCCESS" in name or "embed_retrieved" in name]


@pytest.mark.parametrize(
    ("gone", "part", "without"),
    [
        ("rec.queue_item", "recommendations", 'granary_queue_size{pipeline="recommendations"'),
        ("news.ai_batch", "economy_news", "ai_jobs_queue_size"),
        ("raw.request", "raw_files", 'granary_queue_size{pipeline="raw_files"'),
        ("granary.context_request", "context_tags", "context_requests_waiting"),
        ("granary.spending_day", "spending", 'granary_spending_usd{kind="spent"}'),
        ("granary.api_gate", "gates", "granary_gate_shut"),
        ("granary.alert", "alarms", "granary_alarms_standing"),
        ("granary.counter", "counters", "ai_jobs_enqueued_total"),
    ],
)
def test_a_table_that_is_missing_takes_its_part_alone_and_is_named(
    gone: str,
    part: str,
    without: str,
    open_door: OpenDoor,
    connection: psycopg.Connection,
    mongo_database: str,
) -> None:
    fill_queues(connection, mongo_database)
    connection.execute(f"ALTER TABLE {gone} RENAME TO gone".encode())
    samples = told(open_door(mongodb_database=mongo_database))
    failed = {name for name, value in samples.items() if name.startswith("granary_scrape_failed") and value}
    assert failed == {f'granary_scrape_failed{{part="{part}"}}'}
    assert not [name for name in samples if name.startswith(without)]
    assert samples['granary_spending_usd{kind="cap"}'] == 5
    others = {"economy_news", "raw_files", "context_tags", "recommendations", "recipes"} - {part}
    assert all(sizes(samples, pipeline) for pipeline in others)


def test_what_an_alert_awaits_is_told_before_it_happens_and_once_afterwards(
    open_door: OpenDoor, connection: psycopg.Connection
) -> None:
    door = open_door()
    begun = dict.fromkeys(AWAITED, 0.0)
    assert {name: value for name, value in told(door).items() if name in AWAITED} == begun
    counts = Counts()
    counts.add("context_contract_breaches_total")
    counts.add("ai_leases_lost_total", 2, pipeline="economy_news")
    counts.write(connection)
    happened = {"context_contract_breaches_total": 1.0, 'ai_leases_lost_total{pipeline="economy_news"}': 2.0}
    assert {name: value for name, value in told(door).items() if name in AWAITED} == begun | happened


def test_counters_that_cannot_be_read_are_not_told_as_none(
    open_door: OpenDoor, connection: psycopg.Connection
) -> None:
    connection.execute("ALTER TABLE granary.counter RENAME TO gone")
    assert not told(open_door()).keys() & AWAITED


def test_how_long_the_oldest_waits_is_told_in_seconds(
    open_door: OpenDoor, connection: psycopg.Connection, mongo_database: str
) -> None:
    fill_queues(connection, mongo_database)
    samples = told(open_door(mongodb_database=mongo_database))
    expected = {
        'granary_oldest_waiting_seconds{pipeline="economy_news"}': HOUR,
        'granary_oldest_waiting_seconds{pipeline="raw_files"}': 20 * MINUTE,
        'granary_oldest_waiting_seconds{pipeline="context_tags"}': 30 * MINUTE,
        "context_oldest_waiting_seconds": 30 * MINUTE,
        'granary_oldest_waiting_seconds{pipeline="recommendations"}': 10 * MINUTE,
        'granary_oldest_waiting_seconds{pipeline="recipes"}': 2 * HOUR,
        'granary_oldest_batch_seconds{pipeline="economy_news"}': 27 * HOUR,
        'granary_oldest_batch_seconds{pipeline="recipes"}': 2 * HOUR,
        "granary_heartbeat_age_seconds": 24 * HOUR,
    }
    assert {name: samples[name] for name in expected} == pytest.approx(expected, abs=MINUTE)
    assert samples['granary_batches_open{pipeline="economy_news"}'] == 1
    assert samples['granary_batches_open{pipeline="recipes"}'] == 1


def test_what_is_due_later_waits_for_nobody(open_door: OpenDoor, connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO rec.queue_item (member_id, last_visited_at, due_offset, candidate_generation_type,"
        " status, queued_at, claimed_by, lease_until) VALUES (1, granary.now(), '1 hour', 'G0', 'RUNNING',"
        " granary.now() - interval '1 day', 'run', granary.now() + interval '5 minutes')"
    )
    samples = told(open_door())
    assert samples['granary_queue_size{pipeline="recommendations",status="RUNNING"}'] == 1
    assert samples['granary_oldest_waiting_seconds{pipeline="recommendations"}'] == 0


def test_money_is_of_today_and_no_cap_is_an_infinite_one(
    open_door: OpenDoor, connection: psycopg.Connection, mongo_database: str
) -> None:
    fill_queues(connection, mongo_database)
    samples = told(open_door())
    assert samples['granary_spending_usd{kind="spent"}'] == 1.25
    assert samples['granary_spending_usd{kind="reserved"}'] == 0.5
    assert samples['granary_spending_usd{kind="cap"}'] == 5
    assert told(open_door(daily_spending_cap_usd=None))['granary_spending_usd{kind="cap"}'] == float("inf")


def test_a_gate_of_a_key_that_was_replaced_is_not_told(
    open_door: OpenDoor, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = 'granary_gate_shut{model="gpt-4o-mini",reason="AUTH"}'
    door = open_door()
    chat: ChatResource = door.app.state.chat  # type: ignore[attr-defined]
    connection.execute(
        "INSERT INTO granary.api_gate VALUES (%s, 'gpt-4o-mini', 'AUTH', 'm', granary.now(), granary.now())",
        (chat.gate_key.provider_key,),
    )
    assert told(door)[shut] == 1
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    assert shut not in told(door)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert told(door)[shut] == 1


def test_an_alarm_of_several_days_stands_once_and_a_heartbeat_is_none(
    open_door: OpenDoor, connection: psycopg.Connection, mongo_database: str
) -> None:
    assert "granary_heartbeat_age_seconds" not in told(open_door())
    fill_queues(connection, mongo_database)
    assert told(open_door())["granary_alarms_standing"] == 1


def test_without_mongodb_the_other_figures_are_told(
    open_door: OpenDoor, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    assert not [name for name in told(open_door()) if "recipes" in name]
    monkeypatch.setattr(metrics, "MONGO_SECONDS", 0.1)
    for address in (f"mongodb://{LOOPBACK}:{choose()}/", "not an address"):
        monkeypatch.setenv("MONGODB_URI", address)
        samples = told(open_door())
        assert samples['granary_scrape_failed{part="recipes"}'] == 1
        assert not [name for name in samples if 'pipeline="recipes"' in name]
        assert samples['granary_queue_size{pipeline="raw_files",status="NEW"}'] == 0
