"""Dagster's own command line, with the stack up and without it."""

from datetime import date

import psycopg

from local_stack.stack import Stack
from orchestration.partitions import SECTIONS
from tests.end_to_end.project import Project

DAY = date(2026, 11, 26)


def test_the_readmes_commands_work_against_the_stack_and_say_make_up_without_it(project: Project) -> None:
    up = project.make("up")
    assert up.returncode == 0, up.stderr
    assert ". .local/env" in up.stdout

    for command in ("dg check defs", "dagster definitions validate"):
        done = project.shell(command)
        assert done.returncode == 0, done.stderr
    launched = project.shell(
        f"dg launch --assets economy_articles,article_summaries --partition '{DAY}|FINANCE'"
    )
    assert launched.returncode == 0, launched.stderr
    ranged = project.shell(
        f"dg launch --assets economy_articles --partition-range '{DAY}|FINANCE...{DAY}|GENERAL'"
    )
    assert ranged.returncode == 0, ranged.stderr

    url = Stack(project.local, environ=project.environ).environment()["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        stored: dict[str, int] = dict(
            connection.execute("SELECT section, count(*) FROM news.article GROUP BY section").fetchall()
        )
        summaries = connection.execute(
            "SELECT section, count(*) FROM news.summary JOIN news.article ON id = article_id GROUP BY section"
        ).fetchall()
    assert set(stored) == set(SECTIONS)
    assert [section for section, _ in summaries] == ["FINANCE"]

    assert project.make("down").returncode == 0
    assert project.running() == []
    for command in ("dg check defs", f"dg launch --assets economy_articles --partition '{DAY}|FINANCE'"):
        refused = project.shell(command)
        assert refused.returncode != 0
        assert "make up" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_second_up_changes_nothing_and_data_survives_a_restart(project: Project) -> None:
    assert project.make("up").returncode == 0
    first = (project.local / "env").read_text()
    assert project.shell('psql "$DATABASE_URL" -c "CREATE TABLE kept (n int)"').returncode == 0
    assert project.make("up").returncode == 0
    assert (project.local / "env").read_text() == first
    assert project.make("down").returncode == 0
    assert project.make("up").returncode == 0
    kept = project.shell('psql "$DATABASE_URL" -tAc "SELECT count(*) FROM kept"')
    assert kept.stdout.strip() == "0"
    assert project.make("status").returncode == 0
    project.make("down")
    assert project.make("status").returncode == 1
