"""The daily fetch of recipes: which day, which config, and which lock."""

from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from orchestration.definitions import build_definitions
from orchestration.recipes_schedules import recipes_schedules
from orchestration.settings import Settings
from sensors.recipes import lock_of_day

SEOUL = ZoneInfo("Asia/Seoul")


def tick(at: datetime) -> dg.RunRequest:
    definitions = build_definitions(Settings())
    context = dg.build_schedule_context(
        scheduled_execution_time=at, repository_def=definitions.get_repository_def()
    )
    requests = definitions.resolve_schedule_def("recipes_every_day").evaluate_tick(context).run_requests
    assert requests is not None and len(requests) == 1
    return requests[0]


def test_the_day_is_that_in_seoul_and_shares_its_lock_with_the_sensor() -> None:
    run = tick(datetime(2026, 11, 27, 11, tzinfo=SEOUL).astimezone(ZoneInfo("UTC")))
    assert run.partition_key == "2026-11-27"
    assert run.tags["lock"] == lock_of_day("2026-11-27") and run.tags["dagster/max_retries"] == "0"


@pytest.mark.parametrize(("day", "sweeps"), [(27, False), (29, False), (30, True)])
def test_on_mondays_every_known_recipe_is_looked_at_again(day: int, sweeps: bool) -> None:
    run = tick(datetime(2026, 11, day, 11, tzinfo=SEOUL))
    assert run.run_config == {"ops": {"recipe_jobs": {"config": {"sweep": sweeps}}}}


def test_a_tick_that_comes_twice_is_one_run() -> None:
    at = datetime(2026, 11, 27, 11, tzinfo=SEOUL)
    assert tick(at).run_key == tick(at).run_key
    assert tick(at).run_key != tick(at.replace(day=28)).run_key


def test_it_runs_by_itself_only_where_the_pipeline_is_on() -> None:
    states = [recipes_schedules(is_on)[0].default_status for is_on in (True, False)]
    assert states == [dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED]
