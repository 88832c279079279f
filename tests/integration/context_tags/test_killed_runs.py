"""A run killed at any point: what it had begun expires, comes again, and is done once."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.context_tags.killed_run import POINTS, run_at
from tests.integration.context_tags.paid_runs import (
    asked,
    assert_states_and_rows_agree,
    near_presets,
    post,
    whole_run,
)
from tests.integration.context_tags.scenes import EXPIRY_AND_MORE, Core
from tests.integration.stand_ins import StandIn

IDS = (1, 2, 3, 4)
DONE = ("COMPLETED", "COMPLETED")


@pytest.fixture(scope="module")
def killer() -> Iterator[subprocess.Popen[str]]:
    """The process whose forks are killed."""
    command = [sys.executable, "-m", "tests.integration.context_tags.killed_run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(timeout=30)


def kill(killer: subprocess.Popen[str], point: str, database_url: str, api: StandIn) -> int:
    assert killer.stdin and killer.stdout
    killer.stdin.write(json.dumps({"point": point, "database_url": database_url, "api": api.url}) + "\n")
    killer.stdin.flush()
    return int(killer.stdout.readline())


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_every_context_is_done_once_and_only_calls_under_way_are_repeated(
    point: str,
    killer: subprocess.Popen[str],
    core: Core,
    connection: psycopg.Connection,
    database_url: str,
    openai_api: StandIn,
) -> None:
    near_presets(core, openai_api.url)
    openai_api.post("reset", ledger=True)
    core.add(*IDS)
    post(connection, *IDS)
    assert kill(killer, point, database_url, openai_api) == -signal.SIGKILL

    # At once: nothing that the dead run had started is taken from it, everything else is done.
    begun = {id_ for id_, state in core.states().items() if "PROCESSING" in state}
    whole_run_now(database_url, openai_api)
    assert {id_ for id_, state in core.states().items() if state != DONE} == begun
    assert_states_and_rows_agree(core)

    at = core.rows(f"SELECT replace((now() + {EXPIRY_AND_MORE})::text, ' ', 'T') AS at")[0]["at"]
    with run_at(database_url, at) as (later, pool):
        post(later, *(id_ for id_, state in core.states().items() if state != DONE))
        whole_run(later, pool, openai_api.url)

    assert core.states() == dict.fromkeys(IDS, DONE)
    assert_states_and_rows_agree(core)
    assert (
        core.rows("SELECT * FROM granary.context_request WHERE text IS NOT NULL OR handled_at IS NULL") == []
    )
    assert_paid(core, openai_api)


def whole_run_now(database_url: str, api: StandIn) -> None:
    with run_at(database_url, None) as (connection, pool):
        whole_run(connection, pool, api.url)


def assert_paid(core: Core, api: StandIn) -> None:
    """At most what was under way is asked twice, and what was paid for it is kept, be it as a reservation."""
    ledger = api.get("ledger")["entries"]
    judged = asked(ledger, "chat/completions")
    assert len(IDS) <= len(judged) <= len(IDS) + 2
    spent = "SELECT sum(spent_usd) AS spent, sum(reserved_usd) AS reserved FROM granary.spending_day"
    (money,) = core.rows(spent)
    cost = sum(entry["cost_usd"] for entry in ledger)
    assert float(money["spent"]) <= cost + 1e-6
    assert float(money["spent"] + money["reserved"]) >= cost - 1e-6
