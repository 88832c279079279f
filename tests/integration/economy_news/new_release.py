"""Another release on the same database: its assets are a changed copy, its runs stand in another process.

`python -m ….new_release PLAN` with the copy first on the path. The plan is JSON: the database, the stand-ins,
the day and the runs; what each asked, and how the partitions stood after it, is printed as JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg

ROOT = Path(__file__).resolve().parents[3]
AI_ASSETS = (
    "article_summaries",
    "article_term_cards",
    "article_insights",
    "article_content_quizzes",
    "article_term_quizzes",
)


class Run(NamedTuple):
    """A run of economy_news_enrich over a span of sections."""

    sections: Sequence[str]
    redo: str = "nothing"


class RunReport(NamedTuple):
    """What a run asked, by schema, and `items_outdated` by section and asset after it."""

    success: bool
    asked: dict[str, int]
    outdated: dict[str, dict[str, int]]


class Release(NamedTuple):
    """What a release did; `code_versions` by asset."""

    code_versions: dict[str, str]
    runs: list[RunReport]


def code_versions(defs: dg.Definitions) -> dict[str, str]:
    """The code version of every AI asset."""
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    return {asset: str(specs[asset].code_version) for asset in AI_ASSETS}


def report(runs: Any, api: Any, day: date, wanted: Sequence[Run]) -> list[RunReport]:
    """Makes the runs one after the other; `runs` are DagsterRuns, `api` is the stand-in."""
    reports = []
    for run in wanted:
        before = len(api.get("ledger")["entries"])
        ops = {asset: {"redo": run.redo} for asset in AI_ASSETS}
        success = runs.run("economy_news_enrich", day, run.sections, ops).success
        asked = Counter(entry["schema"] for entry in api.get("ledger")["entries"][before:])
        outdated = {
            section: {asset: runs.metadata(asset, day, section)["items_outdated"] for asset in AI_ASSETS}
            for section in run.sections
        }
        reports.append(RunReport(success, dict(asked), outdated))
    return reports


def release(
    folder: Path,
    changes: Mapping[str, tuple[str, str]],
    database_url: str,
    site_url: str,
    api_url: str,
    day: date,
    runs: Sequence[Run],
) -> Release:
    """Makes the runs with the assets as they are, but for `changes`: by file, a text and what replaces it."""
    shutil.copytree(ROOT / "assets", folder / "assets", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (old, new) in changes.items():
        file = folder / "assets" / "economy_news" / name
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r} to change"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
    plan = {"database": database_url, "site": site_url, "api": api_url, "day": day.isoformat(), "runs": runs}
    made = subprocess.run(
        [sys.executable, "-m", "tests.integration.economy_news.new_release", json.dumps(plan)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2_000:]
    told = json.loads(made.stdout.splitlines()[-1])
    return Release(told["code_versions"], [RunReport(*one) for one in told["runs"]])


def main(plan: dict[str, Any]) -> None:
    import assets
    from tests.integration.economy_news.dagster_runs import DagsterRuns
    from tests.integration.stand_ins import StandIn

    assert str(Path(str(assets.__file__)).parents[1]) == os.getcwd(), "these are not the changed assets"
    api = StandIn(plan["api"])
    runs = DagsterRuns(plan["database"], StandIn(plan["site"]), api)
    made = report(runs, api, date.fromisoformat(plan["day"]), [Run(*one) for one in plan["runs"]])
    print(json.dumps({"code_versions": code_versions(runs.defs), "runs": made}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
