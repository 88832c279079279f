"""What the sensors of economy_news ask for, given what they saw."""

from datetime import date, timedelta

from assets.economy_news.models import DueJobs
from sensors.economy_news import enrichment_runs, left_over_runs

DAY = date(2026, 11, 30)
EARLIER = date(2026, 11, 29)


def due(day: date, *sections: str) -> list[DueJobs]:
    return [DueJobs(day, section, 3) for section in sections]


def test_nothing_due_asks_for_nothing() -> None:
    assert enrichment_runs([], set(), tick=1) == []
    assert left_over_runs([], set(), tick=1) == []


def test_a_days_sections_are_one_run_over_their_span() -> None:
    (run,) = enrichment_runs(due(DAY, "WORLD", "STOCK"), set(), tick=7)
    assert run.run_key == "2026-11-30:7"
    assert run.tags == {
        "dagster/asset_partition_range_start": "2026-11-30|STOCK",
        "dagster/asset_partition_range_end": "2026-11-30|WORLD",
        "lock": "economy_news_enrich:2026-11-30",
        "dagster/max_retries": "0",
        "dagster/priority": "5",
        "granary/waits_for": "model",
    }


def test_every_day_has_a_run_of_its_own_the_newest_first() -> None:
    seen = [*due(EARLIER, "STOCK"), *due(DAY, "WORLD")]
    assert [run.run_key for run in enrichment_runs(seen, set(), tick=1)] == ["2026-11-30:1", "2026-11-29:1"]


def test_a_day_with_a_live_run_is_left_to_it() -> None:
    seen = [*due(DAY, "WORLD"), *due(EARLIER, "STOCK")]
    runs = enrichment_runs(seen, {"economy_news_enrich:2026-11-30"}, tick=1)
    assert [run.run_key for run in runs] == ["2026-11-29:1"]


def test_a_live_crawl_of_the_day_does_not_keep_enrichment_back() -> None:
    assert len(enrichment_runs(due(DAY, "WORLD"), {"economy_news_crawl:2026-11-30"}, tick=1)) == 1


def test_days_with_a_live_run_do_not_use_up_the_days_of_a_tick() -> None:
    seen = [*due(DAY, "WORLD"), *due(EARLIER, "STOCK")]
    runs = enrichment_runs(seen, {"economy_news_enrich:2026-11-30"}, tick=1, days=1)
    assert [run.run_key for run in runs] == ["2026-11-29:1"]


def test_a_tick_asks_for_a_bounded_number_of_days() -> None:
    days = [DAY - timedelta(days=number) for number in range(40)]
    runs = enrichment_runs([jobs for day in days for jobs in due(day, "STOCK")], set(), tick=1)
    assert [run.run_key for run in runs] == [f"{day}:1" for day in days[:10]]


def test_a_probe_is_one_day() -> None:
    seen = [*due(DAY, "WORLD"), *due(EARLIER, "STOCK")]
    assert len(enrichment_runs(seen, set(), tick=1, days=1)) == 1


def test_the_next_tick_may_ask_again() -> None:
    keys = [enrichment_runs(due(DAY, "WORLD"), set(), tick)[0].run_key for tick in (1, 1, 2)]
    assert keys[0] == keys[1] != keys[2]


def test_pages_left_over_are_fetched_without_reading_a_list() -> None:
    (run,) = left_over_runs([(EARLIER, ["LIVING", "FINANCE"])], set(), tick=3)
    assert run.run_key == "2026-11-29:3"
    assert run.run_config == {"ops": {"economy_articles": {"config": {"lists": "none"}}}}
    assert run.tags == {
        "dagster/asset_partition_range_start": "2026-11-29|FINANCE",
        "dagster/asset_partition_range_end": "2026-11-29|LIVING",
        "lock": "economy_news_crawl:2026-11-29",
        "dagster/max_retries": "0",
        "dagster/priority": "10",
    }


def test_a_past_day_that_is_being_crawled_is_left_to_that_run() -> None:
    waiting = [(EARLIER, ["FINANCE"]), (DAY, ["STOCK"])]
    runs = left_over_runs(waiting, {"economy_news_crawl:2026-11-29"}, tick=1)
    assert [run.run_key for run in runs] == ["2026-11-30:1"]
