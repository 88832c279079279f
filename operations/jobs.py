"""Jobs over all pipelines: the daily clearing up, and the questions of `granary why` and `granary quote`.

A Failure says what may be asked and never what was typed: alarms and logs carry it on.
"""

from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from operations import retention, run_purge
from operations.quote_request import NotAQuestion, read_request
from operations.retention_store import database_now
from operations.why import PIPELINES as KINDS
from operations.why import looked_for, why
from orchestration.partitions import PIPELINES
from orchestration.policies import REPAIR_MAX_SECONDS, RETENTION_MAX_SECONDS, job_tags
from orchestration.settings import Settings
from resources.errors import ServiceError
from resources.mongo import MongoResource
from resources.postgres import PostgresResource


class Mode(Enum):
    """How economy_news would ask. Lower case: Dagster's config knows enums by their names."""

    live = "live"
    batch = "batch"


class Redo(Enum):
    """Which results would be made again."""

    nothing = "nothing"
    outdated = "outdated"
    all = "all"


class WhyConfig(dg.Config):
    """Which item."""

    kind: str = Field(description=f"One of {', '.join(KINDS)}.")
    id: str = Field(description="As `granary why --help` says: an address, an id, or a key of the bucket.")


class QuoteConfig(dg.Config):
    """The backfill that is thought of."""

    pipeline: str = Field(description=f"One of {', '.join(PIPELINES)}.")
    first_day: str = Field(description="YYYY-MM-DD, in the pipeline's own zone.")
    last_day: str = Field(description="YYYY-MM-DD, included.")
    parts: list[str] = Field(
        default=[], description="Sections of economy_news, or sources (kr/news) of raw_files; empty: all."
    )
    mode: Mode = Field(default=Mode.live, description="batch: economy_news through batches at half price.")
    redo: Redo = Field(default=Redo.nothing, description="Which results would be made again too.")


def operations_jobs(settings: Settings) -> list[dg.JobDefinition]:
    """The jobs; the settings are those that the questions are answered by."""

    @dg.op(description="Deletes what is past its retention; never what keeps work from being redone.")
    def clear_up(context: dg.OpExecutionContext, postgres: PostgresResource, mongo: MongoResource) -> None:
        with postgres.connect() as connection:
            now = database_now(connection)
        parts = [
            *retention.table_parts(
                postgres.connect, settings.inbox_retention_days, settings.job_retention_days
            ),
            *run_purge.run_parts(
                context.instance,
                now,
                settings.run_retention_days,
                settings.log_retention_days,
            ),
        ]
        if mongo.is_configured:
            parts += retention.recipe_parts(mongo.connect, postgres.connect, settings.job_retention_days)
        done = retention.purge_all(parts)
        context.add_output_metadata({one.name: one.rows for one in done})
        context.log.info("went: " + ", ".join(f"{one.name} {one.rows}" for one in done))
        if left := [one.name for one in done if one.left]:
            context.log.info(f"left to tomorrow: {', '.join(left)}")
        if failed := [f"{one.name}: {one.error}" for one in done if one.error]:
            raise dg.Failure(description="; ".join(failed), allow_retries=False)

    @dg.op(description="Tells an item's history, what it waits for, who must act, and when it is due.")
    def tell_why(
        context: dg.OpExecutionContext, config: WhyConfig, postgres: PostgresResource, mongo: MongoResource
    ) -> None:
        if config.kind not in KINDS:
            raise dg.Failure(description=f"kind must be one of {', '.join(KINDS)}", allow_retries=False)
        try:
            with postgres.connect() as connection, _recipes(mongo, config.kind == "recipe") as db:
                history = why(config.kind, config.id, connection, db, settings)
        except ServiceError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from None
        if history is None:
            context.add_output_metadata({"why": dg.MetadataValue.text(looked_for(config.kind, config.id))})
            return
        context.add_output_metadata({"why": dg.MetadataValue.md(history.markdown())})
        context.log.info("\n".join(history.lines()))

    @dg.op(description="Tells what a backfill would take: items, tokens, USD, hours, requests to hosts.")
    def tell_quote(
        context: dg.OpExecutionContext, config: QuoteConfig, postgres: PostgresResource, mongo: MongoResource
    ) -> None:
        from operations.quote import quote

        redo = "" if config.redo is Redo.nothing else config.redo.value
        try:
            request = read_request(
                config.pipeline, config.first_day, config.last_day, config.parts, config.mode.value, redo
            )
            with postgres.connect() as connection, _recipes(mongo, config.pipeline == "recipes") as db:
                answer = quote(connection, db, settings, request)
        except (NotAQuestion, ServiceError) as error:
            raise dg.Failure(description=str(error), allow_retries=False) from None
        context.add_output_metadata({"quote": dg.MetadataValue.md(answer.markdown())})
        context.log.info("\n".join(answer.lines()))

    @dg.job(
        tags=job_tags(RETENTION_MAX_SECONDS),
        description="Daily: purges old runs, logs, requests that are done, and superseded jobs and results.",
    )
    def operations_retention() -> None:
        clear_up()

    @dg.job(
        tags=job_tags(REPAIR_MAX_SECONDS),
        description="Why an item is where it is: `granary why` in the UI. Read the output's metadata.",
    )
    def operations_why() -> None:
        tell_why()

    @dg.job(
        tags=job_tags(REPAIR_MAX_SECONDS),
        description="What a backfill will take, before it is started: `granary quote` in the UI.",
    )
    def operations_quote() -> None:
        tell_quote()

    return [operations_retention, operations_why, operations_quote]


def _recipes(mongo: MongoResource, is_needed: bool) -> AbstractContextManager[Any]:
    return mongo.connect() if is_needed else nullcontext()
