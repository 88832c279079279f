"""Which keys are raw files, which are their markers, and which deserve a warning."""

import unicodedata
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.keys import (
    RawKey,
    day_prefix,
    is_near_miss,
    marked_key,
    marker_of,
    parse_raw_key,
    source_prefix,
)
from tests.bad_inputs import bad_inputs

DAY = "raw/country=kr/category=news/date=2026-01-30"
KEY = f"{DAY}/raw_0001.json"
KOREAN = "한글 파일"

NEAR_MISSES = [
    f"{DAY}/raw_1.json",
    f"{DAY}/raw_00001.json",
    f"{DAY}/raw_0001.JSON",
    f"{DAY}/RAW_0001.json",
    f"{DAY}/raw_0001.json.gz",
    f"{DAY}/raw_0001.jsonl",
    f"{DAY}/raw_0001 (1).json",
    f"{DAY}/raw-0001.json",
    f"{DAY}/raw_０００１.json",
    f"{DAY}/raw_0001.json\n",
    f"{DAY}/part/raw_0001.json",
    f"{DAY}/data.json",
    f"/{KEY}",
    KEY.upper(),
    KEY.replace("kr", "KR"),
    KEY.replace("kr", "kor"),
    KEY.replace("news", "tech-news"),
    KEY.replace("news", "뉴스"),
    KEY.replace("news", unicodedata.normalize("NFD", "뉴스")),
    KEY.replace("news", "a%20b,c=d e"),
    KEY.replace("2026-01-30", "2026-02-30"),
    KEY.replace("2026-01-30", "0000-01-01"),
    KEY.replace("2026-01-30", "20260130"),
    KEY.replace("2026-01-30", "２０２６-01-30"),
    "raw/category=news/country=kr/date=2026-01-30/raw_0001.json",
    "raw/country=kr/category=news/raw_0001.json",
    f"{DAY}/raw_1.json.success",
    f"{KEY}.SUCCESS",
    f"{KEY}.success.success",
]
UNRELATED = [
    "",
    "/",
    "raw/",
    f"{DAY}/",
    f"{DAY}/raw_1.json/",
    f"{DAY}/README.txt",
    f"{DAY}/.success",
    f"{DAY}/{KOREAN}",
    f"{DAY}/{unicodedata.normalize('NFD', KOREAN)}.txt",
    "raw/country=kr/README.txt",
    "raw/catalogue.json",
    "reports/date=2026-01-30/summary.json",
    "backup/raw_0001.json",
]


def test_a_key_that_fits_says_source_day_and_number() -> None:
    assert parse_raw_key(KEY) == RawKey("kr", "news", date(2026, 1, 30), 1)
    assert parse_raw_key(KEY.replace("0001", "0000")) == RawKey("kr", "news", date(2026, 1, 30), 0)
    leap_day = KEY.replace("2026-01-30", "2028-02-29")
    assert parse_raw_key(leap_day) == RawKey("kr", "news", date(2028, 2, 29), 1)


@pytest.mark.parametrize("key", [*NEAR_MISSES, *UNRELATED, marker_of(KEY)])
def test_any_other_key_does_not_fit(key: str) -> None:
    assert parse_raw_key(key) is None


@pytest.mark.parametrize("key", NEAR_MISSES)
def test_a_key_that_was_probably_meant_as_a_raw_file_is_a_near_miss(key: str) -> None:
    assert is_near_miss(key)


@pytest.mark.parametrize("key", [*UNRELATED, KEY, marker_of(KEY)])
def test_keys_that_fit_markers_placeholders_and_unrelated_files_are_none(key: str) -> None:
    assert not is_near_miss(key)


def test_a_marker_leads_back_to_its_file_and_only_to_one_that_fits() -> None:
    assert marker_of(KEY) == f"{KEY}.success"
    assert marked_key(marker_of(KEY)) == KEY
    assert marked_key(KEY) is None
    assert marked_key(f"{DAY}/raw_1.json.success") is None
    assert marked_key(marker_of(marker_of(KEY))) is None


def test_prefixes_hold_the_files_of_one_source_or_day_and_of_no_other() -> None:
    assert source_prefix("kr", "news") == "raw/country=kr/category=news/"
    assert day_prefix("kr", "news", date(2026, 1, 30)) == f"{DAY}/"
    assert not KEY.startswith(source_prefix("kr", "new"))


PIECES = ["raw", "/", "country=", "kr", "category=", "news", "date=", "2026-01-30", "2026-02-30", "raw_0001"]
TEXT = st.text(st.characters(), max_size=10)  # lone surrogates included


@bad_inputs
@given(st.lists(st.sampled_from([*PIECES, ".json", ".success", "٣", "%2F", "\x00"]) | TEXT).map("".join))
def test_any_text_fits_or_not_and_is_never_two_things_at_once(key: str) -> None:
    assert (parse_raw_key(key) is not None) + (marked_key(key) is not None) + is_near_miss(key) <= 1


@bad_inputs
@given(
    country=st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=2),
    category=st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20),
    day=st.dates(),
    number=st.integers(0, 9999),
)
def test_every_key_built_by_the_rules_is_read_back(
    country: str, category: str, day: date, number: int
) -> None:
    key = f"{day_prefix(country, category, day)}raw_{number:04}.json"
    assert parse_raw_key(key) == RawKey(country, category, day, number)
    assert marked_key(marker_of(key)) == key
