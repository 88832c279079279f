"""What a preset file must be; a fault anywhere refuses it whole, in one line that says where."""

from typing import Any

import pytest
import yaml

from assets.context_tags.models import Preset
from assets.context_tags.preset_file import MOST_BYTES, PresetFileRefused, embedding_text, read_presets
from tests.unit.context_tags.made_presets import preset

ALONE: dict[str, Any] = {
    "id": 101,
    "code": "ALONE",
    "display_name": "혼자",
    "category": "COMPANION",
    "description": "혼자 보낸 시간입니다.",
    "examples": ["혼자 다녀왔다", "나만의 시간"],
}
WALK: dict[str, Any] = {**ALONE, "id": 201, "code": "WALK", "category": "ACTIVITY"}


def file_of(*presets: Any, version: Any = 1) -> str:
    return yaml.safe_dump({"version": version, "presets": list(presets)}, allow_unicode=True)


def refusal(text: str) -> str:
    """The one line with which the file is refused."""
    with pytest.raises(PresetFileRefused) as refused:
        read_presets(text)
    line = str(refused.value)
    assert "\n" not in line and len(line) <= 300
    return line


def test_a_file_gives_its_version_and_its_presets_in_their_order() -> None:
    file = read_presets(file_of(WALK, ALONE, version=7))
    assert file.version == 7
    assert [one.id for one in file.presets] == [201, 101]
    assert file.presets[1] == Preset(
        101, "ALONE", "혼자", "COMPANION", "혼자 보낸 시간입니다.", ("혼자 다녀왔다", "나만의 시간"), "PUBLIC"
    )


def test_the_visibility_may_be_stated() -> None:
    assert (
        read_presets(file_of({**ALONE, "visibility": "PRIVATE_ONLY"})).presets[0].visibility == "PRIVATE_ONLY"
    )


def test_texts_are_trimmed() -> None:
    file = read_presets(file_of({**ALONE, "code": " ALONE\n", "examples": [" 혼자 갔다 "]}))
    assert file.presets[0].code == "ALONE"
    assert file.presets[0].examples == ("혼자 갔다",)


def test_a_preset_may_have_no_examples_but_must_say_so() -> None:
    assert read_presets(file_of({**ALONE, "examples": []})).presets[0].examples == ()
    assert "examples" in refusal(file_of({key: ALONE[key] for key in ALONE if key != "examples"}))


@pytest.mark.parametrize("text", ["", "\n \n", "# only a remark\n", "---\n", "null\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert "is empty" in refusal(text)


@pytest.mark.parametrize("presets", ["[]", "", "{}", "text"])
def test_a_file_without_presets_is_refused(presets: str) -> None:
    assert "presets" in refusal(f"version: 1\npresets: {presets}\n")


@pytest.mark.parametrize("version", [None, 0, -1, 1.5, True, "1", 2**31, [1]])
def test_a_version_is_a_whole_number_from_one(version: Any) -> None:
    assert "version" in refusal(file_of(ALONE, version=version))


def test_a_file_without_a_version_is_refused() -> None:
    assert "version" in refusal(yaml.safe_dump({"presets": [ALONE]}))


def test_ids_and_codes_stand_once() -> None:
    assert "preset 2, id" in refusal(file_of(ALONE, {**ALONE, "code": "OTHER"}))
    assert "preset 2, code" in refusal(file_of(ALONE, {**ALONE, "id": 102, "code": " ALONE "}))


@pytest.mark.parametrize(
    ("category", "first", "last"),
    [("COMPANION", 100, 199), ("ACTIVITY", 200, 299), ("ATMOSPHERE", 300, 399), ("SITUATION", 400, 499)],
)
def test_an_id_lies_in_the_block_of_its_category(category: str, first: int, last: int) -> None:
    for inside in (first, last):
        assert read_presets(file_of({**ALONE, "category": category, "id": inside})).presets[0].id == inside
    for outside in (first - 1, last + 1):
        assert f"{first} to {last}" in refusal(file_of({**ALONE, "category": category, "id": outside}))


@pytest.mark.parametrize("id_", [None, True, "101", 101.0, [101], {}])
def test_an_id_is_a_whole_number(id_: Any) -> None:
    assert "preset 1, id" in refusal(file_of({**ALONE, "id": id_}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("category", "PLACE"),
        ("category", "companion"),
        ("visibility", "public"),
        ("visibility", None),
        ("visibility", ["PUBLIC"]),
        ("description", ""),
        ("description", " \n"),
        ("description", None),
        ("display_name", 5),
        ("code", True),
        ("examples", "혼자 갔다"),
        ("examples", {"a": "b"}),
        ("examples", ["혼자 갔다", ""]),
        ("examples", [["혼자 갔다"]]),
    ],
)
def test_a_field_of_another_kind_is_refused_by_its_name(field: str, value: Any) -> None:
    assert f"preset 2, {field}" in refusal(file_of(WALK, {**ALONE, field: value}))


@pytest.mark.parametrize(("field", "most"), [("code", 50), ("display_name", 50)])
def test_a_field_is_no_longer_than_its_column(field: str, most: int) -> None:
    """Characters, not bytes, as Postgres counts a varchar."""
    assert len(getattr(read_presets(file_of({**ALONE, field: "가" * most})).presets[0], field)) == most
    assert f"preset 1, {field}" in refusal(file_of({**ALONE, field: "가" * (most + 1)}))


def test_a_category_longer_than_its_column_is_refused() -> None:
    assert "preset 1, category" in refusal(file_of({**ALONE, "category": "C" * 31}))


@pytest.mark.parametrize("escape", ["\\0", "\\ud800", "\\uDC00"])
def test_a_text_that_postgres_cannot_store_is_refused(escape: str) -> None:
    text = file_of(ALONE).replace("display_name: 혼자", f'display_name: "혼자{escape}"')
    assert "preset 1, display_name" in refusal(text)


def test_unknown_keys_are_refused_by_their_name() -> None:
    assert "'note'" in refusal(file_of({**ALONE, "note": "x"}))
    assert "'author'" in refusal(file_of(ALONE) + "author: x\n")


def test_a_key_that_stands_twice_is_refused() -> None:
    assert "twice" in refusal(file_of(ALONE) + "version: 2\n")


@pytest.mark.parametrize(
    "text", ["version: [1", "\tversion: 1", "version: 1\n---\nversion: 2", "a: b: c", "%"]
)
def test_what_is_no_yaml_is_refused_with_its_line(text: str) -> None:
    assert "line " in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\x00",
        "version: 1\ud800",
        "version: 2026-13-45",
        'version: !!int "x"',
        "version: !!bool x",
        "version: !!timestamp x",
        "!!python/object/apply:os.system [ls]",
        "version: 1_" + "9" * 5_000,
        "? [a]\n: 1",
        "[" * 20_000,
        "- " * 20_000,
        "just a text",
        "&a [*a]",
        "0x" + "f" * 5_000 + ": 1",
        "version: 0x" + "f" * 5_000,
        "[1, 2]",
    ],
)
def test_what_is_no_preset_file_is_refused(text: str) -> None:
    refusal(text)


def test_an_alias_is_only_another_way_to_write_the_same() -> None:
    text = file_of(ALONE, WALK)
    assert "&id001" in text and "*id001" in text
    assert read_presets(text).presets[0].examples == read_presets(text).presets[1].examples


def test_merge_keys_are_refused_before_they_multiply() -> None:
    """They would copy 9^9 pairs out of these few hundred bytes."""
    levels = ["a0: &a0 {k: v}"]
    for level in range(1, 10):
        levels.append(f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}")
    assert "<<" in refusal("\n".join(levels))


def test_a_file_of_more_than_its_most_bytes_is_refused_unread() -> None:
    text = file_of(ALONE)
    remark = "#" * (MOST_BYTES - len(text.encode()))
    assert read_presets(text + remark).version == 1
    assert "size" in refusal(text + remark + "#")


def test_the_text_to_embed_changes_with_description_and_examples_alone() -> None:
    before = embedding_text(preset())
    assert before == "101번에 대한 설명입니다.\n첫째 예\n둘째 예"
    assert embedding_text(preset(description="다른 설명입니다.")) != before
    assert embedding_text(preset(examples=("첫째 예",))) != before
    same = preset(display_name="새 이름", code="NEW", category="ACTIVITY", visibility="BLOCKED")
    assert embedding_text(same) == before
