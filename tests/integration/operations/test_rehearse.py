"""A rehearsal asks the new prompt about stored articles, pays for it, and leaves the pipeline as it was."""

import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from assets.economy_news import prompts, result_kinds
from assets.economy_news.models import JobType, Partition
from assets.economy_news.result_kinds import KINDS, ResultKind
from operations import command_line, rehearsal_store, rehearse_command
from operations.rehearsal import Rehearsal, read_rehearsed
from operations.rehearsal_report import fields
from orchestration.definitions import build_definitions
from orchestration.settings import Settings
from resources import gate
from resources.model_table import ModelPrice
from tests.integration.economy_news.enriching import a_chat, calls, paid, spending
from tests.integration.economy_news.factories import DAY, MODEL, a_job, an_article, rows
from tests.integration.economy_news.runs import enrich_all
from tests.integration.stand_ins import StandIn

PARTITIONS = [
    Partition(DAY - timedelta(days=back), section) for back in (0, 1) for section in ("BANKING", "FINANCE")
]
ARTICLES = 6
TABLES = ("ai_job", "ai_result", "ai_batch", "article", "insight", "quiz", "summary", "term", "term_card")

NEW_RULE = "\n- 새 규칙을 지킵니다.\n"


@pytest.fixture
def stored(connection: psycopg.Connection, openai_api: StandIn) -> list[int]:
    """Articles with all five results: three of the newest day and FINANCE, one of each other partition."""
    wanted = [PARTITIONS[1], *PARTITIONS, PARTITIONS[1]]
    ids = [an_article(connection, number, partition=one) for number, one in enumerate(wanted)]
    for article_id in ids:
        a_job(connection, article_id)
    enrich_all(connection, PARTITIONS, openai_api.url, "run-1")
    return ids


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, database_url: str, openai_api: StandIn) -> dict[str, str]:
    """The environment of the command."""
    environ = {
        "DATABASE_URL": database_url,
        "OPENAI_BASE_URL": f"{openai_api.url}/v1",
        "OPENAI_API_KEY": "sk-tests",
        "OPENAI_MODEL": MODEL,
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return environ


@pytest.fixture
def new_prompt(tmp_path: Path) -> Path:
    """The prompt of the summaries with a rule more."""
    file = tmp_path / "summary.md"
    file.write_text(SUMMARY_FILE.read_text(encoding="utf-8") + NEW_RULE, encoding="utf-8")
    return file


SUMMARY_FILE = prompts.FOLDER / "summary.md"


def granary(*arguments: object) -> int:
    """The exit code of `granary rehearse …`."""
    return command_line.main(["rehearse", *map(str, arguments)])


def rehearsal(
    connection: psycopg.Connection, api: StandIn, kind: ResultKind, file: Path, cap: str | None = None
) -> Rehearsal:
    prompt = read_rehearsed(kind, file)
    return Rehearsal(connection, kind, prompt, a_chat(api), None if cap is None else Decimal(cap))


def everything(connection: psycopg.Connection) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the pipeline."""
    statement = sql.SQL("SELECT * FROM news.{} ORDER BY 1, 2")
    return {table: connection.execute(statement.format(sql.Identifier(table))).fetchall() for table in TABLES}


def test_every_article_is_one_call_and_nothing_of_the_pipeline_changes(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, booked = everything(connection), spending(connection)
    asked, cost = len(calls(openai_api)), paid(openai_api)
    output = tmp_path / "told.md"
    assert granary(new_prompt, "--articles", 4, "--yes", "--output", output) == 0

    assert everything(connection) == before
    made = calls(openai_api)[asked:]
    assert [(one["schema"], one["status"]) for one in made] == [("article_summary", 200)] * 4
    after = spending(connection)
    assert after["calls"] == booked["calls"] + 4
    assert after["cost_usd"] - booked["cost_usd"] == paid(openai_api) - cost > 0
    assert after["reserved_usd"] == 0
    told = capsys.readouterr().out
    assert "4 of 4 articles: 4 valid" in told
    assert f"in force it would outdate {ARTICLES} results" in told
    written = output.read_text(encoding="utf-8")
    assert written.count("\n## ") == 4
    assert f"this rehearsal cost {paid(openai_api) - cost:.4f} USD" in told


@pytest.mark.parametrize("job_type", list(JobType))
def test_the_prompt_in_force_gives_what_is_stored_for_every_kind(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int], job_type: JobType
) -> None:
    """The stand-in says the same of the same text, so any difference would be ours."""
    file = prompts.FOLDER / f"{job_type.lower()}.md"
    trial = rehearsal(connection, openai_api, KINDS[job_type], file)
    plan = trial.plan(20)
    assert trial.prompt.version == KINDS[job_type].prompt.version
    assert plan.outdated == 0
    answered = list(trial.ask(plan.stored, bool))
    assert {one.stored.claim.article_id for one in answered} == set(stored)
    for one in answered:
        assert one.problem is None
        compared = list(fields(one.stored.rows, one.rows))
        assert compared
        assert [old for _, old, _ in compared] == [new for _, _, new in compared]


def test_articles_are_spread_over_days_and_sections_newest_first_and_always_the_same(
    connection: psycopg.Connection, stored: list[int]
) -> None:
    def chosen(count: int) -> list[int]:
        found = rehearsal_store.articles_to_rehearse(connection, JobType.SUMMARY, count)
        return [one.claim.article_id for one in found]

    one_of_each = [stored[1], stored[5], stored[3], stored[4]]
    assert chosen(4) == chosen(4) == one_of_each
    assert chosen(20) == [*one_of_each, stored[2], stored[0]]


def test_an_emptied_body_is_no_article_for_summaries_but_one_for_what_is_made_from_them(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int]
) -> None:
    connection.execute(
        "UPDATE news.article SET body = '', body_emptied_at = now() WHERE id <> %s", (stored[0],)
    )
    found = rehearsal_store.articles_to_rehearse(connection, JobType.SUMMARY, 20)
    assert [one.claim.article_id for one in found] == [stored[0]]
    assert len(rehearsal_store.articles_to_rehearse(connection, JobType.INSIGHT, 20)) == ARTICLES


def test_the_redo_is_priced_by_what_it_really_makes_again(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int], new_prompt: Path
) -> None:
    connection.execute("UPDATE news.article SET body_emptied_at = now() WHERE id = %s", (stored[0],))
    connection.execute(
        "UPDATE news.ai_job SET status = 'FAILED' WHERE job_type = 'SUMMARY' AND article_id = %s",
        (stored[1],),
    )
    trial = rehearsal(connection, openai_api, result_kinds.SUMMARY, new_prompt)
    plan = trial.plan(3)
    answered = list(trial.ask(plan.stored, bool))
    redone = trial.redo(plan, answered)
    assert [one.job_type for one in redone] == [
        "SUMMARY",
        "TERM_CARDS",
        "QUIZ_TERM",
        "INSIGHT",
        "QUIZ_CONTENT",
    ]
    assert {one.results for one in redone} == {ARTICLES - 2}
    once = sum(one.usage.cost_usd for one in answered if one.usage) / 3
    assert redone[0].usd == pytest.approx(once * (ARTICLES - 2))
    assert all(one.usd for one in redone)

    from assets.economy_news import job_store

    again = job_store.redo_results(
        connection,
        JobType.SUMMARY,
        PARTITIONS,
        prompt_version=trial.prompt.version,
        model=MODEL,
        run_ids=["run-2"],
        everything=False,
    )
    assert again == plan.outdated == ARTICLES - 2


def test_an_answer_that_breaks_a_rule_is_shown_and_not_asked_again(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    openai_api.fault(schema="article_summary", content="too_few", times=1)
    assert granary(new_prompt, "--yes") == 0
    assert len(calls(openai_api)) == asked + ARTICLES
    told = capsys.readouterr().out
    assert f"{ARTICLES} of {ARTICLES} articles: {ARTICLES - 1} valid, 1 break a rule" in told
    assert "the answer breaks a rule (invalid_output): summary3은" in told


def test_a_call_that_may_have_been_charged_stays_reserved(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int], new_prompt: Path
) -> None:
    booked = spending(connection)["calls"]
    openai_api.fault(schema="article_summary", drop="after", times=1)
    trial = rehearsal(connection, openai_api, result_kinds.SUMMARY, new_prompt)
    answered = list(trial.ask(trial.plan(20).stored, bool))
    (lost,) = [one for one in answered if one.usage is None]
    assert lost.rows == [] and "no answer" in str(lost.problem)
    after = spending(connection)
    assert after["calls"] == booked + ARTICLES - 1
    assert after["reserved_usd"] > 0


def test_a_cap_with_room_for_one_call_at_a_time_is_no_end(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int], new_prompt: Path
) -> None:
    room = spending(connection)["spent_usd"] + Decimal("0.006")
    trial = rehearsal(connection, openai_api, result_kinds.SUMMARY, new_prompt, cap=str(room))
    plan = trial.plan(20)
    assert plan.at_most_usd > Decimal("0.006") == plan.room_usd
    assert len(list(trial.ask(plan.stored, bool))) == ARTICLES
    assert trial.stopped_by is None


def test_a_reached_cap_ends_it_and_keeps_what_was_answered(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    trial = rehearsal(connection, openai_api, result_kinds.SUMMARY, new_prompt)
    one = trial.plan(20).at_most_usd / ARTICLES
    cap = spending(connection)["spent_usd"] + one * Decimal("1.1")
    monkeypatch.setenv("DAILY_SPENDING_CAP_USD", str(cap))
    assert granary(new_prompt, "--yes") == 2
    made = len(calls(openai_api)) - asked
    assert 1 <= made < ARTICLES
    printed = capsys.readouterr()
    assert f"{made} of {ARTICLES} articles" in printed.out
    assert "DAILY_SPENDING_CAP_USD" in printed.err
    assert spending(connection)["spent_usd"] <= cap
    assert spending(connection)["reserved_usd"] == 0
    assert rows(connection, "SELECT * FROM granary.api_gate") == []


def test_behind_a_shut_gate_nothing_is_asked(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    key = rehearse_command.chat_of(Settings(openai_base_url=here["OPENAI_BASE_URL"]), MODEL).gate_key
    assert gate.shut(connection, key, "QUOTA", "no money", probe_minutes=0)
    assert granary(new_prompt, "--yes") == 2
    assert len(calls(openai_api)) == asked
    assert "the AI gate is shut (QUOTA" in capsys.readouterr().err
    assert gate.read(connection, key) is not None


def test_a_provider_that_refuses_every_call_ends_it_without_shutting_the_gate(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    openai_api.fault(endpoint="chat/completions", status=429, code="insufficient_quota")
    assert granary(new_prompt, "--yes") == 2
    assert asked < len(calls(openai_api)) <= asked + 4
    assert "pay the provider's bill" in capsys.readouterr().err
    assert rows(connection, "SELECT * FROM granary.api_gate") == []
    assert spending(connection)["reserved_usd"] == 0


def test_another_model_is_asked_and_paid_by_its_own_name(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    assert granary(SUMMARY_FILE, "--model", "gpt-4.1-mini", "--articles", 2, "--yes") == 0
    assert [one["model"] for one in calls(openai_api)[asked:]] == ["gpt-4.1-mini"] * 2
    by_model = {one["model"]: one["calls"] for one in rows(connection, "SELECT * FROM granary.spending")}
    assert by_model["gpt-4.1-mini"] == 2
    assert "it would outdate the results of all kinds" in capsys.readouterr().out


def test_ctrl_c_takes_in_what_was_asked_and_tells_it(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    tmp_path: Path,
) -> None:
    asked, booked, before = len(calls(openai_api)), spending(connection)["calls"], everything(connection)
    openai_api.post("latency", seconds=0.3)
    output = tmp_path / "told.md"
    arguments = ["rehearse", str(new_prompt), "--yes", "--output", str(output)]
    with subprocess.Popen(
        [sys.executable, "-m", "operations", *arguments],
        env={**os.environ, **here},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "1 of 6 answered" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=60)
        assert process.returncode == 130
    made = len(calls(openai_api)) - asked
    assert 1 <= made <= ARTICLES
    assert f"{made} of {ARTICLES} articles: {made} valid" in told
    assert output.read_text(encoding="utf-8").count("\n## ") == made
    after = spending(connection)
    assert after["calls"] == booked + made
    assert after["reserved_usd"] == 0
    assert everything(connection) == before


@pytest.mark.parametrize("with_progress", [False, True])
def test_a_reader_that_leaves_loses_neither_answers_nor_money(
    connection: psycopg.Connection,
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    tmp_path: Path,
    with_progress: bool,
) -> None:
    asked, booked, output = len(calls(openai_api)), spending(connection)["calls"], tmp_path / "told.md"
    arguments = ["rehearse", str(new_prompt), "--yes", "--output", str(output)]
    with subprocess.Popen(
        [sys.executable, "-m", "operations", *arguments],
        env={**os.environ, **here},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if with_progress else subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode() if process.stderr else ""
        assert process.wait(timeout=60) == 0
    assert "Traceback" not in told and "Exception" not in told
    assert output.read_text(encoding="utf-8").count("\n## ") == ARTICLES == len(calls(openai_api)) - asked
    after = spending(connection)
    assert (after["calls"], after["reserved_usd"]) == (booked + ARTICLES, 0)


def test_a_reader_that_never_came_is_charged_for_nothing(
    openai_api: StandIn, stored: list[int], here: dict[str, str], new_prompt: Path
) -> None:
    asked = len(calls(openai_api))
    command = f"{sys.executable} -m operations rehearse {new_prompt} --yes"
    nobody, end = os.pipe()
    os.close(nobody)
    done = subprocess.run(
        command.split(), env={**os.environ, **here}, stdout=end, stderr=subprocess.PIPE, check=False
    )
    os.close(end)
    assert (done.returncode, done.stderr) == (1, b"nothing was asked\n")
    assert len(calls(openai_api)) == asked


def test_answers_are_printed_where_the_file_cannot_be_written_any_more(
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert granary(new_prompt, "--articles", 2, "--yes", "--output", tmp_path / "told.md") == 2
    printed = capsys.readouterr()
    assert "2 of 2 articles: 2 valid" in printed.out
    assert "could not be written (No space left on device)" in printed.err


def test_only_the_report_of_a_rehearsal_is_replaced(
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, victim = len(calls(openai_api)), tmp_path / "insight.md"
    victim.write_text("A prompt in force.", encoding="utf-8")
    new_in_a_folder_of_prompts = prompts.FOLDER / "told.md"
    for output in (victim, new_in_a_folder_of_prompts, Path(os.devnull)):
        assert granary(new_prompt, "--yes", "--output", output) == 2
        assert "choose another f" in capsys.readouterr().err
    assert len(calls(openai_api)) == asked
    assert victim.read_text(encoding="utf-8") == "A prompt in force."
    assert not new_in_a_folder_of_prompts.exists()
    report = tmp_path / "told.md"
    for count in (2, 1):
        assert granary(new_prompt, "--articles", count, "--yes", "--output", report) == 0
        assert report.read_text(encoding="utf-8").count("\n## ") == count


def test_once_stopped_nothing_more_is_asked(
    connection: psycopg.Connection, openai_api: StandIn, stored: list[int], new_prompt: Path
) -> None:
    asked = len(calls(openai_api))
    trial = rehearsal(connection, openai_api, result_kinds.SUMMARY, new_prompt)
    answered: list[object] = []
    answered.extend(trial.ask(trial.plan(20).stored, lambda: len(calls(openai_api)) > asked))
    assert len(answered) == len(calls(openai_api)) - asked == 4
    assert spending(connection)["reserved_usd"] == 0


def test_where_nobody_can_confirm_nothing_is_asked(
    openai_api: StandIn,
    stored: list[int],
    here: dict[str, str],
    new_prompt: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = len(calls(openai_api))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert granary(new_prompt) == 2
    assert capsys.readouterr().err == "nobody can be asked whether to pay for it: confirm with --yes\n"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda: "n")
    assert granary(new_prompt) == 1
    assert len(calls(openai_api)) == asked
    assert re.search(r"costs about 0\.00\d\d USD, at most 0\.\d{4} USD", capsys.readouterr().out)
    monkeypatch.setattr("builtins.input", lambda: "y")
    assert granary(new_prompt, "--articles", 1) == 0
    assert len(calls(openai_api)) == asked + 1


def test_without_stored_results_there_is_nothing_to_compare(
    here: dict[str, str], new_prompt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert granary(new_prompt, "--yes") == 1
    assert "no stored article has a result of SUMMARY" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "more", "told"),
    [
        ("draft.md", b"text", [], "DRAFT is no kind of result"),
        ("summary.txt", b"text", [], "ends in .md"),
        ("summary.md", b"\xff\xfe\xff", [], "no UTF-8"),
        ("summary.md", b" \n ", [], "is empty"),
        ("summary.md", None, [], "is no file"),
        ("draft.md", b"text", ["--kind", "poem"], "POEM is no kind"),
        ("summary.md", b"text", ["--output", "{file}"], "names the prompt itself"),
        ("summary.md", b"text", ["--output", "/nowhere/told.md"], "cannot be written"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused_before_anything_is_paid(
    here: dict[str, str],
    tmp_path: Path,
    name: str,
    content: bytes | None,
    more: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    assert granary(file, "--yes", *(one.format(file=file) for one in more)) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [("OPENAI_API_KEY", ""), ("AI_ENABLED", "false"), ("OPENAI_MODEL", "a-model-without-price")],
)
def test_a_setting_that_lets_nothing_be_asked_is_named(
    here: dict[str, str],
    new_prompt: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert granary(new_prompt, "--yes") == 2
    assert name in capsys.readouterr().err


def test_a_rehearsal_asks_as_a_run_would(here: dict[str, str]) -> None:
    settings = Settings(
        openai_timeout_ms=1_234,
        openai_max_output_tokens=777,
        openai_temperature=0.9,
        model_prices={MODEL: ModelPrice(input=Decimal(1), output=Decimal(2))},
        openai_base_url="http://127.0.0.1:9/v1",
    )
    runs_ask = (build_definitions(settings).resources or {})["chat"]
    assert rehearse_command.chat_of(settings, None).model_dump() == runs_ask.model_dump()
