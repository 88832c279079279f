"""The quote of economy_news: jobs that wait, results to redo, days that were never crawled."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import psycopg

from assets.economy_news.models import JobType
from assets.economy_news.result_kinds import KINDS
from operations import quote_store
from operations.call_pricing import BATCH_SECONDS, GUESSED_SECONDS, Manner, priced, size_of
from operations.news_backfill import Crawl, crawl_of, items_by_kind, outdated_by_kind
from operations.quote_answer import HostWork, Work
from operations.quote_parts import Parts
from operations.quote_request import SECTIONS, QuoteRequest
from orchestration.policies import CRAWL_SLICE_SECONDS
from orchestration.settings import Settings

BATCHES_IN_A_ROW = 3
"""Summaries, then what is made from them, then the quiz about the cards."""

GUESSES = {
    JobType.SUMMARY: (2_600, 500),
    JobType.TERM_CARDS: (1_400, 450),
    JobType.INSIGHT: (1_300, 500),
    JobType.QUIZ_CONTENT: (1_500, 900),
    JobType.QUIZ_TERM: (1_200, 900),
}
"""Tokens in and out of a Korean article of ordinary length."""


def parts_of(
    connection: psycopg.Connection, settings: Settings, request: QuoteRequest, clock: quote_store.Clock
) -> Parts:
    """The work, the site's requests, and what is to be known beside them."""
    span = {
        "first": request.first_day,
        "last": request.last_day,
        "sections": list(request.parts or SECTIONS),
    }
    model = settings.priced_model()
    versions = {kind.value: result.prompt.version for kind, result in KINDS.items()}
    groups = quote_store.news_articles_by_jobs(connection, span, versions, model.name)
    crawl, why_not = _crawl(connection, settings, span, clock)
    items = items_by_kind(groups, request.redo, crawl.summaries if crawl else 0)
    hosts = [_host_work(crawl, settings)] if crawl and crawl.list_pages + crawl.article_pages else []
    notes = [
        *why_not,
        *_notes_on_crawl(crawl, settings),
        *_notes_on_jobs(connection, span, request, outdated_by_kind(groups), groups),
    ]
    if not settings.ai_enabled:
        notes.append("AI_ENABLED=false: nothing is asked until it is true")
    works = _works(connection, settings, request, items)
    if request.mode == "batch" and any(work.calls for work in works):
        notes.append(
            f"a batch is over within 24 hours, and at most {BATCHES_IN_A_ROW} follow one another; until then "
            "it reserves the most that its lines may cost, so the cap is taken sooner than it is spent"
        )
    return Parts(works, hosts, notes, (model.name,))


def _works(
    connection: psycopg.Connection,
    settings: Settings,
    request: QuoteRequest,
    items: dict[JobType, Counter[str]],
) -> list[Work]:
    measured = quote_store.news_results(connection)
    seconds = quote_store.seconds_a_call(connection)
    repeats = quote_store.asked_again(connection)
    model = settings.priced_model()
    is_batch = request.mode == "batch"
    works = []
    for kind, result in KINDS.items():
        manner = Manner(
            model=model.in_batch() if is_batch else model,
            seconds=0 if is_batch else seconds.get((model.name, result.prompt.schema_name), GUESSED_SECONDS),
            at_once=settings.ai_concurrency,
            most_output_tokens=settings.openai_max_output_tokens,
            repeats=repeats.get(kind, 0.0),
        )
        size = size_of(kind, model.name, measured, GUESSES[kind])
        works.append(priced(kind.value, items[kind], size, manner))
    return _with_batch_time(works) if is_batch else works


def _with_batch_time(works: list[Work]) -> list[Work]:
    """The kinds that a result is followed by are in batches at once: a day each for those in a row."""
    rows = {JobType.SUMMARY: 1, JobType.TERM_CARDS: 1, JobType.QUIZ_TERM: 1}
    return [
        replace(work, seconds=BATCH_SECONDS * rows.get(JobType(work.what), 0) if work.calls else 0)
        for work in works
    ]


def _crawl(
    connection: psycopg.Connection, settings: Settings, span: Mapping[str, Any], clock: quote_store.Clock
) -> tuple[Crawl | None, list[str]]:
    """What is to be fetched; None with the reason where nothing is crawled."""
    setting = "NAVER_BASE_URL is not set" if not settings.naver_base_url else ""
    setting = setting or ("" if settings.crawl_enabled else "CRAWL_ENABLED=false")
    if setting:
        return None, [f"{setting}: no page is fetched, so days that were never crawled count nothing"]
    crawl = crawl_of(
        quote_store.news_section_days(connection, span),
        quote_store.news_crawled_days(connection),
        clock.first_live_day,
        settings.crawl_max_pages,
        settings.crawl_backfill_max_pages,
    )
    return crawl, []


def _host_work(crawl: Crawl, settings: Settings) -> HostWork:
    pause = (settings.crawl_sleep_min_ms + settings.crawl_sleep_max_ms) / 2
    interval = (settings.crawl_min_interval_ms + pause) / 1000
    requests = crawl.list_pages + crawl.article_pages
    return HostWork(
        host=urlsplit(settings.naver_base_url).netloc,
        requests=requests,
        seconds=requests * interval,
        basis=f"{crawl.list_pages:,} list pages and {crawl.article_pages:,} articles, one each "
        f"{interval:.2f} s over all runs (CRAWL_MIN_INTERVAL_MS, and the mean of CRAWL_SLEEP_MIN_MS and "
        "CRAWL_SLEEP_MAX_MS)",
    )


def _notes_on_crawl(crawl: Crawl | None, settings: Settings) -> list[str]:
    if crawl is None or not crawl.unread_days:
        return []
    source = (
        "a built-in guess, since nothing was crawled in the last 30 days"
        if crawl.is_guessed
        else "the average of the days crawled in the last 30"
    )
    works_in_slices = (
        f"a crawl works in slices of {CRAWL_SLICE_SECONDS // 60} minutes: launch it again until it ends"
    )
    short = f"articles under {settings.min_content_length_for_ai:,} characters get no results"
    return [
        f"{crawl.unread_days:,} lists of a day and section were never read to their end; those without any "
        f"page are estimated by {source} ({short})",
        works_in_slices,
    ]


def _notes_on_jobs(
    connection: psycopg.Connection,
    span: Mapping[str, Any],
    request: QuoteRequest,
    outdated: Counter[str],
    groups: Sequence[quote_store.ArticlesByJobs],
) -> list[str]:
    notes = []
    if outdated:
        told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(outdated.items()))
        left = "" if request.redo else "; they stay as they are unless redo is outdated or all"
        notes.append(f"outdated by prompt, model or input: {told}{left}")
    in_batch = sum(group.articles * len(group.in_batch) for group in groups)
    if in_batch:
        notes.append(f"{in_batch:,} jobs are in batches already and paid from their reservations")
    at_rest = quote_store.news_jobs_at_rest(connection, span)
    remedies = {"SUSPENDED": "economy_news_resume_suspended", "FAILED": "economy_news_requeue_failed"}
    notes += [
        f"{at_rest[status]:,} jobs are {status} and not counted: they wait for the job {remedy}"
        for status, remedy in remedies.items()
        if at_rest.get(status)
    ]
    return notes
