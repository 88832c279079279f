"""`make demo`: every pipeline once through Dagster on the shipped data, judged from what it left behind.

A second run finds everything done: it adds no row, makes no call, and says so.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from local_stack.demo_context_tags import ContextTagsDemo
from local_stack.demo_economy_news import EconomyNewsDemo
from local_stack.demo_raw_files import RawFilesDemo
from local_stack.demo_recipes import RecipesDemo
from local_stack.demo_recommendations import RecommendationsDemo
from local_stack.demo_report import PipelineReport
from local_stack.migrate import migrate
from local_stack.stack import Stack

# A demo does not wait ten minutes for what a killed one had leased, nor half a minute for a retry.
DEMO_SETTINGS = {
    "AI_LEASE_MINUTES": "0.25",
    "AI_RETRY_BASE_SECONDS": "1",
    "CONTEXT_LINGER_SECONDS": "0",
    "CONTEXT_PROCESSING_EXPIRY_SECONDS": "30",
}


class Progress:
    """A spinner and a line per finished step on a terminal; the lines alone otherwise."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(f"{what} ..."):
                yield
        else:
            print(f"{what} ...", flush=True)
            yield
        self._console.print(f"  {what}: {time.monotonic() - started:.1f} s", highlight=False)


def demo(root: Path) -> int:
    """0 only if everything that the pipelines left behind is right; 1 after saying what is not."""
    console = Console()
    progress = Progress(console)
    with progress.step("services"):
        stack = Stack(root, die_with_parent=True)
        stack.__enter__()
    try:
        os.environ.update({**stack.process_environment(), **DEMO_SETTINGS})
        if "openai_stand_in" in stack.external():
            console.print("OPENAI_API_KEY or OPENAI_BASE_URL is set: this run asks that provider and pays it")
        with progress.step("database"):
            migrate(stack)
        reports = [EconomyNewsDemo(stack.external()).run(progress)]
        if "bucket" in stack.external():
            console.print(
                "S3_ENDPOINT_URL is set: the demo puts no files into your bucket; raw_files is left out"
            )
        else:
            reports.append(RawFilesDemo(stack.external()).run(progress))
        reports.append(RecipesDemo(stack.external()).run(progress))
        tags = ContextTagsDemo(stack.external())
        if "postgres" in stack.external() and tags.tables_are_anothers():
            console.print(
                "DATABASE_URL is set and an application keeps its contexts there: context_tags is left out"
            )
        else:
            reports.append(tags.run(progress))
        reports.append(RecommendationsDemo().run(progress))
    finally:
        stack.__exit__(None, None, None)
    _print(console, reports)
    _write(root / "demo.json", reports)
    return 0 if all(report.is_right for report in reports) else 1


def _print(console: Console, reports: list[PipelineReport]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("pipeline", "partitions", "rows", "tokens", "cost (USD)", "seconds"):
        table.add_column(name, justify="left" if name == "pipeline" else "right")
    for report in reports:
        table.add_row(
            report.pipeline,
            str(report.partitions),
            "\n".join(f"{count} {name.replace('_', ' ')}" for name, count in report.rows.items()),
            f"{report.tokens:,}",
            f"{report.cost_usd:.4f}",
            f"{report.seconds:.1f}",
        )
    console.print()
    console.print(table)
    for report in reports:
        for claim, is_true in report.claims.items():
            console.print(f"  {'right' if is_true else 'WRONG'}  {claim}", highlight=False, soft_wrap=True)
        console.print(f"  {report.news}", highlight=False, soft_wrap=True)


def _write(file: Path, reports: list[PipelineReport]) -> None:
    text = json.dumps({"pipelines": {report.pipeline: report.as_json() for report in reports}}, indent=2)
    unfinished = file.with_suffix(".new")
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(file)
