"""What starts runs of economy_news besides its schedule: AI jobs that are due, and pages left to fetch."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import date

import dagster as dg
import psycopg

from assets.economy_news import batch_store, job_store, store
from assets.economy_news.batch_room import room_now
from assets.economy_news.models import DueJobs, OpenBatch
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from orchestration.partitions import SECTIONS, news_range_tags
from orchestration.policies import (
    CRAWL_MAX_SECONDS,
    ENRICH_MAX_SECONDS,
    automatic_run_tags,
    lock_of,
    slow_run_tags,
)
from resources import gate, host_pace
from resources.alerts import AlertResource
from resources.api_failure import ApiFailure
from resources.batches import BatchResource
from resources.chat import ChatResource
from resources.model_gate import ModelGate
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

# Dagster looks every five seconds and passes over what is not quite due yet: 30 would mostly be 35.
EVERY_30_SECONDS = 29

CRAWL_JOB = "economy_news_crawl"
ENRICH_JOB = "economy_news_enrich"
PARTITIONS_A_TICK = 500
DAYS_A_TICK = 10
BATCHES_A_TICK = 50


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


def batches_over(
    connection: psycopg.Connection,
    free: Sequence[OpenBatch],
    news_batches: BatchResource,
    alerts: AlertResource,
    probe_minutes: int,
) -> tuple[list[DueJobs], str | None]:
    """Where a batch is to be taken in, or a plan to be settled; and why the API could not be asked, if so.

    One that the API does not know is over too. Where none of its jobs waits any more, its money does.
    """
    passing = ModelGate(connection, news_batches.gate_key, alerts, probe_minutes)
    if shut := passing.pass_(only="AUTH"):
        return [], shut.explain()
    over = [one for one in free if one.batch_id is None]
    reason = None
    try:
        with news_batches.open() as api:
            for batch in free:
                if batch.batch_id is not None:
                    state = api.look(batch.batch_id)
                    passing.answered()
                    over += [batch] if state is None or state.is_over else []
    except ApiFailure as failure:
        passing.shut_for(failure)
        reason = f"the provider was asked for batches in vain: {failure.code}"
    passing.asked_nothing()
    return [
        DueJobs(batch.day, section, 1)
        for batch in over
        for section in batch_store.sections_in_batch(connection, batch.plan) or SECTIONS[:1]
    ], reason


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
        minimum_interval_seconds=EVERY_30_SECONDS,
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
        batches_wait_for = None
        with postgres.connect() as connection:
            due = job_store.due_jobs_by_partition(connection, PARTITIONS_A_TICK)
            if due:
                room = room_now(
                    connection, chat.priced_model.in_batch(), chat.max_output_tokens, enrichment_rules
                )
                batches_wait_for = room.waits_for()
            if batches_wait_for:  # a run for their jobs alone would find nothing that it may do
                due = job_store.due_jobs_by_partition(connection, PARTITIONS_A_TICK, with_batches=False)
            shut = gate.read(connection, chat.gate_key) if due else None
        if not due:
            waits = f", but for batches, which wait for {batches_wait_for}" if batches_wait_for else ""
            yield dg.SkipReason(f"no job is pending or due{waits}")
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
        job_name=ENRICH_JOB,
        minimum_interval_seconds=60,
        default_status=status,
        description="Starts enrichment for the days whose batches are over, or were planned and never sent.",
    )
    def news_batches_over(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        news_batches: BatchResource,
        enrichment_rules: EnrichmentRules,
        alerts: AlertResource,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if not enrichment_rules.enabled:
            yield dg.SkipReason("AI is switched off (AI_ENABLED)")
            return
        with postgres.connect() as connection:
            free = [one for one in batch_store.open_batches(connection) if one.is_free][:BATCHES_A_TICK]
            if not free:
                yield dg.SkipReason("no batch is open that no run holds")
                return
            over, reason = batches_over(
                connection, free, news_batches, alerts, enrichment_rules.gate_probe_minutes
            )
        held = held_locks(context.instance, ENRICH_JOB, ENRICH_MAX_SECONDS) if over else set()
        runs = enrichment_runs(over, held, next_tick(context)) if over else []
        yield from runs
        if not runs:
            yield dg.SkipReason(reason or "no batch is over whose day has no live run")

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

    return [article_jobs_due, news_batches_over, pages_left_over]
