"""What else makes a run stop: the day's cap, an interruption, a setting. Nothing is lost or asked in vain."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from resources.chat import Messages
from resources.errors import ModelHasNoPrice
from tests.integration.economy_news.enriching import a_chat, calls, enrich
from tests.integration.economy_news.factories import (
    MODEL,
    NOON,
    a_job,
    a_text,
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

SHUT_TITLE = f"Granary: gate:{MODEL}"
A_FEW_CALLS = "0.004"
"""USD. A call reserves a little under 0.003 and costs about a tenth of it."""


def spending_day(connection: psycopg.Connection) -> dict[str, Any]:
    return rows(connection, "SELECT * FROM granary.spending_day ORDER BY day DESC")[0]


def test_the_days_cap_shuts_the_gate_until_midnight_and_jobs_wait_unharmed(
    connect: Connect, openai_api: StandIn
) -> None:
    connection, alerts = connect(at=NOON), RecordedAlerts()
    jobs_waiting(connection, 12)
    chat = a_chat(openai_api)
    cap: dict[str, Any] = {"daily_spending_cap_usd": A_FEW_CALLS}
    outcome = enrich(connection, chat, concurrency=1, alerts=alerts, **cap)

    done = outcome.succeeded
    assert 1 <= done < 12
    assert statuses(connection) == ["SUCCESS"] * done + ["PENDING"] * (12 - done)
    assert attempts(connection) == [1] * done + [0] * (12 - done)
    assert len(calls(openai_api)) == done
    assert outcome.shut is not None and outcome.shut.reason == "BUDGET"
    assert outcome.shut.next_probe_at == datetime.fromisoformat("2026-03-03T00:00:00+09:00")
    assert spending_day(connection)["spent_usd"] <= Decimal(A_FEW_CALLS)
    assert spending_day(connection)["reserved_usd"] == 0
    assert alerts.sent == [SHUT_TITLE]

    enrich(connect(at="2026-03-02T23:59:59+09:00"), chat, concurrency=1, **cap)
    assert len(calls(openai_api)) == done
    tomorrow = connect(at="2026-03-03T00:00:00+09:00")
    more = enrich(tomorrow, chat, run_id="run-2", concurrency=1, **cap).succeeded
    assert more >= 1
    assert statuses(tomorrow) == ["SUCCESS"] * (done + more) + ["PENDING"] * (12 - done - more)
    assert spending_day(tomorrow)["day"].isoformat() == "2026-03-03"
    assert len(calls(openai_api)) == done + more


def test_calls_at_once_cannot_pass_the_cap_together(
    connect: Connect, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 12)
    watcher = connect()
    committed: list[Decimal] = []

    def look(_: Messages) -> None:
        for row in rows(watcher, "SELECT * FROM granary.spending_day"):
            committed.append(row["reserved_usd"] + row["spent_usd"])

    cap = "0.0085"
    outcome = enrich(
        connection, a_chat(openai_api).before_asking(look), concurrency=12, daily_spending_cap_usd=cap
    )
    assert outcome.shut is not None and outcome.shut.reason == "BUDGET"
    assert max(committed) <= Decimal(cap)
    assert len(calls(openai_api)) == outcome.succeeded
    assert set(statuses(connection)) == {"SUCCESS", "PENDING"}


def test_a_cap_of_zero_asks_nothing_and_no_cap_asks_all(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 2)
    chat = a_chat(openai_api)
    enrich(connection, chat, daily_spending_cap_usd="0")
    assert (statuses(connection), calls(openai_api)) == (["PENDING"] * 2, [])
    tomorrow = connect(at="2026-03-03T00:00:00+09:00")
    assert enrich(tomorrow, chat, daily_spending_cap_usd="").succeeded == 2


def test_a_cap_with_no_room_for_the_second_asking_costs_no_second_call(
    connect: Connect, openai_api: StandIn
) -> None:
    today, tomorrow, watcher = connect(at=NOON), connect(at="2026-03-03T12:00:00+09:00"), connect()
    chat, reserved = a_chat(openai_api), list[Decimal]()
    chat.before_asking(lambda _: reserved.append(spending_day(watcher)["reserved_usd"]))
    title, body = a_text(0)
    a_job(today, an_article(today, 0, title=title, body=body))
    enrich(today, chat)

    a_job(today, an_article(today, 1, title=title, body=body))
    openai_api.fault(content="not_json")
    # Room for just the first call, which is the same again; what it costs leaves none for another.
    outcome = enrich(tomorrow, chat, daily_spending_cap_usd=str(reserved[0]))
    assert len(calls(openai_api)) == 2
    # With the complaint the question alone may cost more than the whole day: it can never be asked.
    assert [(job["status"], job["attempt"]) for job in job_rows(today)] == [("SUCCESS", 1), ("FAILED", 1)]
    assert job_rows(today)[1]["error_code"] == "costs_more_than_the_cap"
    assert outcome.shut is None
    assert spending_day(tomorrow)["reserved_usd"] == 0 < spending_day(tomorrow)["spent_usd"]


def test_an_interrupted_run_gives_its_claims_back(connect: Connect, openai_api: StandIn) -> None:
    connection = connect(at=NOON)
    jobs_waiting(connection, 6)
    begun: list[Messages] = []

    def interrupt_the_third(messages: Messages) -> None:
        begun.append(messages)
        if len(begun) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        enrich(connection, a_chat(openai_api).before_reserving(interrupt_the_third), concurrency=4)
    assert statuses(connection) == ["RETRY_WAIT"] * 3 + ["PENDING"] * 3
    assert attempts(connection) == [1, 1, 1, 0, 0, 0]
    assert enrich(connection, a_chat(openai_api), run_id="run-2").succeeded == 6


def test_a_database_that_goes_away_leaves_leases_that_run_out(connect: Connect, openai_api: StandIn) -> None:
    connection, other = connect(at=NOON), connect(at=NOON)
    jobs_waiting(connection, 3)
    pid = connection.info.backend_pid

    def cut_off(_: Messages) -> None:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))

    with pytest.raises(psycopg.OperationalError):
        enrich(connection, a_chat(openai_api).before_asking(cut_off), concurrency=1)
    assert statuses(other) == ["RUNNING"] * 3
    assert enrich(other, a_chat(openai_api), run_id="run-2").succeeded == 0
    assert enrich(connect(at=after_noon(606)), a_chat(openai_api), run_id="run-2").succeeded == 3


def test_a_model_without_a_price_is_refused_before_anything_is_claimed(
    connection: psycopg.Connection, openai_api: StandIn
) -> None:
    jobs_waiting(connection, 2)
    with pytest.raises(ModelHasNoPrice, match="MODEL_PRICES"):
        enrich(connection, a_chat(openai_api, model="a-model-of-our-own"))
    assert statuses(connection) == ["PENDING"] * 2
    assert attempts(connection) == [0, 0]
