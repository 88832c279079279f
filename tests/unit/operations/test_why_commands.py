"""The commands that a history tells to run fit the jobs, ops, config and partitions that there are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from orchestration.jobs import JOBS

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = {"job_ids": [7], "item_ids": [7], "approve": [7]}
BY_NAME = {job.name: job for job in JOBS}


def launches() -> Iterator[tuple[str, list[str], dict[str, object], bool]]:
    """Each call of `launch`: job ("" where a variable names it), op, config, whether it has a partition."""
    files = [*(ROOT / "assets").rglob("*history_store.py"), ROOT / "operations" / "obstacles.py"]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "launch":
                given = [ast.literal_eval(one) for one in node.args if isinstance(one, ast.Constant)]
                names = [keyword.arg for keyword in node.keywords if keyword.arg]
                config: dict[str, object] = {name: SAMPLES[name] for name in names if name != "partition"}
                if "recipes" in file.parts and "job_ids" in config:
                    config = {"job_ids": ["a"]}
                yield str(given[0]) if given else "", given[1:], config, "partition" in names


@pytest.mark.parametrize("command", list(launches()), ids=str)
def test_a_told_command_fits_its_job(command: tuple[str, list[str], dict[str, object], bool]) -> None:
    name, op, config, has_partition = command
    if not name:  # recipes name the job of the stage
        return
    job = BY_NAME[name]
    if has_partition:
        assert job.partitions_def is not None
    elif op:
        assert isinstance(job, dg.JobDefinition)
        dg.validate_run_config(job, {"ops": {op[0]: {"config": config}}})


def test_the_jobs_of_the_recipes_stages_are_there() -> None:
    from assets.recipes.history_store import STARTS

    assert {job for _, job, _ in STARTS.values()} <= set(BY_NAME)


def test_commands_were_found() -> None:
    assert {name for name, *_ in launches()} >= {
        "economy_news_resume_suspended",
        "economy_news_requeue_failed",
        "recipes_requeue_failed",
        "recommendations_requeue_failed",
        "context_tags_rescan",
        "raw_files_partitions",
    }
