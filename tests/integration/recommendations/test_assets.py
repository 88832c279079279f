"""The assets in Dagster: what each materialisation tells, and what fails a run."""

import logging
from typing import Any

import psycopg
import pytest

from assets.recommendations import rank
from assets.recommendations.models import MemberHistory
from resources import gate
from tests.integration.job_runs import DAY, NOON, shut_gate, why
from tests.integration.recommendations.factories import (
    Connect,
    a_product,
    count,
    items,
    recommended,
    trigger,
)
from tests.integration.recommendations.recommendation_runs import (
    HOUR,
    MEMBERS_JOB,
    ONE_DAY,
    PRODUCTS,
    PRODUCTS_JOB,
    QUEUE,
    RECOMMENDED,
    RecommendationRuns,
    due,
    products,
    queued,
    statuses,
)
from tests.integration.stand_ins import StandIn

CANARY = "kanarienvogel"  # ASCII: no way of writing it down hides it
OF_THE_DAY = ("items_done", "items_waiting", "items_failed")


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon, as that of the runs."""
    return connect(at=NOON.isoformat())


@pytest.fixture
def runs(database_url: str, openai_api: StandIn) -> RecommendationRuns:
    return RecommendationRuns(database_url, openai_api)


def asked(api: StandIn) -> int:
    """How many calls the API has had."""
    return int(api.get("ledger/totals")["calls"])


# --- product_embeddings -------------------------------------------------------------------------------------


def test_products_are_embedded_and_a_second_run_embeds_what_has_changed_alone(
    runs: RecommendationRuns, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    products(noon, 3)
    a_product(noon, 4, is_active=False)
    said = ("items_waiting", "pass_embedded", "pass_skipped")
    assert runs.run(PRODUCTS_JOB).success
    assert runs.numbers(PRODUCTS, *said, day=None) == [0, 3, 0]
    assert runs.run(PRODUCTS_JOB).success
    assert runs.numbers(PRODUCTS, *said, day=None) == [0, 0, 0] and asked(openai_api) == 1
    noon.execute("UPDATE rec.product SET text = '단단하다' WHERE id = 2")
    assert runs.run(PRODUCTS_JOB).success
    assert runs.numbers(PRODUCTS, *said, day=None) == [0, 1, 0] and asked(openai_api) == 2
    assert count(noon, "product_embedding") == 3


def test_a_refused_key_fails_the_run_with_its_reason_and_one_alarm(
    runs: RecommendationRuns, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    products(noon, 3)
    openai_api.fault(endpoint="embeddings", status=401, code="invalid_api_key")
    for _ in range(2):
        assert "AUTH" in why(runs.run(PRODUCTS_JOB))
    assert asked(openai_api) == 1
    alarms = noon.execute("SELECT cause FROM granary.alert WHERE cleared_at IS NULL").fetchall()
    assert alarms == [("gate:text-embedding-3-small",)]


def test_a_probe_that_is_answered_opens_the_gate_and_all_are_embedded(
    runs: RecommendationRuns, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    products(noon, 3)
    shut_gate(noon, runs.resources["embeddings"], probe_is_due=True)
    assert runs.run(PRODUCTS_JOB).success
    assert count(noon, "product_embedding") == 3
    assert gate.read(noon, runs.resources["embeddings"].gate_key) is None


# --- recommendation_queue and recommended_products ----------------------------------------------------------


def test_members_who_are_due_are_queued_and_recommended_to_and_both_assets_say_so(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 5)
    assert runs.run(PRODUCTS_JOB).success
    due(noon, 1)
    for member_id, visited_at in ((2, NOON - 2 * HOUR), (3, NOON - HOUR / 2), (4, NOON + HOUR)):
        noon.execute(
            "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)", (member_id, visited_at)
        )
    assert runs.run(MEMBERS_JOB, DAY).success

    assert statuses(noon) == {1: "SUCCEEDED", 2: "SUCCEEDED"}
    assert [sorted(recommended(noon, member_id)) for member_id in (1, 2, 3)] == [[1, 2, 3, 4, 5]] * 2 + [[]]
    for asset in (QUEUE, RECOMMENDED):
        assert runs.numbers(asset, "queued_G2") == [2]
    # Each asset tells how its day stood when its step ended.
    assert runs.numbers(QUEUE, *OF_THE_DAY) == [0, 2, 0]
    assert runs.numbers(RECOMMENDED, *OF_THE_DAY) == [2, 0, 0]
    taken = ("pass_visits", "pass_visits_refused", "pass_queued", "pass_moved", "pass_deleted")
    assert runs.numbers(QUEUE, *taken) == [3, 1, 2, 2, 0]
    told = runs.metadata(RECOMMENDED)
    assert (told["pass_succeeded"], told["pass_failed"], told["pass_products_G0"]) == (2, 0, 10)
    moved = trigger(noon, 1)
    assert moved is not None and moved["trigger_at"] == NOON + 3 * HOUR


def test_a_second_run_at_the_same_time_queues_and_changes_nothing(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 3)
    due(noon, 1, 2)
    assert runs.run(MEMBERS_JOB, DAY).success
    before = (items(noon), recommended(noon, 1))
    assert runs.run(MEMBERS_JOB, DAY).success
    assert (items(noon), recommended(noon, 1)) == before
    assert runs.numbers(QUEUE, "pass_queued") == runs.numbers(RECOMMENDED, "pass_succeeded") == [0]


def test_a_run_of_a_past_day_queues_nobody_and_takes_that_days_items_alone(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 3)
    due(noon, 1)
    queued(noon, 2, queued_at=NOON - ONE_DAY)
    queued(noon, 3)
    assert runs.run(MEMBERS_JOB, DAY - ONE_DAY).success
    assert statuses(noon) == {2: "SUCCEEDED", 3: "PENDING"}
    left = trigger(noon, 1)
    assert left is not None and (left["trigger_at"], left["lease_until"]) == (NOON, None)
    assert runs.numbers(RECOMMENDED, *OF_THE_DAY, day=DAY - ONE_DAY) == [1, 0, 0]
    with pytest.raises(KeyError):
        runs.metadata(RECOMMENDED, DAY)


def test_a_span_of_two_days_is_one_run_that_tells_of_each(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 3)
    due(noon, 1)
    for member_id in (2, 3):
        queued(noon, member_id, queued_at=NOON - ONE_DAY)
    queued(noon, 4, queued_at=NOON - 2 * ONE_DAY)
    result = runs.run(MEMBERS_JOB, DAY - ONE_DAY, DAY)
    assert result.success and len(runs.instance.get_runs()) == 1
    for asset, done in ((QUEUE, "items_waiting"), (RECOMMENDED, "items_done")):
        assert runs.numbers(asset, done, day=DAY) == [1]
        assert runs.numbers(asset, done, day=DAY - ONE_DAY) == [2]
    assert statuses(noon)[4] == "PENDING"


def test_what_a_dead_run_held_is_ranked_once_its_lease_is_over(
    runs: RecommendationRuns, noon: psycopg.Connection
) -> None:
    products(noon, 3)
    queued(noon, 1, "RUNNING", lease_until=NOON - HOUR)
    queued(noon, 2, "RUNNING", lease_until=NOON + HOUR)
    queued(noon, 3, "RUNNING", lease_until=NOON - HOUR, returns=1)
    assert runs.run(MEMBERS_JOB, DAY).success
    assert statuses(noon) == {1: "SUCCEEDED", 2: "RUNNING", 3: "FAILED"}
    assert runs.numbers(RECOMMENDED, "pass_returned", "pass_spent") == [1, 1]


# --- members that fail --------------------------------------------------------------------------------------


def ranker_that_fails_for(monkeypatch: pytest.MonkeyPatch, *members: int) -> None:
    real = rank.rank

    def broken(catalogue: Any, member: MemberHistory, *more: Any) -> Any:
        if member.member_id in members:
            raise ValueError(f"what {CANARY} bought")
        return real(catalogue, member, *more)

    monkeypatch.setattr(rank, "rank", broken)


def test_a_member_that_fails_fails_no_run_and_no_other_member(
    runs: RecommendationRuns, noon: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    products(noon, 3)
    due(noon, 1, 2)
    ranker_that_fails_for(monkeypatch, 1)
    assert runs.run(MEMBERS_JOB, DAY).success
    assert statuses(noon) == {1: "FAILED", 2: "SUCCEEDED"}
    assert runs.numbers(RECOMMENDED, *OF_THE_DAY) == [1, 0, 1]


def test_a_run_in_which_every_member_fails_fails_with_the_remedy_and_materialises_nothing(
    runs: RecommendationRuns, noon: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    products(noon, 3)
    due(noon, 1, 2)
    ranker_that_fails_for(monkeypatch, 1, 2)
    told = why(runs.run(MEMBERS_JOB, DAY))
    assert told.startswith("all 2 members failed") and "recommendations_requeue_failed" in told
    assert statuses(noon) == {1: "FAILED", 2: "FAILED"}
    assert runs.numbers(QUEUE, "pass_queued") == [2]
    with pytest.raises(KeyError):
        runs.metadata(RECOMMENDED)


def test_what_a_ranker_says_of_a_member_is_told_to_nobody(
    runs: RecommendationRuns,
    noon: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    products(noon, 1)
    a_product(noon, 2, text=CANARY)
    due(noon, 1, 2)
    ranker_that_fails_for(monkeypatch, 1)
    caplog.set_level(logging.DEBUG, "granary")
    assert runs.run(PRODUCTS_JOB).success and runs.run(MEMBERS_JOB, DAY).success
    told = f"{runs.told()} {caplog.text} {items(noon)}"
    assert "ValueError" in told and len(told) > 5_000
    assert CANARY not in told
