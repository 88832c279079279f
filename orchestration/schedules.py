"""The schedules. The day comes from the scheduled time, never from the clock."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import dagster as dg

from assets.economy_news.repair import economy_news_retention
from assets.economy_news.rules import CrawlRules
from orchestration.jobs import economy_news_crawl
from orchestration.partitions import adjacent_sections, news_range_tags
from orchestration.policies import MAX_RETRIES_TAG, automatic_run_tags
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource
from sensors.economy_news import why_not_to_crawl

SEOUL = ZoneInfo("Asia/Seoul")
CRAWL_INTERVAL = timedelta(minutes=5)
STILL_YESTERDAY = timedelta(minutes=15)


def days_to_crawl(scheduled: datetime) -> list[date]:
    """The days (Asia/Seoul) that a tick crawls: its own, and until 00:15 the day before too."""
    local = scheduled.astimezone(SEOUL)
    return sorted({local.date(), (local - STILL_YESTERDAY).date()})


def crawl_runs(scheduled: datetime, sections: Sequence[str]) -> Iterator[dg.RunRequest]:
    """One run per day and unbroken span of sections; one for all eight where none is left out."""
    for day in days_to_crawl(scheduled):
        for span in adjacent_sections(sections):
            yield dg.RunRequest(
                run_key=f"{scheduled.isoformat()}:{day.isoformat()}:{span[0]}",
                tags={
                    **news_range_tags(day, span),
                    **automatic_run_tags(economy_news_crawl.name, day),
                },
            )


def economy_news_crawl_schedule(sections: Sequence[str], is_on: bool) -> dg.ScheduleDefinition:
    """Every five minutes. A tick older than its interval is skipped: the next one sees everything."""

    @dg.schedule(
        name="economy_news_every_five_minutes",
        job=economy_news_crawl,
        cron_schedule="*/5 * * * *",
        execution_timezone="Asia/Seoul",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description="Crawls today's section lists, and until 00:15 yesterday's too.",
    )
    def every_five_minutes(
        context: dg.ScheduleEvaluationContext,
        postgres: PostgresResource,
        news_site: SiteResource,
        crawl_rules: CrawlRules,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        scheduled = context.scheduled_execution_time
        if datetime.now(scheduled.tzinfo) - scheduled > CRAWL_INTERVAL:
            yield dg.SkipReason(f"the tick of {scheduled:%H:%M} is late; the next one sees everything")
            return
        with postgres.connect() as connection:
            reason = why_not_to_crawl(connection, news_site, crawl_rules)
        if reason:
            yield dg.SkipReason(reason)
            return
        yield from crawl_runs(scheduled, sections)

    return every_five_minutes


def operations_retention_schedule(job: dg.JobDefinition, is_on: bool) -> dg.ScheduleDefinition:
    """Every night at 04:30, after the articles' own. A night that is missed is made up for by the next."""
    return dg.ScheduleDefinition(
        name="operations_retention_every_night",
        job=job,
        cron_schedule="30 4 * * *",
        execution_timezone="Asia/Seoul",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        tags={MAX_RETRIES_TAG: "0"},
        description="Purges what its retention time is over for (RUN_RETENTION_DAYS and its like).",
    )


def economy_news_retention_schedule(is_on: bool) -> dg.ScheduleDefinition:
    """Every night at 03:40. A night that is missed is made up for by the next."""
    return dg.ScheduleDefinition(
        name="economy_news_retention_every_night",
        job=economy_news_retention,
        cron_schedule="40 3 * * *",
        execution_timezone="Asia/Seoul",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        tags={MAX_RETRIES_TAG: "0"},
        description="Empties the bodies of articles older than ARTICLE_RETENTION_DAYS.",
    )
