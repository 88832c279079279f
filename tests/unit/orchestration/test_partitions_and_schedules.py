"""Partition keys, and what the crawl's schedule asks for."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import combinations
from typing import cast
from unittest.mock import MagicMock

import dagster as dg
import psycopg
import pytest

from assets.economy_news.rules import CrawlRules
from orchestration.definitions import build_definitions
from orchestration.partitions import (
    RANGE_END_TAG,
    RANGE_START_TAG,
    SECTIONS,
    adjacent_sections,
    day_by_section,
    days_and_sections,
    news_days,
    news_key,
    news_range_tags,
    read_news_key,
)
from orchestration.schedules import SEOUL, crawl_runs, days_to_crawl, economy_news_crawl_schedule
from orchestration.settings import Settings
from resources.polite_site import SiteResource
from resources.postgres import PostgresResource

DAY = date(2026, 11, 30)
YESTERDAY = date(2026, 11, 29)


def seoul(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 30, hour, minute, second, tzinfo=SEOUL)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_key_that_is_made_is_read_back(section: str) -> None:
    assert read_news_key(news_key(DAY, section)) == (DAY, section)


def test_a_key_that_is_made_is_one_of_dagsters_own() -> None:
    key = news_key(DAY, "FINANCE")
    assert key == "2026-11-30|FINANCE"
    assert key in day_by_section.get_partition_keys(current_time=datetime(2026, 12, 1, tzinfo=SEOUL))
    assert dg.MultiPartitionKey({"section": "FINANCE", "day": "2026-11-30"}) == key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "2026-11-30",
        "2026-11-30|",
        "2026-11-30|SPORTS",
        "FINANCE|2026-11-30",
        "|FINANCE",
        "2026-13-01|FINANCE",
    ],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"not a day and section|isoformat|month"):
        read_news_key(key)


def test_the_keys_of_a_run_are_read_in_their_order() -> None:
    keys = ["2026-11-30|STOCK", "2026-11-29|FINANCE"]
    assert days_and_sections(keys) == [(DAY, "STOCK"), (YESTERDAY, "FINANCE")]


def test_todays_partition_exists_from_midnight_in_seoul() -> None:
    midnight = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)
    assert news_days.get_partition_keys(current_time=midnight)[-1] == "2026-11-30"
    before = midnight - timedelta(seconds=1)
    assert news_days.get_partition_keys(current_time=before)[-1] == "2026-11-29"


def test_a_range_goes_from_the_first_to_the_last_section_of_the_menu() -> None:
    assert news_range_tags(DAY, ["WORLD", "STOCK"]) == {
        RANGE_START_TAG: "2026-11-30|STOCK",
        RANGE_END_TAG: "2026-11-30|WORLD",
    }


def test_a_range_of_one_section_starts_and_ends_with_it() -> None:
    assert set(news_range_tags(DAY, ["LIVING"]).values()) == {"2026-11-30|LIVING"}


def test_a_range_without_a_section_and_one_with_an_unknown_section_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one section"):
        news_range_tags(DAY, [])
    with pytest.raises(ValueError, match="not in tuple"):
        news_range_tags(DAY, ["SPORTS"])


def test_dagster_expands_a_range_to_the_sections_between() -> None:
    day = date(2026, 1, 2)  # in the past of any clock
    tags = news_range_tags(day, ["STOCK", "REALESTATE"])
    keys = day_by_section.get_partition_keys_in_range(
        dg.PartitionKeyRange(tags[RANGE_START_TAG], tags[RANGE_END_TAG])
    )
    assert sorted(keys) == sorted(
        news_key(day, name) for name in ("STOCK", "INDUSTRY", "VENTURE", "REALESTATE")
    )


def test_all_sections_are_one_span() -> None:
    assert adjacent_sections(SECTIONS) == [list(SECTIONS)]


def test_a_section_left_out_splits_the_span() -> None:
    chosen = [name for name in SECTIONS if name != "VENTURE"]
    assert adjacent_sections(chosen) == [
        ["FINANCE", "STOCK", "INDUSTRY"],
        ["REALESTATE", "WORLD", "LIVING", "GENERAL"],
    ]


def test_spans_hold_every_chosen_section_once_and_no_other_whatever_the_choice() -> None:
    for size in range(len(SECTIONS) + 1):
        for chosen in combinations(reversed(SECTIONS), size):
            spans = adjacent_sections([*chosen, *chosen])
            assert [name for span in spans for name in span] == [name for name in SECTIONS if name in chosen]
            for span in spans:
                between = SECTIONS[SECTIONS.index(span[0]) : SECTIONS.index(span[-1]) + 1]
                assert tuple(span) == between


@pytest.mark.parametrize(
    ("scheduled", "days"),
    [
        (seoul(0, 0), [YESTERDAY, DAY]),
        (seoul(0, 5), [YESTERDAY, DAY]),
        (seoul(0, 14, 59), [YESTERDAY, DAY]),
        (seoul(0, 15), [DAY]),
        (seoul(12, 0), [DAY]),
        (seoul(23, 59, 59), [DAY]),
        (datetime(2026, 11, 29, 15, 0, tzinfo=UTC), [YESTERDAY, DAY]),
        (datetime(2026, 11, 29, 15, 15, tzinfo=UTC), [DAY]),
        (datetime(2026, 11, 29, 14, 59, tzinfo=UTC), [YESTERDAY]),
    ],
)
def test_until_a_quarter_past_midnight_in_seoul_yesterday_is_crawled_too(
    scheduled: datetime, days: list[date]
) -> None:
    assert days_to_crawl(scheduled) == days


def test_a_tick_asks_for_one_run_of_all_sections_that_nobody_else_retries() -> None:
    (run,) = crawl_runs(seoul(12, 0), SECTIONS)
    assert run.tags == {
        "dagster/asset_partition_range_start": "2026-11-30|FINANCE",
        "dagster/asset_partition_range_end": "2026-11-30|GENERAL",
        "lock": "economy_news_crawl:2026-11-30",
        "dagster/max_retries": "0",
        "dagster/priority": "10",
    }


def test_after_midnight_each_day_has_a_run_with_a_lock_of_its_own() -> None:
    runs = list(crawl_runs(seoul(0, 10), SECTIONS))
    assert [run.tags["lock"] for run in runs] == [
        "economy_news_crawl:2026-11-29",
        "economy_news_crawl:2026-11-30",
    ]


def test_no_run_takes_a_section_that_was_left_out() -> None:
    chosen = ["FINANCE", "STOCK", "WORLD"]
    spans = [(run.tags[RANGE_START_TAG], run.tags[RANGE_END_TAG]) for run in crawl_runs(seoul(12, 0), chosen)]
    assert spans == [
        ("2026-11-30|FINANCE", "2026-11-30|STOCK"),
        ("2026-11-30|WORLD", "2026-11-30|WORLD"),
    ]


def run_keys(scheduled: datetime, sections: Sequence[str] = ("FINANCE", "WORLD")) -> list[str | None]:
    return [run.run_key for run in crawl_runs(scheduled, sections)]


def test_run_keys_are_the_same_for_the_same_tick_and_new_for_every_other() -> None:
    ticks = [seoul(0, 0) + timedelta(minutes=5) * number for number in range(288)]
    keys = [key for tick in ticks for key in run_keys(tick)]
    assert len(keys) == 2 * (288 + 3)
    assert len(set(keys)) == len(keys)
    assert run_keys(ticks[0]) == run_keys(ticks[0])


class _NoHostIsPaused(PostgresResource):
    """A database that knows of no paused host."""

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection]:
        yield cast(psycopg.Connection, MagicMock(**{"execute.return_value.fetchone.return_value": None}))


def evaluated(scheduled: datetime) -> tuple[list[str], str | None]:
    """The locks of the runs that a tick asks for, and why it was skipped."""
    context = dg.build_schedule_context(
        scheduled_execution_time=scheduled,
        resources={
            "postgres": _NoHostIsPaused(),
            "news_site": SiteResource(base_url="http://127.0.0.1:1", contact="tests"),
            "crawl_rules": CrawlRules(),
        },
    )
    told = economy_news_crawl_schedule(SECTIONS, True).evaluate_tick(context)
    return [run.tags["lock"] for run in told.run_requests or []], told.skip_message


def test_a_tick_in_time_asks_for_its_own_day() -> None:
    scheduled = datetime.now(SEOUL) - timedelta(minutes=4)
    locks, skipped = evaluated(scheduled)
    assert locks == [f"economy_news_crawl:{day}" for day in days_to_crawl(scheduled)]
    assert skipped is None


def test_a_tick_older_than_its_interval_is_skipped_with_a_reason() -> None:
    locks, skipped = evaluated(datetime.now(SEOUL) - timedelta(minutes=5, seconds=1))
    assert locks == []
    assert skipped is not None and "late" in skipped


def started_by_themselves(*pipelines: str) -> dict[str, bool]:
    """Every schedule and sensor of the code location, and whether it runs without anybody's doing."""
    definitions = build_definitions(Settings(granary_pipelines=pipelines))
    repository = definitions.get_repository_def()
    return {
        **{
            one.name: one.default_status is dg.DefaultScheduleStatus.RUNNING
            for one in repository.schedule_defs
        },
        **{one.name: one.default_status is dg.DefaultSensorStatus.RUNNING for one in repository.sensor_defs},
    }


def test_nothing_runs_by_itself_until_a_pipeline_is_named() -> None:
    running = started_by_themselves()
    assert {"economy_news_every_five_minutes", "article_jobs_due", "pages_left_over"} <= set(running)
    assert not [name for name, is_running in running.items() if is_running]


OF_ALL = {
    "failed_runs_free_their_work",
    "canceled_runs_free_their_work",
    "failed_runs_tell",
    "overlong_runs_tell",
    "alarms_looked_at",
    "operations_retention_every_night",
}
BY_PIPELINE = {
    "economy_news": {
        "economy_news_every_five_minutes",
        "economy_news_retention_every_night",
        "article_jobs_due",
        "news_batches_over",
        "pages_left_over",
    },
    "raw_files": {
        "daily_raw_files",
        "supplementary_raw_files",
        "metadata_sync",
        "raw_files_retry",
        "raw_files_requested",
        "raw_reports_due",
    },
    "recipes": {"recipes_every_day", "recipe_batches"},
    "context_tags": {"context_requests_waiting", "preset_file_changed", "finished_texts_forgotten"},
    "recommendations": {"members_due", "product_texts_changed"},
}
OFF_UNTIL_STARTED = {"raw_files_arrived", "context_rescan"}


@pytest.mark.parametrize("pipeline", sorted(BY_PIPELINE))
def test_a_pipeline_that_is_named_runs_by_itself_and_no_other(pipeline: str) -> None:
    running = {name for name, is_running in started_by_themselves(pipeline).items() if is_running}
    assert running == BY_PIPELINE[pipeline] | OF_ALL


def test_every_schedule_and_sensor_belongs_to_a_pipeline() -> None:
    known = set.union(*BY_PIPELINE.values(), OF_ALL, OFF_UNTIL_STARTED)
    assert set(started_by_themselves()) == known
