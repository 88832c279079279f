"""The jobs: which assets run together, by which executor, for how long at most."""

from typing import Any

import dagster as dg

from assets.economy_news import repair
from orchestration.partitions import day_by_section
from orchestration.policies import CRAWL_MAX_SECONDS, ENRICH_MAX_SECONDS, job_tags

economy_news_crawl = dg.define_asset_job(
    "economy_news_crawl",
    selection=dg.AssetSelection.assets("economy_articles"),
    partitions_def=day_by_section,
    tags=job_tags(CRAWL_MAX_SECONDS),
    description="Reads the section lists of a day and stores the articles that are new.",
)

economy_news_enrich = dg.define_asset_job(
    "economy_news_enrich",
    selection=dg.AssetSelection.groups("economy_news") - dg.AssetSelection.assets("economy_articles"),
    partitions_def=day_by_section,
    tags=job_tags(ENRICH_MAX_SECONDS),
    description="Settles the AI jobs of a day's articles that are pending or due.",
)

JOBS: list[Any] = [
    economy_news_crawl,
    economy_news_enrich,
    repair.economy_news_resume_suspended,
    repair.economy_news_requeue_failed,
    repair.economy_news_takedown,
    repair.economy_news_retention,
]
