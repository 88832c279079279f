"""Stores one article, once: the row, its sections, its first job and its counters in one transaction."""

from collections import Counter
from dataclasses import dataclass
from datetime import date

import psycopg

from assets.economy_news import job_store, near_duplicates, store
from assets.economy_news.article_page import Article
from assets.economy_news.models import JobMode, ListedPage, Partition


@dataclass(frozen=True)
class StoringRules:
    """What storing needs to know; `min_characters_for_ai` 0: no article gets AI results."""

    min_characters_for_ai: int
    skip_duplicates: bool
    summary_prompt_version: str
    model: str
    crawl_permission: str | None
    run_id: str
    mode: JobMode = JobMode.live


class ArticleStore:
    """Stores articles on one connection, and remembers the day's signatures between two of them."""

    def __init__(self, connection: psycopg.Connection, rules: StoringRules) -> None:
        self._connection = connection
        self._rules = rules
        self._originals: dict[date, list[tuple[int, bytes]]] = {}

    def add(self, article: Article, page: ListedPage, partition: Partition) -> Counter[str]:
        """What to count for the article. To be called in a transaction that the caller commits.

        The body's near-duplicates are looked for under a lock of the day, so of two crawls that store
        two copies of one wire story at once, the second sees the first.
        """
        store.lock_page(self._connection, article.oid, article.aid)
        store.lock_day(self._connection, partition.day)
        signature = near_duplicates.signature(article.body)
        article_id = store.insert_article(
            self._connection,
            article,
            partition,
            signature=signature,
            duplicate_of=self._duplicate_of(signature, partition.day),
            crawl_permission=self._rules.crawl_permission,
            run_id=self._rules.run_id,
        )
        counts: Counter[str] = Counter()
        if article_id is None:
            if store.is_taken_down(self._connection, article.oid, article.aid):
                store.settle_page(self._connection, page, partition.section, "TAKEN_DOWN", "taken down")
                return counts
            counts["duplicate_race"] += 1
            article_id = store.stored_article(self._connection, article.oid, article.aid)
            assert article_id is not None  # the constraint has just said that it is there
        else:
            counts.update(self._count_new(article_id, article))
        store.add_section(self._connection, article_id, partition.section)
        store.settle_page(self._connection, page, partition.section, "STORED")
        return counts

    def change(self, article: Article, page: ListedPage, partition: Partition) -> Counter[str]:
        """What to count for a stored article whose page was looked at again, in the caller's transaction."""
        changed = store.change_article(self._connection, article, near_duplicates.signature(article.body))
        store.look_again(self._connection, page, partition.section)
        return Counter(changed=1) if changed else Counter()

    def _duplicate_of(self, signature: bytes, day: date) -> int | None:
        known = self._originals.setdefault(day, [])
        newest = known[-1][0] if known else 0
        known.extend(store.originals_after(self._connection, day, newest))
        found = near_duplicates.most_similar(signature, known)
        return None if found is None else found[0]

    def _count_new(self, article_id: int, article: Article) -> Counter[str]:
        counts = Counter(saved=1)
        counts["published_at_null"] += article.published_at is None
        counts["thumbnail_null"] += article.thumbnail_url is None
        least = self._rules.min_characters_for_ai
        if least == 0 or len(article.body) < least:
            counts["ai_skipped_short_content"] += 1
        elif job_store.add_summary_job(
            self._connection,
            article_id,
            prompt_version=self._rules.summary_prompt_version,
            model=self._rules.model,
            min_characters=least,
            skip_duplicates=self._rules.skip_duplicates,
            mode=self._rules.mode,
        ):
            counts["summary_job"] += 1
        else:
            counts["summary_shared"] += 1
        return counts
