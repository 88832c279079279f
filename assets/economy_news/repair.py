"""Jobs for people: resume, requeue, take down, and the daily retention. Config is typed for the launchpad."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import dagster as dg
from pydantic import Field

from assets.economy_news import repair_store, result_kinds, resuming
from assets.economy_news.article_url import article_ids_on_any_host
from assets.economy_news.rules import CrawlRules
from orchestration.policies import REPAIR_MAX_SECONDS, job_tags
from resources.alerts import AlertResource
from resources.chat import ChatResource
from resources.postgres import PostgresResource


class SuspendReason(Enum):
    """Why jobs were suspended."""

    QUOTA = "QUOTA"
    AUTH = "AUTH"
    MODEL = "MODEL"


class ResumeConfig(dg.Config):
    """Which suspended jobs go back to the start: by id, all of a reason, or none (it opens the gate)."""

    job_ids: list[int] = Field(default=[], description="news.ai_job ids; each must be SUSPENDED.")
    reason: SuspendReason | None = Field(default=None, description="All jobs suspended for it.")


class RequeueConfig(dg.Config):
    """Which failed jobs go back to the start: some by id, or all of an error code."""

    job_ids: list[int] = Field(default=[], description="news.ai_job ids; each must be FAILED.")
    error_code: str | None = Field(default=None, description="All jobs that failed with it.")


class TakedownConfig(dg.Config):
    """Which article goes."""

    url: str = Field(
        description="The article's address, as https://n.news.naver.com/mnews/article/001/0000000001"
    )


@dg.op(description="Opens the AI gate and puts suspended jobs back to PENDING with all attempts.")
def resume_suspended_jobs(
    context: dg.OpExecutionContext,
    config: ResumeConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    alerts: AlertResource,
) -> None:
    reason = config.reason.value if config.reason else None
    with postgres.connect() as connection, _failing():
        resumed = resuming.resume(connection, chat.gate_key, alerts, config.job_ids, reason)
    context.add_output_metadata({"resumed": resumed.jobs, "gate_was_shut": resumed.gate_was_shut})
    context.log.info(f"{resumed.jobs} jobs are PENDING again")


@dg.op(description="Puts failed jobs back to PENDING with all attempts.")
def requeue_failed_jobs(
    context: dg.OpExecutionContext, config: RequeueConfig, postgres: PostgresResource
) -> None:
    if not config.job_ids and config.error_code is None:
        raise dg.Failure(description="name job_ids or an error_code", allow_retries=False)
    with postgres.connect() as connection, _failing(), connection.transaction():
        resuming.expect_status(connection, config.job_ids, "FAILED")
        requeued = repair_store.requeue_failed(connection, config.job_ids, config.error_code)
        resuming.expect_changed(config.job_ids, requeued)
    context.add_output_metadata({"requeued": len(requeued)})
    context.log.info(f"{len(requeued)} jobs are PENDING again")


@dg.op(description="Removes an article and everything made of it, and keeps it away.")
def take_article_down(
    context: dg.OpExecutionContext,
    config: TakedownConfig,
    postgres: PostgresResource,
    chat: ChatResource,
    crawl_rules: CrawlRules,
) -> None:
    ids = article_ids_on_any_host(config.url)
    if ids is None:
        raise dg.Failure(
            description=f"not the address of an article: {config.url[:200]}", allow_retries=False
        )
    with postgres.connect() as connection, connection.transaction():
        was_stored = repair_store.take_down(
            connection,
            *ids,
            prompt_version=result_kinds.SUMMARY.prompt.version,
            model=chat.model,
            min_characters=crawl_rules.min_content_length_for_ai,
        )
    context.add_output_metadata({"oid": ids[0], "aid": ids[1], "was_stored": was_stored})


@dg.op(description="Empties bodies older than ARTICLE_RETENTION_DAYS; titles, links and results stay.")
def empty_old_bodies(
    context: dg.OpExecutionContext, postgres: PostgresResource, crawl_rules: CrawlRules
) -> None:
    with postgres.connect() as connection, connection.transaction():
        emptied, failed = repair_store.empty_bodies(connection, crawl_rules.retention_days)
    context.add_output_metadata({"emptied": emptied, "jobs_failed": failed})


@contextmanager
def _failing() -> Iterator[None]:
    """Jobs that are not as they were named fail the run, which a retry would not change."""
    try:
        yield
    except resuming.NotAsNamed as error:
        raise dg.Failure(description=str(error), allow_retries=False) from None


@dg.job(
    description="After the bill is paid or the key is renewed: opens the gate, resumes what was suspended."
)
def economy_news_resume_suspended() -> None:
    resume_suspended_jobs()


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Tries failed AI jobs again, from the start.",
)
def economy_news_requeue_failed() -> None:
    requeue_failed_jobs()


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Takes an article down, with everything derived from it.",
)
def economy_news_takedown() -> None:
    take_article_down()


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Daily: empties the bodies of articles that are older than ARTICLE_RETENTION_DAYS.",
)
def economy_news_retention() -> None:
    empty_old_bodies()
