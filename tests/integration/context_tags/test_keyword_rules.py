"""The keyword stage: candidates, what of a judgement is stored, and under which version and model."""

import math
from dataclasses import replace
from typing import Any

from assets.context_tags.judgement import UnusableAnswer
from assets.context_tags.process import Judgement, PresetSnapshot, Selection
from tests.integration.context_tags.scenes import (
    OTHER_PROFILE,
    SNAPSHOT,
    TEXT,
    Core,
    Embeddings,
    Judge,
    Pool,
    axis,
    preset,
    request,
    run,
)

DONE = ("COMPLETED", "COMPLETED")


def analyses(core: Core) -> dict[int, dict[str, Any]]:
    return {row["context_id"]: row for row in core.rows("SELECT * FROM ai.context_keyword_analysis")}


def test_rule_9_presets_of_another_profile_are_no_reason_to_call_and_the_keywords_fail(
    core: Core, pool: Pool
) -> None:
    core.add(1)
    judge = Judge()
    outcome = run(pool, 1, judge=judge, presets=replace(SNAPSHOT, profile=OTHER_PROFILE))
    assert (judge.asked, core.keywords(), outcome.failed) == ([], {}, {1: "profile"})
    assert (core.state(1), core.vectors()) == (("COMPLETED", "FAILED"), {1: axis(1)})


def test_rule_10_the_ten_nearest_presets_not_below_the_floor_are_offered(core: Core, pool: Pool) -> None:
    core.add(1, 2)
    presets = tuple(preset(id_) for id_ in range(300, 315))
    near = [math.cos(angle / 20) for angle in range(15)]
    vectors = tuple(axis(cosine, math.sqrt(1 - cosine**2)) for cosine in near)
    judge = Judge(Judgement())
    run(pool, 1, judge=judge, presets=PresetSnapshot(1, SNAPSHOT.profile, presets, vectors))
    assert judge.asked == [(TEXT, list(range(300, 310)))]

    judge.asked.clear()
    below = (axis(0.2999, math.sqrt(1 - 0.2999**2)), axis(0.3001, math.sqrt(1 - 0.3001**2)))
    run(pool, 2, judge=judge, presets=PresetSnapshot(1, SNAPSHOT.profile, presets[:2], below))
    assert judge.asked == [(TEXT, [301])]


def test_rule_10_a_blocked_preset_is_never_offered(core: Core, pool: Pool) -> None:
    core.add(1)
    blocked = (replace(SNAPSHOT.presets[0], visibility="BLOCKED"), *SNAPSHOT.presets[1:])
    judge = Judge()
    outcome = run(pool, 1, judge=judge, presets=replace(SNAPSHOT, presets=blocked))
    assert (judge.asked, outcome.without_keywords, core.state(1)) == ([], {1}, DONE)


def test_rule_10_a_text_near_to_no_preset_is_completed_without_keywords_and_without_a_call(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)
    judge = Judge()
    outcome = run(
        pool, request(1, "딴 얘기"), 2, embeddings=Embeddings({"딴 얘기": axis(0, 0, 0, 1)}), judge=judge
    )
    assert ([text for text, _ in judge.asked], outcome.without_keywords) == ([TEXT], {1})
    assert core.keywords() == {1: {}, 2: {101: 0.9}}
    row = analyses(core)[1]
    assert (row["unmatched_concepts"], row["preset_version"], row["model_profile"]) == ([], 7, None)
    assert core.states() == {1: DONE, 2: DONE}


def test_rule_11_what_is_not_offered_or_no_confidence_is_dropped_and_counted_and_never_clamped(
    core: Core, pool: Pool
) -> None:
    core.add(1)
    both = Embeddings({TEXT: axis(0.8, 0.6)})
    selected = (
        Selection(101, 0.4),
        Selection(101, 0.7),
        Selection(101, 0.5),
        Selection(303, 0.9),
        Selection(999, 0.9),
        Selection(202, 1.2),
        Selection(202, -0.1),
        Selection(202, math.nan),
    )
    outcome = run(pool, 1, embeddings=both, judge=Judge(Judgement(selected)))
    assert core.keywords() == {1: {101: 0.7}}
    assert outcome.dropped == {"foreign_id": 2, "confidence": 3, "duplicate": 2}
    counted = core.rows("SELECT labels, value FROM granary.counter WHERE name = 'context_dropped_total'")
    assert {row["labels"]["reason"]: row["value"] for row in counted} == outcome.dropped


def test_rule_11_an_item_without_confidence_is_kept_without_one(core: Core, pool: Pool) -> None:
    core.add(1)
    run(pool, 1, judge=Judge(Judgement((Selection(101),))))
    rows = core.rows("SELECT keyword_id, confidence, preset_version FROM ai.context_keyword")
    assert rows == [{"keyword_id": 101, "confidence": None, "preset_version": 7}]


def test_rule_12_keywords_are_replaced_as_a_set_and_the_analysis_is_written_even_if_empty(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)
    concepts = ("비",)
    run(pool, 1, 2, judge=Judge(Judgement((Selection(101, 0.5),), concepts, "first-model")))
    core.set(1, keyword_status="PENDING")
    run(pool, 1, judge=Judge(Judgement((), (), "second-model")), presets=replace(SNAPSHOT, version=8))
    assert core.keywords() == {1: {}, 2: {101: 0.5}}
    rows = analyses(core)
    told = ("preset_version", "unmatched_concepts", "model_profile")
    assert [rows[1][name] for name in told] == [8, [], "second-model"]
    assert [rows[2][name] for name in told] == [7, ["비"], "first-model"]


def test_rule_12_keywords_that_fail_leave_the_embedding_completed(core: Core, pool: Pool) -> None:
    core.add(1)

    def unusable(_: str) -> None:
        raise UnusableAnswer("no list")

    judge = Judge(on_call=unusable)
    outcome = run(pool, 1, judge=judge)
    assert (core.state(1), core.vectors(), core.keywords()) == (("COMPLETED", "FAILED"), {1: axis(1)}, {})
    assert (len(judge.asked), outcome.failed, outcome.embedded) == (3, {1: "unusable_answer"}, {1})


def test_rule_12_a_judgement_that_cannot_be_stored_fails_alone(core: Core, pool: Pool) -> None:
    """Here a preset of the snapshot is not in the table."""
    core.add(1, 2, 3)
    presets = replace(SNAPSHOT, presets=(preset(404), *SNAPSHOT.presets[1:]))
    texts = {"하나": axis(1), "둘": axis(0, 1), "셋": axis(0, 0, 1)}
    outcome = run(
        pool,
        *(request(id_, text) for id_, text in enumerate(texts, 1)),
        embeddings=Embeddings(texts),
        presets=presets,
    )
    assert (outcome.failed, outcome.tagged) == ({1: "cannot_be_stored"}, {2, 3})
    assert core.states() == {1: ("COMPLETED", "FAILED"), 2: DONE, 3: DONE}
    assert core.keywords() == {2: {202: 0.9}, 3: {303: 0.9}}


def test_rule_13_none_selected_is_a_normal_end(core: Core, pool: Pool) -> None:
    core.add(1)
    outcome = run(pool, 1, judge=Judge(Judgement((), ("창가",), "a-model")))
    assert (outcome.tagged, outcome.without_keywords, outcome.failed) == ({1}, {1}, {})
    assert (core.state(1), core.keywords()) == (DONE, {1: {}})
    assert analyses(core)[1]["unmatched_concepts"] == ["창가"]


def test_rule_18_presets_that_are_loaded_anew_in_the_middle_do_not_change_a_run(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)

    def reload(_: str) -> None:
        core.connection.execute(
            "UPDATE ai.keyword_preset SET version = 8, embedding = NULL, is_active = false"
        )

    judge = Judge(on_call=reload)
    run(pool, 1, 2, judge=judge, concurrency=1)
    assert [ids for _, ids in judge.asked] == [[101], [101]]
    rows = analyses(core)
    assert [(rows[id_]["preset_version"], rows[id_]["model_profile"]) for id_ in (1, 2)] == [
        (7, "a-model")
    ] * 2
    stored = core.rows("SELECT preset_version FROM ai.context_keyword")
    assert [row["preset_version"] for row in stored] == [7, 7]


def test_what_a_run_did_is_counted_by_stage_and_outcome(core: Core, pool: Pool) -> None:
    core.add(1, 2, 3)
    run(pool, 1, 2, request(3, "\x00"))
    rows = core.rows("SELECT labels, value FROM granary.counter WHERE name = 'context_stage_total'")
    assert {(row["labels"]["stage"], row["labels"]["outcome"]): row["value"] for row in rows} == {
        ("embedding", "completed"): 2,
        ("embedding", "failed"): 1,
        ("keyword", "completed"): 2,
    }
