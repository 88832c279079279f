"""A run killed at any point between the claim and the last file's deletion: no line is sent twice or lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.integration.economy_news.batching import (
    a_step,
    created,
    end_batches,
    files,
    lines_paid,
    money,
    states,
    waiting_for_a_batch,
)
from tests.integration.economy_news.enriching import paid
from tests.integration.economy_news.factories import rows
from tests.integration.economy_news.killed_batches import LIMITS, POINTS, TAKING_IN
from tests.integration.stand_ins import StandIn

Run = Callable[[str, str, str], int]
JOBS = 3


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a step that dies at the point; its exit code. None of them leaves a file behind."""
    command = [sys.executable, "-m", "tests.integration.economy_news.killed_batches"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    temporary = tmp_path_factory.mktemp("temporary")
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(point: str, database_url: str, url: str) -> int:
            stdin.write(json.dumps({"point": point, "database_url": database_url, "url": url}) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield run
        stdin.close()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("point", list(POINTS))
def test_a_run_killed_over_batches_sends_no_line_twice_and_loses_none(
    point: str,
    killed: Run,
    database_url: str,
    connection: psycopg.Connection,
    connect: Callable[..., psycopg.Connection],
    openai_api: StandIn,
) -> None:
    openai_api.post("batches/pace")
    waiting_for_a_batch(connection, JOBS)
    if point in TAKING_IN:
        a_step(connection, openai_api.url, limits=LIMITS)
        end_batches(openai_api.url)
    assert killed(point, database_url, openai_api.url) == -signal.SIGKILL

    early = a_step(connection, openai_api.url, "at once", limits=LIMITS)
    assert early.settled == 0  # whether there is a batch is looked for when the lease is out
    (later,) = connection.execute("SELECT (now() + interval '11 minutes')::text").fetchone() or ("",)
    then = connect(at=later)
    for _ in range(2):
        end_batches(openai_api.url)
        a_step(then, openai_api.url, "next", limits=LIMITS)

    assert states(then) == {"SUCCESS": JOBS}
    assert sorted(line["custom_id"] for line in lines_paid(openai_api)) == ["1", "2", "3"]
    assert len(created(openai_api)) == 2
    assert len(rows(then, "SELECT id FROM news.ai_result")) == JOBS
    assert {
        job["attempt"] for job in rows(then, "SELECT attempt FROM news.ai_job WHERE status = 'SUCCESS'")
    } == {1}
    assert money(then)["reserved"] == 0
    assert float(money(then)["spent"]) == pytest.approx(float(paid(openai_api)), abs=1e-7)
    assert files(openai_api.url) == []
    openai_api.post("reset", batches=True)
