"""Runs killed at random steps: afterwards every context is done once, or cancelled without a trace."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from tests.integration.context_tags.killed_run import run_at
from tests.integration.context_tags.paid_runs import (
    asked,
    assert_states_and_rows_agree,
    near_presets,
    whole_run,
)
from tests.integration.context_tags.random_kills import NEW_A_RUN, play_core
from tests.integration.context_tags.scenes import Core
from tests.integration.stand_ins import StandIn

KILLS = int(os.environ.get("GRANARY_KILLS", "20"))


def test_after_random_kills_every_context_is_done_once_and_paid_for(
    core: Core, database_url: str, openai_api: StandIn
) -> None:
    near_presets(core, openai_api.url)
    openai_api.post("reset", ledger=True)
    services = json.dumps({"database_url": database_url, "api": openai_api.url})
    command = [sys.executable, "-m", "tests.integration.context_tags.random_kills", services]
    seeds = [str(seed) for seed in range(KILLS)]
    done = subprocess.run([*command, *seeds], timeout=300, check=True, capture_output=True, text=True)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines()]
    killed = codes.count(-signal.SIGKILL)
    assert killed >= KILLS // 2 and set(codes) <= {0, -signal.SIGKILL}

    at = datetime.now(UTC) + timedelta(minutes=11) * (KILLS + 2)
    with run_at(database_url, at.isoformat()) as (connection, pool):
        play_core(connection, ())
        outcome = whole_run(connection, pool, openai_api.url)

    assert (outcome.failed, outcome.put_off, outcome.left) == ({}, {}, set())
    states = core.states()
    assert len(states) == NEW_A_RUN * KILLS
    assert {state[0] for state in states.values()} | {state[1] for state in states.values()} <= {
        "COMPLETED",
        "CANCELLED",
    }
    cancelled = {id_ for id_, state in states.items() if "CANCELLED" in state}
    assert all((id_ + NEW_A_RUN) % 3 == 0 for id_ in cancelled)
    assert_states_and_rows_agree(core)
    left = "SELECT * FROM granary.context_request WHERE text IS NOT NULL OR handled_at IS NULL"
    assert core.rows(left) == []
    assert_paid(core, openai_api, killed)


def assert_paid(core: Core, api: StandIn, killed: int) -> None:
    """A kill repeats at most the calls under way; what these cost is kept, be it as a reservation."""
    ledger = api.get("ledger")["entries"]
    judged, tagged = asked(ledger, "chat/completions"), len(core.keywords())
    assert tagged <= len(judged) <= tagged + 2 * killed
    (money,) = core.rows(
        "SELECT sum(spent_usd) AS spent, sum(reserved_usd) AS reserved FROM granary.spending_day"
    )
    cost = sum(entry["cost_usd"] for entry in ledger)
    assert float(money["spent"]) <= cost + 1e-6
    assert float(money["spent"] + money["reserved"]) >= cost - 1e-6
