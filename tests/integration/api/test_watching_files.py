"""Rules and dashboard against what a door really exports after work of all kinds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from resources.counters import Counts
from tests.integration.api.conftest import OpenDoor
from tests.integration.api.counted_names import COUNTING, ROOT, counted_names, source_files
from tests.integration.api.promql import asked_by
from tests.integration.api.queues import fill_queues

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "granary.json"
OF_PROMETHEUS = {"up": {"job", "instance"}}
RUNBOOK = ROOT / "docs" / "runbook.md"


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def expressions() -> Iterator[tuple[str, str, str]]:
    """Where each stands, the expression, and the texts that its labels are put into."""
    for rule in rules():
        yield f"rule {rule['alert']}", rule["expr"], " ".join(rule["annotations"].values())
    for panel in panels():
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"], target["legendFormat"]


@pytest.fixture
def exported(
    open_door: OpenDoor,
    connection: psycopg.Connection,
    mongo_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, dict[str, set[str]]]:
    """Every sample name of a door that has everything to tell, with the values of each label."""
    counts = Counts()
    for name, labels in counted_names().items():
        counts.add(name, 1, **dict.fromkeys(labels, "counted"))
    counts.write(connection)
    fill_queues(connection, mongo_database)
    door = open_door(mongodb_database=mongo_database)
    monkeypatch.delenv("OPENAI_API_KEY")  # then gates of any key are told
    told: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(door.get("/metrics").text):
        for sample in family.samples:
            known = told.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                known.setdefault(label, set()).add(value)
    return told


def test_every_metric_and_label_that_is_asked_for_is_exported(
    exported: dict[str, dict[str, set[str]]],
) -> None:
    known = {**{name: set(labels) for name, labels in exported.items()}, **OF_PROMETHEUS}
    wrong = []
    for place, expression, texts in expressions():
        asked = asked_by(expression)
        assert asked.metrics, f"{place} asks for nothing"
        shown = set(re.findall(r"{{\s*(?:\$labels\.)?(\w+)\s*}}", texts))
        grouped = asked.grouped_by | (shown if "by (" not in expression else set())
        of_any = set().union(*(known.get(name, set()) for name in asked.metrics))
        wrong += [f"{place}: nobody exports {name}" for name in asked.metrics.keys() - known.keys()]
        wrong += [f"{place}: no label {label}" for label in grouped - of_any]
        wrong += [
            f"{place}: {name} has no label {label}"
            for name, matched in asked.metrics.items()
            for label in matched.keys() - known.get(name, set())
        ]
        if "by (" in expression:
            wrong += [f"{place}: {label} is not grouped by" for label in shown - asked.grouped_by]
    assert not wrong


def test_every_value_that_is_asked_for_is_one_that_is_exported_or_counted(
    exported: dict[str, dict[str, set[str]]],
) -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in source_files())
    wrong = [
        f"{place}: {name}{{{label}={value}}}"
        for place, expression, _ in expressions()
        for name, matched in asked_by(expression).metrics.items()
        if name not in OF_PROMETHEUS
        for label, values in matched.items()
        for value in values - exported[name][label]
        # A gauge shows all of its values; a counter's stand in the source, as "saved" or saved=1.
        if name not in counted_names() or not re.search(rf"[\"']{value}[\"']|\b{value}=", source)
    ]
    assert not wrong


def test_a_rule_on_what_nobody_exports_would_be_found(exported: dict[str, dict[str, set[str]]]) -> None:
    asked = asked_by('sum by (modle) (rate(openai_calls_total{status!="ok"}[5m])) > 1e3 or vector(0)')
    assert asked.metrics == {"openai_calls_total": {"status": {"ok"}}}
    assert asked.grouped_by == {"modle"}
    assert "openai_calls_total" not in exported
    assert exported["openai_api_requests_total"].keys() == {"model", "schema", "status", "error_code"}
    assert exported["recipe_ingestion_stage_latency_ms_count"].keys() == {"stage"}


def test_every_folder_that_counts_is_looked_through() -> None:
    importers = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.glob("*/**/*.py")
        if "site-packages" not in path.parts
        and "from resources.counters import" in path.read_text(encoding="utf-8")
    }
    assert importers - {"tests", "benchmarks", "local_stack"} <= set(COUNTING)


def test_every_rule_says_what_happened_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        assert rule["annotations"].keys() & {"action", "runbook"}, rule["alert"]


def test_every_rule_names_a_heading_of_the_runbook() -> None:
    headings = set(re.findall(r"^#+ (?:\d+\. )?(.+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE))
    named = {rule["annotations"]["runbook"] for rule in rules() if "runbook" in rule["annotations"]}
    assert named <= headings


def test_the_files_fit_together() -> None:
    prometheus = yaml.safe_load((RULES.parent / "prometheus.yml").read_text(encoding="utf-8"))
    assert prometheus["rule_files"] == [RULES.name]
    (scraped,) = prometheus["scrape_configs"]
    assert (scraped["job_name"], scraped["metrics_path"]) == ("granary", "/metrics")
    provisioning = DASHBOARD.parent / "provisioning"
    providers = yaml.safe_load((provisioning / "dashboards" / "granary.yml").read_text(encoding="utf-8"))
    sources = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text(encoding="utf-8"))
    assert providers["providers"][0]["type"] == "file"
    assert sources["datasources"][0]["type"] == "prometheus"


def test_the_dashboards_panels_have_places_of_their_own() -> None:
    places = [panel["gridPos"] for panel in panels()]
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in _rows(at)]
    assert len({panel["id"] for panel in panels()}) == len(places)
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert Path(DASHBOARD).stat().st_size < 100_000


def _rows(at: dict[str, int]) -> range:
    return range(at["y"], at["y"] + at["h"])
