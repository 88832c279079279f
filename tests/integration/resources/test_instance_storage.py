"""Dagster's storage where its database is there, is not there, and is not named."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from local_stack.environment import dagster_url
from local_stack.postgres import EmbeddedPostgres
from orchestration.instance_storage import GranaryStorage
from tests.integration.resources.scripted_server import unused_address

ROOT = Path(__file__).resolve().parents[3]
STORAGE_ONLY = """
telemetry: {enabled: false}
storage:
  custom: {module: orchestration.instance_storage, class: GranaryStorage, config: {}}
"""


def refusal() -> str:
    with pytest.raises(click.ClickException) as caught:
        GranaryStorage.from_config_value(None, {})
    return caught.value.message


@pytest.mark.parametrize("value", [None, ""])
def test_without_an_address_the_message_names_the_variable_and_make_up(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("DAGSTER_PG_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("DAGSTER_PG_URL", value)
    assert refusal().startswith("DAGSTER_PG_URL is not set: ")
    assert "make up" in refusal()


@pytest.mark.parametrize("scheme", ["postgresql+psycopg2", "postgresql"])
def test_a_database_that_does_not_answer_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    address = unused_address()
    monkeypatch.setenv("DAGSTER_PG_URL", f"{scheme}://granary:canary-7431@{address}/dagster")
    message = refusal()
    assert message.startswith(f"Dagster's database at {address} (DAGSTER_PG_URL) does not answer")
    assert "make up" in message
    assert "canary" not in message


def test_a_wrong_password_is_a_refusal_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, postgres_server: EmbeddedPostgres
) -> None:
    address = f"127.0.0.1:{postgres_server.port}"
    monkeypatch.setenv("DAGSTER_PG_URL", f"postgresql+psycopg2://granary:canary-7431@{address}/postgres")
    message = refusal()
    assert address in message and "password authentication failed" in message
    assert "canary" not in message


@pytest.mark.parametrize(
    "url",
    [
        "canary-7431",
        "mysql://granary:canary-7431@host/dagster",
        "postgresql+psycopg2://granary:canary-7431@host:port/dagster",
        "postgresql+psycopg2://granary:canary-7431%zz@127.0.0.1:1/dagster",
        "postgresql+psycopg2://granary:canary-7431@[::1/dagster",
    ],
)
def test_what_is_no_postgres_address_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("DAGSTER_PG_URL", url)
    assert refusal() == (
        "DAGSTER_PG_URL is no Postgres address; allowed: postgresql+psycopg2://user:password@host:port/name"
    )


def test_a_database_that_answers_keeps_dagsters_runs(
    monkeypatch: pytest.MonkeyPatch, postgres_server: EmbeddedPostgres
) -> None:
    postgres_server.create_database("dagster")
    monkeypatch.setenv("DAGSTER_PG_URL", dagster_url(postgres_server.dsn("postgres")))
    storage = GranaryStorage.from_config_value(None, {})
    assert storage.run_storage.get_runs_count() == 0


def test_a_command_against_a_stack_that_is_down_prints_one_line(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(STORAGE_ONLY)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "DAGSTER_HOME": str(tmp_path),
        "DAGSTER_PG_URL": f"postgresql+psycopg2://granary:canary-7431@{unused_address()}/dagster",
    }
    command = [sys.executable, "-m", "dagster", "run", "list"]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    (line,) = ended.stderr.strip().splitlines()
    assert ended.returncode == 1
    assert line.startswith("Error: Dagster's database at 127.0.0.1:") and "make up" in line
    assert "canary" not in ended.stdout + ended.stderr
