"""Whole runs of the pipeline's work on a connection, as the assets make them, with small settings."""

from collections.abc import Sequence
from typing import Any

import psycopg

from assets.economy_news import result_kinds
from assets.economy_news.crawl_run import CrawlRun
from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import Partition
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.result_writing import Outcome
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from resources.alerts import AlertResource
from resources.chat import ChatResource
from resources.polite_site import SiteResource

MODEL = "gpt-4o-mini"
CONCURRENCY = 4


def crawl(
    connection: psycopg.Connection, partitions: Sequence[Partition], site_url: str, run_id: str, **rules: Any
) -> CrawlRun:
    """A crawl run over the partitions, all list pages of a past day."""
    site = SiteResource(
        base_url=site_url,
        contact="tests",
        timeout_ms=2_000,
        min_interval_ms=0,
        sleep_min_ms=0,
        sleep_max_ms=0,
    )
    run = CrawlRun(connection, CrawlRules(**rules), AlertResource(), run_id, MODEL, slice_seconds=60)
    run.crawl(site, partitions)
    return run


def enrich(
    connection: psycopg.Connection,
    partitions: Sequence[Partition],
    api_url: str,
    run_id: str,
    kind: ResultKind = result_kinds.SUMMARY,
    **rules: Any,
) -> Outcome:
    """A run over the jobs of one kind in the partitions."""
    chat = ChatResource(model=MODEL, base_url=f"{api_url}/v1", api_key="sk-tests", timeout_ms=5_000)
    settings = EnrichmentRules(**{"concurrency": CONCURRENCY, "batch_size": 5, **rules})
    return Enricher(kind, partitions, run_id, connection, chat, settings, AlertResource()).run()


def enrich_all(
    connection: psycopg.Connection, partitions: Sequence[Partition], api_url: str, run_id: str
) -> None:
    """A run over all five kinds, in the order of the data flow."""
    for kind in result_kinds.KINDS.values():
        enrich(connection, partitions, api_url, run_id, kind)
