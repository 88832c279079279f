"""economy_news in a storm: crawled, taken down, enriched at once and in batches, all in one run.

Articles appear and go, and some are taken down, while runs crawl two sections and settle their jobs: those of
one section at once, those of the other in batches.
"""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

import httpx
import openai  # noqa: F401  before the forks, once for all
import psycopg
from psycopg import sql

from assets.economy_news import job_store, repair_store, result_kinds, summary
from assets.economy_news.article_source import NaverPages
from assets.economy_news.batch_step import BatchStep
from assets.economy_news.crawl_run import CrawlRun
from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import JobMode, Partition
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from resources.alerts import AlertResource
from resources.batches import BatchApi, BatchResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from tests.chaos import database, openai_faults
from tests.chaos.services import Addresses, Service, fired, stand_in
from tests.chaos.storm import Calls
from tests.integration.fatal_calls import at_step

NEEDS: tuple[Service, ...] = ("openai", "naver_site")

MODEL, KEY = "gpt-4o-mini", "sk-storm"
DAY = date(2026, 3, 2)
MORNING = "2026-03-02T08:00:00+09:00"
MODES = {Partition(DAY, "STOCK"): JobMode.live, Partition(DAY, "FINANCE"): JobMode.batch}
RULES = EnrichmentRules(concurrency=4, batch_size=5, daily_spending_cap_usd="1000")
LINES_A_BATCH = 4
BATCH_SECONDS = 0.5
ANSWERS_WITHIN_MS, CALM_ANSWERS_WITHIN_MS = 500, 10_000

REQUESTS: tuple[tuple[Any, str], ...] = (
    *(
        (BatchApi, name)
        for name in ("upload", "create", "look", "download_to", "created_since", "files_named", "delete_file")
    ),
    (ChatResource, "ask"),
    (NaverPages, "list_page"),
    (NaverPages, "article"),
)
STEPS: tuple[tuple[Any, str], ...] = ((psycopg.Cursor, "execute"), *REQUESTS)
MOST_STEPS, MOST_REQUESTS = 400, 24

_SITE_FAULTS: tuple[dict[str, Any], ...] = (
    {"status": 503},
    {"truncate_bytes": 2_000},
    {"drop_connection": True},
    {"hang": True},
)
_ROWS_OF = {"SUMMARY": 1, "TERM_CARDS": 3, "INSIGHT": 3, "QUIZ_CONTENT": 3, "QUIZ_TERM": 3}


class EconomyNews:
    """What the supervisor remembers: what it took down and deleted, and the faults of runs before."""

    name = "economy_news"
    tick_seconds = 20.0
    starts_at: str | None = MORNING

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._taken_down: set[str] = set()
        self._deleted: set[str] = set()
        self._mistakes: list[str] = []
        self._faults = 0
        self._seed: int | None = None

    def blow(self, seed: int) -> None:
        self._seed = seed
        stand_in(self._at.openai).post("batches/pace", seconds=BATCH_SECONDS)

    def calm(self) -> None:
        self._seed = None
        self._arm_faults(0)
        self._show_what_is_out()
        self._requeue()

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        site = stand_in(self._at.naver_site)
        self._show_what_is_out()
        if draw.random() < 0.6:
            partition = draw.choice(list(MODES))
            site.post("articles", date=DAY.isoformat(), section=partition.section)
        known = sorted(set(self._expected()) - self._taken_down - self._deleted)
        if draw.random() < 0.08 and known:
            gone = draw.choice(known)
            oid, aid = gone.split("/")
            site.post("articles", date=DAY.isoformat(), oid=oid, aid=aid, deleted=True)
            self._deleted.add(gone)
        elif draw.random() < 0.08 and known:
            self._take_down(draw.choice(known))
        self._arm_faults(number)

    def arm(self, seed: int) -> None:
        steps, most = (STEPS, MOST_STEPS) if seed % 2 else (REQUESTS, MOST_REQUESTS)
        at_step(steps, random.Random(seed).randint(1, most))

    def work(self, run_id: str, number: int) -> None:
        url = f"{self._at.openai}/v1"
        # Short, so that a fault is soon over; long in an undisturbed run, which a busy machine must not fail.
        within_ms = ANSWERS_WITHIN_MS if number else CALM_ANSWERS_WITHIN_MS
        chat = ChatResource(model=MODEL, base_url=url, api_key=KEY, timeout_ms=within_ms)
        batches = BatchResource(model=MODEL, base_url=url, api_key=KEY, timeout_ms=within_ms)
        partitions, alerts = list(MODES), AlertResource()
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            for partition, mode in MODES.items():
                rules = CrawlRules(max_pages=10)
                run = CrawlRun(connection, rules, alerts, run_id, MODEL, slice_seconds=60)
                run.crawl(self._site(within_ms), [partition], mode=mode)
            for kind in result_kinds.KINDS.values():
                BatchStep(
                    kind,
                    partitions,
                    run_id,
                    connection,
                    chat,
                    batches,
                    RULES,
                    alerts,
                    max_lines=LINES_A_BATCH,
                ).run()
                Enricher(kind, partitions, run_id, connection, chat, RULES, alerts).run()

    def may_fail_with(self, error: BaseException) -> bool:
        return False

    def held(self, run_id: str) -> set[str]:
        live = self._rows("SELECT id FROM news.ai_job WHERE status = 'RUNNING' AND claimed_by = %s", run_id)
        sent = self._rows(
            "SELECT job.id FROM news.ai_job AS job "
            "JOIN news.ai_batch AS batch ON batch.plan = job.batch_plan "
            "WHERE job.status = 'SUBMITTED' AND batch.status IN ('PLANNED', 'SUBMITTED') "
            "AND batch.claimed_by = %s",
            run_id,
        )
        return {f"job:{row['id']}" for row in live} | {f"job in a batch:{row['id']}" for row in sent}

    def release(self, run_id: str) -> None:
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            job_store.free_jobs_of_run(connection, run_id)

    def done(self, items: set[str]) -> set[str]:
        ids = {item: int(item.rpartition(":")[2]) for item in items}
        open_ = self._rows(
            "SELECT id FROM news.ai_job WHERE id = ANY(%s) AND status NOT IN ('SUCCESS', 'FAILED')",
            list(ids.values()),
        )
        waiting = {row["id"] for row in open_}
        return {item for item, job_id in ids.items() if job_id not in waiting}

    def waiting(self) -> list[str]:
        open_ = [
            *self._rows(
                "SELECT count(*) AS n, 'jobs ' || status AS what FROM news.ai_job "
                "WHERE status NOT IN ('SUCCESS', 'FAILED') GROUP BY status"
            ),
            *self._rows(
                "SELECT count(*) AS n, 'batches ' || status AS what FROM news.ai_batch "
                "WHERE status IN ('PLANNED', 'SUBMITTED') OR files_left <> '{}' GROUP BY status"
            ),
            *self._rows(
                "SELECT count(*) AS n, 'pages ' || status AS what FROM news.listed_page "
                "WHERE status = 'LISTED' OR status = 'FETCH_FAILED' AND passes < 12 "
                "OR status = 'PARSE_FAILED' AND passes <= 3 GROUP BY status"
            ),
        ]
        missing = sorted(set(self._expected()) - self._stored() - self._taken_down - self._deleted)
        told = [f"{row['n']} {row['what']}" for row in open_]
        return told + ([f"articles {', '.join(missing[:5])} ({len(missing)})"] if missing else [])

    def judge(self) -> list[str]:
        return [
            *self._mistakes,
            *self._wrong_articles(),
            *self._wrong_jobs(),
            *self._wrong_batches(),
            *database.wrong_money(self._at.database_url, self._at.openai),
        ]

    def items(self) -> int:
        (row,) = self._rows("SELECT count(*) AS n FROM news.ai_job")
        return int(row["n"])

    def calls(self) -> Calls:
        openai_api, site = stand_in(self._at.openai), stand_in(self._at.naver_site)
        entries = openai_api.get("ledger")["entries"]
        pages = site.get("requests")
        read = Counter(
            page["path"] for page in pages if page["status"] == 200 and "/article/" in page["path"]
        )
        faults = self._faults + openai_faults.applied(openai_api) + fired(site.get("faults"))
        repeated = self._answered_twice(entries) + sum(number - 1 for number in read.values())
        asked = sum(one["custom_id"] is None for one in entries)
        return Calls(asked + len(pages), faults, repeated)

    def _answered_twice(self, entries: Iterable[dict[str, Any]]) -> int:
        """Answers at the full price that no result came of, which is what kills and lost answers cost."""
        good = [one for one in entries if one["endpoint"] == "chat/completions" and one["status"] == 200]
        live = sum(one["custom_id"] is None for one in good)
        lines = Counter(one["custom_id"] for one in good if one["custom_id"] is not None)
        (row,) = self._rows(
            "SELECT count(*) AS n FROM news.ai_result AS result JOIN news.ai_job AS job ON job.id = job_id "
            "WHERE job.batch_plan IS NULL"
        )
        return live - int(row["n"]) + sum(number - 1 for number in lines.values())

    def _wrong_articles(self) -> list[str]:
        stored = self._stored()
        strange = stored - set(self._expected()) - self._deleted
        mistakes = [f"article {one} should not be there" for one in sorted(strange)]
        mistakes += [f"article {one} is back after it was taken down" for one in stored & self._taken_down]
        without = self._rows(
            "SELECT id FROM news.article AS article WHERE body_characters >= 1000 "
            "AND NOT EXISTS (SELECT FROM news.ai_job WHERE job_type = 'SUMMARY' "
            "                AND article_id IN (article.id, article.duplicate_of))"
        )
        return mistakes + [f"article {row['id']} has no summary job" for row in without]

    def _wrong_jobs(self) -> list[str]:
        mistakes = []
        for row in self._rows(
            "SELECT id, job_type, status, error_code FROM news.ai_job WHERE status <> 'SUCCESS'"
        ):
            mistakes.append(f"job {row['id']} {row['job_type']}: {row['status']} {row['error_code']}")
        for row in self._rows(
            "SELECT article_id, job_type, count(*) AS n FROM news.ai_job GROUP BY 1, 2 HAVING count(*) > 1 "
            "UNION ALL SELECT job.article_id, job.job_type, count(result.id) AS n FROM news.ai_job AS job "
            "LEFT JOIN news.ai_result AS result ON result.job_id = job.id WHERE job.status = 'SUCCESS' "
            "GROUP BY 1, 2 HAVING count(result.id) <> 1"
        ):
            mistakes.append(f"article {row['article_id']} has {row['n']} of {row['job_type']}")
        for row in self._rows(
            "SELECT summary.article_id, following.job_type FROM news.summary AS summary "
            "CROSS JOIN unnest('{TERM_CARDS,INSIGHT,QUIZ_CONTENT}'::text[]) AS following (job_type) "
            "WHERE NOT EXISTS (SELECT FROM news.ai_job AS job WHERE job.article_id = summary.article_id "
            "                  AND job.job_type = following.job_type) "
            "UNION ALL SELECT DISTINCT card.article_id, 'QUIZ_TERM' FROM news.term_card AS card "
            "WHERE NOT EXISTS (SELECT FROM news.ai_job AS job WHERE job.article_id = card.article_id "
            "                  AND job.job_type = 'QUIZ_TERM')"
        ):
            mistakes.append(f"article {row['article_id']} never got its {row['job_type']}")
        for row in self._rows(
            "SELECT article.id FROM news.article AS article WHERE (completed_at IS NOT NULL) "
            "<> (5 = (SELECT count(DISTINCT job_type) FROM news.ai_result WHERE article_id = article.id))"
        ):
            mistakes.append(f"article {row['id']} is told to be complete and is not, or the other way")
        return mistakes + self._wrong_rows()

    def _wrong_rows(self) -> list[str]:
        """Every result has its rows, all of them once."""
        mistakes = []
        for table in ("summary", "term_card", "insight", "quiz"):
            query = sql.SQL(
                "SELECT result.id, result.job_type, count(*) AS n FROM news.{} AS made "
                "JOIN news.ai_result AS result ON result.id = made.result_id GROUP BY 1, 2"
            ).format(sql.Identifier(table))
            found = self._rows(query)
            mistakes += [
                f"result {row['id']} of {row['job_type']} has {row['n']} rows"
                for row in found
                if row["n"] != _ROWS_OF[row["job_type"]]
            ]
            self._count_results(table, found, mistakes)
        return mistakes

    def _count_results(self, table: str, found: list[dict[str, Any]], mistakes: list[str]) -> None:
        of_table = {
            "summary": ["SUMMARY"],
            "term_card": ["TERM_CARDS"],
            "insight": ["INSIGHT"],
            "quiz": ["QUIZ_CONTENT", "QUIZ_TERM"],
        }[table]
        (row,) = self._rows("SELECT count(*) AS n FROM news.ai_result WHERE job_type = ANY(%s)", of_table)
        if row["n"] != len(found):
            mistakes.append(f"{row['n']} results of {', '.join(of_table)}, but {len(found)} in {table}")

    def _wrong_batches(self) -> list[str]:
        """A batch at the provider that nobody knows was paid for nothing; a good line is asked once."""
        api = stand_in(self._at.openai)
        entries = api.get("ledger")["entries"]
        known = {row["batch_id"] for row in self._rows("SELECT batch_id FROM news.ai_batch")}
        cancelled = {one["batch_id"] for one in entries if one["endpoint"] == "batches/cancel"}
        made = {
            one["batch_id"] for one in entries if one["endpoint"] == "batches/create" and one["status"] == 200
        }
        mistakes = [
            f"batch {one} is at the provider, and nobody knows it" for one in made - known - cancelled
        ]
        lines = Counter(
            one["custom_id"] for one in entries if one["custom_id"] is not None and one["status"] == 200
        )
        mistakes += [f"the line of job {one} was paid {n} times" for one, n in lines.items() if n > 1]
        headers = {"Authorization": f"Bearer {KEY}"}
        files = httpx.get(f"{self._at.openai}/v1/files", headers=headers, timeout=30).json()["data"]
        return mistakes + [f"file {one['filename']} is left at the provider" for one in files]

    def _site(self, within_ms: int) -> SiteResource:
        return SiteResource(
            base_url=self._at.naver_site,
            contact="tests",
            timeout_ms=within_ms,
            min_interval_ms=0,
            sleep_min_ms=0,
            sleep_max_ms=0,
        )

    def _show_what_is_out(self) -> None:
        """The site's clock follows the database's."""
        (row,) = self._rows("SELECT granary.now() AS now")
        stand_in(self._at.naver_site).post("clock", now=row["now"].isoformat())

    def _arm_faults(self, number: int) -> None:
        """Anew for each run, since the same request meets the same fault; none once it is calm."""
        api, site = stand_in(self._at.openai), stand_in(self._at.naver_site)
        self._faults += openai_faults.disarm(api) + fired(site.get("faults"))
        site.clear_faults()
        if self._seed is None:
            return
        openai_faults.arm(api, f"{self._seed}/{number}")
        draw = random.Random(f"{self._seed}/{number}/site")
        for fault in _SITE_FAULTS[: draw.randint(1, 4)]:
            site.fault(path=rf"/article/\d+/\d*{draw.randint(0, 9)}$", **fault)
        if draw.random() < 0.3:
            site.fault(path=draw.choice(["/breakingnews/", "LATEST", "robots"]), **draw.choice(_SITE_FAULTS))

    def _requeue(self) -> None:
        """As a person does with what failed for good; with retries left it should not have."""
        failed = self._rows("SELECT id, attempt, error_code FROM news.ai_job WHERE status = 'FAILED'")
        self._mistakes += [
            f"job {one['id']} failed in attempt {one['attempt']}: {one['error_code']}"
            for one in failed
            if one["attempt"] <= RULES.max_retries
        ]
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            repair_store.requeue_failed(connection, [one["id"] for one in failed], None)

    def _take_down(self, which: str) -> None:
        oid, aid = which.split("/")
        self._taken_down.add(which)
        with psycopg.connect(self._at.database_url, autocommit=True) as connection, connection.transaction():
            repair_store.take_down(
                connection,
                oid,
                aid,
                prompt_version=summary.PROMPT.version,
                model=MODEL,
                min_characters=1_000,
            )

    def _expected(self) -> list[str]:
        """`oid/aid` of what a right crawl stores of what is out by now, by the site's own account."""
        (row,) = self._rows("SELECT granary.now() AS now")
        manifest = stand_in(self._at.naver_site).get("manifest", date=DAY.isoformat())
        sections = {partition.section for partition in MODES}
        return [
            f"{one['oid']}/{one['aid']}"
            for one in manifest["articles"]
            if one["expected"] == "stored"
            and set(one["sections"]) & sections
            and datetime.fromisoformat(one["listed_at"]) <= row["now"]
        ]

    def _stored(self) -> set[str]:
        return {f"{row['oid']}/{row['aid']}" for row in self._rows("SELECT oid, aid FROM news.article")}

    def _rows(self, query: str | sql.Composed, *parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters)


SCENE = EconomyNews
