"""The keywords' rows: brought to what a file says, all at once, and read as one snapshot."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
import pytest

from assets.context_tags import keyword_store, preset_store
from assets.context_tags.models import DEFAULT_PROFILE, Preset, PresetSnapshot
from assets.context_tags.preset_file import PresetFile, PresetFileRefused
from assets.context_tags.preset_store import PresetChanges
from resources.errors import ServiceUnavailable
from tests.integration.context_tags.store_rows import (
    OTHER_PROFILE,
    Waiting,
    all_rows,
    judged,
    preset,
    put_state,
    states_of,
    vector,
)

Connection = psycopg.Connection
Connect = Callable[..., Connection]
THREE = (preset(101), preset(202), preset(303))


def of(file: PresetFile, *first: float) -> dict[int, list[float]]:
    return {one.id: vector(*first, one.id) for one in file.presets}


def write(
    connection: Connection,
    *presets: Preset,
    version: int = 1,
    profile: str = DEFAULT_PROFILE,
    vectors: Mapping[int, Sequence[float]] | None = None,
) -> PresetChanges:
    """As a run does: what must be embedded is, unless `vectors` are given."""
    file = PresetFile(version, presets)
    if vectors is None:
        wanted = preset_store.to_embed(file, preset_store.stored(connection), profile)
        vectors = {one.id: vector(one.id, version) for one in wanted}
    changes = preset_store.write(connection, file, profile, vectors)
    assert not preset_store.differs(connection, file, profile)
    return changes


def column(connection: Connection, name: str) -> dict[int, Any]:
    rows = connection.execute("SELECT to_jsonb(preset) - 'embedding' FROM ai.keyword_preset AS preset")
    return {row["id"]: row[name] for (row,) in rows}


def vector_of(connection: Connection, id_: int) -> list[float]:
    (row,) = connection.execute(
        "SELECT (embedding::real[])[1:2] FROM ai.keyword_preset WHERE id = %s", (id_,)
    ).fetchall()
    found: list[float] = row[0]
    return found


def test_a_first_file_is_written_whole(connection: Connection) -> None:
    private = preset(404, visibility="PRIVATE_ONLY", examples=("하나", "둘"), display_name="이름 🍜")
    file = PresetFile(3, (*THREE, private))
    assert preset_store.differs(connection, file, DEFAULT_PROFILE)
    assert preset_store.to_embed(file, [], DEFAULT_PROFILE) == list(file.presets)
    assert write(connection, *file.presets, version=3) == PresetChanges(added=4, embedded=4)
    stored = preset_store.stored(connection)
    assert [one.preset for one in stored] == list(file.presets)
    assert {(one.profile, one.is_active, one.version) for one in stored} == {(DEFAULT_PROFILE, True, 3)}


def test_the_same_file_again_changes_and_embeds_nothing(connection: Connection) -> None:
    write(connection, *THREE)
    assert write(connection, *THREE) == PresetChanges()


@pytest.mark.parametrize(
    ("change", "embedded"),
    [
        ({"display_name": "새 이름"}, 0),
        ({"code": "NEW_CODE"}, 0),
        ({"visibility": "BLOCKED"}, 0),
        ({"description": "새 설명"}, 1),
        ({"examples": ("예문", "새 예문")}, 1),
    ],
)
def test_only_a_changed_description_or_example_needs_a_new_vector(
    connection: Connection, change: dict[str, Any], embedded: int
) -> None:
    write(connection, *THREE)
    changed = preset(202, **change)
    assert write(connection, THREE[0], changed, THREE[2], version=2) == PresetChanges(
        changed=1, embedded=embedded
    )
    assert vector_of(connection, 202) == [202, 2 if embedded else 1]
    assert vector_of(connection, 101) == [101, 1]
    assert column(connection, "version") == {101: 2, 202: 2, 303: 2}


def test_another_profile_needs_a_vector_for_every_preset(connection: Connection) -> None:
    write(connection, *THREE)
    assert preset_store.differs(connection, PresetFile(1, THREE), OTHER_PROFILE)
    assert write(connection, *THREE, profile=OTHER_PROFILE) == PresetChanges(embedded=3)
    assert preset_store.snapshot(connection, DEFAULT_PROFILE).presets == ()
    assert preset_store.snapshot(connection, OTHER_PROFILE).presets == THREE


def test_a_dropped_preset_is_inactive_and_comes_back_without_a_call(connection: Connection) -> None:
    write(connection, *THREE)
    assert write(connection, *THREE[:2], version=2) == PresetChanges(deactivated=1)
    assert column(connection, "is_active") == {101: True, 202: True, 303: False}
    assert column(connection, "version") == {101: 2, 202: 2, 303: 1}
    assert write(connection, *THREE, version=3) == PresetChanges(changed=1)
    assert column(connection, "is_active")[303] is True


def test_codes_are_swapped_and_handed_on(connection: Connection) -> None:
    write(connection, *THREE)
    moved = (
        preset(101, code="CODE_202"),
        preset(202, code="CODE_303"),
        preset(303, code="CODE_101"),
        preset(104, code="CODE_404"),
    )
    assert write(connection, *moved) == PresetChanges(added=1, changed=3, embedded=1)
    handed_on = (preset(101, code="NEW"), *moved[1:], preset(105, code="CODE_202"))
    assert write(connection, *handed_on) == PresetChanges(added=1, changed=1, embedded=1)
    assert column(connection, "code") == {
        101: "NEW",
        202: "CODE_303",
        303: "CODE_101",
        104: "CODE_404",
        105: "CODE_202",
    }


@pytest.mark.parametrize("was_inactive", [True, False], ids=["inactive before", "dropped by this file"])
def test_the_code_of_a_dropped_preset_is_refused_and_nothing_changes(
    connection: Connection, was_inactive: bool
) -> None:
    write(connection, *THREE)
    if was_inactive:
        write(connection, *THREE[:2])
    before = all_rows(connection, "ai.keyword_preset")
    file = PresetFile(9, (preset(101, description="새 설명"), preset(304, code="CODE_303")))
    with pytest.raises(PresetFileRefused, match="preset 304: its code CODE_303 is that of preset 303"):
        preset_store.write(connection, file, DEFAULT_PROFILE, of(file))
    assert all_rows(connection, "ai.keyword_preset") == before


def test_a_vector_that_is_none_changes_nothing(connection: Connection) -> None:
    write(connection, *THREE)
    before = all_rows(connection, "ai.keyword_preset")
    for bad in ([0.5], vector(math.nan)):
        with pytest.raises(psycopg.DataError):
            write(connection, preset(101, description="새"), vectors={101: bad})
        assert all_rows(connection, "ai.keyword_preset") == before


def test_a_file_whose_vectors_were_made_for_other_rows_is_told_to_look_again(connect: Connect) -> None:
    """An older release had nothing to embed when it looked; a newer one wrote in between."""
    old, new = connect(), connect()
    write(old, *THREE)
    file = PresetFile(1, THREE)
    assert preset_store.to_embed(file, preset_store.stored(old), DEFAULT_PROFILE) == []
    write(new, preset(101, description="새 설명"), *THREE[1:], version=2)
    before = all_rows(new, "ai.keyword_preset")
    with pytest.raises(ServiceUnavailable, match="changed by another run"):
        preset_store.write(old, file, DEFAULT_PROFILE, {})
    assert all_rows(new, "ai.keyword_preset") == before


def test_two_writers_at_once_go_one_after_the_other(connect: Connect) -> None:
    first, second, witness = connect(), connect(), connect()
    one = PresetFile(1, (preset(101), preset(202)))
    other = PresetFile(2, (preset(202, code="CODE_101"), preset(101, code="CODE_202"), preset(303)))
    with first.transaction():
        preset_store.write(first, one, DEFAULT_PROFILE, of(one, 1))
        waiting = Waiting(second, lambda: preset_store.write(second, other, DEFAULT_PROFILE, of(other, 2)))
        waiting.waits_for_a_lock(witness)
    assert waiting.result() == PresetChanges(added=1, changed=2, embedded=3)
    assert column(witness, "code") == {101: "CODE_202", 202: "CODE_101", 303: "CODE_303"}
    assert [vector_of(witness, id_)[0] for id_ in (101, 202, 303)] == [2, 2, 2]


def test_a_swap_of_codes_and_a_store_of_keywords_never_wait_for_each_other_in_a_circle(
    connect: Connect,
) -> None:
    """A foreign key locks the presets of a judgement; both sides take them by id."""
    loader, worker, witness = connect(), connect(), connect()
    write(loader, *THREE)
    tokens = put_state(loader, 1, 2, embedding="COMPLETED", keyword="PROCESSING")
    swapped = PresetFile(2, (preset(101, code="CODE_303"), THREE[1], preset(303, code="CODE_101")))
    with loader.transaction():
        loader.execute("SELECT FROM ai.keyword_preset WHERE id = 101 FOR UPDATE")
        results = [judged(1, tokens[1], 303, 202), judged(2, tokens[2], 202, 101)]
        stored = Waiting(worker, lambda: keyword_store.store(worker, results, 1))
        stored.waits_for_a_lock(witness)
        preset_store.write(loader, swapped, DEFAULT_PROFILE, {})
    assert stored.result() == {1, 2}
    assert set(states_of(witness).values()) == {("COMPLETED", "COMPLETED")}


def test_a_snapshot_is_what_a_run_may_judge_with_in_the_order_of_ids(connection: Connection) -> None:
    blocked, private = preset(205, visibility="BLOCKED"), preset(206, visibility="PRIVATE_ONLY")
    write(connection, *THREE, version=4)
    write(connection, THREE[2], THREE[0], blocked, private, version=5)
    connection.execute(
        "INSERT INTO ai.keyword_preset (id, code, display_name, category, description, version)"
        " VALUES (999, 'NO_VECTOR', '이름', 'ACTIVITY', '설명', 12)"
    )
    assert preset_store.snapshot(connection, DEFAULT_PROFILE) == PresetSnapshot(
        version=5,
        profile=DEFAULT_PROFILE,
        presets=(THREE[0], private, THREE[2]),
        vectors=(vector(101, 4), vector(206, 5), vector(303, 4)),
    )


def test_a_snapshot_without_presets_is_empty(connection: Connection) -> None:
    assert preset_store.snapshot(connection, DEFAULT_PROFILE) == PresetSnapshot(0, DEFAULT_PROFILE, (), ())


def test_what_somebody_changed_in_the_rows_is_seen_and_put_right(connection: Connection) -> None:
    write(connection, *THREE)
    file = PresetFile(1, THREE)
    for damage in (
        "UPDATE ai.keyword_preset SET is_active = false WHERE id = 101",
        "UPDATE ai.keyword_preset SET description = '다른' WHERE id = 202",
        "UPDATE ai.keyword_preset SET embedding = NULL WHERE id = 303",
        "UPDATE ai.keyword_preset SET version = 7 WHERE id = 303",
        "INSERT INTO ai.keyword_preset (id, code, display_name, category, description)"
        " VALUES (404, 'MORE', '이름', 'ACTIVITY', '설명')",
    ):
        connection.execute(damage)
        assert preset_store.differs(connection, file, DEFAULT_PROFILE), damage
        write(connection, *THREE)
