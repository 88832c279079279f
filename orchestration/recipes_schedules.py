"""The schedule of recipes, in Asia/Seoul. The day comes from the scheduled time, never from the clock."""

from zoneinfo import ZoneInfo

import dagster as dg

from orchestration.jobs import recipes_fetch
from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG
from sensors.recipes import lock_of_day

SEOUL = ZoneInfo("Asia/Seoul")
MONDAY = 0


def recipes_schedules(is_on: bool) -> list[dg.ScheduleDefinition]:
    """Every day at 11:00; on Mondays every recipe fetched before is looked at again."""

    @dg.schedule(
        name="recipes_every_day",
        job=recipes_fetch,
        cron_schedule="0 11 * * *",
        execution_timezone="Asia/Seoul",
        default_status=dg.DefaultScheduleStatus.RUNNING if is_on else dg.DefaultScheduleStatus.STOPPED,
        description="Fetches the day's recipes and sends them to be parsed; the rest follows by sensor.",
    )
    def every_day(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        day = context.scheduled_execution_time.astimezone(SEOUL).date()
        config = {"ops": {"recipe_jobs": {"config": {"sweep": day.weekday() == MONDAY}}}}
        return dg.RunRequest(
            run_key=context.scheduled_execution_time.isoformat(),
            partition_key=day.isoformat(),
            run_config=config,
            tags={LOCK_TAG: lock_of_day(day.isoformat()), MAX_RETRIES_TAG: "0"},
        )

    return [every_day]
