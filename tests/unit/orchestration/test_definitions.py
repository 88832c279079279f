"""Importing the code location: no connection, no secret, nothing configured, nothing heavy."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration import definitions
from orchestration.definitions import build_definitions
from orchestration.settings import Settings

ROOT = Path(__file__).resolve().parents[3]

# Each costs a run up to a second of its start, so they are imported where they are used.
HEAVY = ("openai", "boto3", "pymongo", "lxml", "numpy", "bs4", "apprise", "protego")

CANARIES = {
    "DATABASE_URL": "postgresql://granary:canary-database@127.0.0.1:1/granary",
    "DAGSTER_PG_URL": "postgresql+psycopg2://granary:canary-dagster@127.0.0.1:1/dagster",
    "OPENAI_API_KEY": "sk-canary-openai",
    "ALERT_URLS": "json://canary-alert@127.0.0.1:1",
    "MONGODB_URI": "mongodb://granary:canary-mongo@127.0.0.1:1/",
    "AWS_ACCESS_KEY_ID": "canary-bucket",
    "AWS_SECRET_ACCESS_KEY": "canary-bucket-secret",
    "AWS_SESSION_TOKEN": "canary-bucket-session",
    "RECIPE_API_KEY": "canary-recipes",
    "API_TOKEN": "canary-internal-token",
    "ADMIN_TOKEN": "canary-admin-token",
    "CONTEXT_HMAC_KEY": "canary-hmac-key-of-texts",
}

# Runs in a process of its own: this one has long imported everything.
IMPORT_AND_TELL = """
import json, socket, sys

asked = []

def refuse(self, address):
    asked.append(repr(address))
    raise ConnectionRefusedError("no connection while definitions are imported")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = lambda *address, **_: refuse(None, address)

import psycopg
psycopg.connect = lambda *address, **_: refuse(None, address)  # libpq opens its sockets by itself

from orchestration import definitions
told = {"asked": asked, "imported": sorted(sys.modules)}

from dagster._core.remote_representation.external_data import RepositorySnap
from dagster._serdes import serialize_value

repository = definitions.defs.get_repository_def()
told["shown"] = [
    serialize_value(RepositorySnap.from_def(repository)),
    *(serialize_value(job.get_job_snapshot()) for job in repository.get_all_jobs()),
    repr(definitions.defs),
    repr(definitions.defs.resources),
    repr(repository.get_top_level_resources()),
]
told["asked_in_the_end"] = asked
print(json.dumps(told))
"""


def python(code: str, variables: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a process whose environment holds nothing of ours but `variables`."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def told_by(variables: Mapping[str, str], folder: Path) -> dict[str, Any]:
    ended = python(IMPORT_AND_TELL, variables, folder)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.fixture(scope="module")
def with_nothing_configured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told_by({}, tmp_path_factory.mktemp("bare"))


def test_importing_with_nothing_configured_opens_no_connection(
    with_nothing_configured: dict[str, Any],
) -> None:
    assert with_nothing_configured["asked"] == []
    assert with_nothing_configured["asked_in_the_end"] == []


def test_importing_imports_no_heavy_library(with_nothing_configured: dict[str, Any]) -> None:
    assert not set(HEAVY) & set(with_nothing_configured["imported"])


def test_no_secret_is_in_what_the_definitions_show(tmp_path: Path) -> None:
    told = told_by(CANARIES, tmp_path)
    assert told["asked"] == []
    for shown in told["shown"]:
        assert len(shown) > 50
        assert "canary" not in shown


@pytest.mark.parametrize(
    ("name", "value"), [("AI_CONCURRENCY", "-1"), ("GRANARY_PIPELINES", "weather"), ("MODEL_PRICES", "{")]
)
def test_a_wrong_value_stops_the_import_with_the_variables_name(
    name: str, value: str, tmp_path: Path
) -> None:
    ended = python("import orchestration.definitions", {name: value}, tmp_path)
    assert ended.returncode != 0
    last_line = ended.stderr.strip().splitlines()[-1]
    assert last_line.startswith(f"orchestration.settings.SettingsError: {name}: ")


@pytest.mark.parametrize(("today", "warns"), [(date(2026, 11, 14), False), (date(2026, 11, 15), True)])
def test_a_model_near_its_end_warns_at_start_and_stops_nothing(
    today: date, warns: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "gpt-4o-mini")
    assert definitions._from_environment(today).resources
    assert ("gpt-4o-mini ends on 2027-01-14" in caplog.text) is warns


def test_the_definitions_load_and_every_job_resolves() -> None:
    built = build_definitions(Settings())
    dg.Definitions.validate_loadable(built)
    for name in ("economy_news_crawl", "economy_news_enrich"):
        assert built.resolve_job_def(name).tags["dagster/max_runtime"] in ("600", "900")


def test_a_resource_is_replaced_by_an_override_of_its_name() -> None:
    replaced = build_definitions(Settings(), {"postgres": "another"})
    assert (replaced.resources or {})["postgres"] == "another"
    assert set(replaced.resources or {}) == set(build_definitions(Settings()).resources or {})


def test_settings_reach_the_resources_that_use_them() -> None:
    settings = Settings(
        openai_model="own-model",
        model_prices={"own-model": {"input": 0, "output": 0}},
        daily_spending_cap_usd=None,
        crawl_permission="contract 17; Example Media; 2027-06-30",
        crawl_contact="crawler@example.example",
        ai_lease_minutes=0.5,
    )
    resources = build_definitions(settings).resources or {}
    assert resources["chat"].priced_model.name == "own-model"
    assert resources["enrichment_rules"].cap_usd is None
    assert resources["enrichment_rules"].lease_seconds == 30
    assert resources["crawl_rules"].permission == "contract 17; Example Media; 2027-06-30"
    assert resources["crawl_rules"].permission_expires == "2027-06-30"
    assert resources["news_site"].contact == "crawler@example.example"


@pytest.mark.parametrize(("cap", "kept"), [(0, "0"), ("2.5", "2.5")])
def test_a_cap_of_nothing_is_not_taken_for_no_cap(cap: Any, kept: str) -> None:
    resources = build_definitions(Settings(daily_spending_cap_usd=cap)).resources or {}
    assert str(resources["enrichment_rules"].cap_usd) == kept
