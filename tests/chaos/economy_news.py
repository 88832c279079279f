"""economy_news in a storm: crawled, taken down, enriched at once and in batches, all in one run.

Articles appear and go, and some are taken down, while runs crawl two sections and settle their jobs: those of
one section at once, those of the other in batches.
"""

import random
from collections import Counter
from typing import Any

import openai  # noqa: F401  before the forks, once for all
import psycopg
from psycopg import sql

from assets.economy_news import job_store, repair_store, result_kinds, summary
from assets.economy_news.article_source import NaverPages
from assets.economy_news.batch_step import BatchStep
from assets.economy_news.crawl_run import CrawlRun
from assets.economy_news.enrichment import Enricher
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from resources.alerts import AlertResource
from resources.batches import BatchApi, BatchResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from tests.chaos import database, openai_faults
from tests.chaos.economy_news_judging import DAY, KEY, MODES, Judge
from tests.chaos.scene import Calls
from tests.chaos.services import Addresses, Service, fired, stand_in
from tests.integration.fatal_calls import at_step

NEEDS: tuple[Service, ...] = ("openai", "naver_site")

MODEL = "gpt-4o-mini"
MORNING = "2026-03-02T08:00:00+09:00"
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


class EconomyNews:
    """The supervisor remembers the faults of runs before, its judge what was done to articles."""

    name = "economy_news"
    tick_seconds = 20.0
    starts_at: str | None = MORNING

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._judge = Judge(at)
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
        known = self._judge.present()
        if draw.random() < 0.08 and known:
            gone = draw.choice(known)
            oid, aid = gone.split("/")
            site.post("articles", date=DAY.isoformat(), oid=oid, aid=aid, deleted=True)
            self._judge.deleted.add(gone)
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
                mine = (kind, partitions, run_id, connection, chat)
                BatchStep(*mine, batches, RULES, alerts, max_lines=LINES_A_BATCH).run()
                Enricher(*mine, RULES, alerts).run()

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
            left = job_store.free_jobs_of_run(connection, run_id)
        self._judge.asked_by_dead += min(left, RULES.concurrency)

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
        missing = self._judge.missing()
        told = [f"{row['n']} {row['what']}" for row in open_]
        return told + ([f"articles {', '.join(missing[:5])} ({len(missing)})"] if missing else [])

    def judge(self) -> list[str]:
        return self._judge.mistakes()

    def items(self) -> int:
        (row,) = self._rows("SELECT count(*) AS n FROM news.ai_job")
        return int(row["n"])

    def calls(self) -> Calls:
        openai_api, site = stand_in(self._at.openai), stand_in(self._at.naver_site)
        pages = site.get("requests")
        read = Counter(
            page["path"] for page in pages if page["status"] == 200 and "/article/" in page["path"]
        )
        faults = self._faults + openai_faults.applied(openai_api) + fired(site.get("faults"))
        repeated = self._judge.repeated_calls()
        repeated += sum(number - 1 for count in (self._judge.lines_paid(), read) for number in count.values())
        asked = sum(one["custom_id"] is None for one in openai_api.get("ledger")["entries"])
        return Calls(asked + len(pages), faults, repeated)

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
        self._faults += fired(site.get("faults"))
        site.clear_faults()
        if self._seed is None:
            self._faults += openai_faults.disarm(api)
            return
        self._faults += openai_faults.arm(api, f"{self._seed}/{number}")
        draw = random.Random(f"{self._seed}/{number}/site")
        for fault in _SITE_FAULTS[: draw.randint(1, 4)]:
            site.fault(path=rf"/article/\d+/\d*{draw.randint(0, 9)}$", **fault)
        if draw.random() < 0.3:
            site.fault(path=draw.choice(["/breakingnews/", "LATEST", "robots"]), **draw.choice(_SITE_FAULTS))

    def _requeue(self) -> None:
        """As a person does with what failed for good; with retries left it should not have."""
        failed = self._rows("SELECT id, attempt, error_code FROM news.ai_job WHERE status = 'FAILED'")
        self._judge.failures += [
            f"job {one['id']} failed in attempt {one['attempt']}: {one['error_code']}"
            for one in failed
            if one["attempt"] <= RULES.max_retries
        ]
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            repair_store.requeue_failed(connection, [one["id"] for one in failed], None)

    def _take_down(self, which: str) -> None:
        oid, aid = which.split("/")
        self._judge.taken_down.add(which)
        with psycopg.connect(self._at.database_url, autocommit=True) as connection, connection.transaction():
            repair_store.take_down(
                connection,
                oid,
                aid,
                prompt_version=summary.PROMPT.version,
                model=MODEL,
                min_characters=1_000,
            )

    def _rows(self, query: str | sql.Composed, *parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters)


SCENE = EconomyNews
