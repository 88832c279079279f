"""The jobs: which assets run together, by which executor, for how long at most."""

from typing import Any

import dagster as dg

from assets.context_tags import repair as context_tags_repair
from assets.economy_news import repair
from assets.recipes import repair as recipes_repair
from assets.recommendations import repair as recommendations_repair
from orchestration.partitions import (
    context_days,
    day_by_section,
    day_by_source,
    raw_days,
    recipe_days,
    recommendation_days,
)
from orchestration.policies import (
    BATCH_QUEUE,
    CONTEXT_MAX_SECONDS,
    CRAWL_MAX_SECONDS,
    CRAWL_QUEUE,
    ENRICH_MAX_SECONDS,
    LLM_QUEUE,
    PRESETS_MAX_SECONDS,
    RAW_FILES_MAX_SECONDS,
    RAW_FILES_TAG,
    RAW_REPORT_MAX_SECONDS,
    RECIPES_MAX_SECONDS,
    RECOMMENDATIONS_MAX_SECONDS,
    job_tags,
    pod_tags,
)

BATCH_POD = pod_tags("500m", "1Gi")

economy_news_crawl = dg.define_asset_job(
    "economy_news_crawl",
    selection=dg.AssetSelection.assets("economy_articles"),
    partitions_def=day_by_section,
    tags=job_tags(CRAWL_MAX_SECONDS, CRAWL_QUEUE),
    description="Reads the section lists of a day and stores the articles that are new.",
)

economy_news_enrich = dg.define_asset_job(
    "economy_news_enrich",
    selection=dg.AssetSelection.groups("economy_news") - dg.AssetSelection.assets("economy_articles"),
    partitions_def=day_by_section,
    tags={**job_tags(ENRICH_MAX_SECONDS, LLM_QUEUE), **BATCH_POD},
    description="Settles the AI jobs of a day's articles that are pending or due.",
)

raw_files_partitions = dg.define_asset_job(
    "raw_files_partitions",
    selection=dg.AssetSelection.assets("raw_file_manifest", "raw_domains", "domain_metadata"),
    partitions_def=day_by_source,
    tags={**job_tags(RAW_FILES_MAX_SECONDS, CRAWL_QUEUE), **RAW_FILES_TAG},
    description="Processes the files of one day and source that are not processed yet.",
)

raw_files_report = dg.define_asset_job(
    "raw_files_report",
    selection=dg.AssetSelection.assets("daily_raw_report"),
    partitions_def=raw_days,
    tags=job_tags(RAW_REPORT_MAX_SECONDS),
    description="Writes a day's report and evaluates the alarms.",
)

raw_files_metadata_sync = dg.define_asset_job(
    "raw_files_metadata_sync",
    selection=dg.AssetSelection.assets("domain_metadata_refresh"),
    tags=job_tags(RAW_FILES_MAX_SECONDS, CRAWL_QUEUE),
    description="Fetches front pages again that are older than METADATA_TTL_DAYS.",
)

recipes_fetch = dg.define_asset_job(
    "recipes_fetch",
    selection=dg.AssetSelection.assets("recipe_jobs", "recipe_parse_batches"),
    partitions_def=recipe_days,
    tags={**job_tags(RECIPES_MAX_SECONDS, BATCH_QUEUE), **BATCH_POD},
    description="Fetches the day's recipes and sends them to be parsed.",
)

recipes_parse_submit = dg.define_asset_job(
    "recipes_parse_submit",
    selection=dg.AssetSelection.assets("recipe_parse_batches"),
    partitions_def=recipe_days,
    tags={**job_tags(RECIPES_MAX_SECONDS, BATCH_QUEUE), **BATCH_POD},
    description="Sends recipes to be parsed that came back or could not be sent.",
)

recipes_parsed = dg.define_asset_job(
    "recipes_parsed",
    selection=dg.AssetSelection.assets("recipe_parse_results", "recipes", "recipe_embedding_batches"),
    partitions_def=recipe_days,
    tags={**job_tags(RECIPES_MAX_SECONDS, BATCH_QUEUE), **BATCH_POD},
    description="Takes in what was parsed, stores the recipes, and sends them to be embedded.",
)

recipes_embedded = dg.define_asset_job(
    "recipes_embedded",
    selection=dg.AssetSelection.assets("recipe_embeddings"),
    partitions_def=recipe_days,
    tags={**job_tags(RECIPES_MAX_SECONDS, BATCH_QUEUE), **BATCH_POD},
    description="Takes in the vectors.",
)

RECIPE_JOBS = (recipes_parse_submit, recipes_parsed, recipes_embedded)
"""Those that the sensor starts."""

context_tags_presets = dg.define_asset_job(
    "context_tags_presets",
    selection=dg.AssetSelection.assets("keyword_presets"),
    tags=job_tags(PRESETS_MAX_SECONDS, LLM_QUEUE),
    description="Loads the keywords of the preset file and embeds what changed.",
)

context_tags = dg.define_asset_job(
    "context_tags",
    selection=dg.AssetSelection.assets("context_embeddings", "context_keywords"),
    partitions_def=context_days,
    tags=job_tags(CONTEXT_MAX_SECONDS, LLM_QUEUE),
    description="Embeds and tags the contexts requested on a day, while they arrive.",
)

recommendations_products = dg.define_asset_job(
    "recommendations_products",
    selection=dg.AssetSelection.assets("product_embeddings"),
    tags=job_tags(RECOMMENDATIONS_MAX_SECONDS, LLM_QUEUE),
    description="Embeds products whose text is new or has changed.",
)

recommendations = dg.define_asset_job(
    "recommendations",
    selection=dg.AssetSelection.assets("recommendation_queue", "recommended_products"),
    partitions_def=recommendation_days,
    # Each of the two steps has its own time.
    tags=job_tags(2 * RECOMMENDATIONS_MAX_SECONDS),
    description="Queues the members who are due and recommends products to them.",
)

JOBS: list[Any] = [
    economy_news_crawl,
    economy_news_enrich,
    repair.economy_news_resume_suspended,
    repair.economy_news_requeue_failed,
    repair.economy_news_takedown,
    repair.economy_news_retention,
    raw_files_partitions,
    raw_files_report,
    raw_files_metadata_sync,
    recipes_fetch,
    recipes_parse_submit,
    recipes_parsed,
    recipes_embedded,
    recipes_repair.recipes_requeue_failed,
    recipes_repair.recipes_decide_review,
    context_tags_presets,
    context_tags,
    context_tags_repair.context_tags_rescan,
    context_tags_repair.context_tags_resume_suspended,
    recommendations_products,
    recommendations,
    recommendations_repair.recommendations_requeue_failed,
]
