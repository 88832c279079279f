"""How a quote counts, prices and tells; which questions are none."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from assets.economy_news.models import JobType
from operations.call_pricing import Manner, Measured, priced, size_of
from operations.news_backfill import crawl_of, items_by_kind
from operations.quote_answer import HostWork, Quote, Room, Work
from operations.quote_request import PIPELINES, SECTIONS, NotAQuestion, QuoteRequest, read_request
from operations.quote_store import ArticlesByJobs, CrawledDays, SectionDay
from orchestration import partitions
from resources.model_table import model_named

DAY = date(2026, 11, 24)
CANARY = "a private line 7431"
SEOUL = ZoneInfo("Asia/Seoul")
MODEL = model_named("gpt-4o-mini", {})
CHILDREN = {"TERM_CARDS", "INSIGHT", "QUIZ_CONTENT", "QUIZ_TERM"}


def articles(
    waiting: Sequence[str] = (),
    in_batch: Sequence[str] = (),
    redoable: Sequence[str] = (),
    outdated: Sequence[str] = (),
) -> ArticlesByJobs:
    """Ten articles with these kinds of results."""
    return ArticlesByJobs(
        frozenset(waiting), frozenset(in_batch), frozenset(redoable), frozenset(outdated), 10
    )


def counted(groups: Sequence[ArticlesByJobs], redo: str = "") -> dict[str, dict[str, int]]:
    return {kind.value: dict(items) for kind, items in items_by_kind(groups, redo).items() if items}


def a_quote(*works: Work, **more: Any) -> Quote:
    at = datetime(2026, 11, 25, 9, tzinfo=SEOUL)
    return Quote(QuoteRequest("economy_news", DAY, DAY), at, works, **more)


def test_a_models_name_marks_nothing_up_in_its_cell() -> None:
    work = Work("SUMMARY", "my|model<b>*x*", {"waiting": 1}, 1, 1, 1, Decimal(1), Decimal(1), 1)
    told = a_quote(work, hosts=[], room=Room(None, None)).markdown()
    (row,) = [line for line in told.splitlines() if line.startswith("| SUMMARY")]
    assert row.split(" | ")[1] == r"my\|model\<b\>\*x\*"


def test_a_summary_that_waits_brings_its_four_children_once() -> None:
    assert counted([articles(waiting=["SUMMARY"])]) == {
        "SUMMARY": {"waiting": 10},
        **{child: {"made from those": 10} for child in CHILDREN},
    }


def test_a_child_that_waits_while_its_parent_is_asked_is_one_call() -> None:
    found = counted([articles(waiting=["SUMMARY", "INSIGHT"])])
    assert found["INSIGHT"] == {"waiting": 10}


def test_cards_that_wait_bring_their_quiz_and_nothing_else() -> None:
    assert counted([articles(waiting=["TERM_CARDS"])]) == {
        "TERM_CARDS": {"waiting": 10},
        "QUIZ_TERM": {"made from those": 10},
    }


def test_what_is_in_a_batch_costs_nothing_more_but_its_children_do() -> None:
    assert counted([articles(in_batch=["SUMMARY"])]) == {child: {"made from those": 10} for child in CHILDREN}


def test_only_a_redo_counts_what_is_outdated() -> None:
    group = articles(redoable=["SUMMARY", "INSIGHT"], outdated=["INSIGHT"])
    assert counted([group]) == {}
    assert counted([group], "outdated") == {"INSIGHT": {"to redo": 10}}
    assert set(counted([group], "all")) == {"SUMMARY", *CHILDREN}


def test_a_model_without_results_is_priced_by_another_ones_tokens_and_says_so() -> None:
    measured = [
        Measured("SUMMARY", "other", 7, 1_000, 100, 200),
        Measured("INSIGHT", "gpt-4o-mini", 9, 1, 1, 1),
    ]
    size = size_of("SUMMARY", "gpt-4o-mini", measured, (5, 5))
    assert (size.input, size.output) == (1_000, 200)
    assert "by other, none by gpt-4o-mini" in size.basis
    assert size_of("QUIZ_TERM", "gpt-4o-mini", measured, (5, 6)).basis.startswith("a built-in guess")


def test_a_batch_costs_half_and_cached_tokens_cost_less() -> None:
    size = size_of("SUMMARY", "gpt-4o-mini", [Measured("SUMMARY", "gpt-4o-mini", 1, 1_000, 500, 100)], (0, 0))
    live = priced("SUMMARY", {"waiting": 100}, size, Manner(MODEL, 2.0, 10, 3_000))
    batch = priced("SUMMARY", {"waiting": 100}, size, Manner(MODEL.in_batch(), 0, 1, 3_000))
    assert live.usd == Decimal("0.01725")  # 50,000 at 0.15, 50,000 at 0.075 and 10,000 at 0.60 a million
    assert batch.usd * 2 == live.usd
    assert live.seconds == 20
    assert live.most_usd > live.usd * 5


def test_answers_that_are_asked_twice_count_twice_as_calls_and_not_as_items() -> None:
    size = size_of("SUMMARY", "gpt-4o-mini", [], (1_000, 100))
    work = priced("SUMMARY", {"waiting": 100}, size, Manner(MODEL, 1, 1, 1, repeats=0.1))
    assert (work.item_count, work.calls, work.input_tokens) == (100, 110, 100_000)


@pytest.mark.parametrize(
    ("cap", "left", "cost", "days"),
    [
        (None, None, "100", 1),
        ("5", "5", "5", 1),
        ("5", "1", "1.01", 2),
        ("5", "0", "10", 3),
        ("5", "-2", "10", 3),
        ("5", "1", "11.01", 4),
        ("0", "0", "0", 1),
        ("0", "0", "0.01", None),
    ],
)
def test_the_cap_tells_on_how_many_days_the_money_is_spent(
    cap: str | None, left: str | None, cost: str, days: int | None
) -> None:
    room = Room(None if cap is None else Decimal(cap), None if left is None else Decimal(left))
    assert room.days(Decimal(cost)) == days


def test_a_day_that_was_read_is_not_read_again_and_the_running_day_brings_no_estimate() -> None:
    crawled = [CrawledDays("STOCK", days=2, listed=90, fetched=80, articles=80, summaries=40)]
    known = [
        SectionDay(date(2026, 11, 20), "STOCK", True, 45, 3),
        SectionDay(date(2026, 11, 21), "STOCK", False, 0, 0),
        SectionDay(date(2026, 11, 22), "STOCK", False, 40, 0),
        SectionDay(DAY, "STOCK", False, 0, 0),
    ]
    crawl = crawl_of(known, crawled, DAY, live_list_pages=1, most_list_pages=200)
    # Two list pages of 36 for each day that was not read, one for the running day.
    assert (crawl.list_pages, crawl.article_pages) == (2 + 2 + 1, 3 + 40)
    assert crawl.summaries == round(3 * 0.5 + 20)
    assert (crawl.unread_days, crawl.is_guessed) == (2, False)


def test_a_section_without_days_of_its_own_is_taken_for_an_average_one() -> None:
    crawled = [CrawledDays("STOCK", 2, 90, 80, 80, 40), CrawledDays("FINANCE", 2, 30, 20, 20, 10)]
    crawl = crawl_of([SectionDay(DAY, "WORLD", False, 0, 0)], crawled, date(2026, 11, 25), 1, 200)
    assert (crawl.article_pages, crawl.summaries) == (25, round(50 / 4))


def test_what_a_quote_says_is_the_sum_of_its_parts_for_people_and_for_programs() -> None:
    works = [
        Work(
            "SUMMARY",
            "gpt-4o-mini",
            {"waiting": 2, "to redo": 1},
            3,
            1_000,
            200,
            Decimal("0.5"),
            Decimal(2),
            7_200,
        ),
        Work("INSIGHT", "gpt-4o-mini", {}, 0),
    ]
    hosts = [HostWork("news.example", 40, 3_600, "40 articles")]
    answer = a_quote(*works, hosts=hosts, room=Room(Decimal("0.4"), Decimal("0.4")), gates=["QUOTA *now*"])
    told = "\n".join(answer.lines())
    assert "SUMMARY: 2 waiting, 1 to redo" in told and "INSIGHT:" not in told
    assert "40 requests to news.example, 60 min" in told
    assert "about 2.0 h in all" in told
    assert "0.5000 USD" in told and "it takes 2 days" in told
    assert "QUOTA *now*" in told and "the gate is open" not in told
    assert r"QUOTA \*now\*" in answer.markdown()
    program = answer.as_json()
    assert (program["items"], program["calls"], program["usd"], program["hours"]) == (3, 3, "0.50000000", 2.0)
    assert program["work"][0]["items"] == {"waiting": 2, "to redo": 1}


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (("news", "2026-11-24", "2026-11-24"), "the pipeline must be one of economy_news"),
        (("recipes", "24.11.2026", "2026-11-24"), "the first day must be a day as YYYY-MM-DD"),
        (("recipes", "2026-11-24", "2026-11-23"), "must not be before the first"),
        (("recipes", "2020-01-01", "2026-11-23"), "at most 1100 days"),
        (("recipes", "2026-11-24", "2026-11-24", ("FINANCE",)), "partitioned by day alone"),
        (("economy_news", "2026-11-24", "2026-11-24", ("SPORT",)), "a section must be one of FINANCE"),
        (("raw_files", "2026-11-24", "2026-11-24", ("news",)), "country/category"),
        (("raw_files", "2026-11-24", "2026-11-24", ("KR/news",)), "country/category"),
        (("economy_news", "2026-11-24", "2026-11-24", (), "bulk"), "the mode must be one of live, batch"),
        (("economy_news", "2026-11-24", "2026-11-24", (), "live", "some"), "redo must be one of nothing"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_what_would(question: tuple[Any, ...], told: str) -> None:
    with pytest.raises(NotAQuestion, match=told):
        read_request(*question)


@pytest.mark.parametrize(
    "question",
    [
        (CANARY, "2026-11-24", "2026-11-24"),
        ("recipes", CANARY, "2026-11-24"),
        ("recipes", "2026-11-24", "2026-11-24", (CANARY,)),
        ("economy_news", "2026-11-24", "2026-11-24", (CANARY,)),
        ("raw_files", "2026-11-24", "2026-11-24", (CANARY,)),
        ("economy_news", "2026-11-24", "2026-11-24", (), CANARY),
        ("economy_news", "2026-11-24", "2026-11-24", (), "live", CANARY),
    ],
)
def test_a_refusal_quotes_nothing_of_what_was_typed(question: tuple[Any, ...]) -> None:
    with pytest.raises(NotAQuestion) as refusal:
        read_request(*question)
    assert CANARY not in str(refusal.value)


def test_names_that_stand_twice_or_are_blank_count_once_or_not() -> None:
    request = read_request("economy_news", "2026-11-24", "2026-11-25", ("STOCK", " STOCK", ""))
    assert (request.parts, request.days) == (("STOCK",), 2)


def test_the_command_line_knows_the_same_pipelines_and_sections_as_the_partitions() -> None:
    assert PIPELINES == partitions.PIPELINES
    assert SECTIONS == partitions.SECTIONS
    assert set(JobType) == {"SUMMARY", *CHILDREN}
