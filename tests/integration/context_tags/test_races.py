"""Races by their order: somebody else writes between a call and the store of what it brought."""

import pytest

from assets.context_tags import state_store
from assets.context_tags.models import Stage
from assets.context_tags.process import Judgement, Selection
from resources.api_failure import FAIL, ApiFailure, Verdict
from tests.integration.context_tags.scenes import (
    OTHER_PROFILE,
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
CANCELLED = ("CANCELLED", "CANCELLED")


@pytest.mark.parametrize("has_row", [False, True])
def test_rule_4_a_context_that_is_cancelled_before_the_store_never_gets_a_vector(
    core: Core, pool: Pool, has_row: bool
) -> None:
    core.add(1, 2)
    if has_row:
        core.add_vector(1, axis(0, 0, 1), profile=OTHER_PROFILE)
    before = core.rows("SELECT *, xmin::text FROM ai.context_embedding")
    judge = Judge()
    outcome = run(pool, 1, 2, embeddings=Embeddings(on_call=lambda _: core.cancel(1)), judge=judge)
    assert (core.state(1), outcome.discarded, len(judge.asked)) == (CANCELLED, {1}, 1)
    assert core.rows("SELECT *, xmin::text FROM ai.context_embedding WHERE context_id = 1") == before
    assert (outcome.embedded, outcome.tagged, core.state(2)) == ({2}, {2}, DONE)


@pytest.mark.parametrize("has_row", [False, True])
def test_rule_4_a_context_that_is_cancelled_before_the_store_gets_no_keywords(
    core: Core, pool: Pool, has_row: bool
) -> None:
    core.add(1)
    if has_row:
        run(pool, 1)
        core.set(1, keyword_status="PENDING")
    analyses = "SELECT *, xmin::text AS written_by FROM ai.context_keyword_analysis"
    before = core.keywords(), core.rows(analyses)
    judge = Judge(on_call=lambda _: core.set(1, keyword_status="CANCELLED"))
    outcome = run(pool, 1, judge=judge)
    assert (core.state(1), outcome.discarded) == (("COMPLETED", "CANCELLED"), {1})
    assert (core.keywords(), core.rows(analyses)) == before


def test_rule_12_keywords_need_a_completed_embedding_also_at_the_store(core: Core, pool: Pool) -> None:
    core.add(1)
    judge = Judge(on_call=lambda _: core.set(1, embedding_status="CANCELLED"))
    outcome = run(pool, 1, judge=judge)
    assert (outcome.discarded, core.keywords()) == ({1}, {})
    assert core.state(1) == ("CANCELLED", "PROCESSING")


def test_a_context_that_is_cancelled_between_the_stages_is_not_judged(core: Core, pool: Pool) -> None:
    core.add(1, 2)
    judge = Judge(on_call=lambda _: core.cancel(2))
    outcome = run(pool, 1, 2, judge=judge, concurrency=1)
    assert (len(judge.asked), core.state(2), outcome.not_started) == (1, CANCELLED, {2})


@pytest.mark.parametrize("stage", ["embedding", "keyword"])
def test_rule_15_a_permanent_error_while_cancelling_leaves_it_cancelled(
    core: Core, pool: Pool, stage: str
) -> None:
    core.add(1)

    def cancel_and_fail(_: object) -> None:
        core.cancel(1)
        raise ApiFailure(Verdict(FAIL), "invalid_request_error", "status 400", 400)

    embeddings = Embeddings(on_call=cancel_and_fail if stage == "embedding" else None)
    judge = Judge(on_call=cancel_and_fail)
    outcome = run(pool, 1, embeddings=embeddings, judge=judge)
    assert (core.state(1), outcome.failed, outcome.discarded) == (CANCELLED, {}, {1})


def test_two_runs_on_one_context_make_one_call_of_each_kind(core: Core, pool: Pool) -> None:
    core.add(1)
    second: list[object] = []
    others = Embeddings(), Judge()

    def meanwhile(_: object) -> None:
        second.append(run(pool, 1, embeddings=others[0], judge=others[1]).not_started)

    embeddings, judge = Embeddings(on_call=meanwhile), Judge(on_call=meanwhile)
    outcome = run(pool, 1, embeddings=embeddings, judge=judge)
    assert second == [{1}, {1}]
    assert [len(one.asked) for one in (embeddings, judge, *others)] == [1, 1, 0, 0]
    assert (outcome.embedded, outcome.tagged, core.state(1)) == ({1}, {1}, DONE)


def test_rule_4_a_worker_that_expired_and_was_replaced_stores_no_vector(
    core: Core, pool: Pool, later_pool: Pool
) -> None:
    core.add(1)

    def replace(_: object) -> None:
        run(later_pool, 1, embeddings=Embeddings({TEXT: axis(0, 1)}))

    judge = Judge()
    outcome = run(pool, 1, embeddings=Embeddings({TEXT: axis(0, 0, 1)}, replace), judge=judge)
    assert (outcome.discarded, outcome.embedded, judge.asked) == ({1}, set(), [])
    assert (core.state(1), core.vectors(), core.keywords()) == (DONE, {1: axis(0, 1)}, {1: {202: 0.9}})


def test_rule_4_a_worker_that_expired_stores_nothing_while_its_successor_still_asks(
    core: Core, pool: Pool, later_pool: Pool
) -> None:
    """The status is PROCESSING for both; only the token tells them apart."""
    core.add(1)
    tokens: list[object] = []

    def replace(_: object) -> None:
        tokens.extend(state_store.start(core.connection, Stage.EMBEDDING, [1], 0))

    outcome = run(pool, 1, embeddings=Embeddings(on_call=replace))
    assert (tokens, outcome.discarded) == ([1], {1})
    assert (core.state(1), core.vectors()) == (("PROCESSING", "PENDING"), {})

    core.add(2, embedding="COMPLETED")
    core.add_vector(2, axis(1))

    def replace_judge(_: object) -> None:
        tokens.extend(state_store.start(core.connection, Stage.KEYWORD, [2], 0))

    outcome = run(pool, 2, judge=Judge(on_call=replace_judge))
    assert (tokens, outcome.discarded) == ([1, 2], {2})
    assert (core.state(2), core.keywords()) == (("COMPLETED", "PROCESSING"), {})


def test_rule_4_a_worker_that_expired_and_was_replaced_stores_no_keywords(
    core: Core, pool: Pool, later_pool: Pool
) -> None:
    core.add(1, embedding="COMPLETED")
    core.add_vector(1, axis(0.8, 0.6))

    def replace(_: object) -> None:
        run(later_pool, 1, judge=Judge(Judgement((Selection(202, 0.5),), (), "later")))

    outcome = run(pool, 1, judge=Judge(on_call=replace))
    assert (outcome.discarded, core.state(1), core.keywords()) == ({1}, DONE, {1: {202: 0.5}})


def test_an_edited_context_is_cancelled_and_only_its_new_id_gets_anything(core: Core, pool: Pool) -> None:
    core.add(1)

    def edit(_: object) -> None:
        core.cancel(1)
        core.add(2)

    run(pool, request(1, "먼저 쓴 글"), embeddings=Embeddings(on_call=edit))
    run(pool, request(1, "먼저 쓴 글"), request(2, "고친 글"), embeddings=Embeddings({"고친 글": axis(0, 1)}))
    assert core.states() == {1: CANCELLED, 2: DONE}
    assert (core.vectors(), core.keywords()) == ({2: axis(0, 1)}, {2: {202: 0.9}})


def test_an_interrupt_leaves_nothing_half_done(core: Core, pool: Pool, later_pool: Pool) -> None:
    core.add(1, 2)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(pool, 1, 2, embeddings=Embeddings(on_call=interrupt))
    assert set(core.states().values()) == {("PROCESSING", "PENDING")}
    assert run(later_pool, 1, 2).tagged == {1, 2}
