"""What is started and what is not: the states table of the contract, claims, expiry, and who is too late."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assets.context_tags import state_store
from assets.context_tags.process import NoPresets
from tests.integration.context_tags.scenes import (
    OTHER_PROFILE,
    SNAPSHOT,
    TEXT,
    Core,
    Embeddings,
    Judge,
    Pool,
    axis,
    request,
    run,
)

DONE = ("COMPLETED", "COMPLETED")
IN_TRANSACTION = """
SELECT count(*) AS n FROM pg_stat_activity
WHERE application_name = 'a run' AND datname = current_database() AND state LIKE 'idle in transaction%'
"""
FRESH, EXPIRED = "1 minute", "11 minutes"


@pytest.mark.parametrize(
    ("embedding", "keyword", "age", "calls", "end"),
    [
        ("PENDING", "PENDING", FRESH, (1, 1), DONE),
        ("PENDING", "CANCELLED", FRESH, (1, 0), ("COMPLETED", "CANCELLED")),
        ("PROCESSING", "PENDING", FRESH, (0, 0), ("PROCESSING", "PENDING")),
        ("PROCESSING", "PENDING", EXPIRED, (1, 1), DONE),
        ("COMPLETED", "PENDING", FRESH, (0, 1), DONE),
        ("COMPLETED", "PROCESSING", FRESH, (0, 0), ("COMPLETED", "PROCESSING")),
        ("COMPLETED", "PROCESSING", EXPIRED, (0, 1), DONE),
        ("COMPLETED", "FAILED", EXPIRED, (0, 0), ("COMPLETED", "FAILED")),
        ("COMPLETED", "COMPLETED", EXPIRED, (0, 0), DONE),
        ("COMPLETED", "CANCELLED", EXPIRED, (0, 0), ("COMPLETED", "CANCELLED")),
        ("FAILED", "PENDING", EXPIRED, (0, 0), ("FAILED", "PENDING")),
        ("FAILED", "PROCESSING", EXPIRED, (0, 0), ("FAILED", "PROCESSING")),
        ("CANCELLED", "PENDING", EXPIRED, (0, 0), ("CANCELLED", "PENDING")),
        ("CANCELLED", "CANCELLED", EXPIRED, (0, 0), ("CANCELLED", "CANCELLED")),
    ],
)
def test_rules_3_7_17_what_happens_is_decided_by_both_states_and_their_age(
    core: Core,
    pool: Pool,
    embedding: str,
    keyword: str,
    age: str,
    calls: tuple[int, int],
    end: tuple[str, str],
) -> None:
    core.add(1, embedding=embedding, keyword=keyword, age=age)
    if embedding == "COMPLETED":
        core.add_vector(1, axis(1))
    embeddings, judge = Embeddings(), Judge()
    outcome = run(pool, 1, embeddings=embeddings, judge=judge)
    assert (len(embeddings.asked), len(judge.asked)) == calls
    assert core.state(1) == end
    assert outcome.not_started == (set() if calls[1] else {1})
    assert (1 in outcome.embedded, 1 in outcome.tagged) == (bool(calls[0]), bool(calls[1]))


AUDIT = """
CREATE TABLE ai.seen (stages text[]);
CREATE FUNCTION ai.audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ai.seen VALUES (array_remove(ARRAY[
        CASE WHEN old.embedding_status <> new.embedding_status THEN 'embedding' END,
        CASE WHEN old.keyword_status <> new.keyword_status THEN 'keyword' END], NULL));
    RETURN new;
END $$;
CREATE TRIGGER audit AFTER UPDATE ON ai.context_ai_state FOR EACH ROW EXECUTE FUNCTION ai.audit();
"""


def test_rule_1_the_two_stages_of_a_context_never_change_in_one_update(core: Core, pool: Pool) -> None:
    core.add(1, 2)
    core.connection.execute(AUDIT)
    assert run(pool, 1, 2).tagged == {1, 2}
    changes = [tuple(row["stages"]) for row in core.rows("SELECT stages FROM ai.seen")]
    # Started and completed: each stage of each context twice, and nothing else.
    assert sorted(changes) == [("embedding",)] * 4 + [("keyword",)] * 4


def test_rule_2_without_a_row_or_with_nothing_to_start_no_model_is_called_and_nothing_is_touched(
    core: Core, pool: Pool
) -> None:
    core.add(2, embedding="CANCELLED", keyword="CANCELLED")
    core.add(3, embedding="COMPLETED", keyword="COMPLETED")
    before = core.rows("SELECT *, xmin::text FROM ai.context_ai_state ORDER BY context_id")
    embeddings, judge = Embeddings(), Judge()
    outcome = run(pool, 1, 2, 3, embeddings=embeddings, judge=judge)
    assert (embeddings.asked, judge.asked) == ([], [])
    assert core.rows("SELECT *, xmin::text FROM ai.context_ai_state ORDER BY context_id") == before
    assert (outcome.not_started, outcome.started, outcome.settled) == ({1, 2, 3}, 0, 0)


def test_rule_2_the_pre_check_takes_no_lock(core: Core, pool: Pool) -> None:
    core.add(1, embedding="CANCELLED", keyword="CANCELLED")
    with core.connection.transaction():
        core.connection.execute("SELECT FROM ai.context_ai_state FOR UPDATE")
        assert run(pool, 1).not_started == {1}


def test_rule_3_who_is_too_late_between_pre_check_and_start_ends_in_silence(
    core: Core, pool: Pool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core.add(1)
    look = state_store.states

    def looked(*args: Any) -> Any:
        seen = look(*args)
        core.cancel(1)
        return seen

    monkeypatch.setattr(state_store, "states", looked)
    embeddings = Embeddings()
    with caplog.at_level(logging.INFO):
        outcome = run(pool, 1, embeddings=embeddings)
    assert (embeddings.asked, outcome.not_started, core.state(1)) == ([], {1}, ("CANCELLED", "CANCELLED"))
    assert caplog.records == []


def test_rule_3_taking_an_expired_one_again_is_a_warning_and_a_fresh_start_is_none(
    core: Core, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    core.add(1)
    core.add(2, embedding="PROCESSING", age=EXPIRED)
    core.add(3, embedding="COMPLETED", keyword="PROCESSING", age=EXPIRED)
    core.add_vector(3, axis(1))
    with caplog.at_level(logging.INFO):
        outcome = run(pool, 1, 2, 3)
    assert outcome.retaken == {2, 3}
    warned = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert warned == [
        ("WARNING", "context 2: embedding had expired and is taken again"),
        ("WARNING", "context 3: keyword had expired and is taken again"),
    ]


def test_rule_3_what_is_claimed_at_once_can_be_finished_within_the_expiry(core: Core, pool: Pool) -> None:
    """Embeddings are claimed a portion at a time, keywords only where a call is free."""
    ids = range(1, 8)
    core.add(*ids)
    claimed: list[int] = []

    def count(_: object) -> None:
        claimed.append([stage for state in core.states().values() for stage in state].count("PROCESSING"))

    outcome = run(pool, *ids, embeddings=Embeddings(on_call=count), claimed_at_once=3)
    assert (claimed, len(outcome.tagged)) == ([3, 3, 1], 7)

    claimed.clear()
    core.add(*range(11, 18))
    run(pool, *range(11, 18), judge=Judge(on_call=count), concurrency=2)
    assert len(claimed) == 7 and max(claimed) <= 2


def test_rule_3_after_most_of_the_expiry_nothing_of_the_claim_is_asked_any_more(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)
    now = [0.0]

    def slow(texts: list[str]) -> None:
        now[0] += 481
        raise TimeoutError

    embeddings = Embeddings(on_call=slow)
    outcome = run(pool, 1, 2, embeddings=embeddings, clock=lambda: now[0])
    assert len(embeddings.asked) == 1
    assert (set(outcome.put_off), core.state(1)) == ({1, 2}, ("PROCESSING", "PENDING"))


def test_of_two_requests_with_one_id_the_last_one_counts(core: Core, pool: Pool) -> None:
    core.add(1)
    embeddings = Embeddings()
    run(pool, request(1, "먼저"), request(1, "나중"), embeddings=embeddings)
    assert embeddings.asked == [["나중"]]


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("most", [1, 2])
def test_rule_5_during_a_call_no_connection_is_held_and_no_transaction_is_open(
    core: Core, open_pool: Callable[..., Pool], autocommit: bool, most: int
) -> None:
    core.add(1, 2, 3)
    pool = open_pool(most=most, autocommit=autocommit)
    seen: list[Any] = []

    def look(_: object) -> None:
        with pool.connection(timeout=5) as connection:
            connection.execute("SELECT 1")
        seen.append(core.rows(IN_TRANSACTION)[0]["n"])

    embeddings, judge = Embeddings(on_call=look), Judge(on_call=look)
    outcome = run(pool, 1, 2, 3, embeddings=embeddings, judge=judge, concurrency=1)
    assert (outcome.tagged, seen) == ({1, 2, 3}, [0, 0, 0, 0])
    assert set(core.states().values()) == {DONE}


def test_rule_7_a_vector_that_another_worker_made_is_read_from_the_table(core: Core, pool: Pool) -> None:
    core.add(1, embedding="COMPLETED")
    core.add_vector(1, axis(0, 0, 1))
    embeddings, judge = Embeddings(), Judge()
    run(pool, 1, embeddings=embeddings, judge=judge)
    assert (embeddings.asked, judge.asked) == ([], [(TEXT, [303])])


@pytest.mark.parametrize("profile", [OTHER_PROFILE, None])
def test_rules_7_and_9_a_vector_of_another_profile_is_kept_and_its_keywords_fail(
    core: Core, pool: Pool, profile: str | None
) -> None:
    core.add(1, embedding="COMPLETED")
    if profile:
        core.add_vector(1, axis(0, 0, 1), profile=profile)
    embeddings, judge = Embeddings(), Judge()
    outcome = run(pool, 1, embeddings=embeddings, judge=judge)
    assert (embeddings.asked, judge.asked, core.keywords()) == ([], [], {})
    assert (core.state(1), outcome.failed) == (("COMPLETED", "FAILED"), {1: "profile"})
    assert core.vectors() == ({1: axis(0, 0, 1)} if profile else {})


def test_rule_17_a_redo_takes_the_ordinary_path_and_replaces_the_keywords(core: Core, pool: Pool) -> None:
    core.add(1)
    run(pool, 1)
    assert core.keywords() == {1: {101: 0.9}}
    core.set(1, embedding_status="PENDING")
    core.set(1, keyword_status="PENDING")
    run(pool, 1, embeddings=Embeddings({TEXT: axis(0, 1)}))
    assert (core.state(1), core.vectors()[1], core.keywords()) == (DONE, axis(0, 1), {1: {202: 0.9}})


def test_rule_10_without_presets_the_run_fails_before_anything_is_started(core: Core, pool: Pool) -> None:
    core.add(1)
    for presets in (
        replace(SNAPSHOT, presets=(), vectors=()),
        replace(SNAPSHOT, presets=(replace(SNAPSHOT.presets[0], visibility="BLOCKED"),), vectors=(axis(1),)),
    ):
        with pytest.raises(NoPresets):
            run(pool, 1, presets=presets)
    assert core.state(1) == ("PENDING", "PENDING")
