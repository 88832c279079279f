"""Statements on the keywords that contexts are tagged with (`ai.keyword_preset`), on a given connection."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from assets.context_tags.embedding_store import as_vectors, register
from assets.context_tags.models import Preset, PresetSnapshot
from assets.context_tags.preset_file import PresetFile, PresetFileRefused, embedding_text
from resources.errors import ServiceUnavailable
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "presets.sql")


@dataclass(frozen=True, slots=True)
class StoredPreset:
    """A row as it stands. `profile`: of its vector, None where it has none; `version`: of the last file."""

    preset: Preset
    profile: str | None
    is_active: bool
    version: int


@dataclass(frozen=True, slots=True)
class PresetChanges:
    """How many presets a file changed. `embedded`: vectors written."""

    added: int = 0
    changed: int = 0
    deactivated: int = 0
    embedded: int = 0


def stored(connection: psycopg.Connection) -> list[StoredPreset]:
    """All rows, inactive ones too, by id."""
    rows = connection.execute(SQL["stored"])
    return [StoredPreset(_preset(row), *row[7:]) for row in rows]


def to_embed(file: PresetFile, stored: Sequence[StoredPreset], profile: str) -> list[Preset]:
    """The file's presets that have no vector of this profile and of what they say now."""
    embedded = {one.preset.id: embedding_text(one.preset) for one in stored if one.profile == profile}
    return [preset for preset in file.presets if embedded.get(preset.id) != embedding_text(preset)]


def write(
    connection: psycopg.Connection,
    file: PresetFile,
    profile: str,
    vectors: Mapping[int, Sequence[float]],
) -> PresetChanges:
    """Makes the table say what the file says, in one transaction, one writer at a time.

    `vectors`, by id, must cover `to_embed` as it is now; where another writer changed the rows meanwhile and
    they do not, raises ServiceUnavailable: look again. Raises PresetFileRefused where a code is held by a
    preset that the file does not name. Nothing is changed then.
    """
    by_id = {preset.id: preset for preset in file.presets}
    embedded = [id_ for id_ in vectors if id_ in by_id]
    as_sent = as_vectors(connection, [vectors[id_] for id_ in embedded])
    with connection.transaction():
        connection.execute(SQL["one_at_a_time"])
        connection.execute(SQL["lock"])
        before = {one.preset.id: one for one in stored(connection)}
        refuse_held_codes(file, list(before.values()))
        if {preset.id for preset in to_embed(file, list(before.values()), profile)} - set(embedded):
            raise ServiceUnavailable("the keyword presets were changed by another run meanwhile")
        known = {id_: before[id_] for id_ in by_id if id_ in before}
        moved = [id_ for id_, one in known.items() if one.preset.code != by_id[id_].code]
        connection.execute(SQL["free_codes"], {"ids": moved})
        given = Jsonb([asdict(preset) for preset in file.presets])
        connection.execute(SQL["write"], {"presets": given, "version": file.version})
        if embedded:
            made = {"ids": embedded, "vectors": as_sent, "profile": profile}
            connection.execute(SQL["write_vectors"], made)
        dropped = connection.execute(SQL["deactivate"], {"ids": list(by_id)}).fetchall()
    return PresetChanges(
        added=len(by_id) - len(known),
        changed=sum(one.preset != by_id[id_] or not one.is_active for id_, one in known.items()),
        deactivated=len(dropped),
        embedded=len(embedded),
    )


def differs(connection: psycopg.Connection, file: PresetFile, profile: str) -> bool:
    """Whether a `write` of this file would change anything. Raises PresetFileRefused as it does."""
    there = stored(connection)
    refuse_held_codes(file, there)
    wanted = {StoredPreset(preset, profile, True, file.version) for preset in file.presets}
    return wanted != {one for one in there if one.is_active}


def can_judge(connection: psycopg.Connection, profile: str) -> bool:
    """Whether `snapshot` would have a preset."""
    row = connection.execute(SQL["can_judge"], {"profile": profile}).fetchone()
    return row == (True,)


def snapshot(connection: psycopg.Connection, profile: str) -> PresetSnapshot:
    """The presets to judge with, by id; none where none is active with a vector of this profile."""
    register(connection)
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(SQL["snapshot"], {"profile": profile}).fetchall()
    return PresetSnapshot(
        version=max((row[7] for row in rows), default=0),
        profile=profile,
        presets=tuple(_preset(row) for row in rows),
        vectors=tuple(row[8].to_list() for row in rows),
    )


def _preset(row: Sequence[Any]) -> Preset:
    id_, code, display_name, category, description, examples, visibility = row[:7]
    return Preset(id_, code, display_name, category, description, tuple(examples), visibility)


def refuse_held_codes(file: PresetFile, stored: Sequence[StoredPreset]) -> None:
    """Raises PresetFileRefused where a code of the file is that of a stored preset which it does not name."""
    ids = {preset.id for preset in file.presets}
    held = {one.preset.code: one.preset.id for one in stored if one.preset.id not in ids}
    for preset in file.presets:
        if preset.code in held:
            raise PresetFileRefused(
                f"preset {preset.id}: its code {preset.code} is that of preset {held[preset.code]}, which is"
                " not in the file; rows are never deleted, so give it another code"
            )
