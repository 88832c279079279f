"""Due times and leases are the database's (promises, "Reliability"): who reads this machine's clock, and why.

A worker whose clock is ten minutes off must change nothing, so no pipeline reads it, and what does is named
here with the reason why it may. Durations (`time.monotonic`) are another matter.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.unit.project_modules import PRODUCTION, modules, relative

CLOCKS = {
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime"},
}
MAY = {
    "resources/api_failure.py": "where an answer does not say when it was made",
    "sensors/live_runs.py": "Dagster's own records of runs, by which no item is taken",
    "sensors/raw_files.py": "how lately Dagster saw a report fail",
    "sensors/recipes.py": "how lately Dagster saw a run end",
    "sensors/alerts.py": "which of Dagster's runs have ended badly",
    "sensors/tick_counter.py": "a number that is larger than every earlier one",
    "operations/surroundings.py": "whether the leave to crawl has expired, by the day",
    "orchestration/definitions.py": "the same",
    "orchestration/recipe_search.py": "the same",
    "orchestration/schedules.py": "whether the daemon is late for its own tick",
    "api/raw_files.py": "which days may be asked for, by the day",
}


def readings(source: str) -> Iterator[str]:
    """Where a module reads the clock, or hands on what reads it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = (
                node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            )
            if node.attr in CLOCKS.get(owner, set()):
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (alias.name for alias in node.names if alias.name in CLOCKS["time"])


def test_no_other_module_reads_this_machines_clock() -> None:
    found = {relative(path) for path in modules(*PRODUCTION) if list(readings(path.read_text("utf-8")))}
    assert found == set(MAY)
    assert not [name for name in MAY if name.startswith("assets/")]


@pytest.mark.parametrize(
    "source",
    [
        "datetime.now(UTC)",
        "datetime.datetime.now()",
        "dt.date.today()",
        "time.time()",
        "from time import time",
        "field(default_factory=datetime.now)",
    ],
)
def test_a_reading_is_found(source: str) -> None:
    assert list(readings(source))


@pytest.mark.parametrize("source", ["time.monotonic()", "recipe_store.now(connection)", "time.sleep(1)"])
def test_what_is_no_time_of_day_is_let_pass(source: str) -> None:
    assert not list(readings(source))
