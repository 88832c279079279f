"""Jobs for people: failed job records again, and names of ingredients that may mean a known one."""

import dagster as dg
from pydantic import Field

from assets.recipes import recipe_store, repair_store
from orchestration.policies import REPAIR_MAX_SECONDS, job_tags
from resources.mongo import MongoResource
from resources.postgres import PostgresResource

MOST_SHOWN = 100


class RequeueConfig(dg.Config):
    """Which failed job records go back, with zero retries, to the last status that they had reached."""

    job_ids: list[str] = Field(default=[], description="Ids of failed job records.")
    everything: bool = Field(default=False, description="All failed job records instead.")


class ReviewConfig(dg.Config):
    """What is decided of recipe.ingredient_review; without ids the waiting ones are listed."""

    approve: list[int] = Field(default=[], description="The name means the candidate: it becomes an alias.")
    reject: list[int] = Field(default=[], description="The name is an ingredient of its own.")


@dg.op(description="Puts failed job records back with zero retries.")
def requeue_failed_recipe_jobs(
    context: dg.OpExecutionContext, config: RequeueConfig, mongo: MongoResource
) -> None:
    if bool(config.job_ids) == config.everything:
        raise dg.Failure(
            description="name job_ids, or set everything: true, and not both", allow_retries=False
        )
    with mongo.connect() as db:
        again = repair_store.requeue_failed(db, config.job_ids or None)
    context.log.info(f"{again} job records go on")
    context.add_output_metadata({"requeued": again})


@dg.op(description="Approves or rejects what ingredient names may mean, or lists what waits.")
def decide_ingredient_reviews(
    context: dg.OpExecutionContext, config: ReviewConfig, postgres: PostgresResource
) -> None:
    both = set(config.approve) & set(config.reject)
    if both:
        raise dg.Failure(description=f"both approved and rejected: {sorted(both)}", allow_retries=False)
    with postgres.connect() as connection:
        decided = 0
        for approved, ids in ((True, config.approve), (False, config.reject)):
            for review_id in ids:
                with connection.transaction():
                    if not recipe_store.decide_review(connection, review_id, approved):
                        context.log.warning(f"review {review_id} is unknown or decided already")
                        continue
                    decided += 1
        waiting = recipe_store.reviews_waiting(connection, MOST_SHOWN)
    for review_id, name, candidate, score in waiting:
        context.log.info(f"review {review_id}: {name!r} may mean {candidate!r} ({score:.3f})")
    context.add_output_metadata({"decided": decided, "waiting": len(waiting)})


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Failed job records of recipes again, by id or all of them.",
)
def recipes_requeue_failed() -> None:
    requeue_failed_recipe_jobs()


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Decides what names of ingredients mean, or lists what waits.",
)
def recipes_decide_review() -> None:
    decide_ingredient_reviews()
