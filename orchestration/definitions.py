"""The only composition root: settings become resources, resources meet assets.

Importing this opens no connection, reads no secret and works with nothing configured; a setting with a
wrong value stops it with a message that names the variable.
"""

import logging
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import dagster as dg

from assets.context_tags import assets as context_tags
from assets.context_tags.rules import ContextRules
from assets.economy_news import assets as economy_news
from assets.economy_news.rules import CrawlRules, EnrichmentRules
from assets.raw_files import assets as raw_files
from assets.raw_files.rules import RawFilesRules
from assets.recipes import assets as recipes
from assets.recipes.rules import RecipeRules
from assets.recommendations import assets as recommendations
from assets.recommendations.rules import RecommendationRules
from operations.alarm_facts import Watched
from operations.jobs import operations_jobs
from orchestration.asset_items import ITEMS
from orchestration.context_tags_schedules import context_rescan_schedule
from orchestration.jobs import JOBS, RECIPE_JOBS
from orchestration.raw_files_schedules import raw_files_schedules
from orchestration.recipes_schedules import recipes_schedules
from orchestration.schedules import (
    SEOUL,
    economy_news_crawl_schedule,
    economy_news_retention_schedule,
    operations_retention_schedule,
)
from orchestration.settings import Settings, settings_from_environment
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.bucket import BucketResource
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.guarded_fetch import GuardedFetchResource
from resources.mongo import MongoResource
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource
from resources.pushgateway import PushgatewayResource
from resources.recipe_api import RecipeApiResource
from sensors.alerts import alarm_sensors
from sensors.context_tags import context_tags_sensors
from sensors.economy_news import economy_news_sensors
from sensors.raw_files import raw_files_sensors
from sensors.recipes import recipes_sensors
from sensors.recommendations import recommendations_sensors
from sensors.run_status import run_status_sensors


def build_definitions(settings: Settings, overrides: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The code location. `overrides` replace resources by name, for tests."""
    economy_news_is_on = "economy_news" in settings.granary_pipelines
    raw_files_is_on = "raw_files" in settings.granary_pipelines
    recipes_is_on = "recipes" in settings.granary_pipelines
    context_tags_is_on = "context_tags" in settings.granary_pipelines
    recommendations_is_on = "recommendations" in settings.granary_pipelines
    any_is_on = bool(settings.granary_pipelines)
    operations = {job.name: job for job in operations_jobs(settings)}
    return dg.Definitions(
        assets=_assets(),
        jobs=[*JOBS, *operations.values()],
        schedules=[
            economy_news_crawl_schedule(settings.crawl_sections, economy_news_is_on),
            economy_news_retention_schedule(economy_news_is_on),
            *raw_files_schedules(raw_files_is_on, settings.hours_between_metadata_syncs()),
            *recipes_schedules(recipes_is_on),
            context_rescan_schedule(context_tags_is_on and settings.context_own_state),
            operations_retention_schedule(operations["operations_retention"], any_is_on),
        ],
        sensors=[
            *economy_news_sensors(economy_news_is_on),
            *raw_files_sensors(raw_files_is_on),
            *recipes_sensors(recipes_is_on, RECIPE_JOBS),
            *context_tags_sensors(context_tags_is_on),
            *recommendations_sensors(recommendations_is_on),
            *run_status_sensors(any_is_on, settings.granary_environment),
            *alarm_sensors(any_is_on, _watched(settings)),
        ],
        resources={**_resources(settings), **(overrides or {})},
        # A process per step costs about four CPU-seconds of imports each.
        executor=dg.in_process_executor,
    )


def _watched(settings: Settings) -> Watched:
    return Watched(
        pipelines=frozenset(settings.granary_pipelines),
        crawls=settings.crawl_enabled and bool(settings.naver_base_url),
        fetches_recipes=bool(settings.recipe_api_base_url),
        spending_cap_usd=settings.daily_spending_cap_usd,
    )


def _assets() -> list[dg.AssetsDefinition]:
    """Every pipeline's assets; the UI's catalog is filtered by the tag, and shows what an item is."""
    modules = [economy_news, raw_files, recipes, context_tags, recommendations]
    loaded = [one for one in dg.load_assets_from_modules(modules) if isinstance(one, dg.AssetsDefinition)]
    return list(dg.map_asset_specs(_told_of, loaded))


def _told_of(spec: dg.AssetSpec) -> dg.AssetSpec:
    name = spec.key.to_user_string()
    items = {"item": ITEMS[name]} if name in ITEMS else {}
    return spec.merge_attributes(tags={"pipeline": spec.group_name or ""}, metadata=items)


def _resources(settings: Settings) -> dict[str, Any]:
    permission = settings.crawl_permission
    prices = {name: price.model_dump(mode="json") for name, price in settings.model_prices.items()}
    cap = "" if settings.daily_spending_cap_usd is None else str(settings.daily_spending_cap_usd)
    provider: dict[str, Any] = {"base_url": settings.openai_base_url, "model_prices": prices}
    return {
        "postgres": PostgresResource(),
        "alerts": AlertResource(urls=dg.EnvVar("ALERT_URLS") if settings.alert_urls else ""),
        "chat": ChatResource(
            model=settings.openai_model,
            timeout_ms=settings.openai_timeout_ms,
            max_output_tokens=settings.openai_max_output_tokens,
            temperature=settings.openai_temperature,
            **provider,
        ),
        "parse_batches": BatchResource(model=settings.openai_batch_model, **provider),
        "news_batches": BatchResource(model=settings.openai_model, **provider),
        "embed_batches": BatchResource(model=settings.openai_embedding_model, **provider),
        "embeddings": EmbeddingResource(
            model=settings.openai_embedding_model, timeout_ms=settings.openai_timeout_ms, **provider
        ),
        "mongo": MongoResource(database=settings.mongodb_database),
        "recipe_api": RecipeApiResource(base_url=settings.recipe_api_base_url),
        "pushgateway": PushgatewayResource(url=settings.pushgateway_url),
        "recipe_rules": RecipeRules(
            fetch_limit=settings.fetch_limit,
            max_enqueued_tokens=settings.max_enqueued_tokens,
            gate_probe_minutes=settings.gate_probe_minutes,
            daily_spending_cap_usd=cap,
        ),
        "context_rules": ContextRules(
            profile=settings.embedding_profile,
            processing_expiry_seconds=settings.context_processing_expiry_seconds,
            linger_seconds=settings.context_linger_seconds,
            most_candidates=settings.context_candidates,
            candidate_floor=settings.context_candidate_floor,
            concurrency=settings.ai_concurrency,
            own_state=settings.context_own_state,
            presets_file=settings.context_presets_file,
            gate_probe_minutes=settings.gate_probe_minutes,
            daily_spending_cap_usd=cap,
        ),
        "recommendation_rules": RecommendationRules(
            profile=settings.embedding_profile,
            trigger_limit=settings.recommendation_trigger_limit,
            trigger_lease_seconds=settings.recommendation_trigger_lease_minutes * 60,
            visit_session_minutes=settings.visit_session_minutes,
            pick_limit=settings.recommendation_pick_limit,
            concurrency=settings.recommendation_concurrency,
            size=settings.recommendation_size,
            gate_probe_minutes=settings.gate_probe_minutes,
            daily_spending_cap_usd=cap,
        ),
        "news_site": SiteResource(
            base_url=settings.naver_base_url,
            contact=settings.crawl_contact,
            timeout_ms=settings.crawl_timeout_ms,
            min_interval_ms=settings.crawl_min_interval_ms,
            sleep_min_ms=settings.crawl_sleep_min_ms,
            sleep_max_ms=settings.crawl_sleep_max_ms,
        ),
        "bucket": BucketResource(endpoint_url=settings.s3_endpoint_url, bucket=settings.s3_bucket),
        "sites": GuardedFetchResource(
            contact=settings.crawl_contact, local_test_sites=settings.local_test_sites
        ),
        "raw_files_rules": RawFilesRules(
            catch_up_days=settings.raw_catch_up_days,
            metadata_ttl_days=settings.metadata_ttl_days,
            fetch_metadata=settings.fetch_metadata,
            environment=settings.granary_environment,
        ),
        "crawl_rules": CrawlRules(
            enabled=settings.crawl_enabled,
            max_pages=settings.crawl_max_pages,
            backfill_max_pages=settings.crawl_backfill_max_pages,
            stop_after_seen_streak=settings.crawl_stop_after_seen_streak,
            min_content_length_for_ai=settings.min_content_length_for_ai,
            skip_duplicates=settings.skip_duplicates,
            recheck_days=settings.recheck_days,
            retention_days=settings.article_retention_days,
            permission=f"{permission.reference}; {permission.holder}; {permission.expires}"
            if permission
            else "",
            permission_expires=permission.expires.isoformat() if permission else "",
        ),
        "enrichment_rules": EnrichmentRules(
            enabled=settings.ai_enabled,
            concurrency=settings.ai_concurrency,
            batch_size=settings.ai_batch_size,
            lease_seconds=settings.ai_lease_minutes * 60,
            max_retries=settings.ai_max_retries,
            retry_base_seconds=settings.ai_retry_base_seconds,
            retry_max_seconds=settings.ai_retry_max_seconds,
            gate_probe_minutes=settings.gate_probe_minutes,
            daily_spending_cap_usd=cap,
            max_enqueued_tokens=settings.max_enqueued_tokens,
        ),
    }


def _from_environment(today: date) -> dg.Definitions:
    settings = settings_from_environment(today)
    ending = settings.priced_model().warning(today)
    if ending:
        logging.getLogger("granary").warning(ending)
    return build_definitions(settings)


defs = _from_environment(datetime.now(SEOUL).date())
