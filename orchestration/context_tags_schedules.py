"""The schedule of context_tags: the application's part, where no application keeps the states."""

from datetime import UTC

import dagster as dg

from assets.context_tags import rescan_store
from assets.context_tags.repair import context_tags_rescan
from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG
from resources.postgres import PostgresResource


def context_rescan_schedule(is_on: bool) -> dg.ScheduleDefinition:
    """Every five minutes; without something to send again or to end there is no run."""

    @dg.schedule(
        name="context_rescan",
        job=context_tags_rescan,
        cron_schedule="*/5 * * * *",
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description="With CONTEXT_OWN_STATE: sends again what waits too long, three times, then ends it.",
    )
    def every_five_minutes(
        context: dg.ScheduleEvaluationContext, postgres: PostgresResource
    ) -> dg.RunRequest | dg.SkipReason:
        with postgres.connect() as connection:
            if not rescan_store.is_due(connection):
                return dg.SkipReason("nothing waits too long")
        slot = context.scheduled_execution_time.astimezone(UTC).isoformat()
        return dg.RunRequest(run_key=slot, tags={LOCK_TAG: context_tags_rescan.name, MAX_RETRIES_TAG: "0"})

    return every_five_minutes
