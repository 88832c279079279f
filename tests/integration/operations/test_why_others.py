"""What the person on call is told of a raw file, of a member and of a context."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import psycopg
import pytest

from operations.why import why
from orchestration.settings import Settings
from resources.item_history import NOBODY, ItemHistory
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    a_trigger,
    an_event,
    an_item,
    at,
)

Connect = Callable[..., psycopg.Connection]
ALL_ON: dict[str, Any] = {
    "granary_pipelines": ("raw_files", "recommendations", "context_tags"),
    "s3_endpoint_url": "http://127.0.0.1:9999",
}
KEY = "raw/country=kr/category=news/date=2026-12-09/raw_0001.json"
TEXT = "한강에서 먹은 치킨"


@pytest.fixture
def connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> psycopg.Connection:
    """At noon (UTC) of 2026-12-10."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return connect(at(NOON))


def told(connection: psycopg.Connection, kind: str, identifier: object, **settings: Any) -> ItemHistory:
    found = why(kind, str(identifier), connection, None, Settings(**{**ALL_ON, **settings}))
    assert found is not None
    return found


def a_file(connection: psycopg.Connection, status: str = "PENDING", **columns: Any) -> None:
    row = {
        "key": KEY,
        "source": "kr/news",
        "day": "2026-12-09",
        "etag": "e1",
        "size": 10,
        "status": status,
        "seen_at": NOON,
        **({"reason": "broken JSON", "attempts": 2} if status == "FAILED" else {}),
        **({"processed_at": NOON, "run_id": "run-1", "marked_etag": "e1"} if status == "PROCESSED" else {}),
        **columns,
    }
    _insert(connection, "raw.file", row)


def a_partition(connection: psycopg.Connection, status: str, **columns: Any) -> None:
    row = {"day": "2026-12-09", "source": "kr/news", "status": status, "run_id": "run-1", **columns}
    _insert(connection, "raw.partition", row)


def _insert(connection: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})".encode(), row)  # noqa: S608


def a_context(
    connection: psycopg.Connection,
    embedding: str | None = "PENDING",
    keyword: str = "PENDING",
    *,
    is_handled: bool = False,
    has_text: bool = True,
    updated_at: datetime = NOON,
) -> None:
    connection.execute(
        "INSERT INTO ai.keyword_preset (id, code, display_name, category, description, embedding,"
        " embedding_profile) VALUES (101, 'c', 'c', 'COMPANION', 'd', %s, %s)",
        (json.dumps([1.0] + [0.0] * 1535), Settings().embedding_profile),
    )
    connection.execute(
        "INSERT INTO granary.context_request (context_id, user_id, record_id, text, text_hmac, requested_at,"
        " handled_at, text_since) VALUES (7, 1, 1, %s, 'secret-hmac', %s, %s, %s)",
        (TEXT if has_text else None, NOON, NOON if is_handled else None, NOON),
    )
    if embedding:
        connection.execute(
            "INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status, updated_at)"
            " VALUES (7, %s, %s, %s)",
            (embedding, keyword, updated_at),
        )


# Raw files.


def test_a_new_file_waits_for_its_partitions_next_attempt(connection: psycopg.Connection) -> None:
    a_file(connection)
    a_partition(connection, "FAILED", failures=2, due_at=NOON + 10 * MINUTE, error="the bucket is away")
    history = told(connection, "raw-file", f"s3://granary/{KEY}.success")
    assert "attempt 2 failed, of 4: the bucket is away" in history.waits_for
    assert (history.who, history.due_at) == (
        "the sensor raw_files_retry, every 30 seconds",
        NOON + 10 * MINUTE,
    )


def test_a_running_partition_is_its_runs(connection: psycopg.Connection) -> None:
    a_file(connection)
    a_partition(connection, "RUNNING", due_at=NOON + 10 * MINUTE)
    assert told(connection, "raw-file", KEY).who == NOBODY
    connection.execute("UPDATE raw.partition SET due_at = %s", (NOON - MINUTE,))
    assert "took longer than a run may" in told(connection, "raw-file", KEY).waits_for


@pytest.mark.parametrize(
    ("error", "why_not"), [("canceled", "a person canceled it"), ("x", "its tries are spent")]
)
def test_spent_tries_leave_it_to_the_next_look_or_a_person(
    connection: psycopg.Connection, error: str, why_not: str
) -> None:
    a_file(connection)
    a_partition(connection, "FAILED", failures=4, error=error)
    history = told(connection, "raw-file", KEY)
    assert why_not in history.waits_for
    assert history.due_at == datetime(2026, 12, 11, tzinfo=UTC)  # noon's own look may be over
    assert "daily_raw_files" in history.who
    assert "dg launch --job raw_files_partitions --partition '2026-12-09|kr/news'" in history.who


def test_a_broken_file_is_somebodys_to_mend(connection: psycopg.Connection) -> None:
    a_file(connection, "FAILED")
    a_partition(connection, "DONE")
    history = told(connection, "raw-file", KEY)
    assert "FAILED: broken JSON" in history.waits_for
    assert history.who.startswith("the person on call: have its content mended")
    assert "read in vain 2 times" in history.notes[0]


def test_a_processed_file_is_done_when_its_marker_is_written(connection: psycopg.Connection) -> None:
    a_file(connection, "PROCESSED", marked_etag=None)
    a_partition(connection, "DONE")
    assert "marker to be written" in told(connection, "raw-file", KEY).waits_for
    connection.execute("UPDATE raw.file SET marked_etag = etag")
    assert told(connection, "raw-file", KEY).waits_for == "nothing"


def test_a_key_that_no_look_has_seen_says_when_one_comes(connection: psycopg.Connection) -> None:
    history = told(connection, "raw-file", KEY)
    assert "not in the ledger" in history.waits_for
    assert "/api/v1/seeds/orchestrate" in history.who
    old = KEY.replace("2026-12-09", "2026-10-01")
    assert "RAW_CATCH_UP_DAYS" in told(connection, "raw-file", old).waits_for
    near = told(connection, "raw-file", KEY.replace("country=kr", "country=KR"))
    assert "nearly fits" in near.waits_for
    for name in ("reports/x.json", KEY.replace("raw_0001", "raw_\udcff"), KEY.replace("0001", "\x00")):
        assert why("raw-file", name, connection, None, Settings(**ALL_ON)) is None


def test_a_missing_bucket_or_switch_stands_before_it(connection: psycopg.Connection) -> None:
    a_file(connection)
    history = told(connection, "raw-file", KEY, granary_pipelines=(), s3_endpoint_url="")
    assert "GRANARY_PIPELINES does not name it" in history.waits_for
    assert "a bucket to list" in history.waits_for


# Members.


def test_a_member_waits_for_the_next_due_time(connection: psycopg.Connection) -> None:
    a_trigger(connection, 5, NOON - 5 * HOUR, NOON + 7 * HOUR)
    history = told(connection, "member", 5)
    assert "the time 12 h after the last visit, to be queued for G2" in history.waits_for
    assert history.due_at == NOON + 7 * HOUR
    assert history.who.startswith("the sensor members_due")


def test_an_open_item_comes_before_the_next_due_time(connection: psycopg.Connection) -> None:
    a_trigger(connection, 5, NOON - 2 * HOUR, NOON + 2 * HOUR)
    item = an_item(connection, 5, "RUNNING")
    history = told(connection, "member", 5)
    assert f"queue item {item} (G2, RUNNING) to be ranked: run run-1 is at it" in history.waits_for
    assert history.due_at == NOON + 5 * MINUTE
    assert len(history.waits) == 2
    connection.execute("UPDATE rec.queue_item SET lease_until = %s, returns = 1", (NOON - MINUTE,))
    assert "ended as FAILED" in told(connection, "member", 5).waits_for


def test_only_the_newest_failed_item_asks_for_a_person(connection: psycopg.Connection) -> None:
    failed = an_item(connection, 5, "FAILED")
    history = told(connection, "member", 5)
    assert f'"item_ids":[{failed}]' in history.who
    an_item(connection, 5, "SUCCEEDED", queued_at=NOON + MINUTE, visited_at=NOON)
    assert told(connection, "member", 5).who == NOBODY


def test_a_member_with_no_due_time_waits_for_a_visit(connection: psycopg.Connection) -> None:
    an_event(connection, 5, 1)
    connection.execute(
        "INSERT INTO rec.member_event (member_id, product_id, kind, occurred_at)"
        " VALUES (5, 1, 'view', 'infinity')"
    )
    history = told(connection, "member", 5)
    assert history.waits_for.startswith("a visit")
    assert "2 events known" in history.notes[0]


def test_who_is_unknown_or_erased_is_not_found(connection: psycopg.Connection) -> None:
    for kind in ("member", "context"):
        for name in ("5", "0", "-1", "x", "9" * 30, "9" * 5_000, "1.5"):
            assert why(kind, name, connection, None, Settings(**ALL_ON)) is None


# Contexts.


def test_a_posted_context_waits_for_the_sensor(connection: psycopg.Connection) -> None:
    a_context(connection)
    history = told(connection, "context", 7)
    assert "the embedding stage (PENDING) to be started" in history.waits_for
    assert history.who.startswith("the sensor context_requests_waiting")


STATUSES = ("PENDING", "PROCESSING", "COMPLETED", "FAILED", "CANCELLED")


def test_no_text_and_no_hash_of_one_is_told_in_any_state(connection: psycopg.Connection) -> None:
    a_context(connection)
    times = {True: NOON, False: None}
    for embedding, keyword, is_handled, has_text in product(STATUSES, STATUSES, (True, False), (True, False)):
        connection.execute(
            "UPDATE ai.context_ai_state SET embedding_status = %s, keyword_status = %s", (embedding, keyword)
        )
        connection.execute(
            "UPDATE granary.context_request SET handled_at = %s, text = %s",
            (times[is_handled], TEXT if has_text else None),
        )
        for own_state in (False, True):
            history = told(connection, "context", 7, context_own_state=own_state)
            everything = "\n".join([*history.lines(), history.markdown(), str(history.as_json())])
            assert TEXT not in everything
            assert "secret-hmac" not in everything
            may_go_on = embedding in ("PENDING", "PROCESSING") or (
                embedding == "COMPLETED" and keyword in ("PENDING", "PROCESSING")
            )
            assert history.waits or not may_go_on, (embedding, keyword)


def test_a_stage_at_work_is_nobodys_until_it_expires(connection: psycopg.Connection) -> None:
    a_context(connection, "COMPLETED", "PROCESSING", is_handled=True)
    history = told(connection, "context", 7)
    assert (history.who, history.due_at) == (NOBODY, NOON + timedelta(minutes=10))


def test_an_expired_stage_is_sent_again_by_its_owner(connection: psycopg.Connection) -> None:
    a_context(connection, "PROCESSING", is_handled=True, updated_at=NOON - timedelta(minutes=11))
    assert told(connection, "context", 7).who == "the application: its rescan posts it"
    ours = told(connection, "context", 7, context_own_state=True)
    assert ours.who.startswith("the schedule context_rescan")
    assert ours.due_at == NOON + timedelta(minutes=5)  # asked for just now: left alone for four minutes


def test_without_a_state_row_the_application_must_act(connection: psycopg.Connection) -> None:
    a_context(connection, None)
    assert told(connection, "context", 7).who.startswith("the application: makes the row")


def test_missing_keywords_stand_before_every_context(connection: psycopg.Connection) -> None:
    a_context(connection)
    connection.execute("UPDATE ai.keyword_preset SET is_active = false")
    history = told(connection, "context", 7)
    assert history.waits_for.startswith("keywords of the profile")
    assert history.who.startswith("the sensor preset_file_changed")
