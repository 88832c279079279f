"""A database as it is after a good month: 100,000 settled jobs of 20,000 articles."""

from datetime import date, timedelta

import psycopg

from benchmarks.bench import Bench
from benchmarks.economy_news_rows import add_articles, add_settled_results

TEMPLATE = "bench_history"
LAST_DAY = date(2026, 11, 20)
DAYS = 25


def database_with_history(bench: Bench, name: str) -> str:
    """The address of a new copy. Nothing waits in it; its newest articles are those of LAST_DAY."""
    articles_a_day = bench.size(800, 80)

    def fill(connection: psycopg.Connection) -> None:
        bench.say(f"storing {articles_a_day * DAYS:,} articles with five results each")
        for age in range(DAYS):
            day = LAST_DAY - timedelta(days=age)
            add_articles(connection, day, articles_a_day)
            add_settled_results(connection, day)
        connection.execute("VACUUM ANALYZE")

    bench.template(TEMPLATE, fill)
    return bench.database(name, like=TEMPLATE)


def settled_jobs(connection: psycopg.Connection) -> int:
    """How many jobs are settled, to be said beside what was measured."""
    found = connection.execute("SELECT count(*) FROM news.ai_job WHERE status = 'SUCCESS'").fetchone()
    assert found is not None
    return int(found[0])
