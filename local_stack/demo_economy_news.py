"""economy_news in the demo: one day of the stand-in site, all eight sections, judged from outside.

What is right is not asked of the pipeline: the site knows what it published, the stand-in's ledger what
it was asked and what it charged.
"""

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from local_stack.demo_report import PipelineReport

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PIPELINE = "economy_news"
# One fixed day, so that every demo shows the same; `make dev` shows the running one.
DEMO_DAY = date(2026, 11, 27)
LEAST_CHARACTERS = 1_000
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

_ROWS = """
SELECT (SELECT count(*) FROM news.article WHERE day = %(day)s),
       (SELECT count(*) FROM news.summary JOIN news.article ON article.id = article_id WHERE day = %(day)s),
       (SELECT count(*) FROM news.article WHERE day = %(day)s AND duplicate_of IS NOT NULL),
       (SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM news.summary
        JOIN news.article ON article.id = article_id WHERE day = %(day)s),
       (SELECT coalesce(sum(cost_usd), 0) FROM news.summary
        JOIN news.article ON article.id = article_id WHERE day = %(day)s),
       (SELECT coalesce(sum(cost_usd), 0) FROM granary.spending WHERE pipeline = 'economy_news'),
       (SELECT count(*) FROM news.ai_job WHERE day = %(day)s AND status = 'RUNNING')
"""


class Steps(Protocol):
    """Shows what is being done."""

    def step(self, what: str) -> "AbstractContextManager[None]": ...


@dataclass(frozen=True)
class Rows:
    """What is stored of the demo's day; `spent_usd` and `leased` besides."""

    articles: int
    summaries: int
    duplicates: int
    tokens: int
    cost_usd: float
    spent_usd: float
    leased: int


class EconomyNewsDemo:
    """Runs both jobs over the demo's day and judges what they left."""

    def __init__(self, external: Mapping[str, str]) -> None:
        self._database_url = os.environ["DATABASE_URL"]
        self._site_url = None if "naver_site" in external else os.environ["NAVER_BASE_URL"]
        base = os.environ.get("OPENAI_BASE_URL", "")
        self._ledger_url = None if "openai_stand_in" in external else base.removesuffix("/v1")

    def run(self, steps: Steps) -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before, ledger_before = self._rows(), self._ledger()
        outcomes = {}
        for job in ("economy_news_crawl", "economy_news_enrich"):
            with steps.step(f"{job}, {DEMO_DAY}, 8 sections"):
                if job == "economy_news_enrich" and before.leased:
                    self._wait_for_leases()
                outcomes[job] = _run_job(job)
        after, ledger = self._rows(), self._ledger()
        claims = {f"the job {job} succeeded": is_good for job, is_good in outcomes.items()}
        claims |= self._site_claims(after)
        claims |= self._ledger_claims(before, after, ledger_before, ledger)
        partitions = _materialised_partitions()
        claims["8 partitions of each of the three assets are materialised"] = partitions == 8
        return PipelineReport(
            PIPELINE,
            partitions,
            {"articles": after.articles, "summaries": after.summaries, "duplicates": after.duplicates},
            after.tokens,
            after.cost_usd,
            time.monotonic() - started,
            _news(
                before, after, ledger["calls"] - ledger_before["calls"] if ledger and ledger_before else None
            ),
            claims,
        )

    def _site_claims(self, rows: Rows) -> dict[str, bool]:
        if self._site_url is None:
            return {}
        published = _get(f"{self._site_url}/_control/manifest?date={DEMO_DAY.isoformat()}")
        articles = published["articles"] if isinstance(published, dict) else published
        stored = {(a["oid"], a["aid"]): a for a in articles if a["expected"] == "stored"}
        missing = {(a["oid"], a["aid"]): a["expected"] for a in articles if a["expected"] != "stored"}
        with psycopg.connect(self._database_url) as connection:
            bodies = {
                (oid, aid): body
                for oid, aid, body in connection.execute(
                    "SELECT oid, aid, body FROM news.article WHERE day = %s", (DEMO_DAY,)
                )
            }
            unstored = {
                (oid, aid): status
                for oid, aid, status in connection.execute(
                    "SELECT oid, aid, status FROM news.listed_page WHERE day = %s AND status <> 'STORED'",
                    (DEMO_DAY,),
                )
            }
            summarised = {
                row[0]
                for row in connection.execute(
                    "SELECT oid || aid FROM news.article JOIN news.summary ON article_id = article.id "
                    "WHERE day = %s",
                    (DEMO_DAY,),
                )
            }
        as_status = {"gone": "GONE", "moved": "MOVED", "unreadable": "PARSE_FAILED"}
        groups = {a["duplicate_group"] for a in stored.values() if a["duplicate_group"] is not None}
        copies = sum(a["duplicate_group"] is not None for a in stored.values()) - len(groups)
        long_enough = sum(len(a["cleaned_body"]) >= LEAST_CHARACTERS for a in stored.values())
        return {
            f"{len(stored)} articles that the site published are stored, each once": set(bodies)
            == set(stored),
            "every stored body is what the site published": all(
                _paragraphs(bodies.get(ids, "")) == _paragraphs(article["cleaned_body"])
                for ids, article in stored.items()
            ),
            f"{len(missing)} pages that are gone, moved or unreadable are recorded as such": unstored
            == {ids: as_status[expected] for ids, expected in missing.items()},
            f"{copies} near-duplicates were found": rows.duplicates == copies,
            f"{long_enough - copies} articles of {LEAST_CHARACTERS:,} characters or more have one summary, "
            "copies share it": rows.summaries == len(summarised) == long_enough - copies,
        }

    def _ledger_claims(
        self,
        before: Rows,
        after: Rows,
        ledger_before: Mapping[str, Any] | None,
        ledger: Mapping[str, Any] | None,
    ) -> dict[str, bool]:
        if ledger is None or ledger_before is None:
            return {}
        calls = ledger["calls"] - ledger_before["calls"]
        charged = ledger["cost_usd"] - ledger_before["cost_usd"]
        added = after.summaries - before.summaries
        claims = {
            "what was booked is what the provider charged": abs(after.spent_usd - before.spent_usd - charged)
            < 1e-6
        }
        if before.leased:
            claims["an interrupted run's calls were repeated, no others"] = (
                added <= calls <= added + before.leased
            )
        else:
            claims["each summary was asked and paid once"] = calls == added
        return claims

    def _wait_for_leases(self) -> None:
        """An earlier demo was killed: its jobs come back when their short leases have run out."""
        while self._rows_with_live_lease():
            time.sleep(0.5)

    def _rows_with_live_lease(self) -> int:
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM news.ai_job WHERE day = %s AND lease_until >= granary.now()",
                (DEMO_DAY,),
            ).fetchone()
        return 0 if row is None else int(row[0])

    def _rows(self) -> Rows:
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(_ROWS, {"day": DEMO_DAY}).fetchone()
        assert row is not None
        articles, summaries, duplicates, tokens, cost, spent, leased = row
        return Rows(articles, summaries, duplicates, int(tokens), float(cost), float(spent), leased)

    def _ledger(self) -> Mapping[str, Any] | None:
        return _get(f"{self._ledger_url}/_control/ledger/totals") if self._ledger_url else None


def _run_job(name: str) -> bool:
    import dagster as dg

    from orchestration.definitions import defs
    from orchestration.partitions import SECTIONS, news_range_tags

    with dg.DagsterInstance.get() as instance:
        result = defs.resolve_job_def(name).execute_in_process(
            instance=instance,
            tags=news_range_tags(DEMO_DAY, SECTIONS),
            run_config=QUIET,
            raise_on_error=False,
        )
    return result.success


def _materialised_partitions() -> int:
    """How many of the day's partitions all three assets have."""
    import dagster as dg

    from orchestration.partitions import SECTIONS, news_key

    keys = {news_key(DEMO_DAY, section) for section in SECTIONS}
    with dg.DagsterInstance.get() as instance:
        for asset in ("economy_articles", "article_summaries", "article_completeness"):
            keys &= instance.get_materialized_partitions(dg.AssetKey(asset))
    return len(keys)


def _paragraphs(body: str) -> list[str]:
    return [line for line in body.split("\n") if line]


def _news(before: Rows, after: Rows, calls: int | None) -> str:
    rows = after.articles + after.summaries - before.articles - before.summaries
    if rows == 0 and not calls:
        return "nothing was new: no row added, no call made, nothing paid"
    asked = "" if calls is None else f", {calls} calls made"
    return f"this run added {rows} rows{asked} and cost {after.spent_usd - before.spent_usd:.4f} USD"


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
