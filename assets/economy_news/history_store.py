"""The history of one article on a given connection, and what it waits for now. Reads only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.economy_news import job_history_store
from assets.economy_news.article_url import ArticleIds, article_ids_on_any_host
from assets.economy_news.job_history_store import NewsFacts
from resources.item_history import Event, ItemHistory, Needs, Wait, launch, shown
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
ZONE = "Asia/Seoul"
LOOKED_FOR = "an article's address, its `oid/aid` as 001/0000000001, or its news.article id"
MOST_FETCHES, MOST_READINGS = 12, 3

Row = dict[str, Any]


def article_history(connection: psycopg.Connection, identifier: str, facts: NewsFacts) -> ItemHistory | None:
    """The article's history; None where no list showed it and none is stored."""
    ids = _ids(connection, identifier)
    if ids is None:
        return None
    oid, aid = ids
    key = {"oid": oid, "aid": aid}
    pages = _rows(connection, "pages", key)
    article = next(iter(_rows(connection, "article", key)), None)
    if article is None and not pages:
        return None
    now, first_live_day = connection.execute(SQL["clock"]).fetchone() or (None, None)
    assert now is not None and first_live_day is not None
    address = f"article {oid}/{aid}"
    if article is None:
        title = f"{address}, not stored"
        waits, notes = _page_waits(pages, now, first_live_day)
        return ItemHistory(title, tuple(_page_events(pages)), waits, now, "nothing yet", notes, ZONE)
    return _stored(connection, address, article, pages, now, facts)


def _stored(
    connection: psycopg.Connection,
    address: str,
    article: Row,
    pages: Sequence[Row],
    now: datetime,
    facts: NewsFacts,
) -> ItemHistory:
    jobs = job_history_store.jobs_of_article(connection, article["id"], now, facts)
    shared = not jobs.has_any and article["duplicate_of"] is not None
    if shared:  # as news.article_ai has it: without a job of its own it stands by its original's
        jobs = job_history_store.jobs_of_article(connection, article["duplicate_of"], now, facts)
    notes = (*_notes(article, shared, jobs.has_any, facts), *jobs.notes)
    stored_as = f"news.article {article['id']}, {_partition(article)}"
    return ItemHistory(
        title=f"{address}: {shown(article['title'], 100)} ({stored_as})",
        events=(*_page_events(pages), *_stored_events(article), *jobs.events, *_later_events(article)),
        waits=jobs.waits,
        as_of=now,
        cost=jobs.cost,
        notes=notes,
        zone=ZONE,
    )


def _ids(connection: psycopg.Connection, identifier: str) -> ArticleIds | None:
    """`oid` and `aid` of an address, of `oid/aid`, or of a news.article id."""
    text = identifier.strip()
    if text.isascii() and text.isdigit() and len(text) < 19:
        row = connection.execute(SQL["ids_of"], {"article_id": int(text)}).fetchone()
        return None if row is None else (row[0], row[1])
    return article_ids_on_any_host(f"/article/{text}") or article_ids_on_any_host(text)


def _page_events(pages: Iterable[Row]) -> Iterator[Event]:
    for page in pages:
        if page["section"] != "TAKEN_DOWN":
            place = f"place {page['position']} of the list of {page['day']}"
            yield Event(page["listed_at"], f"listed in {page['section']}, {place}")
        if page["looked_at"] is not None and page["status"] != "LISTED":
            why = f": {shown(page['reason'], 150)}" if page["reason"] else ""
            tries = f", {page['passes']} tries" if page["passes"] > 1 else ""
            yield Event(
                page["looked_at"], f"last looked at in {page['section']}: {page['status']}{tries}{why}"
            )
        elif page["section"] == "TAKEN_DOWN":
            yield Event(page["listed_at"], "taken down by a person (economy_news_takedown)")


def _page_waits(
    pages: Sequence[Row], now: datetime, first_live_day: date
) -> tuple[tuple[Wait, ...], tuple[str, ...]]:
    if any(page["status"] == "TAKEN_DOWN" for page in pages):
        return (), ("it was taken down: no crawl stores it any more",)
    waits = [wait for page in pages if (wait := _page_wait(page, now, first_live_day))]
    ended = {page["status"] for page in pages if page["status"] in ("GONE", "MOVED")}
    notes = []
    if not waits:
        said = {
            "GONE": "the site says that it is gone",
            "MOVED": "its address leads to another service, whose articles are not read",
        }
        notes = [said[status] for status in sorted(ended)] or [
            "it was given up, no pass fetches it again; where many are, see the runbook, The site changed "
            "its layout"
        ]
    return tuple(sorted(waits, key=lambda wait: wait.due_at or now)), tuple(notes)


def _page_wait(page: Row, now: datetime, first_live_day: date) -> Wait | None:
    """What a listed page that is not stored waits for; None where nobody fetches it again."""
    status, passes, due = page["status"], page["passes"], now
    if status == "FETCH_FAILED" and passes < MOST_FETCHES:
        due = page["next_try_at"]
        what = f"another fetch: {passes} of {MOST_FETCHES} have failed ({shown(page['reason'] or '', 150)})"
    elif status == "PARSE_FAILED" and passes <= MOST_READINGS:
        what = f"another look: {passes} found no article on its page ({shown(page['reason'] or '', 150)})"
    elif status == "LISTED":
        what = "its first fetch"
    else:
        return None
    who = "the sensor pages_left_over, every 60 seconds"
    if page["day"] >= first_live_day:
        who = "the schedule economy_news_every_five_minutes"
        due = datetime.fromtimestamp(-(-max(due, now).timestamp() // 300) * 300, due.tzinfo)
    section = page["section"]
    by_hand = launch("economy_news_crawl", partition=f"{page['day']}|{section}")
    return Wait(f"{what}, listed in {section}", who, due, frozenset({Needs.STARTING, Needs.SITE}), by_hand)


def _stored_events(article: Row) -> Iterator[Event]:
    length = f"{article['body_characters']} characters"
    what = f"stored as news.article {article['id']} in {_partition(article)}, {length}"
    if article["duplicate_of"]:
        what += f", a near-duplicate of {article['original']} (news.article {article['duplicate_of']})"
    yield Event(article["stored_at"], what, article["run_id"])


def _later_events(article: Row) -> Iterator[Event]:
    if article["completed_at"]:
        yield Event(article["completed_at"], "complete: all five results were there")
    if article["body_emptied_at"]:
        yield Event(article["body_emptied_at"], "its body was emptied (ARTICLE_RETENTION_DAYS)")


def _notes(article: Row, is_shared: bool, has_jobs: bool, facts: NewsFacts) -> Iterator[str]:
    if has_jobs and is_shared:
        yield (
            f"it is a near-duplicate of {article['original']} (news.article {article['duplicate_of']}) and "
            "shares its results: jobs, waits and cost are that article's"
        )
    elif has_jobs:
        return
    elif article["body_characters"] < facts.min_characters:
        yield (
            f"it gets no AI results: {article['body_characters']} characters are fewer than "
            f"MIN_CONTENT_LENGTH_FOR_AI={facts.min_characters}"
        )
    elif not facts.min_characters:
        yield "no article gets AI results: MIN_CONTENT_LENGTH_FOR_AI=0"
    else:
        yield (
            "no summary was asked for when it was stored, as MIN_CONTENT_LENGTH_FOR_AI or SKIP_DUPLICATES "
            "was set then; nothing makes up for that"
        )


def _partition(row: Row) -> str:
    return f"{row['day']}|{row['section']}"


def _rows(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[name], parameters).fetchall()
