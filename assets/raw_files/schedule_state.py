"""Since when the passes have come by themselves: before that, none of them can be late."""

from datetime import UTC, datetime

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorStatus, InstigatorType, ScheduleInstigatorData

PASSES = ("daily_raw_files", "supplementary_raw_files")


def running_since(instance: dg.DagsterInstance) -> datetime | None:
    """When the later of both schedules was switched on (UTC); None while one of them is off."""
    if instance.schedule_storage is None:  # one in memory has no schedules
        return None
    found = {}
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE):
        data = state.instigator_data
        if (
            state.instigator_name in PASSES
            and state.status is not InstigatorStatus.STOPPED
            and isinstance(data, ScheduleInstigatorData)
            and data.start_timestamp is not None
        ):
            found[state.instigator_name] = data.start_timestamp
    return datetime.fromtimestamp(max(found.values()), UTC) if len(found) == len(PASSES) else None
