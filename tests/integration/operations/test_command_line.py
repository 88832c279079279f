"""`granary` as the person on call meets it: what it prints, and its exit codes."""

import json
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from local_stack.postgres import EmbeddedPostgres
from operations import costs_command
from operations.command_line import main
from resources import batch_spending, spending
from resources.model_table import model_named
from resources.spending import Usage

ROOT = Path(__file__).resolve().parents[3]
MODEL = model_named("gpt-4o-mini", {})


@pytest.fixture
def at_home(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names the test's database and no other service."""
    for name in ("MONGODB_URI", "NAVER_BASE_URL", "DAILY_SPENDING_CAP_USD", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DATABASE_URL", database_url)


@pytest.mark.usefixtures("at_home")
def test_costs_are_what_was_settled_and_what_batches_have_reserved(
    connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    paid = spending.reserve(connection, MODEL, 10_000, 1_000, Decimal(5))
    spending.settle(
        connection, "economy_news", MODEL.name, paid, Usage(2, 1_000_000, 0, 100_000, Decimal("0.21"))
    )
    batch_spending.reserve(
        connection, "plan-1", "recipes", MODEL.in_batch(), 1_000_000, 1_000_000, Decimal(5)
    )
    connection.execute("INSERT INTO granary.spending_day (day) VALUES ('2020-01-01')")
    assert main(["costs"]) == 0
    told = capsys.readouterr().out
    assert "economy_news  gpt-4o-mini      2  1,000,000       0  100,000  0.2100" in told
    assert "0.2100 USD spent, 0.3750 reserved; the cap is 5.00 (DAILY_SPENDING_CAP_USD), 4.42 is left" in told
    assert "in 1 open batch of recipes (gpt-4o-mini, planned " in told
    assert main(["costs", "--days", "1", "--json"]) == 0
    program = json.loads(capsys.readouterr().out)
    assert program["spent_today_usd"] == "0.21000000"
    assert [one["calls"] for one in program["spent"]] == [2]
    assert len(program["days"]) == 1


@pytest.mark.usefixtures("at_home")
def test_a_quote_is_printed_and_leaves_nothing_in_the_database(
    connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quote", "economy_news", "--from", "2026-01-05", "--sections", "FINANCE,STOCK"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("economy_news, 2026-01-05, FINANCE, STOCK, live: a quote of ")
    assert "nothing was written, no call was made" in told
    assert main(["quote", "recommendations", "--from", "2026-01-05", "--to", "2026-01-07", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["last_day"] == "2026-01-07"
    assert connection.execute("SELECT count(*) FROM granary.spending_day").fetchone() == (0,)


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["quote", "economy_news", "--from", "today"], "YYYY-MM-DD"),
        (
            ["quote", "economy_news", "--from", "2026-01-05", "--sections", "SPORT"],
            "a section must be one of",
        ),
        (["quote", "economy_news", "--from", "2026-01-05", "--to", "2199-01-01"], "at most 1100 days"),
        (["quote", "economy_news", "--from", "2199-01-01"], "the last day must have begun"),
        (
            ["quote", "raw_files", "--from", "2026-01-05", "--sources", "kr/\udcff"],
            "must read country/category",
        ),
        (
            ["quote", "raw_files", "--from", "2026-01-05", "--sources", "kr/a\x00"],
            "must read country/category",
        ),
        (["quote", "recipes", "--from", "2026-01-05"], "MONGODB_URI is not set"),
        (["quote", "news", "--from", "2026-01-05"], "invalid choice"),
        (["costs", "--days", "0"], "must be between 1 and 366"),
        (["costs", "--days", "many"], "must be between 1 and 366"),
        ([], "required"),
    ],
)
def test_what_cannot_be_answered_says_why_and_ends_with_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert told in output.err.splitlines()[-1]
    assert output.out == ""


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("DATABASE_URL", "", "DATABASE_URL is not set"),
        ("DATABASE_URL", "mysql://somewhere/x", "DATABASE_URL is no Postgres address"),
        ("DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:9/x", "does not answer"),
        ("DAILY_SPENDING_CAP_USD", "much", "DAILY_SPENDING_CAP_USD"),
    ],
)
def test_a_setting_that_is_wrong_is_one_line_without_a_password(
    setting: str,
    value: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(setting, value)
    assert main(["costs"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line and "secret" not in line


def test_a_database_without_tables_says_which_command_makes_them(
    postgres_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_server.dsn())
    assert main(["costs"]) == 2
    assert "python -m migrations.upgrade" in capsys.readouterr().err


def test_ctrl_c_ends_with_130_and_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    def broken(_: object) -> int:
        raise RuntimeError("a fault")

    monkeypatch.setattr(costs_command, "show", interrupted)
    assert main(["costs"]) == 130
    monkeypatch.setattr(costs_command, "show", broken)
    with pytest.raises(RuntimeError, match="a fault"):
        main(["costs"])


def test_help_answers_without_importing_dagster_or_the_driver() -> None:
    script = (
        "import sys; from operations.command_line import main; code = main(['--help']); "
        "heavy = {'dagster', 'psycopg', 'pydantic', 'openai', 'pymongo'} & set(sys.modules); "
        "sys.exit(code or str(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "quote" in done.stdout


def test_a_reader_that_stops_early_is_no_error(database_url: str) -> None:
    command = f"{sys.executable} -m operations costs | true"
    env = {"DATABASE_URL": database_url, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_day_is_the_one_of_seoul(connection: psycopg.Connection) -> None:
    from operations.costs_store import read_costs

    connection.execute("SELECT set_config('granary.now', '2026-11-24T15:30:00Z', false)")
    assert read_costs(connection, 3).now.date() == date(2026, 11, 25)
