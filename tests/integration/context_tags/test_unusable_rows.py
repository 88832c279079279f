"""Rows that the contract's tables allow and nothing can be made of: they cost their context and no other."""

from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from assets.context_tags import preset_store
from assets.context_tags.models import DEFAULT_PROFILE
from assets.context_tags.preset_file import PresetFile
from assets.context_tags.process import UnusablePresets
from tests.integration.context_tags.scenes import PRESETS, SNAPSHOT, Core, Judge, Pool, axis, run

DONE = ("COMPLETED", "COMPLETED")
FAILED = ("COMPLETED", "FAILED")
STORED = {
    "zero": ("[" + ",".join(["0"] * 1_536) + "]", "unusable_vector"),
    "another dimension": ("[1,2,3]", "unusable_vector"),
    "none": (None, "no_vector"),
}


@pytest.mark.parametrize("stored", STORED)
def test_rule_8_a_stored_vector_that_is_none_fails_its_context_alone(
    core: Core, pool: Pool, stored: str
) -> None:
    vector, reason = STORED[stored]
    core.connection.execute(
        "ALTER TABLE ai.context_embedding ALTER embedding DROP NOT NULL, ALTER embedding TYPE vector"
    )
    core.add(1, 2, embedding="COMPLETED")
    core.add(3)
    core.add_vector(2, axis(1))
    core.connection.execute(
        "INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile)"
        " VALUES (1, 1, 1, %s::vector, %s)",
        (vector, DEFAULT_PROFILE),
    )
    judge = Judge()
    outcome = run(pool, 1, 2, 3, judge=judge)
    assert (outcome.failed, outcome.tagged, len(judge.asked)) == ({1: reason}, {2, 3}, 2)
    assert core.states() == {1: FAILED, 2: DONE, 3: DONE}


@pytest.mark.parametrize(
    "vector", [[1.0, 0.0, 0.0], axis(0), axis(float("nan"))], ids=["short", "zero", "NaN"]
)
def test_rule_10_presets_that_cannot_be_compared_are_told_before_anything_is_started(
    core: Core, pool: Pool, vector: list[float]
) -> None:
    core.add(1)
    for vectors in ((axis(1), vector, axis(1)), (vector, vector, vector)):
        with pytest.raises(UnusablePresets, match="202"):
            run(pool, 1, presets=replace(SNAPSHOT, vectors=vectors))
    assert core.state(1) == ("PENDING", "PENDING")


@pytest.mark.parametrize("column", ["embedding_status", "keyword_status"])
@pytest.mark.parametrize("status", [None, "UNKNOWN"])
def test_rule_2_a_context_whose_status_is_none_is_not_startable(
    core: Core, pool: Pool, column: str, status: str | None
) -> None:
    core.connection.execute(
        "ALTER TABLE ai.context_ai_state DROP CONSTRAINT context_ai_state_embedding_status_check,"
        " DROP CONSTRAINT context_ai_state_keyword_status_check,"
        " ALTER embedding_status DROP NOT NULL, ALTER keyword_status DROP NOT NULL"
    )
    core.add(1, 2)
    statement = sql.SQL("UPDATE ai.context_ai_state SET {} = %s WHERE context_id = 1")
    core.connection.execute(statement.format(sql.Identifier(column)), (status,))
    outcome = run(pool, 1, 2)
    assert (outcome.not_started, outcome.tagged, core.state(2)) == ({1}, {2}, DONE)


def test_rule_10_presets_with_nulls_are_read_written_and_judged_with(
    core: Core, pool: Pool, connect: Callable[..., psycopg.Connection]
) -> None:
    core.connection.execute(
        "ALTER TABLE ai.keyword_preset ALTER description DROP NOT NULL, ALTER examples DROP NOT NULL,"
        " ALTER version DROP NOT NULL, ALTER is_active DROP NOT NULL, ALTER visibility DROP NOT NULL"
    )
    core.connection.execute(
        "UPDATE ai.keyword_preset SET description = NULL, examples = NULL, version = NULL WHERE id = 101"
    )
    core.connection.execute("UPDATE ai.keyword_preset SET examples = '{NULL}' WHERE id = 202")
    core.connection.execute("UPDATE ai.keyword_preset SET is_active = NULL, visibility = NULL WHERE id = 303")
    snapshot = preset_store.snapshot(connect(), DEFAULT_PROFILE)
    assert [(one.id, one.examples) for one in snapshot.presets] == [(101, ()), (202, ())]
    assert snapshot.version == 7
    core.add(1)
    assert run(pool, 1, presets=snapshot).tagged == {1}

    ours, file = connect(), PresetFile(8, PRESETS)
    assert preset_store.differs(ours, file, DEFAULT_PROFILE)
    stale = preset_store.to_embed(file, preset_store.stored(ours), DEFAULT_PROFILE)
    assert [one.id for one in stale] == [101, 202]
    preset_store.write(ours, file, DEFAULT_PROFILE, {101: axis(1), 202: axis(0, 1)})
    assert not preset_store.differs(ours, file, DEFAULT_PROFILE)
    assert preset_store.snapshot(ours, DEFAULT_PROFILE).presets == PRESETS
