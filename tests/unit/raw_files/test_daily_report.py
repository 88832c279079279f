"""The day's report: the source document's example, and what the example does not show."""

import json
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.daily_report import DailySummary, ProcessingSummary, as_markdown, daily_summary
from assets.raw_files.facts import PartitionFact, PartitionStatus, PassKind
from assets.raw_files.markdown_text import escaped
from tests.bad_inputs import bad_inputs
from tests.unit.raw_files.recorded import DAY, ONE_DAY, TICK, daily_pass, partition, partitions

NOW = TICK + timedelta(minutes=16)
NOON = TICK + timedelta(hours=12)
FAILED = PartitionStatus.FAILED


def numbers(summary: DailySummary) -> ProcessingSummary:
    return summary["daily_processing_summary"]


def completed(passes: list[datetime], *facts: PartitionFact) -> tuple[str | None, float | None]:
    """Completion and duration of a day that was listed at these moments."""
    recorded = [daily_pass(scanned_after=at - TICK) for at in passes]
    summary = numbers(daily_summary(DAY, recorded, facts, NOW))
    return summary["completed_at"], summary["duration_minutes"]


def test_the_example_of_the_source_document_comes_out_field_by_field() -> None:
    last = TICK + timedelta(minutes=15, seconds=23)
    facts = [
        *(partition(category=f"c{n}", new=5, processed=5) for n in range(6)),
        partition(category="c6", new=8, processed=8, finished_at=last),
        partition(FAILED, category="news", new=4, error="Network timeout during domain processing"),
        partition(category="idle", new=0),
    ]
    summary = daily_summary(DAY, [daily_pass(scanned=25)], facts, NOW)
    # The contract fixes names, order and types.
    assert json.dumps({key: value for key, value in summary.items() if key != "details"}) == json.dumps(
        {
            "daily_processing_summary": {
                "date": "2026-01-30",
                "scheduled_at": "2026-01-31T00:00:00Z",
                "completed_at": "2026-01-31T00:15:23Z",
                "duration_minutes": 15.4,
                "partitions_scanned": 25,
                "partitions_with_new_files": 8,
                "partitions_processed_successfully": 7,
                "partitions_failed": 1,
                "total_new_files": 42,
                "total_files_processed": 38,
                "success_rate": 0.875,
            },
            "failed_partitions": [
                {
                    "country": "kr",
                    "category": "news",
                    "date": "2026-01-30",
                    "error": "Network timeout during domain processing",
                    "retry_scheduled": "2026-01-31T12:00:00Z",
                }
            ],
        }
    )


def test_a_day_of_which_nothing_is_recorded_has_no_completion_and_no_rate() -> None:
    summary = daily_summary(date(2026, 2, 28), [], [], NOW)
    assert numbers(summary) == {
        "date": "2026-02-28",
        "scheduled_at": "2026-03-01T00:00:00Z",
        "completed_at": None,
        "duration_minutes": None,
        "partitions_scanned": 0,
        "partitions_with_new_files": 0,
        "partitions_processed_successfully": 0,
        "partitions_failed": 0,
        "total_new_files": 0,
        "total_files_processed": 0,
        "success_rate": None,
    }
    assert summary["failed_partitions"] == []


def test_facts_of_other_days_are_left_out() -> None:
    others = [partition(FAILED, day=DAY - ONE_DAY), partition(FAILED, day=DAY + ONE_DAY)]
    alone = daily_summary(DAY, [daily_pass()], [partition()], NOW)
    passes = [daily_pass(TICK - ONE_DAY, scanned=99), daily_pass()]
    assert daily_summary(DAY, passes, [*others, partition()], NOW) == alone


@pytest.mark.parametrize("status", [PartitionStatus.NEW, PartitionStatus.RUNNING])
@pytest.mark.parametrize("earlier_attempt", [None, TICK + timedelta(minutes=1)])
def test_while_a_partition_is_unfinished_the_day_is_not_complete(
    status: PartitionStatus, earlier_attempt: datetime | None
) -> None:
    facts = [partition(), partition(status, category="blog", finished_at=earlier_attempt)]
    summary = daily_summary(DAY, [daily_pass()], facts, NOW)
    assert (numbers(summary)["completed_at"], numbers(summary)["duration_minutes"]) == (None, None)
    assert numbers(summary)["success_rate"] == 0.5
    assert summary["details"]["partitions_unfinished"] == 1


def test_an_end_at_an_unknown_time_leaves_the_completion_unknown() -> None:
    assert completed([TICK], partition(), partition(category="blog", finished_at=None)) == (None, None)


def test_a_day_without_new_files_is_complete_when_it_was_listed() -> None:
    assert completed([TICK + timedelta(seconds=10)]) == ("2026-01-31T00:00:10Z", 0.2)


def test_a_supplementary_pass_that_finds_nothing_does_not_make_the_day_longer() -> None:
    done = partition(finished_at=TICK + timedelta(minutes=3))
    assert completed([TICK, NOON], done) == ("2026-01-31T00:03:00Z", 3.0)
    assert completed([TICK, NOON]) == ("2026-01-31T00:00:00Z", 0.0)


def test_files_processed_on_arrival_complete_no_day_before_it_is_listed() -> None:
    early = partition(finished_at=TICK - timedelta(hours=5))
    arrival = [TICK - timedelta(hours=6)]
    assert completed(arrival, early) == (None, None)
    assert completed([*arrival, TICK + timedelta(seconds=30)], early) == ("2026-01-31T00:00:30Z", 0.5)


def test_a_day_that_a_later_pass_caught_up_with_is_complete_with_its_last_partition() -> None:
    caught_up = partition(finished_at=TICK + timedelta(days=2, minutes=5))
    summary = numbers(daily_summary(DAY, [], [caught_up], NOW + timedelta(days=2)))
    assert summary["completed_at"] == "2026-02-02T00:05:00Z"
    assert summary["duration_minutes"] == 2 * 24 * 60 + 5
    assert summary["partitions_scanned"] == 1


@pytest.mark.parametrize(("seconds", "minutes"), [(2, 0.0), (3, 0.1), (9, 0.2), (923, 15.4), (1_799, 30.0)])
def test_durations_are_to_a_tenth_of_a_minute_halves_up(seconds: int, minutes: float) -> None:
    done = partition(finished_at=TICK + timedelta(seconds=seconds))
    assert completed([TICK], done)[1] == minutes


def test_what_was_partly_read_has_succeeded_and_its_unread_files_are_told() -> None:
    facts = [partition(PartitionStatus.PARTLY, new=5, processed=3, unreadable=2)]
    summary = daily_summary(DAY, [daily_pass()], facts, NOW)
    assert numbers(summary)["success_rate"] == 1.0
    assert numbers(summary)["total_files_processed"] == 3
    assert summary["failed_partitions"] == []
    assert summary["details"] == {
        "files_failed": 2,
        "partitions_partly_processed": 1,
        "partitions_unfinished": 0,
    }


@pytest.mark.parametrize(
    ("next_attempt_at", "now", "expected"),
    [
        (TICK + timedelta(minutes=21), NOW, "2026-01-31T00:21:00Z"),
        (None, NOW, "2026-01-31T12:00:00Z"),
        (None, NOON + timedelta(minutes=1), "2026-02-01T00:00:00Z"),
        (None, TICK + timedelta(days=30), None),
    ],
)
def test_a_retry_is_the_planned_attempt_else_the_next_pass_that_looks_at_the_day(
    next_attempt_at: datetime | None, now: datetime, expected: str | None
) -> None:
    summary = daily_summary(DAY, [daily_pass()], [partition(FAILED, next_attempt_at=next_attempt_at)], now)
    assert [one["retry_scheduled"] for one in summary["failed_partitions"]] == [expected]


def test_failed_partitions_come_in_the_order_of_their_sources_whatever_the_stores_order() -> None:
    facts = [partition(FAILED, category=name) for name in ("sport", "art", "news")]
    summary = daily_summary(DAY, [daily_pass()], facts, NOW)
    assert [one["category"] for one in summary["failed_partitions"]] == ["art", "news", "sport"]


def test_the_most_partitions_that_a_pass_of_the_day_saw_are_those_scanned() -> None:
    passes = [
        daily_pass(scanned=0, scanned_after=None),
        daily_pass(scanned=25),
        daily_pass(kind=PassKind.RETRY, scanned=1),
    ]
    assert numbers(daily_summary(DAY, passes, [partition()], NOW))["partitions_scanned"] == 25


def facts_of_one_day() -> st.SearchStrategy[list[PartitionFact]]:
    fact = st.builds(
        partition,
        st.sampled_from(PartitionStatus),
        category=st.sampled_from(["art", "blog", "news", "sport"]),
        new=st.integers(0, 9),
        failures=st.integers(0, 5),
        error=st.none() | st.text(max_size=20),
        finished_at=st.none()
        | st.datetimes(datetime(2026, 1, 30), datetime(2026, 2, 9), timezones=st.just(UTC)),
    )
    return st.lists(fact, max_size=12)


@bad_inputs
@given(facts=facts_of_one_day())
def test_every_partition_with_new_files_succeeded_failed_or_is_unfinished(facts: list[PartitionFact]) -> None:
    summary = daily_summary(DAY, [daily_pass()], facts, NOW)
    of_day, details = numbers(summary), summary["details"]
    ended = of_day["partitions_processed_successfully"] + of_day["partitions_failed"]
    assert ended + details["partitions_unfinished"] == of_day["partitions_with_new_files"]
    assert of_day["partitions_failed"] == len(summary["failed_partitions"])
    assert of_day["duration_minutes"] is None or of_day["duration_minutes"] >= 0
    assert json.loads(json.dumps(summary)) == summary


# As Markdown


def test_the_markdown_has_a_line_for_every_number_and_every_failed_partition() -> None:
    facts = [*partitions(SUCCEEDED=7), partition(FAILED, category="z", error="Network timeout")]
    lines = as_markdown(daily_summary(DAY, [daily_pass()], facts, NOW)).splitlines()
    assert "| success rate | 0.875 |" in lines
    assert "| date | 2026-01-30 |" in lines
    assert lines[-1] == "| kr/z | Network timeout | 2026-01-31T12:00:00Z |"


def test_what_is_not_known_yet_is_a_dash_and_without_failures_there_is_one_table() -> None:
    text = as_markdown(daily_summary(DAY, [], [], NOW))
    assert "| completed at | – |" in text
    assert "failed partition " not in text


def test_at_most_fifty_failed_partitions_are_named() -> None:
    text = as_markdown(daily_summary(DAY, [daily_pass()], partitions(FAILED=53), NOW))
    assert text.count("| kr/c") == 50
    assert text.endswith("and 3 more")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b", "a &#124; b"),
        ("a\\|b", "a&#92;&#124;b"),
        ("`rm`", "&#96;rm&#96;"),
        ("<script>", "&#60;script&#62;"),
        ("&lt;", "&#38;lt;"),
        ("![](x)", "&#33;&#91;&#93;&#40;x&#41;"),
        ("one\r\ntwo\u2028three\x00four", "one two three four"),
        ("left\u202eright", "left right"),
        ("raw_0001.json, 97 %", "raw&#95;0001.json, 97 %"),
        ("https://x.y", "https&#58;//\u200bx.y"),
        ("WWW.x.y", "WWW\u200b.x.y"),
        ("a@b.example", "a&#64;\u200bb.example"),
        ("한글 기사", "한글 기사"),
        ("", ""),
    ],
)
def test_text_from_outside_is_shown_and_never_marks_anything_up(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_long_text_is_cut_to_its_most_characters_before_it_is_escaped() -> None:
    assert escaped("|" * 1_000, most=3) == "&#124;&#124;…"
    assert escaped("abc", most=3) == "abc"
    assert escaped(" " * 1_000_000 + "far behind", most=3) == "…"


@bad_inputs
@given(error=st.text(st.characters(), max_size=60) | st.text("|`<>&\\[]()\n\r_*~:/.@w#! ", max_size=60))
def test_no_error_text_breaks_out_of_its_cell(error: str) -> None:
    summary = daily_summary(DAY, [daily_pass()], [partition(FAILED, error=error)], NOW)
    plain = daily_summary(DAY, [daily_pass()], [partition(FAILED, error="plain")], NOW)
    lines, usual = as_markdown(summary).splitlines(), as_markdown(plain).splitlines()
    assert lines[:-1] == usual[:-1]
    cells = re.fullmatch(r"\| kr/news \| ([^|]+) \| 2026-01-31T12:00:00Z \|", lines[-1])
    assert cells is not None
    assert not re.search(r"[`<>\\\[\]*_~]|&(?!#\d+;)|://\w|www\.|@", cells[1], re.IGNORECASE)
    cells[1].encode()
