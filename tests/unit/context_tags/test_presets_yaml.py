"""The presets that are shipped: the contract's 27."""

from collections import Counter

import pytest

from assets.context_tags.models import Preset
from assets.context_tags.preset_file import OWN_FILE, embedding_text, read_presets

PRESETS = read_presets(OWN_FILE.read_text(encoding="utf-8")).presets


def test_there_are_the_contracts_presets_in_each_category() -> None:
    assert Counter(one.category for one in PRESETS) == {
        "COMPANION": 6,
        "ACTIVITY": 8,
        "ATMOSPHERE": 7,
        "SITUATION": 6,
    }


def test_ids_are_numbered_on_within_their_category() -> None:
    assert [one.id for one in PRESETS] == [
        *range(101, 107),
        *range(201, 209),
        *range(301, 308),
        *range(401, 407),
    ]


def test_colleagues_and_anniversaries_are_private_only() -> None:
    assert {one.code: one.visibility for one in PRESETS if one.visibility != "PUBLIC"} == {
        "WITH_COLLEAGUES": "PRIVATE_ONLY",
        "ANNIVERSARY": "PRIVATE_ONLY",
    }


@pytest.mark.parametrize("shipped", PRESETS, ids=lambda one: one.code)
def test_a_preset_is_one_korean_sentence_with_three_to_five_examples(shipped: Preset) -> None:
    assert shipped.description.endswith("니다.") and shipped.description.count(".") == 1
    assert 3 <= len(set(shipped.examples)) == len(shipped.examples) <= 5
    for text in (shipped.display_name, shipped.description, *shipped.examples):
        assert any("가" <= character <= "힣" for character in text)


def test_no_two_presets_have_a_name_or_a_text_in_common() -> None:
    assert len({one.display_name for one in PRESETS}) == len(PRESETS)
    assert len({embedding_text(one) for one in PRESETS}) == len(PRESETS)
    examples = [example for one in PRESETS for example in one.examples]
    assert len(set(examples)) == len(examples)
