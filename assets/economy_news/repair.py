"""Jobs for people: resume, requeue, take down, and the daily retention. Config is typed for the launchpad."""

from enum import Enum

import dagster as dg
from pydantic import Field

from assets.economy_news import repair_store, result_kinds
from assets.economy_news.article_url import article_ids_on_any_host
from assets.economy_news.rules import CrawlRules
from orchestration.policies import REPAIR_MAX_SECONDS, job_tags
from resources import gate
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
    with postgres.connect() as connection:
        with connection.transaction():
            _expect(repair_store.statuses(connection, config.job_ids), config.job_ids, "SUSPENDED")
            resumed = repair_store.resume_suspended(connection, config.job_ids, reason)
            _expect_all(config.job_ids, set(resumed))
            opened = gate.open_(connection, chat.gate_key)
        if opened:
            alerts.clear(connection, f"gate:{chat.model}")
    context.add_output_metadata({"resumed": len(resumed), "gate_was_shut": opened})
    context.log.info(f"{len(resumed)} jobs are PENDING again")


@dg.op(description="Puts failed jobs back to PENDING with all attempts.")
def requeue_failed_jobs(
    context: dg.OpExecutionContext, config: RequeueConfig, postgres: PostgresResource
) -> None:
    if not config.job_ids and config.error_code is None:
        raise dg.Failure(description="name job_ids or an error_code", allow_retries=False)
    with postgres.connect() as connection, connection.transaction():
        _expect(repair_store.statuses(connection, config.job_ids), config.job_ids, "FAILED")
        requeued = repair_store.requeue_failed(connection, config.job_ids, config.error_code)
        _expect_all(config.job_ids, requeued)
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


def _expect_all(job_ids: list[int], changed: set[int]) -> None:
    """Raises Failure, which undoes the change, where the statement left out a job that was named."""
    left_out = sorted(set(job_ids) - changed)
    if left_out:
        raise dg.Failure(
            description=f"jobs {left_out} were redone meanwhile, or their article has lost its body",
            allow_retries=False,
        )


def _expect(found: dict[int, str], job_ids: list[int], status: str) -> None:
    """Raises Failure naming every job that is not in the status, so that none is changed by mistake."""
    wrong = [
        f"job {job_id} is {found[job_id]}" if job_id in found else f"job {job_id} does not exist"
        for job_id in job_ids
        if found.get(job_id) != status
    ]
    if wrong:
        raise dg.Failure(description=f"not {status}: {'; '.join(wrong)}", allow_retries=False)


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
