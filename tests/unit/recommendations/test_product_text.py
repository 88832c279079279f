"""The text of a product that is embedded, and when it counts as another one."""

import hashlib

from assets.recommendations.product_text import MOST_CHARACTERS, TEXT_VERSION, embedded_text, text_hash


def test_name_category_and_text_have_a_line_each() -> None:
    assert embedded_text("들기름 막국수", "면", "고소한 여름 국수") == "들기름 막국수\n면\n고소한 여름 국수"


def test_what_is_blank_has_no_line_and_the_rest_is_trimmed() -> None:
    assert embedded_text(" 막국수 ", "\n", "\t") == "막국수"


def test_a_product_that_says_nothing_has_no_text() -> None:
    assert embedded_text("", " ", "\u3000") == ""


def test_a_long_text_is_cut_and_name_and_category_stay() -> None:
    text = embedded_text("막국수", "면", "가" * 10_000_000)
    assert len(text) == MOST_CHARACTERS
    assert text.startswith("막국수\n면\n가")


def test_another_part_is_another_hash_and_the_same_parts_are_the_same() -> None:
    parts = [
        ("막국수", "면", "시원"),
        ("막국수", "면", "시원함"),
        ("막국수", "밥", "시원"),
        ("국수", "면", "시원"),
    ]
    assert len({text_hash(embedded_text(*each)) for each in parts}) == len(parts)
    assert text_hash(embedded_text(*parts[0])) == text_hash(embedded_text(*parts[0]))


def test_the_hash_is_that_of_the_bytes_and_takes_any_text() -> None:
    assert text_hash("면") == hashlib.sha256("면".encode()).hexdigest()
    assert len(text_hash("\ud800")) == 64


def test_whoever_changes_what_is_embedded_changes_the_version() -> None:
    samples = [("a", "b", "c"), (" a", "", "c\n"), ("a" * 9_000, "b", "c")]
    together = text_hash("|".join(embedded_text(*each) for each in samples))
    assert (TEXT_VERSION, together[:16]) == ("1", "820da3ed8bcbf427")
