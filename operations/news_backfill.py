"""Which results a backfill of economy_news asks for: waiting, redone, made from those. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from assets.economy_news.models import JobType
from assets.economy_news.result_kinds import KINDS
from operations.quote_store import ArticlesByJobs, CrawledDays, SectionDay

LINKS_A_LIST_PAGE = 36
GUESSED_DAY = CrawledDays("", days=1, listed=150, fetched=145, articles=140, summaries=80)
"""Of a section nobody has crawled yet: what a weekday of an economy section roughly brings."""

WAITING, REDONE, FOLLOWING, NOT_CRAWLED = "waiting", "to redo", "made from those", "of pages not crawled yet"


@dataclass(frozen=True)
class Crawl:
    """What is still to be fetched of a span of days, and what it is expected to bring."""

    list_pages: int
    article_pages: int
    summaries: int
    unread_days: int
    is_guessed: bool


def items_by_kind(
    groups: Iterable[ArticlesByJobs], redo: str, new_summaries: int = 0
) -> dict[JobType, Counter[str]]:
    """The results that will be asked for, parents first, each article once a kind.

    A result that is asked for, or comes from a batch under way, makes those that follow it possible.
    """
    items: dict[JobType, Counter[str]] = {kind: Counter() for kind in KINDS}
    for group in groups:
        redone = {"": frozenset[str](), "outdated": group.outdated, "all": group.redoable}[redo]
        coming: set[JobType] = set()
        for kind, result in KINDS.items():
            if kind in coming:
                items[kind][WAITING if kind in group.waiting else FOLLOWING] += group.articles
            elif kind in group.waiting or kind in redone:
                items[kind][WAITING if kind in group.waiting else REDONE] += group.articles
            elif kind not in group.in_batch:
                continue
            coming.update(result.followed_by)
    if new_summaries:
        for kind in KINDS:
            items[kind][NOT_CRAWLED] += new_summaries
    return items


def outdated_by_kind(groups: Iterable[ArticlesByJobs]) -> Counter[str]:
    """How many results are outdated, whether they are redone or not."""
    outdated: Counter[str] = Counter()
    for group in groups:
        for kind in group.outdated:
            outdated[kind] += group.articles
    return outdated


def crawl_of(
    section_days: Iterable[SectionDay],
    crawled: Sequence[CrawledDays],
    first_live_day: date,
    live_list_pages: int,
    most_list_pages: int,
) -> Crawl:
    """What a crawl of these days will ask for; one without a link is taken to be like those crawled before.

    The running day brings what it has listed by now and no estimate: nobody knows its rest.
    """
    by_section = {one.section: one for one in crawled}
    lists = articles = unread = 0
    summaries = 0.0
    guessed = False
    for known in section_days:
        usual, is_guess = _usual(known.section, by_section)
        a_page = usual.summaries / max(usual.fetched, 1)
        articles += known.to_fetch
        summaries += known.to_fetch * a_page
        guessed |= is_guess and known.to_fetch > 0
        if known.day >= first_live_day:
            lists += live_list_pages
        elif not known.was_read:
            unread += 1
            listed = known.listed or usual.listed / usual.days
            lists += min(max(math.ceil(listed / LINKS_A_LIST_PAGE), 1), most_list_pages)
            if not known.listed:
                guessed |= is_guess
                articles += round(usual.fetched / usual.days)
                summaries += usual.summaries / usual.days
    return Crawl(lists, articles, round(summaries), unread, guessed)


def _usual(section: str, by_section: Mapping[str, CrawledDays]) -> tuple[CrawledDays, bool]:
    """What a section's days brought; else those of all sections; else the guess, and whether it is that."""
    if section in by_section:
        return by_section[section], False
    if not by_section:
        return GUESSED_DAY, True
    columns = zip(*(one[1:] for one in by_section.values()), strict=True)
    return CrawledDays(section, *(sum(column) for column in columns)), False
