"""Old against new, as a terminal and a Markdown renderer show it."""

import re
import unicodedata
from datetime import date
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from assets.economy_news.models import Claim
from assets.economy_news.result_kinds import SUMMARY, Row
from operations.rehearsal import Plan, RedoneKind, Rehearsed
from operations.rehearsal_report import (
    article_lines,
    fields,
    markdown,
    plan_lines,
    side_by_side,
    summary_lines,
)
from operations.rehearsal_store import StoredResult
from resources.spending import Usage
from tests.bad_inputs import bad_inputs

OLD: Row = {
    "result_id": 7,
    "article_id": 3,
    "summary3": ["하나", "둘", "셋"],
    "summary_full": "옛 요약",
    "unsupported_numbers": [],
}
NEW: Row = {"summary3": ("하나", "둘", "넷"), "summary_full": "새 요약", "unsupported_numbers": ["3%"]}
PAID = Usage(1, 1_000, 0, 200, Decimal("0.0003"))


def stored(title: str = "제목", rows: list[Row] | None = None) -> StoredResult:
    claim = Claim(
        job_id=0,
        run_id="rehearsal",
        attempt=0,
        article_id=3,
        day=date(2026, 3, 2),
        section="FINANCE",
        title=title,
        text="본문",
        lease_was_lost=False,
    )
    return StoredResult(
        claim, "https://example.test/1", "v-old", "gpt-4o-mini", 1_200, 250, Decimal("0.0004"), rows or [OLD]
    )


def a_plan(*articles: StoredResult, outdated: int = 40, room: Decimal | None = Decimal(5)) -> Plan:
    return Plan(
        kind=SUMMARY,
        prompt=SUMMARY.prompt,
        model="gpt-4o-mini",
        stored=list(articles),
        about_usd=Decimal("0.0004"),
        at_most_usd=Decimal("0.0021"),
        room_usd=room,
        outdated=outdated,
        batch_share=Decimal("0.5"),
    )


def columns(line: str) -> int:
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in line
    )


def test_what_differs_stands_in_one_line_with_what_it_was() -> None:
    assert list(fields([OLD], [NEW])) == [
        ("summary3", "- 하나\n- 둘\n- 셋", "- 하나\n- 둘\n- 넷"),
        ("summary_full", "옛 요약", "새 요약"),
        ("unsupported_numbers", "", "- 3%"),
    ]


def test_a_result_that_has_more_rows_than_the_other_is_shown_whole() -> None:
    cards = [{"term": "금리", "position": 1}, {"term": "환율", "position": 2}]
    assert list(fields(cards, [])) == [("1 term", "금리", ""), ("2 term", "환율", "")]


def test_columns_line_up_under_korean_text() -> None:
    lines = side_by_side("금리가 올랐다는 소식이 오늘 시장에 전해졌어요", "rates rose today", 60)
    assert len(lines) == 2
    assert {columns(line[: line.index("│")]) for line in lines} == {29}


@bad_inputs
@given(st.text(), st.text(), st.integers(51, 160))
def test_no_line_is_wider_than_the_terminal_and_none_steers_it(left: str, right: str, width: int) -> None:
    for line in side_by_side(left, right, width):
        assert columns(line) <= width
        assert not any(unicodedata.category(one)[0] == "C" for one in line)


@bad_inputs
@given(st.text(), st.text(), st.text())
def test_no_text_breaks_out_of_its_cell_in_markdown(title: str, old: str, new: str) -> None:
    article = stored(title, [{"summary_full": old}])
    told = markdown(
        a_plan(article), "summary.md", [Rehearsed(article, [{"summary_full": new}], PAID)], [], None
    )
    row = next(line for line in told.splitlines() if line.startswith("| summary"))
    assert len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) == 4
    assert not re.search(r"(?<!\\)[<*_`\[]", row.replace("\\\\", "").replace("<br>", ""))
    assert [line for line in told.splitlines() if line.startswith("## ")] != []
    assert told.count("\n## ") == 1


def test_an_article_shows_both_prices_and_the_rule_that_was_broken() -> None:
    one = Rehearsed(stored(), [], PAID, "the answer breaks a rule (invalid_output): 6문장", True)
    told = "\n".join(article_lines(1, one, 100))
    assert "1. 2026-03-02 FINANCE  제목" in told
    assert "1,200 + 250 tokens, 0.0004 USD" in told.replace("\n", " ") or "1,200 + 250" in told
    assert "1,000 + 200 tokens, 0.0003 USD" in told
    assert "the answer breaks a rule (invalid_output): 6문장" in told


def test_the_whole_redo_is_priced_with_what_follows_from_it() -> None:
    article = stored()
    redone = [
        RedoneKind(SUMMARY.job_type, 40, Decimal("0.0120")),
        RedoneKind(SUMMARY.followed_by[0], 40, Decimal("0.0080")),
    ]
    lines = summary_lines(a_plan(article), [Rehearsed(article, [NEW], PAID)], redone)
    assert lines == [
        "1 of 1 articles: 1 valid, 0 break a rule (a run asks those a second time), 0 without a result",
        "not publishable (numbers that the article lacks): 0 before, 1 after",
        "an article took 1,200 + 250 tokens, 0.0004 USD",
        "and takes now 1,000 + 200 tokens, 0.0003 USD",
        "this rehearsal cost 0.0003 USD",
        "in force it would outdate 40 results; `redo: outdated` would then make again",
        "  SUMMARY: 40 results, about 0.0120 USD",
        "  TERM_CARDS: up to 40 results, about 0.0080 USD",
        "  together about 0.0200 USD asked at once, 0.0100 USD in batch mode",
    ]


def test_what_cannot_be_priced_gets_no_total() -> None:
    article = stored()
    redone = [
        RedoneKind(SUMMARY.job_type, 40, Decimal("0.0120")),
        RedoneKind(SUMMARY.followed_by[0], 40, None),
    ]
    lines = summary_lines(a_plan(article), [Rehearsed(article, [NEW], PAID)], redone)
    assert lines[-1] == "  TERM_CARDS: up to 40 results, nothing tells what they cost"


def test_the_prompt_in_force_is_called_so() -> None:
    told = plan_lines(a_plan(stored(), room=None), "summary.md")
    assert told == [
        f"SUMMARY with summary.md (version {SUMMARY.prompt.version}, the one in force) and gpt-4o-mini",
        "1 stored articles of 2026-03-02 to 2026-03-02, FINANCE",
        "costs about 0.0004 USD, at most 0.0021 USD; there is no cap",
    ]
