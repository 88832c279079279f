"""A run that kills itself, as the kernel would, at a named point: `python -m ….killed_run POINT DAY`.

The points stand around the real statements and the real call; production code knows nothing of them.
"""

import os
import sys
from collections.abc import Callable
from datetime import date

import psycopg

from assets.economy_news import job_store, store
from assets.economy_news.article_storing import ArticleStore
from assets.economy_news.models import Partition
from resources import spending
from resources.chat import ChatResource
from tests.integration.economy_news.runs import crawl, enrich_all
from tests.integration.fatal_calls import after, before

SURVIVES = 3
"""How many calls and stores go well before the fatal one."""


POINTS: dict[str, Callable[[], None]] = {
    "before the claim": lambda: before(job_store, "claim_jobs", 0),
    "after the claim": lambda: before(spending, "reserve", 0),
    "instead of the call": lambda: before(ChatResource, "ask", SURVIVES),
    "after the call": lambda: after(ChatResource, "ask", SURVIVES),
    "before the finish": lambda: before(job_store, "finish_successes", 1),
    "before the commit of the finish": lambda: after(job_store, "finish_successes", 1),
    "before the list is remembered": lambda: before(store, "list_pages", 0),
    "after the list is remembered": lambda: before(store, "pages_to_fetch", 0),
    "before an article is stored": lambda: before(ArticleStore, "add", SURVIVES),
    "before the commit of an article": lambda: after(ArticleStore, "add", SURVIVES),
}


def main(point: str, day: date) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        POINTS[point]()
        crawl(connection, [Partition(day, "FINANCE")], os.environ["NAVER_BASE_URL"], run_id="killed")
        enrich_all(connection, [Partition(day, "FINANCE")], os.environ["OPENAI_BASE_URL"], run_id="killed")


if __name__ == "__main__":
    main(sys.argv[1], date.fromisoformat(sys.argv[2]))
