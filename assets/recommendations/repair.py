"""The job for people: failed members again."""

import dagster as dg
from pydantic import Field

from assets.recommendations import queue_store
from orchestration.policies import REPAIR_MAX_SECONDS, job_tags
from resources.postgres import PostgresResource


class RequeueConfig(dg.Config):
    """Which failed queue items go back to PENDING."""

    item_ids: list[int] = Field(default=[], description="rec.queue_item ids.")
    everything: bool = Field(default=False, description="All failed items instead, one a member.")


@dg.op(description="Puts failed queue items back to PENDING; a member keeps one open item at most.")
def requeue_failed_members(
    context: dg.OpExecutionContext, config: RequeueConfig, postgres: PostgresResource
) -> None:
    if bool(config.item_ids) == config.everything:
        raise dg.Failure(
            description="name item_ids, or set everything: true, and not both", allow_retries=False
        )
    with postgres.connect() as connection:
        again = queue_store.requeue_failed(connection, config.item_ids or None)
    context.log.info(f"{again} queue items are PENDING again")
    context.add_output_metadata({"requeued": again})


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Failed queue items of recommendations again, by id or all of them.",
)
def recommendations_requeue_failed() -> None:
    requeue_failed_members()
