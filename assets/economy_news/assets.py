"""The assets of economy_news in the order of the data flow. Partitions: day (Asia/Seoul) × section."""

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from assets.economy_news import checks, job_report, job_store, result_kinds, store
from assets.economy_news.batch_step import BatchStep
from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import JobMode, Lists, Partition
from assets.economy_news.partition_metadata import (
    article_metadata,
    completeness_metadata,
    materialise_the_good_ones,
    record,
    result_metadata,
    unsettled_items_table,
)
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from orchestration.failures import failures_by_owner
from orchestration.partitions import day_by_section, days_and_sections
from orchestration.policies import (
    CRAWL_SLICE_SECONDS,
    NAVER_POOL,
    ONE_RUN_PER_RANGE,
    OPENAI_POOL,
)
from resources import gate
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource

GROUP = "economy_news"
OWNERS = ["team:content"]
MAX_LISTED_ITEMS = 50


class CrawlConfig(dg.Config):
    """What one crawl run does."""

    lists: Lists = Field(
        default=Lists.needed,
        description="needed: a past day's lists are read to their end once; again: once more; none: only "
        "what earlier passes listed and could not fetch yet is fetched.",
    )
    mode: JobMode = Field(
        default=JobMode.live,
        description="How the summaries of new articles, and what is made from them, are asked: live, or "
        "batch, at half the price and within a day, as for a backfill.",
    )


class Redo(Enum):
    """Which results are made again. Lower case: Dagster's config knows enums by their names."""

    nothing = "nothing"
    outdated = "outdated"
    all = "all"


class Mode(Enum):
    """How the jobs that wait are asked. Lower case: Dagster's config knows enums by their names."""

    keep = "keep"
    live = "live"
    batch = "batch"


class RedoConfig(dg.Config):
    """What an enrichment run does besides what is missing, and how."""

    redo: Redo = Field(
        default=Redo.nothing,
        description="outdated: results of an older prompt, model or input too; all: every result of the "
        "partitions, which is paid again.",
    )
    mode: Mode = Field(
        default=Mode.keep,
        description="batch: what waits in the partitions, and what is made from it, is asked in batches, at "
        "half the price and within a day; live: at once; keep: each job as it was, new ones at once.",
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "html"},
    partitions_def=day_by_section,
    backfill_policy=ONE_RUN_PER_RANGE,
    pool=NAVER_POOL,
    code_version="1",
    check_specs=[checks.BODIES, checks.DATES],
)
def economy_articles(
    context: dg.AssetExecutionContext,
    config: CrawlConfig,
    postgres: PostgresResource,
    news_site: SiteResource,
    crawl_rules: CrawlRules,
    chat: ChatResource,
    alerts: AlertResource,
) -> dg.MaterializeResult:
    """Articles that the sections' lists showed, each stored once (news.article, news.article_section).

    A pass remembers every new link before it fetches the first, so that nothing is lost where it ends.
    """
    from assets.economy_news.crawl_run import CrawlRun  # parsers are slow to import

    if not crawl_rules.enabled:
        raise dg.Failure(description="crawling is switched off (CRAWL_ENABLED)", allow_retries=False)
    with failures_by_owner(context), postgres.connect() as connection:
        run = CrawlRun(connection, crawl_rules, alerts, context.run_id, chat.model, CRAWL_SLICE_SECONDS)
        run.crawl(news_site, _partitions(context), config.lists, config.mode)
        done = list(run.passes)
        articles, pages = store.article_counts(connection, done), store.page_counts(connection, done)
    metadata = {
        partition: article_metadata(
            articles[partition], pages[partition], run.passes[partition].counts, run.seconds[partition]
        )
        for partition in done
    }
    counts = run.counts()
    found = [
        checks.bodies(run.layout_changed, run.share_with_body(), counts["parse_fail"]),
        checks.dates(counts["published_at_null"], counts["saved"]),
    ]
    if run.failures:
        materialise_the_good_ones(context, metadata, found)
        raise dg.Failure(description=run.explain_failures(), allow_retries=False)
    record(context, metadata)
    return dg.MaterializeResult(check_results=found)


def _ai_asset(kind: ResultKind, made_from: dg.AssetsDefinition, **more: Any) -> Callable[..., Any]:
    """The decorator of an asset of AI results: they differ in their kind, source and checks only."""
    decorator: Callable[..., Any] = dg.asset(
        group_name=GROUP,
        owners=OWNERS,
        kinds={"postgres", "openai"},
        partitions_def=day_by_section,
        backfill_policy=ONE_RUN_PER_RANGE,
        pool=OPENAI_POOL,
        code_version=kind.prompt.version,
        deps=[made_from],
        **more,
    )
    return decorator


@_ai_asset(result_kinds.SUMMARY, economy_articles, check_specs=[checks.NUMBERS])
def article_summaries(
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    news_batches: BatchResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> dg.MaterializeResult:
    """A three-line and a full summary of every article long enough for one (news.summary).

    Settles the SUMMARY jobs that are pending or due; an API error settles its job and fails no step.
    """
    _settle_jobs(
        result_kinds.SUMMARY, context, config, postgres, chat, news_batches, enrichment_rules, alerts
    )
    with failures_by_owner(context), postgres.connect() as connection:
        partitions = _partitions(context)
        check = checks.numbers(job_report.unpublishable_summaries(connection, partitions))
    return dg.MaterializeResult(check_results=[check])


@_ai_asset(result_kinds.TERM_CARDS, article_summaries, check_specs=[checks.TERMS])
def article_term_cards(
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    news_batches: BatchResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> dg.MaterializeResult:
    """Three finance terms of every summary (news.term_card), and the dictionary of terms (news.term)."""
    _settle_jobs(
        result_kinds.TERM_CARDS, context, config, postgres, chat, news_batches, enrichment_rules, alerts
    )
    with failures_by_owner(context), postgres.connect() as connection:
        partitions = _partitions(context)
        check = checks.terms(job_report.foreign_highlights(connection, partitions))
    return dg.MaterializeResult(check_results=[check])


@_ai_asset(result_kinds.INSIGHT, article_summaries)
def article_insights(
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    news_batches: BatchResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """Three points worth a second look in every summary (news.insight)."""
    _settle_jobs(
        result_kinds.INSIGHT, context, config, postgres, chat, news_batches, enrichment_rules, alerts
    )


@_ai_asset(result_kinds.QUIZ_CONTENT, article_summaries)
def article_content_quizzes(
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    news_batches: BatchResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """Three questions about the content of every summary (news.quiz, kind CONTENT)."""
    _settle_jobs(
        result_kinds.QUIZ_CONTENT, context, config, postgres, chat, news_batches, enrichment_rules, alerts
    )


@_ai_asset(result_kinds.QUIZ_TERM, article_term_cards)
def article_term_quizzes(
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    news_batches: BatchResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """Three questions about the terms of every article's cards (news.quiz, kind TERM)."""
    _settle_jobs(
        result_kinds.QUIZ_TERM, context, config, postgres, chat, news_batches, enrichment_rules, alerts
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    partitions_def=day_by_section,
    backfill_policy=ONE_RUN_PER_RANGE,
    code_version="1",
    deps=[article_term_quizzes, article_insights, article_content_quizzes],
    check_specs=[checks.SETTLED],
)
def article_completeness(
    context: dg.AssetExecutionContext, postgres: PostgresResource, chat: ChatResource
) -> dg.MaterializeResult:
    """What each article has and what it waits for (view news.article_ai).

    Fails the run, without retries, where it claimed jobs and settled none, or the AI gate is shut.
    """
    started = time.monotonic()
    partitions = _partitions(context)
    with failures_by_owner(context), postgres.connect() as connection:
        states = job_report.completeness(connection, partitions)
        items = job_report.unsettled_items(connection, partitions, MAX_LISTED_ITEMS)
        claimed, settled = job_store.claims_of_run(connection, context.run_id)
        shut = gate.read(connection, chat.gate_key)
    tables = {
        partition: unsettled_items_table([item for item in items if (item.day, item.section) == partition])
        for partition in partitions
    }
    seconds = time.monotonic() - started
    metadata = {
        partition: completeness_metadata(states[partition], tables[partition], seconds)
        for partition in partitions
    }
    problem = shut.explain() if shut else None
    if problem is None and claimed and not settled:
        problem = f"the run claimed {claimed} jobs and settled none; the table on the asset says why"
    check = checks.settled(list(states.values()), unsettled_items_table(items))
    if problem is not None:
        materialise_the_good_ones(context, metadata, [check])
        raise dg.Failure(description=problem, allow_retries=False)
    record(context, metadata)
    return dg.MaterializeResult(check_results=[check])


def _settle_jobs(
    kind: ResultKind,
    context: dg.AssetExecutionContext,
    config: RedoConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    batches: BatchResource,
    rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """Settles the jobs of one kind in the run's partitions and records how each partition stands.

    Batches come first: what they bring needs no call.
    """
    started = time.monotonic()
    partitions = _partitions(context)
    with failures_by_owner(context), postgres.connect() as connection:
        enricher = Enricher(kind, partitions, context.run_id, connection, chat, rules, alerts)
        if config.redo is not Redo.nothing:
            tried_before = filter(None, (context.run.root_run_id, context.run.parent_run_id))
            mode = JobMode.batch if config.mode is Mode.batch else JobMode.live
            again = enricher.ask_again(config.redo is Redo.all, list(tried_before), mode)
            context.log.info(f"{kind.job_type}: {again} results are asked for again")
        if config.mode is not Mode.keep:
            job_store.set_mode(connection, kind.job_type, partitions, JobMode[config.mode.name])
        in_batches = BatchStep(
            kind, partitions, context.run_id, connection, chat, batches, rules, alerts
        ).run()
        outcome = enricher.run()
        jobs = job_report.jobs_by_partition(
            connection, kind.job_type, partitions, kind.prompt.version, chat.model
        )
    seconds = time.monotonic() - started
    record(
        context,
        {
            partition: result_metadata(
                jobs[partition],
                outcome.usage_of(partition) + in_batches.jobs.usage_of(partition),
                seconds,
            )
            for partition in partitions
        },
    )
    context.log.info(f"{kind.job_type}: {outcome.summed_up()}")
    if told := in_batches.summed_up():
        context.log.info(f"{kind.job_type} in batches: {told}")


def _partitions(context: dg.AssetExecutionContext) -> list[Partition]:
    return [Partition(*pair) for pair in days_and_sections(context.partition_keys)]
