"""Jobs asked in batches: planned, sent, taken in, paid at half the price."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from assets.economy_news import batch_store, job_store, repair_store, result_kinds
from assets.economy_news.models import JobMode, Partition
from resources.counters import value
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
from tests.integration.economy_news.enriching import a_chat, enrich, paid, summaries
from tests.integration.economy_news.factories import DAY, HERE, MODEL, claim, job_rows, rows
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def provider(openai_api: StandIn) -> Iterator[StandIn]:
    """The stand-in, where a batch ends only on command."""
    openai_api.post("batches/pace")
    yield openai_api
    openai_api.post("reset", batches=True)


def all_paid(provider: StandIn) -> Any:
    """What the provider charged, as exactly as the books keep it."""
    return pytest.approx(paid(provider), abs=Decimal("0.0000001"))


def spent(connection: psycopg.Connection) -> Any:
    return money(connection)["spent"]


def test_a_batch_costs_half_to_the_cent_and_stores_what_calls_would(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 5)
    sent = a_step(connection, provider.url)
    assert (sent.sent, sent.lines, states(connection)) == (1, 5, {"SUBMITTED": 5})
    assert money(connection)["reserved"] > 0

    end_batches(provider.url)
    taken = a_step(connection, provider.url, "run-2")
    assert (taken.taken_in, taken.jobs.succeeded, states(connection)) == (1, 5, {"SUCCESS": 5})
    assert len(summaries(connection)) == 5
    costs = rows(connection, "SELECT sum(cost_usd) AS usd FROM news.ai_result")[0]["usd"]
    assert costs == all_paid(provider)
    assert spent(connection) == all_paid(provider)
    full = sum(
        Decimal("0.15") * (line["prompt_tokens"] - line["cached_tokens"])
        + Decimal("0.075") * line["cached_tokens"]
        + Decimal("0.60") * line["completion_tokens"]
        for line in lines_paid(provider)
    )
    assert paid(provider) == full / 2 / 1_000_000
    assert money(connection)["reserved"] == 0
    assert taken.jobs.usage_of(HERE).cost_usd == paid(provider)
    assert files(provider.url) == []
    assert value(connection, "ai_cost_usd_total", {"pipeline": "economy_news", "model": MODEL}) == (
        pytest.approx(float(costs), abs=1e-7)
    )
    labels = {"model": MODEL, "schema": result_kinds.SUMMARY.prompt.schema_name, "status": "ok"}
    assert value(connection, "openai_api_requests_total", {**labels, "error_code": "none"}) == 5


def test_what_is_made_from_a_batchs_result_waits_for_a_batch_too(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    for kind in result_kinds.KINDS.values():
        for run_id in ("send", "take"):
            a_step(connection, provider.url, run_id, kind)
            end_batches(provider.url)
    modes = rows(connection, "SELECT DISTINCT mode, status FROM news.ai_job")
    assert modes == [{"mode": "batch", "status": "SUCCESS"}]
    assert len(rows(connection, "SELECT id FROM news.ai_result")) == 10
    assert len(lines_paid(provider)) == 10
    done = rows(connection, "SELECT DISTINCT state FROM news.article_ai")
    assert done == [{"state": "DONE"}]


def test_a_live_run_never_takes_what_waits_for_a_batch(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    assert claim(connection, "live") == []
    assert enrich(connection, a_chat(provider)).succeeded == 0
    a_step(connection, provider.url)
    assert enrich(connection, a_chat(provider)).succeeded == 0
    assert paid(provider) == 0

    end_batches(provider.url)
    assert a_step(connection, provider.url, partitions=[HERE]).jobs.succeeded == 2


def test_a_step_without_batches_asks_the_provider_nothing(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    a_step(connection, provider.url)
    assert provider.get("ledger")["entries"] == []


def test_a_batch_holds_one_day_and_is_taken_in_by_a_run_of_it(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    other = Partition(DAY.replace(day=3), "STOCK")
    waiting_for_a_batch(connection, 2)
    waiting_for_a_batch(connection, 1, other)
    a_step(connection, provider.url, partitions=[HERE, other])
    assert [(one["day"], one["jobs"]) for one in batches(connection)] == [(other.day, 1), (DAY, 2)]

    end_batches(provider.url)
    assert a_step(connection, provider.url, partitions=[other]).taken_in == 1
    assert states(connection) == {"SUCCESS": 1, "SUBMITTED": 2}


def test_what_fits_no_file_goes_with_the_next(connection: psycopg.Connection, provider: StandIn) -> None:
    waiting_for_a_batch(connection, 5)
    sent = a_step(connection, provider.url, limits={"max_lines": 2})
    assert [one["jobs"] for one in batches(connection)] == [2, 2, 1]
    assert (sent.sent, sent.lines) == (3, 5)
    end_batches(provider.url)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 5}
    assert len({line["custom_id"] for line in lines_paid(provider)}) == len(lines_paid(provider)) == 5


def test_the_cap_cuts_a_batch_and_what_comes_back_sends_the_rest(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 5)
    sent = a_step(connection, provider.url, daily_spending_cap_usd="0.006")
    assert sent.reason == "BUDGET"
    assert 0 < sent.lines < 5
    assert states(connection) == {"SUBMITTED": sent.lines, "PENDING": 5 - sent.lines}
    assert {job["attempt"] for job in job_rows(connection) if job["status"] == "PENDING"} == {0}
    # An open batch is yet to give money back: the gate stays open.
    assert rows(connection, "SELECT * FROM granary.api_gate") == []
    assert money(connection)["reserved"] <= Decimal("0.006")

    for _ in range(8):
        end_batches(provider.url)
        a_step(connection, provider.url, daily_spending_cap_usd="0.006")
    assert states(connection) == {"SUCCESS": 5}
    assert all_paid(provider) == spent(connection)
    assert paid(provider) <= Decimal("0.006")


def test_without_money_or_a_batch_that_gives_some_back_the_gate_shuts(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    sent = a_step(connection, provider.url, daily_spending_cap_usd="0.002")
    assert (sent.reason, states(connection)) == ("BUDGET", {"PENDING": 1})
    assert rows(connection, "SELECT reason FROM granary.api_gate") == [{"reason": "BUDGET"}]
    assert created(provider) == []


def test_a_gate_shut_for_the_budget_lets_answers_in_and_nothing_out(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    a_step(connection, provider.url)
    end_batches(provider.url)
    assert a_step(connection, provider.url, kind=result_kinds.INSIGHT).sent == 0
    chat = a_chat(provider)
    connection.execute(
        "INSERT INTO granary.api_gate VALUES (%s, %s, 'BUDGET', 'spent', now(), now() + interval '1 day')",
        (chat.gate_key.provider_key, MODEL),
    )
    taken = a_step(connection, provider.url)
    assert (taken.jobs.succeeded, taken.reason) == (2, "BUDGET")
    assert a_step(connection, provider.url, kind=result_kinds.INSIGHT).sent == 0
    assert states(connection, "INSIGHT") == {"PENDING": 2}


def test_the_providers_queue_is_never_asked_to_hold_more_than_allowed(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 4)
    first = a_step(connection, provider.url, max_enqueued_tokens=7_000)
    assert (first.sent, first.reason) == (1, "MAX_ENQUEUED_TOKENS")
    assert 0 < first.lines < 4
    assert a_step(connection, provider.url, max_enqueued_tokens=7_000).sent == 0
    for _ in range(4):
        end_batches(provider.url)
        a_step(connection, provider.url, max_enqueued_tokens=7_000)
    assert states(connection) == {"SUCCESS": 4}


def test_two_runs_that_plan_at_once_take_each_job_once(
    connection: psycopg.Connection, connect: Connect, provider: StandIn
) -> None:
    ids = waiting_for_a_batch(connection, 3)
    holder = connect()
    with holder.transaction():
        holder.execute("SELECT FROM news.ai_job WHERE id = %s FOR UPDATE", (ids[0],))
        assert a_step(connection, provider.url).lines == 2
    assert a_step(connection, provider.url, "run-2").lines == 1
    assert len(created(provider)) == 2


@pytest.mark.parametrize("step", ["mark_uploaded", "mark_submitted"])
def test_a_file_whose_plan_another_run_has_taken_meanwhile_is_deleted_and_no_batch_goes_on(
    connection: psycopg.Connection, provider: StandIn, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    waiting_for_a_batch(connection, 2)
    real = getattr(batch_store, step)

    def taken_meanwhile(*args: Any) -> bool:
        assert len(files(provider.url)) == 1
        connection.execute("UPDATE news.ai_batch SET claimed_by = 'run-2'")
        is_still_mine: bool = real(*args)
        return is_still_mine

    monkeypatch.setattr(batch_store, step, taken_meanwhile)
    a_step(connection, provider.url)
    assert files(provider.url) == []
    cancelled = [
        one["batch_id"] for one in provider.get("ledger")["entries"] if one["endpoint"] == "batches/cancel"
    ]
    assert cancelled == created(provider) and len(cancelled) == (step == "mark_submitted")


def test_a_mode_is_changed_for_what_waits_only(connection: psycopg.Connection, provider: StandIn) -> None:
    ids = waiting_for_a_batch(connection, 2)
    a_step(connection, provider.url, limits={"max_lines": 1}, daily_spending_cap_usd="0.004")
    submitted = states(connection)["SUBMITTED"]
    assert submitted >= 1
    changed = job_store.set_mode(connection, result_kinds.SUMMARY.job_type, [HERE], JobMode.live)
    assert changed == len(ids) - submitted
    assert states(connection)["SUBMITTED"] == submitted


def test_an_article_taken_down_meanwhile_leaves_a_paid_line_that_is_dropped(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 3)
    a_step(connection, provider.url)
    (first, *_) = rows(connection, "SELECT oid, aid FROM news.article ORDER BY id")
    with connection.transaction():
        repair_store.take_down(connection, **first, prompt_version="v", model=MODEL, min_characters=1_000)
    end_batches(provider.url)
    taken = a_step(connection, provider.url)
    assert (taken.jobs.succeeded, states(connection)) == (2, {"SUCCESS": 2})
    assert batches(connection)[0]["answers"]["unknown"] == 1
    assert spent(connection) == all_paid(provider)
    assert len(lines_paid(provider)) == 3


def test_a_batch_whose_articles_are_all_gone_still_settles_its_money(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    a_step(connection, provider.url)
    connection.execute("DELETE FROM news.article")
    end_batches(provider.url)
    assert a_step(connection, provider.url).taken_in == 1
    assert money(connection)["reserved"] == 0
    assert spent(connection) == all_paid(provider)
    assert paid(provider) > 0


def test_a_text_that_changed_meanwhile_is_asked_about_again(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 2)
    a_step(connection, provider.url)
    connection.execute("UPDATE news.article SET body = body || ' 덧붙였다.' WHERE id = 1")
    end_batches(provider.url)
    taken = a_step(connection, provider.url)
    assert (taken.jobs.succeeded, taken.jobs.put_off, taken.sent) == (1, 1, 1)
    end_batches(provider.url)
    a_step(connection, provider.url)
    assert states(connection) == {"SUCCESS": 2}


def test_a_body_that_was_emptied_meanwhile_gives_no_summary(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    a_step(connection, provider.url)
    connection.execute("UPDATE news.article SET body = '', body_emptied_at = now()")
    end_batches(provider.url)
    a_step(connection, provider.url)
    (job,) = job_rows(connection)
    assert (job["status"], job["error_code"]) == ("FAILED", "body_emptied")


def test_results_of_a_redone_parent_are_not_paid_twice(
    connection: psycopg.Connection, provider: StandIn
) -> None:
    waiting_for_a_batch(connection, 1)
    for run_id in ("send", "take"):
        a_step(connection, provider.url, run_id)
        end_batches(provider.url)
    for kind in (result_kinds.TERM_CARDS, result_kinds.INSIGHT):
        for run_id in ("send", "take"):
            a_step(connection, provider.url, run_id, kind)
            end_batches(provider.url)
    redone = [
        job_store.redo_results(
            connection,
            kind.job_type,
            [HERE],
            prompt_version=kind.prompt.version,
            model=MODEL,
            run_ids=["redo"],
            everything=True,
            mode=JobMode.batch,
        )
        for kind in (result_kinds.SUMMARY, result_kinds.TERM_CARDS, result_kinds.INSIGHT)
    ]
    assert redone == [1, 0, 0]
    assert states(connection) == {"PENDING": 1}


def test_two_runs_at_once_take_a_batch_in_once(
    connection: psycopg.Connection, connect: Connect, provider: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.economy_news import batch_taking_in

    waiting_for_a_batch(connection, 2)
    a_step(connection, provider.url)
    end_batches(provider.url)
    other = connect()
    real = batch_taking_in.BatchTaker._downloaded
    seen: list[int | None] = []

    def while_the_other_looks(self: object, *args: object) -> object:
        if not seen:
            seen.append(a_step(other, provider.url, "other").taken_in)
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_taking_in.BatchTaker, "_downloaded", while_the_other_looks)
    assert a_step(connection, provider.url, "first").taken_in == 1
    assert seen == [0]
    assert len(rows(connection, "SELECT id FROM news.ai_result")) == 2
    assert spent(connection) == all_paid(provider)


def test_a_late_run_stores_nothing_once_another_has_taken_its_batch(
    connection: psycopg.Connection, connect: Connect, provider: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from assets.economy_news import batch_taking_in

    waiting_for_a_batch(connection, 2)
    a_step(connection, provider.url)
    end_batches(provider.url)
    (later,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    other = connect(at=later)
    real = batch_taking_in.BatchTaker._take_bodies
    seen: list[int | None] = []

    def after_its_lease(self: object, bodies: object) -> None:
        if not seen:
            seen.append(None)
            seen.append(a_step(other, provider.url, "in time").jobs.succeeded)
        real(self, bodies)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_taking_in.BatchTaker, "_take_bodies", after_its_lease)
    late = a_step(connection, provider.url, "late")
    assert seen == [None, 2]
    assert (late.taken_in, late.jobs.succeeded) == (0, 0)
    assert rows(connection, "SELECT DISTINCT run_id FROM news.ai_result") == [{"run_id": "in time"}]
    assert spent(connection) == all_paid(provider)
