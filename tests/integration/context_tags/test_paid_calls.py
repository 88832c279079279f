"""The calls' money and gates: reserved, settled or kept reserved, one alarm, one probe."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from assets.context_tags.judgement import UnusableAnswer
from assets.context_tags.process import Candidate
from resources import gate
from resources.api_failure import ApiFailure
from resources.errors import ModelHasNoPrice
from tests.integration.context_tags.paid_runs import (
    Paid,
    inbox_run,
    near_presets,
    post,
    text_of,
)
from tests.integration.context_tags.scenes import PRESETS, Core, Judge, Pool
from tests.integration.openai_clients import (
    CHAT_MODEL,
    EMBEDDING_MODEL,
    chat_resource,
    embedding_resource,
)
from tests.integration.stand_ins import StandIn

CANDIDATES = [Candidate(preset, 0.9) for preset in PRESETS]
DONE = ("COMPLETED", "COMPLETED")


@pytest.fixture
def api(openai_api: StandIn, core: Core) -> StandIn:
    near_presets(core, openai_api.url)
    openai_api.post("reset", ledger=True)
    return openai_api


def money(core: Core) -> tuple[float, float]:
    """USD that are spent and reserved."""
    rows = core.rows(
        "SELECT sum(spent_usd) AS spent, sum(reserved_usd) AS reserved FROM granary.spending_day"
    )
    return float(rows[0]["spent"] or 0), float(rows[0]["reserved"] or 0)


def ledger(api: StandIn) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = api.get("ledger")["entries"]
    return entries


def test_what_was_asked_is_what_was_paid_and_nothing_stays_reserved(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn
) -> None:
    ids = range(1, 13)
    core.add(*ids)
    post(connection, *ids)
    paid = Paid(connection, api.url)
    outcome = inbox_run(pool, paid.embeddings, paid.judge).run()
    assert (outcome.tagged, set(core.states().values())) == (set(ids), {DONE})
    asked = ledger(api)
    assert [entry["endpoint"] for entry in asked].count("embeddings") == 1 and len(asked) == 13
    cost = sum(entry["cost_usd"] for entry in asked)
    spent, reserved = money(core)
    assert spent == pytest.approx(cost, abs=1e-6) and reserved == 0
    calls = {row["model"]: row["calls"] for row in core.rows("SELECT model, calls FROM granary.spending")}
    assert calls == {EMBEDDING_MODEL: 1, CHAT_MODEL: 12}
    assert (paid.embeddings.usage.calls, paid.judge.usage.calls) == (1, 12)
    models = core.rows("SELECT DISTINCT model_profile FROM ai.context_keyword_analysis")
    assert [row["model_profile"].startswith(CHAT_MODEL) for row in models] == [True]


@pytest.mark.parametrize(
    ("fault", "stays_reserved"),
    [({"status": 500}, False), ({"status": 429}, False), ({"drop": "after"}, True), ({"status": 400}, False)],
)
def test_only_what_may_have_been_charged_without_an_answer_stays_reserved(
    core: Core, connection: psycopg.Connection, api: StandIn, fault: dict[str, Any], stays_reserved: bool
) -> None:
    paid = Paid(connection, api.url)
    api.fault(**fault)
    for call in (lambda: paid.embeddings.embed(["글"]), lambda: paid.judge.select("글", CANDIDATES)):
        with pytest.raises(ApiFailure):
            call()
    spent, reserved = money(core)
    assert (spent, reserved > 0) == (0, stays_reserved)


def test_rule_16_a_revoked_key_shuts_the_gate_at_once_with_one_alarm_and_no_context_fails(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn
) -> None:
    ids = range(1, 41)
    core.add(*ids)
    post(connection, *ids)
    paid = Paid(connection, api.url)
    api.fault(endpoint="chat/completions", status=401, code="invalid_api_key", skip=5)
    outcome = inbox_run(pool, paid.embeddings, paid.judge, settings={"concurrency": 4}).run()
    assert isinstance(outcome.stopped_by, ApiFailure) and outcome.stopped_by.verdict.reason == "AUTH"
    assert (len(outcome.tagged), outcome.failed, len(outcome.left)) == (5, {}, 35)
    assert "FAILED" not in {status for state in core.states().values() for status in state}
    assert len(ledger(api)) <= 1 + 5 + 4
    shut = gate.read(connection, chat_resource(api.url).gate_key)
    assert shut is not None and shut.reason == "AUTH"
    assert paid.alerts.sent == [f"Granary: gate:{CHAT_MODEL}"]
    unhandled = core.rows("SELECT context_id FROM granary.context_request WHERE handled_at IS NULL")
    assert {row["context_id"] for row in unhandled} == outcome.left


def test_while_the_probe_is_held_one_request_is_made_first_and_its_answer_opens_the_gate(
    core: Core,
    pool: Pool,
    connection: psycopg.Connection,
    connect: Callable[..., psycopg.Connection],
    api: StandIn,
) -> None:
    core.add(1, 2, 3)
    post(connection, 1, 2, 3)
    paid = Paid(connection, api.url)
    paid.gates[1].shut("AUTH", "status 401")
    connection.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    assert paid.gates[1].pass_() is None and paid.judge.is_probe
    outcome = inbox_run(pool, paid.embeddings, paid.judge).run()
    assert (outcome.tagged, paid.judge.is_probe) == ({1, 2, 3}, False)
    assert [entry["endpoint"] for entry in ledger(api)[:3]] == [
        "embeddings",
        "chat/completions",
        "embeddings",
    ]
    assert core.rows("SELECT * FROM granary.api_gate") == []


def test_a_probe_that_is_not_answered_ends_the_run_after_its_one_context(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn
) -> None:
    core.add(1, 2, 3)
    post(connection, 1, 2, 3)
    paid = Paid(connection, api.url)
    paid.gates[0].shut("QUOTA", "status 429")
    connection.execute("UPDATE granary.api_gate SET next_probe_at = granary.now()")
    assert paid.gates[0].pass_() is None
    api.fault(endpoint="embeddings", status=503)
    outcome = inbox_run(pool, paid.embeddings, paid.judge).run()
    assert (set(outcome.put_off), core.state(2)) == ({1}, ("PENDING", "PENDING"))
    assert len(core.rows("SELECT * FROM granary.api_gate")) == 1


def test_a_cap_with_room_for_one_call_at_a_time_lets_all_be_made_one_after_the_other(
    core: Core, connection: psycopg.Connection, api: StandIn
) -> None:
    most = chat_resource(api.url).priced_model.most_it_can_cost_usd(9_000, 3_000)
    paid = Paid(connection, api.url, cap_usd=most * 2)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda id_: paid.judge.select(text_of(id_), CANDIDATES), range(6)))
    assert (len(found), money(core)[1], core.rows("SELECT * FROM granary.api_gate")) == (6, 0, [])


def test_a_cap_without_room_shuts_the_budget_gate_and_asks_nothing(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn
) -> None:
    core.add(1, 2)
    post(connection, 1, 2)
    paid = Paid(connection, api.url, cap_usd=Decimal(0))
    outcome = inbox_run(pool, paid.embeddings, paid.judge).run()
    assert isinstance(outcome.stopped_by, ApiFailure) and outcome.stopped_by.verdict.reason == "BUDGET"
    assert (ledger(api), outcome.left, outcome.failed) == ([], {1, 2}, {})
    gates = core.rows("SELECT model, reason FROM granary.api_gate")
    assert gates == [{"model": EMBEDDING_MODEL, "reason": "BUDGET"}]


@pytest.mark.parametrize(
    ("cap", "model", "states"),
    [
        ("0.001", CHAT_MODEL, {("COMPLETED", "PROCESSING"), ("COMPLETED", "PENDING")}),
        ("0.0000001", EMBEDDING_MODEL, {("PROCESSING", "PENDING")}),
    ],
)
def test_rule_16_a_cap_below_the_most_of_one_call_shuts_the_gate_and_fails_no_context(
    core: Core,
    pool: Pool,
    connection: psycopg.Connection,
    api: StandIn,
    cap: str,
    model: str,
    states: set[tuple[str, str]],
) -> None:
    ids = range(1, 6)
    core.add(*ids)
    post(connection, *ids)
    paid = Paid(connection, api.url, cap_usd=Decimal(cap))
    outcome = inbox_run(pool, paid.embeddings, paid.judge, settings={"concurrency": 2}).run()
    assert isinstance(outcome.stopped_by, ApiFailure) and outcome.stopped_by.verdict.reason == "BUDGET"
    assert (outcome.failed, outcome.left, set(core.states().values())) == ({}, set(ids), states)
    gates = core.rows("SELECT model, reason FROM granary.api_gate")
    assert gates == [{"model": model, "reason": "BUDGET"}]
    assert money(core)[1] == 0


def test_rule_15_texts_that_cost_more_than_the_cap_together_are_asked_about_in_parts(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn
) -> None:
    core.add(*range(1, 5))
    texts = {id_: f"{id_} " + "가" * 4_000 for id_ in range(1, 5)}
    for id_, text in texts.items():
        post(connection, id_, text=text)
    resource = embedding_resource(api.url)
    most = resource.priced_model.most_it_can_cost_usd(resource.most_input_tokens(list(texts.values())), 0)
    paid = Paid(connection, api.url, cap_usd=most * Decimal("0.9"))
    outcome = inbox_run(pool, paid.embeddings, Judge()).run()
    assert (outcome.failed, outcome.embedded) == ({}, set(texts))
    assert len(ledger(api)) == 2 and core.rows("SELECT * FROM granary.api_gate") == []


@pytest.mark.parametrize("content", ["refusal", "content_filter"])
def test_a_refused_answer_is_about_its_text_and_is_paid(
    core: Core, connection: psycopg.Connection, api: StandIn, content: str
) -> None:
    paid = Paid(connection, api.url)
    api.fault(endpoint="chat/completions", content=content)
    with pytest.raises(ApiFailure) as caught:
        paid.judge.select("글", CANDIDATES)
    assert (caught.value.verdict.effect, caught.value.code) == ("FAIL", "refused")
    assert money(core)[0] > 0 and money(core)[1] == 0


@pytest.mark.parametrize("content", ["truncated", "not_json"])
def test_an_answer_that_is_cut_off_or_no_json_is_not_usable_and_is_paid(
    core: Core, connection: psycopg.Connection, api: StandIn, content: str
) -> None:
    paid = Paid(connection, api.url)
    api.fault(endpoint="chat/completions", content=content)
    with pytest.raises(UnusableAnswer):
        paid.judge.select("비밀스러운 글", CANDIDATES)
    assert money(core)[0] > 0


@pytest.mark.parametrize("vector", ["short", "zero"])
def test_rule_8_a_vector_that_is_none_reaches_the_rules_and_fails_its_context(
    core: Core, pool: Pool, connection: psycopg.Connection, api: StandIn, vector: str
) -> None:
    core.add(1)
    post(connection, 1)
    paid = Paid(connection, api.url)
    api.fault(endpoint="embeddings", vector=vector)
    inbox_run(pool, paid.embeddings, paid.judge).run()
    assert (core.state(1), core.vectors()) == (("FAILED", "PENDING"), {})


def test_a_model_without_a_price_is_told_before_anything_is_asked(
    connection: psycopg.Connection, api: StandIn
) -> None:
    with pytest.raises(ModelHasNoPrice):
        Paid(connection, api.url, model="nobody-knows")
