"""What is left to process (contract: "Keys and what counts as processed")."""

from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.keys import day_prefix, marker_of
from assets.raw_files.plan import NEAR_MISSES_KEPT, ListedObject, survey, unprocessed, wanted_days
from tests.bad_inputs import bad_inputs

DAY = date(2026, 1, 30)
FOLDER = day_prefix("kr", "news", DAY)
FIRST, SECOND = f"{FOLDER}raw_0001.json", f"{FOLDER}raw_0002.json"
OTHER_DAY = day_prefix("us", "tech", date(2026, 1, 29)) + "raw_0001.json"


def listed(key: str, etag: str = '"aaa"') -> ListedObject:
    return ListedObject(key, etag, 10)


def test_a_file_that_is_not_in_the_ledger_is_processed() -> None:
    assert unprocessed([listed(SECOND), listed(FIRST)], {}) == [FIRST, SECOND]


def test_a_file_with_the_version_of_the_ledger_is_processed() -> None:
    assert unprocessed([listed(FIRST)], {FIRST: '"aaa"'}) == []


@pytest.mark.parametrize("current", ['"aaa"', "aaa", 'W/"aaa"', ' "aaa" '])
@pytest.mark.parametrize("before", ['"aaa"', "aaa", 'W/"aaa"'])
def test_versions_are_compared_without_quotes_and_weakness(current: str, before: str) -> None:
    assert unprocessed([listed(FIRST, current)], {FIRST: before}) == []


@pytest.mark.parametrize("current", ['"bbb"', '"AAA"', '"aaa-2"', '"aa"', ""])
def test_a_replaced_file_is_processed_again(current: str) -> None:
    assert unprocessed([listed(FIRST, current)], {FIRST: '"aaa"'}) == [FIRST]


@pytest.mark.parametrize("etag", ['"aaa"', "", '""'])
def test_a_file_that_never_was_processed_is_not_by_an_empty_version(etag: str) -> None:
    assert unprocessed([listed(FIRST, etag)], {FIRST: ""}) == [FIRST]


def test_a_marker_of_the_old_system_keeps_its_file_finished() -> None:
    objects = [listed(marker_of(FIRST), '"m"'), listed(FIRST), listed(SECOND)]
    assert unprocessed(objects, {}) == [SECOND]
    assert survey(objects, {}).honoured == [FIRST]


@pytest.mark.parametrize("processed", ["", '"bbb"'])
def test_a_marker_counts_for_nothing_once_the_ledger_knows_the_file(processed: str) -> None:
    objects = [listed(FIRST), listed(marker_of(FIRST))]
    assert unprocessed(objects, {FIRST: processed}) == [FIRST]
    assert survey(objects, {FIRST: processed}).honoured == []


def test_a_marker_speaks_for_its_own_file_only() -> None:
    in_upper_case = f"{FIRST}.SUCCESS"
    assert unprocessed([listed(FIRST), listed(marker_of(SECOND)), listed(in_upper_case)], {}) == [FIRST]
    assert survey([listed(marker_of(SECOND))], {}).honoured == []


def test_of_a_file_listed_twice_the_later_version_counts() -> None:
    twice = [listed(FIRST, '"old"'), listed(FIRST, '"new"')]
    assert unprocessed(twice, {FIRST: "new"}) == []
    assert unprocessed(twice, {FIRST: "old"}) == [FIRST]
    assert survey(twice, {}).files == {("kr", "news", DAY): [twice[1]]}


def test_a_survey_sorts_what_it_found_by_source_and_day() -> None:
    objects = [listed(SECOND), listed(OTHER_DAY), listed(FIRST)]
    found = survey(objects, {OTHER_DAY: "aaa", SECOND: "aaa"})
    assert found.files == {
        ("kr", "news", DAY): [objects[2], objects[0]],
        ("us", "tech", date(2026, 1, 29)): [objects[1]],
    }
    assert found.unprocessed == {("kr", "news", DAY): [FIRST]}


def test_keys_that_do_not_fit_are_counted_once_and_near_misses_are_named() -> None:
    near = [f"{FOLDER}raw_1.json", FIRST.replace("2026-01-30", "2026-02-30")]
    others = [FOLDER, f"{FOLDER}README.txt", "raw/country=kr/한글 %=,.txt"]
    found = survey([listed(key) for key in [*near, *others, *others, FIRST, marker_of(FIRST)]], {})
    assert found.ignored == 5
    assert found.near_misses == sorted(near)
    assert list(found.files.values()) == [[listed(FIRST)]]


def test_no_more_near_misses_are_named_than_a_message_can_hold() -> None:
    found = survey((listed(f"{FOLDER}raw_{number}.json") for number in range(500)), {})
    assert found.ignored == 500
    assert len(found.near_misses) == NEAR_MISSES_KEPT == 50


def test_an_empty_listing_has_nothing_to_do() -> None:
    found = survey([], {FIRST: "aaa"})
    assert (found.files, found.unprocessed, found.honoured, found.ignored) == ({}, {}, [], 0)


def test_wanted_are_yesterday_and_the_days_before_it() -> None:
    assert wanted_days(date(2026, 3, 2), 2) == [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]
    assert wanted_days(date(2026, 1, 1), 0) == [date(2025, 12, 31)]
    assert len(wanted_days(date(2026, 1, 31), 7)) == 8


KEYS = st.sampled_from([FIRST, SECOND, OTHER_DAY])
VERSIONS = st.sampled_from(["", "a", '"a"', 'W/"a"', "b"])
OBJECTS = st.builds(
    ListedObject,
    key=KEYS | KEYS.map(marker_of) | st.text(st.characters(), max_size=10),
    etag=VERSIONS,
    size=st.integers(0, 10),
)


@bad_inputs
@given(objects=st.lists(OBJECTS, max_size=12), ledger=st.dictionaries(KEYS, VERSIONS), data=st.data())
def test_the_order_of_a_listing_changes_nothing(
    objects: list[ListedObject], ledger: dict[str, str], data: st.DataObject
) -> None:
    distinct = list({each.key: each for each in objects}.values())
    shuffled = data.draw(st.permutations(distinct))

    def once() -> Iterator[ListedObject]:
        yield from shuffled

    assert survey(once(), ledger) == survey(objects, ledger)


@bad_inputs
@given(objects=st.lists(OBJECTS, max_size=12), ledger=st.dictionaries(KEYS, VERSIONS))
def test_what_was_processed_as_planned_is_planned_no_more(
    objects: list[ListedObject], ledger: dict[str, str]
) -> None:
    versions = {each.key: each.etag for each in objects}
    to_do = unprocessed(objects, ledger)
    assert sorted(set(to_do)) == to_do
    after = {**ledger, **{key: versions[key] for key in to_do}}
    without_etag = [key for key in to_do if versions[key] == ""]  # always taken for another version
    assert unprocessed(objects, after) == without_etag


@bad_inputs
@given(today=st.dates(min_value=date(1, 6, 1)), back=st.integers(0, 60))
def test_wanted_days_are_consecutive_and_end_yesterday(today: date, back: int) -> None:
    days = wanted_days(today, back)
    assert days == [today - timedelta(days=back + 1 - number) for number in range(back + 1)]
    assert days[-1] == today - timedelta(days=1)
