"""The assets of economy_news in the order of the data flow. Partitions: day (Asia/Seoul) × section."""

import time
from collections.abc import Mapping

import dagster as dg
import psycopg

from assets.economy_news import job_store, result_kinds, store
from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import Partition
from assets.economy_news.partition_metadata import (
    Metadata,
    article_metadata,
    completeness_metadata,
    failed_items_table,
    result_metadata,
)
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from assets.economy_news.settlement import Outcome
from orchestration.failures import permanent_errors_end_the_step
from orchestration.partitions import day_by_section, days_and_sections, news_key
from orchestration.policies import (
    CRAWL_SLICE_SECONDS,
    INFRASTRUCTURE_RETRIES,
    NAVER_POOL,
    ONE_RUN_PER_RANGE,
    OPENAI_POOL,
)
from resources import gate
from resources.alerts import AlertResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource

GROUP = "economy_news"
OWNERS = ["team:content"]
MAX_LISTED_ITEMS = 50

BODIES_CHECK = dg.AssetCheckSpec(
    "articles_have_bodies",
    asset="economy_articles",
    description="Under a fifth of the pages that this run fetched had a body: the layout has changed.",
)
DATES_CHECK = dg.AssetCheckSpec(
    "articles_have_dates",
    asset="economy_articles",
    description="Articles that this run stored without a date of publication.",
)


class CrawlConfig(dg.Config):
    """What one crawl run does."""

    read_lists: bool = True
    """False: fetch only what earlier passes listed and could not fetch yet."""


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "html"},
    partitions_def=day_by_section,
    backfill_policy=ONE_RUN_PER_RANGE,
    retry_policy=INFRASTRUCTURE_RETRIES,
    pool=NAVER_POOL,
    code_version="1",
    check_specs=[BODIES_CHECK, DATES_CHECK],
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
    from assets.economy_news.crawl_run import LEAST_SHARE_WITH_BODY, CrawlRun  # parsers are slow to import

    if not crawl_rules.enabled:
        raise dg.Failure(description="crawling is switched off (CRAWL_ENABLED)", allow_retries=False)
    with permanent_errors_end_the_step(), postgres.connect() as connection:
        run = CrawlRun(connection, crawl_rules, alerts, context.run_id, chat.model, CRAWL_SLICE_SECONDS)
        run.crawl(news_site, _partitions(context), config.read_lists)
        done = list(run.passes)
        articles, pages = store.article_counts(connection, done), store.page_counts(connection, done)
    metadata = {
        partition: article_metadata(
            articles[partition], pages[partition], run.passes[partition].counts, run.seconds[partition]
        )
        for partition in done
    }
    if run.failures:
        _materialise_the_good_ones(context, metadata)
        raise dg.Failure(description=run.explain_failures(), allow_retries=False)
    _record(context, metadata)
    counts, share = run.counts(), run.share_with_body()
    return dg.MaterializeResult(
        check_results=[
            dg.AssetCheckResult(
                check_name=BODIES_CHECK.name,
                passed=share >= LEAST_SHARE_WITH_BODY,
                metadata={"share_with_body": share, "unreadable": counts["parse_fail"]},
            ),
            dg.AssetCheckResult(
                check_name=DATES_CHECK.name,
                passed=counts["published_at_null"] == 0,
                severity=dg.AssetCheckSeverity.WARN,
                metadata={"without_date": counts["published_at_null"], "saved": counts["saved"]},
            ),
        ]
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "openai"},
    partitions_def=day_by_section,
    backfill_policy=ONE_RUN_PER_RANGE,
    retry_policy=INFRASTRUCTURE_RETRIES,
    pool=OPENAI_POOL,
    deps=[economy_articles],
    code_version=result_kinds.SUMMARY.prompt.version,
)
def article_summaries(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    chat: ChatResource,
    enrichment_rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """A three-line and a full summary of every article long enough for one (news.summary).

    Settles the SUMMARY jobs that are pending or due; an API error settles its job and fails no step.
    """
    _settle_jobs(result_kinds.SUMMARY, context, postgres, chat, enrichment_rules, alerts)


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    partitions_def=day_by_section,
    backfill_policy=ONE_RUN_PER_RANGE,
    retry_policy=INFRASTRUCTURE_RETRIES,
    deps=[article_summaries],
    code_version="1",
)
def article_completeness(
    context: dg.AssetExecutionContext, postgres: PostgresResource, chat: ChatResource
) -> None:
    """What each article has and what it waits for (view news.article_ai).

    Fails the run, without retries, where it claimed jobs and settled none, or the AI gate is shut.
    """
    started = time.monotonic()
    partitions = _partitions(context)
    with permanent_errors_end_the_step(), postgres.connect() as connection:
        states = job_store.completeness(connection, partitions)
        items = job_store.unsettled_items(connection, partitions, MAX_LISTED_ITEMS)
        claimed, settled = job_store.claims_of_run(connection, context.run_id)
        shut = gate.read(connection, chat.gate_key)
    table = failed_items_table(items)
    seconds = time.monotonic() - started
    metadata = {
        partition: completeness_metadata(states[partition], table, seconds) for partition in partitions
    }
    problem = shut.explain() if shut else None
    if problem is None and claimed and not settled:
        problem = f"the run claimed {claimed} jobs and settled none; the table on the asset says why"
    if problem is not None:
        _materialise_the_good_ones(context, metadata)
        raise dg.Failure(description=problem, allow_retries=False)
    _record(context, metadata)


def _settle_jobs(
    kind: ResultKind,
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    chat: ChatResource,
    rules: EnrichmentRules,
    alerts: AlertResource,
) -> None:
    """Settles the jobs of one kind in the run's partitions and records how each partition stands."""
    if not rules.enabled:
        context.log.info("AI is switched off (AI_ENABLED): jobs wait")
        return
    started = time.monotonic()
    partitions = _partitions(context)
    with permanent_errors_end_the_step(), postgres.connect() as connection:
        outcome = Enricher(kind, partitions, context.run_id, connection, chat, rules, alerts).run()
        _record(context, _result_metadata(kind, partitions, outcome, connection, chat, started))
    context.log.info(
        f"{kind.job_type}: {outcome.succeeded} stored, {outcome.failed} failed, {outcome.put_off} put off, "
        f"{outcome.leases_lost} leases lost"
    )


def _result_metadata(
    kind: ResultKind,
    partitions: list[Partition],
    outcome: Outcome,
    connection: psycopg.Connection,
    chat: ChatResource,
    started: float,
) -> dict[Partition, Metadata]:
    jobs = job_store.jobs_by_partition(connection, kind.job_type, partitions, kind.prompt.version, chat.model)
    seconds = time.monotonic() - started
    return {
        partition: result_metadata(jobs[partition], outcome.usage_of(partition), seconds)
        for partition in partitions
    }


def _partitions(context: dg.AssetExecutionContext) -> list[Partition]:
    return [Partition(*pair) for pair in days_and_sections(context.partition_keys)]


def _record(context: dg.AssetExecutionContext, metadata: Mapping[Partition, Metadata]) -> None:
    """Adds each partition's numbers to its own materialisation, which Dagster logs at the step's end."""
    for partition, values in metadata.items():
        context.add_asset_metadata(dict(values), partition_key=news_key(*partition))


def _materialise_the_good_ones(
    context: dg.AssetExecutionContext, metadata: Mapping[Partition, Metadata]
) -> None:
    """Logs what was done before the step fails: a failing step logs no materialisation by itself."""
    for partition, values in metadata.items():
        context.log_event(
            dg.AssetMaterialization(context.asset_key, partition=news_key(*partition), metadata=dict(values))
        )
