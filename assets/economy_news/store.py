"""Statements of economy_news on a given connection: pages and articles. Jobs are in `job_store.py`.

Opens no connection and ends no transaction: the caller decides what belongs together.
"""

import hashlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.rows import class_row

from assets.economy_news.article_url import canonical_url
from assets.economy_news.models import ArticleCounts, ListedPage, PageCounts, Partition
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from assets.economy_news.article_page import Article

SQL = read_statements(Path(__file__).parent / "sql" / "articles.sql")


def today_and_first_live_day(connection: psycopg.Connection) -> tuple[date, date]:
    """The running day in Asia/Seoul, and the first that the live crawl still reads."""
    row = connection.execute(SQL["days"]).fetchone()
    assert row is not None
    return row[0], row[1]


def known_pages(
    connection: psycopg.Connection, section: str, ids: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Those of the (oid, aid) pairs that the section's lists have shown before."""
    parameters = {"section": section, "oids": [oid for oid, _ in ids], "aids": [aid for _, aid in ids]}
    return {(oid, aid) for oid, aid in connection.execute(SQL["known_pages"], parameters)}


def list_pages(connection: psycopg.Connection, partition: Partition, ids: Sequence[tuple[str, str]]) -> None:
    """Remembers the links of one pass, in list order."""
    connection.execute(
        SQL["list_pages"],
        {
            "section": partition.section,
            "day": partition.day,
            "oids": [oid for oid, _ in ids],
            "aids": [aid for _, aid in ids],
        },
    )


def pages_to_fetch(connection: psycopg.Connection, partition: Partition) -> list[ListedPage]:
    """The links that a pass may fetch now, those never tried first, each list in its own order."""
    rows = connection.execute(SQL["pages_to_fetch"], partition._asdict())
    return [ListedPage(*row) for row in rows]


def settle_page(
    connection: psycopg.Connection, page: ListedPage, section: str, status: str, reason: str | None = None
) -> None:
    """Writes down what became of a listed link."""
    connection.execute(
        SQL["settle_page"],
        {"oid": page.oid, "aid": page.aid, "section": section, "status": status, "reason": reason},
    )


def days_with_pages_waiting(connection: psycopg.Connection, limit: int) -> list[tuple[date, list[str]]]:
    """Past days, newest first, with the sections that still have links to fetch now."""
    return [
        (day, sections)
        for day, sections in connection.execute(SQL["days_with_pages_waiting"], {"limit": limit})
    ]


def stored_article(connection: psycopg.Connection, oid: str, aid: str) -> int | None:
    """The id of the stored article, or None."""
    row = connection.execute(SQL["stored_article"], {"oid": oid, "aid": aid}).fetchone()
    return None if row is None else int(row[0])


def list_was_read(connection: psycopg.Connection, partition: Partition) -> bool:
    """Whether a past day's lists of the section were read to their end before."""
    row = connection.execute(SQL["list_was_read"], partition._asdict()).fetchone()
    return row is not None and bool(row[0])


def note_read_list(connection: psycopg.Connection, partition: Partition) -> None:
    """Remembers that a past day's lists of the section were read to their end."""
    connection.execute(SQL["note_read_list"], partition._asdict())


def lock_page(connection: psycopg.Connection, oid: str, aid: str) -> None:
    """Holds back whoever would store or take down the same article until the transaction ends."""
    connection.execute(SQL["lock_page"], {"oid": oid, "aid": aid})


def lock_day(connection: psycopg.Connection, day: date) -> None:
    """Holds back other stores of the day until the transaction ends."""
    connection.execute(SQL["lock_day"], {"day": day})


def originals_after(connection: psycopg.Connection, day: date, after: int) -> list[tuple[int, bytes]]:
    """Ids and similarity signatures of the day's articles that are no duplicates, ids above `after`."""
    rows = connection.execute(SQL["originals_after"], {"day": day, "after": after})
    return [(article_id, bytes(signature)) for article_id, signature in rows]


def is_taken_down(connection: psycopg.Connection, oid: str, aid: str) -> bool:
    """Whether somebody had the article removed."""
    row = connection.execute(SQL["is_taken_down"], {"oid": oid, "aid": aid}).fetchone()
    return row is not None and bool(row[0])


def pages_to_recheck(
    connection: psycopg.Connection, partition: Partition, recheck_days: int
) -> list[ListedPage]:
    """Stored pages of the last days that were not looked at for an hour, the longest first."""
    parameters = {**partition._asdict(), "recheck_days": recheck_days}
    return [ListedPage(*row) for row in connection.execute(SQL["pages_to_recheck"], parameters)]


def look_again(connection: psycopg.Connection, page: ListedPage, section: str) -> None:
    """Notes that a stored page was looked at now."""
    connection.execute(SQL["look_again"], {"oid": page.oid, "aid": page.aid, "section": section})


def change_article(connection: psycopg.Connection, article: "Article", signature: bytes) -> bool:
    """True if the page says something new, which replaces what is stored; results become outdated."""
    parameters = {
        "oid": article.oid,
        "aid": article.aid,
        "title": article.title,
        "body": article.body,
        "body_characters": len(article.body),
        "input_hash": input_hash(article.title, article.body),
        "modified_at": article.modified_at,
        "similarity_signature": signature,
    }
    return connection.execute(SQL["change_article"], parameters).fetchone() is not None


def bodies_lately(connection: psycopg.Connection) -> tuple[int, int]:
    """Of the pages looked at within the last hour: how many were stored, and how many had no body."""
    row = connection.execute(SQL["bodies_lately"]).fetchone()
    assert row is not None
    return row[0], row[1]


def insert_article(
    connection: psycopg.Connection,
    article: "Article",
    partition: Partition,
    *,
    signature: bytes,
    duplicate_of: int | None,
    crawl_permission: str | None,
    run_id: str,
) -> int | None:
    """The new article's id, or None where another crawl has stored it already."""
    parameters = {
        "oid": article.oid,
        "aid": article.aid,
        "day": partition.day,
        "section": partition.section,
        "url": canonical_url(article.oid, article.aid),
        "title": article.title,
        "body": article.body,
        "body_characters": len(article.body),
        "input_hash": input_hash(article.title, article.body),
        "published_at": article.published_at,
        "modified_at": article.modified_at,
        "press": article.press,
        "reporter": article.reporter,
        "thumbnail_url": article.thumbnail_url,
        "similarity_signature": signature,
        "duplicate_of": duplicate_of,
        "crawl_permission": crawl_permission,
        "run_id": run_id,
    }
    row = connection.execute(SQL["insert_article"], parameters).fetchone()
    return None if row is None else int(row[0])


def add_section(connection: psycopg.Connection, article_id: int, section: str) -> None:
    """Remembers that the section lists the article too."""
    connection.execute(SQL["add_section"], {"article_id": article_id, "section": section})


def input_hash(title: str, text: str) -> str:
    """What a result was made from, as 32 hex digits: another title or text is another input."""
    return hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()[:32]


def article_counts(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> dict[Partition, ArticleCounts]:
    """What is stored of each partition; every one asked for has an entry."""
    with connection.cursor(row_factory=class_row(ArticleCounts)) as cursor:
        rows = cursor.execute(SQL["articles_by_partition"], columns(partitions)).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def page_counts(
    connection: psycopg.Connection, partitions: Sequence[Partition]
) -> dict[Partition, PageCounts]:
    """What is listed and not stored of each partition; every one asked for has an entry."""
    with connection.cursor(row_factory=class_row(PageCounts)) as cursor:
        rows = cursor.execute(SQL["pages_by_partition"], columns(partitions)).fetchall()
    return {Partition(row.day, row.section): row for row in rows}


def columns(partitions: Sequence[Partition]) -> dict[str, object]:
    """The partitions as two arrays, as the statements take them."""
    return {
        "days": [partition.day for partition in partitions],
        "sections": [partition.section for partition in partitions],
    }
