"""The articles of one day, fixed by its date: how many per section, when, and of which kinds.

A day has 45 articles in STOCK and 12 in every other section, one of FINANCE listed in STOCK too.
"""

import json
import unicodedata
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any

from local_stack.naver_site.articles import SECTIONS, SEOUL, Article, Kind
from local_stack.naver_site.wording import Writer, finance_terms_in, vocabulary

ARTICLES_IN_STOCK = 45
ARTICLES_ELSEWHERE = 12
LONG_TITLE_CHARS = 5000
# Ids of a day: those of the lists, from 200 those of the other blocks, from 300 those that tests publish.
IDS_PER_DAY = 1000
_FIRST_ASIDE_INDEX = 200
ASIDE_PER_SECTION = 11
FIRST_PUBLISHED_INDEX = 300
EARLIEST_YEAR = 1900
_DAY_ZERO = date(EARLIEST_YEAR, 1, 1).toordinal()

SPECIAL_KINDS: dict[str, tuple[Kind, ...]] = {
    "FINANCE": (
        Kind.ALL_BLOCKS,
        Kind.OLD_END_LAYOUT,
        Kind.NEAR_DUPLICATE,
        Kind.NEAR_DUPLICATE,
        Kind.TWO_SECTIONS,
        Kind.SHORT,
    ),
    "STOCK": (Kind.OLD_2020_LAYOUT, Kind.CP949, Kind.SHORT, Kind.SHORT),
    "INDUSTRY": (Kind.OLD_2020_LAYOUT, Kind.GONE_404, Kind.OG_TITLE_ONLY),
    "VENTURE": (Kind.GONE_NOTICE, Kind.LONG_TITLE),
    "REALESTATE": (Kind.NO_DATE, Kind.DATE_IN_JSON_LD, Kind.SHORT),
    "WORLD": (Kind.UNREADABLE, Kind.ORE_SPANS),
    "LIVING": (Kind.MOVED_SPORTS, Kind.NO_REPORTER_NO_THUMBNAIL, Kind.SHORT),
    "GENERAL": (Kind.DATE_IN_META, Kind.NFD_TITLE, Kind.NEAR_DUPLICATE, Kind.SHORT),
}
# Noon and midnight are where a reader of "오후 12:22" and "오전 12:05" goes wrong.
_OLD_2020_TIMES = {"STOCK": time(12, 22), "INDUSTRY": time(0, 5)}
# NFC turns it into U+91D1.
_COMPATIBILITY_IDEOGRAPH = "\uf90a"


@cache
def _stories() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("stories.json").read_text("utf-8"))
    return loaded


@lru_cache(maxsize=64)
def articles_of(day: date) -> tuple[Article, ...]:
    """All articles of a day in Seoul, in section order; the same date gives the same articles anywhere."""
    articles: list[Article] = []
    for section in SECTIONS:
        articles += _section_articles(day, section, first_index=len(articles))
    return _with_near_duplicates(day, articles)


@lru_cache(maxsize=64)
def aside_of(day: date) -> dict[str, tuple[Article, ...]]:
    """Per section, articles in no list: the other blocks of a page (headlines, ranking) show them."""
    midnight = datetime.combine(day, time(), SEOUL)
    return {
        section: tuple(
            write_article(
                day, _FIRST_ASIDE_INDEX + n * ASIDE_PER_SECTION + k, section, Kind.CURRENT, midnight
            )
            for k in range(ASIDE_PER_SECTION)
        )
        for n, section in enumerate(SECTIONS)
    }


def aid_of(day: date, index: int) -> str:
    """Ten digits that carry the day, so that a page is found without an index of all days."""
    return f"{(day.toordinal() - _DAY_ZERO) * IDS_PER_DAY + index:010d}"


def day_of_aid(aid: str) -> date | None:
    """The day an id belongs to by its number, None where that is no day."""
    ordinal = int(aid) // IDS_PER_DAY + _DAY_ZERO
    return date.fromordinal(ordinal) if ordinal <= date.max.toordinal() else None


def _section_articles(day: date, section: str, first_index: int) -> list[Article]:
    rng = Random(f"{day}/{section}")
    total = ARTICLES_IN_STOCK if section == "STOCK" else ARTICLES_ELSEWHERE
    kinds = [*SPECIAL_KINDS[section]] + [Kind.CURRENT] * (total - len(SPECIAL_KINDS[section]))
    rng.shuffle(kinds)
    stories = rng.sample(_stories()[section]["stories"], len(_stories()[section]["stories"]))
    midnight = datetime.combine(day, time(), SEOUL)
    written = []
    for slot, kind in enumerate(kinds):
        listed_at = midnight + timedelta(seconds=int((slot + rng.random()) * 86_400 / total))
        if kind is Kind.OLD_2020_LAYOUT:
            listed_at = datetime.combine(day, _OLD_2020_TIMES[section], SEOUL)
        story = stories[slot % len(stories)]
        written.append(write_article(day, first_index + slot, section, kind, listed_at, story))
    return written


def write_article(
    day: date, index: int, section: str, kind: Kind, listed_at: datetime, story: dict[str, Any] | None = None
) -> Article:
    """One invented article; the same arguments give the same article. Without a story the index picks one."""
    rng = Random(f"{day}/{index}")
    writer = Writer(rng, day)
    stories = _stories()[section]["stories"]
    story = story or stories[index % len(stories)]
    oid, press = rng.choice(vocabulary()["presses"])
    title = writer.announce(rng.choice(story["titles"]))
    reporters = tuple(writer.reporter() for _ in range(rng.choice([1, 1, 1, 2])))
    modified_at = listed_at + timedelta(seconds=rng.randint(40, 2400)) if rng.random() < 0.4 else None
    article = Article(
        oid=oid,
        aid=aid_of(day, index),
        press=press,
        sections=("FINANCE", "STOCK") if kind is Kind.TWO_SECTIONS else (section,),
        kind=kind,
        title=title,
        paragraphs=_paragraphs(rng, writer, section, story, short=kind is Kind.SHORT),
        listed_at=listed_at,
        published_at=listed_at,
        modified_at=modified_at,
        reporters=reporters,
    )
    return _of_its_kind(article, writer, story)


def _of_its_kind(article: Article, writer: Writer, story: dict[str, Any]) -> Article:
    if article.kind is Kind.NFD_TITLE:
        decomposed = unicodedata.normalize("NFD", f"통위 앞둔 {article.title}")
        return replace(article, title=_COMPATIBILITY_IDEOGRAPH + decomposed)
    if article.kind is Kind.LONG_TITLE:
        title = article.title
        while len(title) < LONG_TITLE_CHARS:
            title += "…" + writer.write(story["titles"][0])
        return replace(article, title=title[: LONG_TITLE_CHARS - 1] + "…")
    return as_shown(article)


def as_shown(article: Article) -> Article:
    """The article without what the page of its kind has no place for."""
    if article.published_at:
        article = replace(article, published_at=article.published_at.replace(microsecond=0))
    if article.modified_at:
        article = replace(article, modified_at=article.modified_at.replace(microsecond=0))
    if article.kind is Kind.NO_DATE:
        return replace(article, published_at=None, modified_at=None)
    if article.kind is Kind.OLD_2020_LAYOUT:
        to_the_minute = article.published_at and article.published_at.replace(second=0)
        return replace(article, published_at=to_the_minute, modified_at=None, reporters=())
    if article.kind is Kind.NO_REPORTER_NO_THUMBNAIL:
        return replace(article, reporters=(), has_thumbnail=False)
    return article


def _paragraphs(
    rng: Random, writer: Writer, section: str, story: dict[str, Any], short: bool
) -> tuple[str, ...]:
    background = rng.sample(_stories()[section]["background"], 3)
    # The order of drawing keeps two articles of one story apart: they share the story, rarely the rest.
    market = rng.sample(vocabulary()["market"], len(vocabulary()["market"]))
    told = [writer.write(story["lead"])]
    told += [
        writer.write(pattern) for pattern in (story["body"][:1] if short else [*story["body"], *background])
    ]
    wanted = rng.randint(450, 700) if short else rng.randint(1320, 1900)
    while sum(map(len, told)) < wanted or len(finance_terms_in("".join(told))) < 6:
        told.append(writer.write(market.pop()))
    if not short:
        told.append(writer.write(rng.choice(vocabulary()["closing"])))
    return tuple(told)


def _with_near_duplicates(day: date, articles: list[Article]) -> tuple[Article, ...]:
    """The wire story as three presses print it: own title and dateline, one without the last paragraph."""
    rng = Random(f"{day}/wire")
    copies = [article for article in articles if article.kind is Kind.NEAR_DUPLICATE]
    presses = rng.sample(vocabulary()["presses"], len(copies))
    original = copies[0]
    printed: dict[str, Article] = {}
    for position, (article, (oid, press)) in enumerate(zip(copies, presses, strict=True)):
        reporter = article.reporters[0]
        paragraphs = [f"(서울={press}) {reporter} = {original.paragraphs[0]}", *original.paragraphs[1:]]
        if position == 1:
            paragraphs.pop()
        printed[article.aid] = replace(
            article,
            oid=oid,
            press=press,
            title=(original.title, f"[속보] {original.title}", f"{original.title}(종합)")[position],
            paragraphs=tuple(paragraphs),
            reporters=(reporter,),
            duplicate_group=f"{day:%Y%m%d}-wire",
        )
    return tuple(printed.get(article.aid, article) for article in articles)
