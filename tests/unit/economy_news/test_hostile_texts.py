"""Generated texts of pages: dates, numbers and sentences are read or not there, and no text costs minutes."""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.economy_news.korean_dates import parse_timestamp, parse_written_time
from assets.economy_news.numbers import missing_numbers, numbers_in
from assets.economy_news.page_text import decode_page
from assets.economy_news.summary import sentences
from assets.economy_news.term_cards import term_key
from tests.bad_inputs import bad_inputs

TEXT = st.text(st.characters(), max_size=20)  # lone surrogates included
DIGITS = st.integers(0, 10**25).map(str)
WIDE = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
DATES = st.lists(
    st.sampled_from(
        [*"-./:+ TZ", "오전", "오후", "2026", "0001", "9999", "12", "31", "+14:00", "-23:59", ". "]
    )
    | DIGITS
    | TEXT,
    max_size=14,
).map("".join)
MOMENTS = st.datetimes(timezones=st.none() | st.timezones() | st.just(UTC)).map(datetime.isoformat)
AMOUNTS = st.lists(
    st.sampled_from(
        [*",. %~", "천조", "조", "천억", "억", "만", "천", "퍼센트", "%p", "원", "1,000", "½", "٣"]
    )
    | DIGITS
    | TEXT,
    max_size=20,
).map("".join)


@bad_inputs
@given(text=DATES | MOMENTS)
@example(text="0001-01-01T00:00:00+14:00")
@example(text="9999-12-31T23:59:59-14:00")
@example(text="2026.11.30. 오후 13:61")
def test_any_text_is_a_time_of_seoul_or_none(text: str) -> None:
    for moment in (parse_timestamp(text), parse_written_time(text)):
        if moment is not None:
            assert moment.utcoffset() == timedelta(hours=9) and 1990 <= moment.year < 2100


@bad_inputs
@given(text=AMOUNTS)
@example(text="1조 2,000억원과 1,200,000,000,000원".translate(WIDE))
def test_the_numbers_of_a_text_stand_in_it_and_none_is_missing_from_itself(text: str) -> None:
    for normalised, written in numbers_in(text):
        assert written in text and Decimal(normalised.removesuffix("%")) >= 0
        assert len(normalised) < 80
    assert missing_numbers(text, text) == []


@bad_inputs
@given(text=TEXT | AMOUNTS | st.text(".!?。…\"')] \n가", max_size=40))
def test_sentences_lose_nothing_but_blanks_and_closing_marks(text: str) -> None:
    found = sentences(text)
    letters = ["".join(character for character in one if character.isalnum()) for one in (*found, text)]
    assert all(found) and "".join(letters[:-1]) == letters[-1]
    assert not any(character.isspace() for character in term_key(text))


@bad_inputs
@given(text=st.text(max_size=60), cut=st.integers(1, 2))
@example(text="\ufeff<meta charset='euc-kr'>\x00", cut=1)
def test_utf_8_is_itself_without_its_mark_and_a_last_character_that_was_cut(text: str, cut: int) -> None:
    assert decode_page(text.encode()) == text.removeprefix("\ufeff")
    assert decode_page(text.encode("utf-8-sig")) == text
    assert decode_page(f"{text}가".encode()[:-cut]) == text.removeprefix("\ufeff")


UNREADABLE = "\ufffd"
ENCODINGS = st.sampled_from(["utf-8", "cp949", "utf-16", "utf-8-sig"])
BYTES = st.binary(max_size=60) | st.builds(
    lambda text, encoding, more: text.encode(encoding, "replace") + more,
    st.text(max_size=30) | AMOUNTS,
    ENCODINGS,
    st.binary(max_size=3),
)


@bad_inputs
@given(html=BYTES.filter(lambda html: UNREADABLE.encode() not in html))
@example(html="금리 ".encode("cp949") + b"\xff")
@example(html="금리 ".encode() + b"\xff")
def test_any_bytes_are_the_text_with_the_fewest_unreadable_characters(html: bytes) -> None:
    decoded = decode_page(html)
    decoded.encode()  # holds no half of a character
    for encoding in ("utf-8", "cp949"):
        assert decoded.count(UNREADABLE) <= html.decode(encoding, "replace").count(UNREADABLE)


@pytest.mark.parametrize("piece", ["1", "1,000", "1조 ", "3만 2천 ", "2026.", "가. ", ".", "'", " \n"])
def test_half_a_megabyte_of_anything_is_read_in_time(piece: str) -> None:
    text = piece * (500_000 // len(piece))
    started = time.process_time()
    numbers_in(text)
    parse_written_time(text)
    parse_timestamp(text)
    sentences(text)
    assert time.process_time() - started < 10
