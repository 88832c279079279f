"""The AI results of an article: which prompt asks for each, what makes an answer valid, how it is kept.

A new result is a module like `summary.py`, a statement that stores its rows, and an entry here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assets.economy_news import insight, quiz, summary, term_cards
from assets.economy_news.models import Claim, JobType
from assets.economy_news.numbers import missing_numbers
from assets.economy_news.prompts import Prompt

Row = dict[str, object]


@dataclass(frozen=True)
class ResultKind:
    """One kind of result.

    `read` raises InvalidOutput. `rows` are what `statement` of `sql/jobs.sql` stores. `output` is the text
    that the results which follow are made from.
    """

    job_type: JobType
    prompt: Prompt
    texts: Callable[[Claim], Mapping[str, str]]
    read: Callable[[str, Claim], Any]
    statement: str
    rows: Callable[[Any, Claim], list[Row]]
    output: Callable[[Any], str] = str
    followed_by: tuple[JobType, ...] = ()


def _summary_rows(result: summary.Summary, claim: Claim) -> list[Row]:
    told = "\n".join([*result.summary3, result.summary_full])
    return [
        {
            "summary3": result.summary3,
            "summary_full": result.summary_full,
            "unsupported_numbers": missing_numbers(told, claim.text),
        }
    ]


def _card_rows(cards: tuple[term_cards.TermCard, ...], claim: Claim) -> list[Row]:
    return [
        {"position": position, "term_key": term_cards.term_key(card.term), **card.model_dump()}
        for position, card in enumerate(cards, 1)
    ]


def _insight_rows(insights: tuple[insight.Insight, ...], claim: Claim) -> list[Row]:
    return [{"position": position, **one.model_dump()} for position, one in enumerate(insights, 1)]


def _quiz_rows(kind: str) -> Callable[[tuple[quiz.Question, ...], Claim], list[Row]]:
    def rows(questions: tuple[quiz.Question, ...], claim: Claim) -> list[Row]:
        return [
            {"position": position, "kind": kind, **question.model_dump()}
            for position, question in enumerate(questions, 1)
        ]

    return rows


def _title_and_summary(claim: Claim) -> Mapping[str, str]:
    return {"title": claim.title, "summary_full": claim.text}


SUMMARY = ResultKind(
    job_type=JobType.SUMMARY,
    prompt=summary.PROMPT,
    texts=lambda claim: {"title": claim.title, "body": claim.text},
    read=lambda content, claim: summary.read_summary(content),
    statement="add_summaries",
    rows=_summary_rows,
    output=lambda result: result.summary_full,
    followed_by=(JobType.TERM_CARDS, JobType.INSIGHT, JobType.QUIZ_CONTENT),
)
TERM_CARDS = ResultKind(
    job_type=JobType.TERM_CARDS,
    prompt=term_cards.PROMPT,
    texts=_title_and_summary,
    read=lambda content, claim: term_cards.read_term_cards(content, claim.text),
    statement="add_term_cards",
    rows=_card_rows,
    output=term_cards.as_text,
    followed_by=(JobType.QUIZ_TERM,),
)
INSIGHT = ResultKind(
    job_type=JobType.INSIGHT,
    prompt=insight.PROMPT,
    texts=_title_and_summary,
    read=lambda content, claim: insight.read_insights(content),
    statement="add_insights",
    rows=_insight_rows,
)
QUIZ_CONTENT = ResultKind(
    job_type=JobType.QUIZ_CONTENT,
    prompt=quiz.CONTENT_PROMPT,
    texts=_title_and_summary,
    read=lambda content, claim: quiz.read_quiz(content),
    statement="add_quizzes",
    rows=_quiz_rows("CONTENT"),
)
QUIZ_TERM = ResultKind(
    job_type=JobType.QUIZ_TERM,
    prompt=quiz.TERM_PROMPT,
    texts=lambda claim: {"cards": claim.text},
    read=lambda content, claim: quiz.read_quiz(content),
    statement="add_quizzes",
    rows=_quiz_rows("TERM"),
)

KINDS: Mapping[JobType, ResultKind] = {
    kind.job_type: kind for kind in (SUMMARY, TERM_CARDS, INSIGHT, QUIZ_CONTENT, QUIZ_TERM)
}
