"""What dagster.yaml bounds, counted as Dagster's queue counts it, by the tags that our runs carry."""

from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._utils.tags import TagConcurrencyLimitsCounter

from orchestration.definitions import build_definitions
from orchestration.settings import Settings
from sensors.raw_files import PARTITIONS_JOB, partition_runs

ROOT = Path(__file__).resolve().parents[3]
DAY = date(2026, 11, 29)


@pytest.fixture(scope="module")
def limits() -> list[dict[str, Any]]:
    settings = yaml.safe_load((ROOT / "dagster.yaml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["concurrency"]["runs"]["tag_concurrency_limits"]
    return found


@pytest.fixture(scope="module")
def job_tags() -> dict[str, str]:
    return dict(build_definitions(Settings()).resolve_job_def(PARTITIONS_JOB).tags)


def run(job_tags: dict[str, str], source: str) -> dg.DagsterRun:
    """A run that the daily pass asks for."""
    (request,) = partition_runs([(DAY, source)], "daily")
    return dg.DagsterRun(job_name=PARTITIONS_JOB, tags={**job_tags, **request.tags})


@pytest.mark.parametrize(("running", "waits"), [(9, False), (10, True)])
def test_ten_partitions_of_raw_files_run_at_once(
    limits: list[dict[str, Any]], job_tags: dict[str, str], running: int, waits: bool
) -> None:
    others = [run(job_tags, f"kr/c{number}") for number in range(running)]

    assert TagConcurrencyLimitsCounter(limits, others).is_blocked(run(job_tags, "kr/news")) is waits


def test_one_run_of_a_partition_runs_at_once(limits: list[dict[str, Any]], job_tags: dict[str, str]) -> None:
    counter = TagConcurrencyLimitsCounter(limits, [run(job_tags, "kr/news")])

    assert counter.is_blocked(run(job_tags, "kr/news"))
    assert not counter.is_blocked(run(job_tags, "kr/shop"))


def test_one_attempt_takes_half_an_hour_at_most(job_tags: dict[str, str]) -> None:
    assert job_tags["dagster/max_runtime"] == "1800"
