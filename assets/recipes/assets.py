"""The assets of recipes in the order of the data flow. Partition: the day of the fetch (Asia/Seoul)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import dagster as dg
import psycopg
from pydantic import Field

from assets.recipes import checks, job_report, partition_metadata, prompt, recipe_store
from assets.recipes.batch_kinds import EMBED, PARSE
from assets.recipes.rules import RecipeRules
from assets.recipes.stage_metrics import outcomes, stage
from assets.recipes.statuses import Status
from orchestration.failures import failures_by_owner
from orchestration.partitions import recipe_days
from orchestration.policies import OPENAI_POOL
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.embeddings import EmbeddingResource
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from resources.pushgateway import PushgatewayResource
from resources.recipe_api import RecipeApiResource

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

GROUP = "recipes"
OWNERS = ["team:content"]


class FetchConfig(dg.Config):
    """What a fetch asks the open API for."""

    limit: int | None = Field(default=None, ge=1, description="Recipes to ask for; FETCH_LIMIT where none.")
    sweep: bool = Field(default=False, description="Looks again at every recipe fetched before.")
    force: bool = Field(
        default=False,
        description="Starts anew whatever this fetch meets, edited or not; with sweep, every known recipe.",
    )


class StageConfig(dg.Config):
    """Which job records a stage takes."""

    job_ids: list[str] = Field(default=[], description="These alone; all that wait where none are named.")


@dg.asset(group_name=GROUP, owners=OWNERS, kinds={"mongodb"}, partitions_def=recipe_days, code_version="1")
def recipe_jobs(
    context: dg.AssetExecutionContext,
    config: FetchConfig,
    postgres: PostgresResource,
    mongo: MongoResource,
    recipe_api: RecipeApiResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """Job records of recipes that are new at the source or were edited there (recipe_ingestion_jobs)."""
    from assets.recipes import fetch, job_store  # httpx and lxml are slow to import
    from assets.recipes.fetch import api_failures

    run_id = context.partition_key
    with failures_by_owner(context), postgres.connect() as connection, mongo.connect() as db:
        job_store.ensure_indexes(db)
        with stage(connection, pushgateway, "fetch"), api_failures():
            now = recipe_store.now(connection)
            limit = config.limit or recipe_rules.fetch_limit
            fetched = fetch.fetch(db, recipe_api, run_id, limit, now, config.sweep, config.force)
            started = fetched.new + fetched.changed
            outcomes(connection, "fetch", success=started, skipped=fetched.unchanged, failed=fetched.unusable)
        counts = job_report.counts_by_status(db, run_id)
    return dg.MaterializeResult(
        metadata={
            **partition_metadata.items(counts, Status.FETCHED),
            **{f"pass_{name}": amount for name, amount in asdict(fetched).items()},
            "runId": run_id,
            "fetchedCount": started,
            "triggeredAt": now.isoformat(),
        }
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"mongodb", "openai"},
    partitions_def=recipe_days,
    pool=OPENAI_POOL,
    code_version=prompt.version(),
    deps=[recipe_jobs],
)
def recipe_parse_batches(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    postgres: PostgresResource,
    mongo: MongoResource,
    parse_batches: BatchResource,
    alerts: AlertResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """Batches that have the day's fetched recipes read by a model (recipe_batches). Waits for none."""
    from assets.recipes.batch_submission import Submitter
    from assets.recipes.parse_batches import ParseContent

    run_id, job_ids = context.partition_key, config.job_ids or None
    with _stage(context, postgres, mongo, pushgateway, PARSE.submit_stage) as (connection, db, claimed_by):
        content = ParseContent(db, connection, parse_batches.model)
        submitted = Submitter(
            content, db, connection, parse_batches, alerts, recipe_rules, run_id, claimed_by, job_ids
        ).run()
        counts = job_report.counts_by_status(db, run_id)
    return partition_metadata.result(context, counts, Status.PARSE_SUBMITTED, submitted)


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"mongodb", "openai"},
    partitions_def=recipe_days,
    pool=OPENAI_POOL,
    code_version="1",
    deps=[recipe_parse_batches],
)
def recipe_parse_results(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    mongo: MongoResource,
    parse_batches: BatchResource,
    alerts: AlertResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """What the day's batches that are over have read, in the job records; bad lines are asked again."""
    from assets.recipes.batch_retrieval import Retriever
    from assets.recipes.parse_batches import ParseContent

    run_id = context.partition_key
    with _stage(context, postgres, mongo, pushgateway, PARSE.retrieve_stage) as (connection, db, claimed_by):
        content = ParseContent(db, connection, parse_batches.model)
        retrieved = Retriever(
            content, db, connection, parse_batches, alerts, recipe_rules, run_id, claimed_by
        ).run()
        counts = job_report.counts_by_status(db, run_id)
    return partition_metadata.result(context, counts, Status.PARSE_RETRIEVED, retrieved)


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "openai"},
    partitions_def=recipe_days,
    pool=OPENAI_POOL,
    code_version="1",
    deps=[recipe_parse_results],
)
def recipes(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    postgres: PostgresResource,
    mongo: MongoResource,
    recipe_api: RecipeApiResource,
    embeddings: EmbeddingResource,
    alerts: AlertResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """Recipes with their steps and recognised ingredients (recipe.recipe, …), one transaction each."""
    from assets.recipes.embedding_calls import NotEmbedded, embed_names
    from assets.recipes.persist import persist
    from resources.model_gate import ModelGate

    run_id, job_ids, rules = context.partition_key, config.job_ids or None, recipe_rules
    told: dict[str, int] = {}
    reason = None
    with _stage(context, postgres, mongo, pushgateway, "persist") as (connection, db, claimed_by):
        passing = ModelGate(connection, embeddings.gate_key, alerts, rules.gate_probe_minutes)

        def embed(names: Sequence[str]) -> dict[str, recipe_store.Vector]:
            return embed_names(db, connection, embeddings, passing, names, rules.cap_usd)

        origin, model = recipe_api.origin, embeddings.model
        try:
            stored = persist(db, connection, run_id, claimed_by, origin, model, embed, job_ids)
            told |= {"pass_stored": stored.stored, "pass_failed": len(stored.failed)}
        except NotEmbedded as stopped:
            reason = str(stopped)
        counts = job_report.counts_by_status(db, run_id)
        stored_, published, embedded = recipe_store.counts_of_run(connection, run_id)
        methods = recipe_store.match_methods_of_run(connection, run_id)
    return dg.MaterializeResult(
        metadata={
            **partition_metadata.items(counts, Status.PERSISTED),
            **told,
            "stopped_by": partition_metadata.told_reason(context, reason),
            "recipes": stored_,
            "published": published,
            "embedded": embedded,
            **{f"matched_{method}": amount for method, amount in methods.items()},
        }
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "openai"},
    partitions_def=recipe_days,
    pool=OPENAI_POOL,
    code_version="1",
    deps=[recipes],
)
def recipe_embedding_batches(
    context: dg.AssetExecutionContext,
    config: StageConfig,
    postgres: PostgresResource,
    mongo: MongoResource,
    embed_batches: BatchResource,
    alerts: AlertResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """Batches that have recipes and their new ingredients embedded; an unchanged text is not sent again."""
    from assets.recipes.batch_submission import Submitter
    from assets.recipes.embed_batches import EmbedContent

    run_id, job_ids = context.partition_key, config.job_ids or None
    with _stage(context, postgres, mongo, pushgateway, EMBED.submit_stage) as (connection, db, claimed_by):
        content = EmbedContent(db, connection, embed_batches.model)
        submitted = Submitter(
            content, db, connection, embed_batches, alerts, recipe_rules, run_id, claimed_by, job_ids
        ).run()
        counts = job_report.counts_by_status(db, run_id)
    return partition_metadata.result(context, counts, Status.EMBED_SUBMITTED, submitted)


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres", "openai"},
    partitions_def=recipe_days,
    pool=OPENAI_POOL,
    code_version="1",
    deps=[recipe_embedding_batches],
    check_specs=[checks.FOUND],
)
def recipe_embeddings(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    mongo: MongoResource,
    embed_batches: BatchResource,
    alerts: AlertResource,
    recipe_rules: RecipeRules,
    pushgateway: PushgatewayResource,
) -> dg.MaterializeResult:
    """Vectors of the day's recipes with the text they are of (recipe.recipe_embedding), to be searched by."""
    from assets.recipes.batch_retrieval import Retriever
    from assets.recipes.embed_batches import EmbedContent

    run_id = context.partition_key
    with _stage(context, postgres, mongo, pushgateway, EMBED.retrieve_stage) as (connection, db, claimed_by):
        content = EmbedContent(db, connection, embed_batches.model)
        retrieved = Retriever(
            content, db, connection, embed_batches, alerts, recipe_rules, run_id, claimed_by
        ).run()
        counts = job_report.counts_by_status(db, run_id)
        check = checks.found(connection, embed_batches.model, run_id)
    result = partition_metadata.result(context, counts, Status.EMBED_RETRIEVED, retrieved)
    return dg.MaterializeResult(metadata=result.metadata, check_results=[check])


@contextmanager
def _stage(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    mongo: MongoResource,
    pushgateway: PushgatewayResource,
    name: str,
) -> Iterator[tuple[psycopg.Connection, "Mongo", str]]:
    """Both databases, and the name of this attempt's claims."""
    from assets.recipes import batch_store, job_store

    with failures_by_owner(context):
        try:
            with postgres.connect() as connection, mongo.connect() as db:
                job_store.ensure_indexes(db)
                batch_store.ensure_indexes(db)
                with stage(connection, pushgateway, name):
                    yield connection, db, f"{context.run_id}:{context.retry_number}"
        except Exception as error:
            partition_metadata.rest(context, type(error).__name__)
            raise
