"""What starts runs of economy_news besides its schedule: AI jobs that are due, and pages left to fetch."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import date

import dagster as dg
import psycopg

from assets.economy_news import job_store, store
from assets.economy_news.models import DueJobs
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from orchestration.partitions import news_range_tags
from orchestration.policies import (
    CRAWL_MAX_SECONDS,
    ENRICH_MAX_SECONDS,
    automatic_run_tags,
    lock_of,
    slow_run_tags,
)
from resources import gate, host_pace
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

CRAWL_JOB = "economy_news_crawl"
ENRICH_JOB = "economy_news_enrich"
PARTITIONS_A_TICK = 500
DAYS_A_TICK = 10


def enrichment_runs(
    due: Sequence[DueJobs], held: AbstractSet[str], tick: int, days: int = DAYS_A_TICK
) -> list[dg.RunRequest]:
    """One run per day with jobs due and no live run, over the span of its sections, newest day first."""
    sections: dict[date, list[str]] = {}
    for jobs in due:
        sections.setdefault(jobs.day, []).append(jobs.section)
    return [
        dg.RunRequest(
            run_key=f"{day.isoformat()}:{tick}",
            tags={**news_range_tags(day, sections[day]), **slow_run_tags(ENRICH_JOB, day)},
        )
        for day in sorted(sections, reverse=True)
        if lock_of(ENRICH_JOB, day) not in held
    ][:days]


def left_over_runs(
    waiting: Sequence[tuple[date, Sequence[str]]], held: AbstractSet[str], tick: int
) -> list[dg.RunRequest]:
    """One crawl run per past day that has pages to fetch and no live run; it reads no list."""
    return [
        dg.RunRequest(
            run_key=f"{day.isoformat()}:{tick}",
            run_config={"ops": {"economy_articles": {"config": {"lists": "none"}}}},
            tags={**news_range_tags(day, sections), **automatic_run_tags(CRAWL_JOB, day)},
        )
        for day, sections in waiting
        if lock_of(CRAWL_JOB, day) not in held
    ]


def why_not_to_crawl(connection: psycopg.Connection, site: SiteResource, rules: CrawlRules) -> str | None:
    """Why a crawl would only fail now: switched off, no site, or a host that is left alone."""
    if not rules.enabled:
        return "crawling is switched off (CRAWL_ENABLED)"
    if not site.base_url:
        return "NAVER_BASE_URL is not set"
    paused = host_pace.paused_until(connection, site.host)
    return f"{site.host} is left alone until {paused[0]:%Y-%m-%d %H:%M %Z}: {paused[1]}" if paused else None


def economy_news_sensors(is_on: bool) -> list[dg.SensorDefinition]:
    """The sensors, running by themselves or stopped until somebody starts them."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        job_name=ENRICH_JOB,
        minimum_interval_seconds=30,
        default_status=status,
        description="Starts enrichment for the days and sections that have AI jobs pending or due.",
    )
    def article_jobs_due(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        chat: ChatResource,
        enrichment_rules: EnrichmentRules,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if not enrichment_rules.enabled:
            yield dg.SkipReason("AI is switched off (AI_ENABLED)")
            return
        with postgres.connect() as connection:
            due = job_store.due_jobs_by_partition(connection, PARTITIONS_A_TICK)
            shut = gate.read(connection, chat.gate_key) if due else None
        if not due:
            yield dg.SkipReason("no job is pending or due")
            return
        if shut is not None and not shut.probe_is_due:
            yield dg.SkipReason(f"{shut.explain()}; next probe {shut.next_probe_at:%H:%M %Z}")
            return
        held = held_locks(context.instance, ENRICH_JOB, ENRICH_MAX_SECONDS)
        tick = next_tick(context)
        runs = enrichment_runs(due, held, tick, days=1 if shut else DAYS_A_TICK)
        yield from runs
        if not runs:
            yield dg.SkipReason("every day with jobs due has a live run")

    @dg.sensor(
        job_name=CRAWL_JOB,
        minimum_interval_seconds=60,
        default_status=status,
        description="Starts a crawl for past days whose pages were listed and could not be fetched yet.",
    )
    def pages_left_over(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        news_site: SiteResource,
        crawl_rules: CrawlRules,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        with postgres.connect() as connection:
            reason = why_not_to_crawl(connection, news_site, crawl_rules)
            if reason:
                yield dg.SkipReason(reason)
                return
            waiting = store.days_with_pages_waiting(connection, DAYS_A_TICK)
        held = held_locks(context.instance, CRAWL_JOB, CRAWL_MAX_SECONDS) if waiting else set()
        runs = left_over_runs(waiting, held, next_tick(context)) if waiting else []
        yield from runs
        if not runs:
            yield dg.SkipReason("no past day has pages to fetch that no live run fetches")

    return [article_jobs_due, pages_left_over]
