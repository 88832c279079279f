"""What the person on call is told of an article, in every state that it can be in."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from operations.why import why
from orchestration.settings import Settings
from resources import gate, host_pace
from resources.chat import ChatResource
from resources.item_history import NOBODY, ItemHistory
from tests.integration.economy_news.factories import (
    DAY,
    NOON,
    a_job,
    a_text,
    after_noon,
    an_article,
    claim,
    finish_summary,
)

Connect = Callable[..., psycopg.Connection]
AT_NOON = datetime.fromisoformat(NOON)
SITE = "http://127.0.0.1:9999"
SENSOR = "the sensor article_jobs_due"
ALL_ON: dict[str, Any] = {"granary_pipelines": ("economy_news",), "naver_base_url": SITE}


@pytest.fixture
def connection(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> psycopg.Connection:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return connect(NOON)


def told(connection: psycopg.Connection, identifier: object, **settings: Any) -> ItemHistory:
    found = why("article", str(identifier), connection, None, Settings(**{**ALL_ON, **settings}))
    assert found is not None
    return found


def a_page(connection: psycopg.Connection, status: str, passes: int = 1, day: object = DAY) -> None:
    connection.execute(
        "INSERT INTO news.listed_page"
        " (oid, aid, section, day, position, status, passes, listed_at, looked_at)"
        " VALUES ('001', '0000000077', 'FINANCE', %s, 3, %s, %s, granary.now(), granary.now())",
        (day, status, passes),
    )


def a_batch(connection: psycopg.Connection, status: str = "PLANNED", **columns: Any) -> None:
    row = {
        "plan": "plan-1",
        "job_type": "SUMMARY",
        "day": DAY,
        "prompt_version": "v",
        "model": "gpt-4o-mini",
        "status": status,
        "jobs": 2,
        "queued_tokens": 10,
        "planned_at": AT_NOON,
        **columns,
    }
    has_day = connection.execute(
        "SELECT EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'news'"
        " AND table_name = 'ai_batch' AND column_name = 'day')"
    ).fetchone()
    if has_day == (False,):
        del row["day"]
    names, marks = ", ".join(row), ", ".join(f"%({name})s" for name in row)
    connection.execute(f"INSERT INTO news.ai_batch ({names}) VALUES ({marks})".encode(), row)  # noqa: S608


def in_batch(connection: psycopg.Connection) -> int:
    """An article whose summary is in plan-1."""
    article_id = an_article(connection)
    job_id = a_job(connection, article_id)
    connection.execute(
        "UPDATE news.ai_job SET status = 'SUBMITTED', mode = 'batch', batch_plan = 'plan-1',"
        " claimed_by = 'run-1' WHERE id = %s",
        (job_id,),
    )
    return article_id


def test_an_address_its_ids_and_its_number_name_one_article(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    names = (
        article_id,
        "001/0000000000",
        " https://n.news.naver.com/mnews/article/001/0000000000?sid=101 ",
        "https://n.news.naver.com/article/001/0000000000",
    )
    assert len({told(connection, name).title for name in names}) == 1


@pytest.mark.parametrize("name", ["999999", "9" * 40, "001/0000000999", "nothing", "", "a\x00b", "٣"])
def test_what_is_not_there_is_not_made_up(connection: psycopg.Connection, name: str) -> None:
    an_article(connection)
    assert why("article", name, connection, None, Settings(**ALL_ON)) is None


def test_a_job_that_waits_names_its_sensor_and_is_due_now(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    history = told(connection, article_id)
    assert history.waits_for.startswith("SUMMARY (job")
    assert history.who.startswith(SENSOR)
    assert history.due_at == AT_NOON
    assert any("TERM_CARDS from SUMMARY" in note for note in history.notes)


def test_a_retry_is_due_at_its_exact_time_with_its_reason(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id, "RETRY_WAIT", due_seconds=90)
    history = told(connection, article_id)
    assert history.due_at == AT_NOON + timedelta(seconds=90)
    assert "attempt 1 ended with timeout" in history.waits_for


def test_what_is_late_by_much_sends_the_person_on_call_to_look(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id, "RETRY_WAIT", due_seconds=-3_600)
    assert "looks at its ticks" in told(connection, article_id).who


def test_a_running_job_is_its_runs_until_its_lease_ends(
    connection: psycopg.Connection, connect: Connect
) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id, "RUNNING")
    history = told(connection, article_id)
    assert (history.who, history.due_at) == (NOBODY, AT_NOON + timedelta(seconds=600))
    later = told(connect(after_noon(601)), article_id)
    assert "to be taken over" in later.waits_for
    assert later.who.startswith(SENSOR)


def test_a_dead_run_in_the_last_attempt_is_told_as_the_end(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id, "RUNNING", attempt=6, lease_seconds=-1)
    assert "no attempt is left" in told(connection, article_id).waits_for


@pytest.mark.parametrize("status", ["FAILED", "SUSPENDED"])
def test_what_a_person_must_mend_comes_first_with_its_command(
    connection: psycopg.Connection, status: str
) -> None:
    article_id = an_article(connection)
    waiting = a_job(connection, article_id)
    broken = a_job(connection, article_id, status, job_type="TERM_CARDS")
    history = told(connection, article_id)
    job = {"FAILED": "requeue_failed", "SUSPENDED": "resume_suspended"}[status]
    assert f"economy_news_{job}" in history.who
    assert f'"job_ids":[{broken}]' in history.who
    assert [f"job {waiting}" in wait.waits_for for wait in history.waits] == [False, True]


def test_a_shut_gate_is_what_is_waited_for_and_says_how_to_open_it(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    key = ChatResource(model="gpt-4o-mini").gate_key
    gate.shut(connection, key, "QUOTA", "status 429", 30)
    history = told(connection, article_id)
    assert history.waits_for.startswith(
        "the gate of gpt-4o-mini, shut since 2026-03-02 12:00:00 KST for QUOTA"
    )
    assert "Then SUMMARY" in history.waits_for
    assert "dg launch --job economy_news_resume_suspended" in history.who
    assert history.due_at == AT_NOON + timedelta(minutes=30)


def test_the_gate_of_another_key_is_no_obstacle(
    connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    gate.shut(connection, ChatResource(model="gpt-4o-mini").gate_key, "AUTH", "status 401", 30)
    monkeypatch.setenv("OPENAI_API_KEY", "a-new-key")
    assert told(connection, article_id).who.startswith(SENSOR)
    # Without a key at hand it is told, rather than overlooked.
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "shut since" in told(connection, article_id).waits_for


def test_the_cap_waits_for_midnight_in_seoul(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    connection.execute("INSERT INTO granary.spending_day VALUES (granary.today(), 2, 3)")
    history = told(connection, article_id)
    assert "5.0000 of 5 USD" in history.waits_for
    assert history.due_at == datetime.fromisoformat("2026-03-03T00:00+09:00")
    assert "raise DAILY_SPENDING_CAP_USD" in told(connection, article_id, daily_spending_cap_usd="0").who
    assert told(connection, article_id, daily_spending_cap_usd="none").who.startswith(SENSOR)


def test_switches_that_are_off_are_told_with_the_way_round_them(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    history = told(connection, article_id, granary_pipelines=(), ai_enabled=False)
    assert "GRANARY_PIPELINES does not name it" in history.waits_for
    assert "AI_ENABLED=false" in history.waits_for
    assert f"dg launch --job economy_news_enrich --partition '{DAY}|FINANCE'" in history.who
    assert history.due_at is None


def test_a_finished_summary_tells_result_cost_and_run(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    (taken,) = claim(connection, "run-7")
    assert finish_summary(connection, taken)
    history = told(connection, article_id)
    assert history.cost.startswith("0.0003 USD, 1200 tokens, of the results that are kept (1)")
    (stored,) = [event for event in history.events if "SUMMARY stored" in event.what]
    assert stored.run_id == "run-7"
    assert told(connection, article_id, openai_model="gpt-4o").notes[-1].startswith("made by an earlier")


def test_no_text_of_an_article_is_told_but_its_title(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    (taken,) = claim(connection, "run-7")
    finish_summary(connection, taken)
    history = told(connection, article_id)
    everything = "\n".join([*history.lines(), history.markdown(), str(history.as_json())])
    _, body = a_text(0)
    assert body[:20] not in everything
    assert "여덟 문장이다" not in everything


def test_a_short_article_says_why_it_gets_nothing(connection: psycopg.Connection) -> None:
    article_id = an_article(connection, body="짧은 기사다.")
    assert "MIN_CONTENT_LENGTH_FOR_AI=1000" in told(connection, article_id).notes[0]


def test_a_duplicate_waits_for_what_its_original_waits_for(connection: psycopg.Connection) -> None:
    original = an_article(connection)
    job_id = a_job(connection, original, "FAILED")
    copy = an_article(connection, 1, duplicate_of=original)
    history = told(connection, copy)
    assert f"job {job_id}" in history.waits_for
    assert "shares its results" in history.notes[0]


def test_jobs_of_a_batch_wait_for_it(connection: psycopg.Connection, connect: Connect) -> None:
    a_batch(connection, claimed_by="run-1", lease_until=AT_NOON + timedelta(minutes=10))
    article_id = in_batch(connection)
    history = told(connection, article_id)
    assert "run run-1 is sending its batch plan-1" in history.waits_for
    dead = told(connect(after_noon(601)), article_id)
    assert "sent again only if not" in dead.waits_for
    assert dead.who.startswith("the sensor news_batches_over")
    connection.execute(
        "UPDATE news.ai_batch SET status = 'SUBMITTED', batch_id = 'batch_9', submitted_at = granary.now(),"
        " claimed_by = NULL, lease_until = NULL"
    )
    history = told(connection, article_id)
    assert "the provider's batch_9 (batch plan-1, 2 jobs) to be over" in history.waits_for
    assert history.who.startswith(NOBODY)
    assert history.due_at == AT_NOON + timedelta(hours=24)
    stuck = told(connect(after_noon(27 * 3_600)), article_id)
    assert "A batch is stuck" in stuck.who
    assert any("at the provider as batch_9" in event.what for event in history.events)


def test_jobs_that_wait_for_a_batch_wait_for_room_too(connection: psycopg.Connection) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    connection.execute("UPDATE news.ai_job SET mode = 'batch'")
    assert "to be planned into a batch" in told(connection, article_id).waits_for
    a_batch(connection, "SUBMITTED", batch_id="batch_9", submitted_at=AT_NOON, queued_tokens=5_000)
    history = told(connection, article_id, max_enqueued_tokens=5_000)
    assert "5000 tokens wait of 5000 (MAX_ENQUEUED_TOKENS)" in history.waits_for


def test_a_listed_page_waits_for_its_next_fetch(connection: psycopg.Connection) -> None:
    a_page(connection, "FETCH_FAILED", 3)
    history = told(connection, "001/0000000077")
    assert "3 of 12 have failed" in history.waits_for
    # Nine minutes later, by the crawl that comes after that.
    assert history.who == "the schedule economy_news_every_five_minutes"
    assert history.due_at == AT_NOON + timedelta(minutes=10)


def test_a_page_of_a_past_day_is_fetched_by_the_sensor(connection: psycopg.Connection) -> None:
    a_page(connection, "PARSE_FAILED", 3, DAY - timedelta(days=2))
    history = told(connection, "001/0000000077")
    assert history.who.startswith("the sensor pages_left_over")
    assert history.due_at == AT_NOON


@pytest.mark.parametrize(
    ("status", "passes", "note"),
    [
        ("FETCH_FAILED", 12, "given up"),
        ("PARSE_FAILED", 4, "given up"),
        ("GONE", 1, "is gone"),
        ("MOVED", 1, "another service"),
        ("TAKEN_DOWN", 1, "taken down"),
    ],
)
def test_a_page_that_nobody_fetches_again_says_so(
    connection: psycopg.Connection, status: str, passes: int, note: str
) -> None:
    a_page(connection, status, passes)
    history = told(connection, "001/0000000077")
    assert (history.waits_for, history.who) == ("nothing", NOBODY)
    assert note in history.notes[0]


def test_a_paused_host_holds_up_the_fetch(connection: psycopg.Connection) -> None:
    a_page(connection, "LISTED", 0)
    host_pace.pause(connection, "127.0.0.1:9999", "status 403")
    history = told(connection, "001/0000000077")
    assert history.waits_for.startswith("127.0.0.1:9999, which is left alone until")
    assert history.due_at is not None
    assert history.due_at - datetime.now(UTC) > timedelta(hours=11)
    assert "CRAWL_ENABLED=true" in told(connection, "001/0000000077", crawl_enabled=False).who


def test_asking_waits_for_no_lock(connection: psycopg.Connection, connect: Connect) -> None:
    article_id = an_article(connection)
    a_job(connection, article_id)
    other = connect(NOON)
    with other.transaction():
        other.execute("SELECT FROM news.ai_job FOR UPDATE")
        connection.execute("SET lock_timeout = '1s'")
        assert told(connection, article_id).who.startswith(SENSOR)
