"""Generated bad inputs: everything is read, refused with the documented error, or given a reason.

500 inputs each; GRANARY_BAD_INPUTS=10000 for the long round.
"""

import json
import struct
from collections import Counter
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from assets.context_tags.candidates import PresetMatrix, usable_vector
from assets.context_tags.judgement import UnusableAnswer, checked, read_judgement
from assets.context_tags.models import Judgement, Selection
from assets.context_tags.preset_file import (
    FIRST_ID,
    OWN_FILE,
    VISIBILITIES,
    PresetFileRefused,
    embedding_text,
    read_presets,
)
from assets.context_tags.request_text import keyed_hash, place_meta_problem, problem_of
from tests.bad_inputs import bad_inputs
from tests.unit.context_tags.made_presets import candidate, snapshot

TEXT = st.text(st.characters(), max_size=40)  # lone surrogates included
NUMBERS = st.integers() | st.floats() | st.sampled_from([101, 201, 0, 1, 0.5, True, 10**400, -(10**30)])
LEAVES = TEXT | NUMBERS | st.none() | st.booleans()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SHIPPED = OWN_FILE.read_text(encoding="utf-8")
OFFERED = [candidate(101), candidate(201), candidate(1)]

YAML_PIECES = st.sampled_from(
    [
        *"[]{}:,-?&*!|>'\"%@`#~ \n\t",
        "version: 1\n",
        "presets:\n",
        "  - id: 101\n",
        "    id: 101\n",
        "    code: A\n",
        "    display_name: 혼자\n",
        "    category: COMPANION\n",
        "    description: 설명\n",
        "    examples: [하나, 둘]\n",
        "    visibility: BLOCKED\n",
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!!float ",
        "!!bool ",
        "!!timestamp ",
        "!!binary ",
        "!!set ",
        "!!omap ",
        "!!pairs ",
        "!<tag:yaml.org,2002:python/name:os.system> ",
        "2026-99-99",
        "2026-01-01T25:61:61Z",
        "0b",
        "0x_",
        "1:99:99",
        ".inf",
        "-",
        "=",
        '"\\0"',
        '"\\uD800"',
        '"\\UFFFFFFFF"',
        "---\n",
        "...\n",
        "%YAML 9.9\n",
        "\ufeff",
        "\x00",
        "\u2028",
    ]
)


@st.composite
def damaged_files(draw: st.DrawFn) -> str:
    """The shipped file, with a part of it cut, doubled or overwritten."""
    start = draw(st.integers(0, len(SHIPPED)))
    end = min(len(SHIPPED), start + draw(st.integers(0, 200)))
    middle = draw(TEXT | YAML_PIECES | st.just(SHIPPED[start:end]))
    return SHIPPED[:start] + middle + SHIPPED[draw(st.sampled_from([start, end])) :]


@st.composite
def odd_files(draw: st.DrawFn) -> str:
    """A file of one or two presets, each with a field or two replaced by something else."""
    presets = []
    for number in range(draw(st.integers(0, 2))):
        preset: dict[str, Any] = {
            "id": 101 + number,
            "code": f"C{number}",
            "display_name": "이름",
            "category": "COMPANION",
            "description": "설명",
            "examples": ["예"],
        }
        preset.update(
            draw(st.dictionaries(st.sampled_from([*preset, "visibility", "x"]), VALUES, max_size=2))
        )
        presets.append(preset)
    content = {"version": draw(st.just(1) | VALUES), "presets": draw(st.just(presets) | VALUES)}
    return json.dumps(content)  # JSON is YAML, and writes NaN and surrogates too.


FILES = TEXT | st.lists(YAML_PIECES | TEXT, max_size=40).map("".join) | damaged_files() | odd_files()


@bad_inputs
@given(text=FILES)
def test_a_preset_file_is_read_whole_or_refused_in_one_line(text: str) -> None:
    refusal = ""
    try:
        file = read_presets(text)
    except PresetFileRefused as refused:
        refusal = str(refused)
    if refusal:
        assert "\n" not in refusal and len(refusal) <= 300 and refusal.encode()
        return
    assert file.presets and file.version >= 1
    assert (
        len({one.id for one in file.presets}) == len({one.code for one in file.presets}) == len(file.presets)
    )
    for one in file.presets:
        assert one.id // 100 * 100 == FIRST_ID[one.category] and one.visibility in VISIBILITIES
        assert len(one.code) <= 50 and len(one.display_name) <= 50
        for part in (one.code, one.display_name, one.description, *one.examples):
            assert part and "\x00" not in part and part.encode()
        assert embedding_text(one)


@bad_inputs
@given(value=VALUES)
def test_any_yaml_value_alone_is_no_preset_file(value: Any) -> None:
    try:
        read_presets(yaml.safe_dump(value))
    except PresetFileRefused:
        return
    raise AssertionError("read")


IDS = st.sampled_from([101, 201, 1, 301, True, 101.0])
CONFIDENCES = st.floats(-0.1, 1.1) | NUMBERS
ITEMS = st.fixed_dictionaries({"keywordId": IDS | NUMBERS, "confidence": CONFIDENCES}, optional={"x": LEAVES})
SELECTIONS = st.lists(ITEMS, max_size=5) | st.lists(ITEMS | VALUES, max_size=3)
ANSWERS = st.fixed_dictionaries(
    {"selected": SELECTIONS, "unmatchedConcepts": st.lists(LEAVES, max_size=30)}
) | st.fixed_dictionaries({}, optional={"selected": SELECTIONS | VALUES, "unmatchedConcepts": VALUES})
CONTENTS = (
    TEXT
    | VALUES.map(json.dumps)
    | ANSWERS.map(json.dumps)
    | ANSWERS.map(lambda answer: f"```json\n{json.dumps(answer)}\n```")
    | st.lists(
        st.sampled_from([*'[]{}:,"', '"selected":', '"keywordId": 101', "NaN", "1e999", "\\ud800"])
    ).map("".join)
)


@bad_inputs
@given(content=CONTENTS, model=TEXT)
def test_an_answer_is_read_and_checked_or_unusable(content: str, model: str) -> None:
    try:
        judgement = read_judgement(content, model)
    except UnusableAnswer:
        return
    assert_sound(judgement, *checked(judgement, OFFERED))


JUDGEMENTS = st.builds(
    Judgement,
    st.lists(st.builds(Selection, IDS | LEAVES, CONFIDENCES | LEAVES), max_size=8),
    st.lists(LEAVES, max_size=30),
    TEXT | st.none(),
)


@bad_inputs
@given(judgement=JUDGEMENTS)
def test_whatever_a_judge_hands_over_is_checked_without_an_error(judgement: Judgement) -> None:
    assert_sound(judgement, *checked(judgement, OFFERED))


def assert_sound(before: Judgement, after: Judgement, dropped: Counter[str]) -> None:
    assert len(after.selected) + dropped.total() == len(before.selected)
    assert set(dropped) <= {"foreign_id", "confidence", "duplicate"} and all(dropped.values())
    ids = [one.keyword_id for one in after.selected]
    assert len(set(ids)) == len(ids) and set(ids) <= {101, 201, 1}
    assert all(type(id_) is int for id_ in ids)
    for one in after.selected:
        assert one.confidence is None or (not isinstance(one.confidence, bool) and 0 <= one.confidence <= 1)
    assert len(after.unmatched_concepts) <= 20
    for text in (*after.unmatched_concepts, after.model):
        assert len(text) <= 100 and "\x00" not in text and text == text.encode().decode()
    assert all(text == text.strip() != "" for text in after.unmatched_concepts)


LONG = st.builds(lambda text, times: text * times, TEXT, st.sampled_from([1, 500, 501, 20_001]))


@bad_inputs
@given(text=TEXT | LONG | st.text("\x00\ud800\udfff \n\u200b가", max_size=5))
def test_a_text_without_a_problem_can_be_stored_and_sent(text: str) -> None:
    problem = problem_of(text)
    assert problem in (None, "empty", "too_long", "not_storable")
    assert len(keyed_hash(text, b"k" * 16)) == 64
    if problem is None:
        assert text.encode().decode() == text and "\x00" not in text
        assert text.strip() and len(text) <= 20_000


@bad_inputs
@given(value=VALUES | st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_place_meta_without_a_problem_is_strict_json_of_bounded_size(value: Any) -> None:
    if place_meta_problem(value) is None and value is not None:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        assert json.loads(written) == value and len(written) <= 4_000


@bad_inputs
@given(vector=st.lists(LEAVES, max_size=4) | st.lists(st.floats(), min_size=3, max_size=3) | VALUES)
def test_a_usable_vector_survives_four_byte_floats_and_can_be_compared(vector: Any) -> None:
    reason = usable_vector(vector, 3)
    assert reason in (None, "dimension", "not_a_number", "zero")
    if reason is None:
        assert any(struct.unpack("<3f", struct.pack("<3f", *vector)))
        found = PresetMatrix(snapshot({101: [1.0, 0.0, 0.0]})).candidates(vector, most=1, floor=-1.0)
        assert len(found) == 1 and -1 <= found[0].similarity <= 1
