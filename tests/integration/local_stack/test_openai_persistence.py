"""What outlives the OpenAI stand-in's process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from local_stack.openai_stand_in.ledger import LedgerInUse
from local_stack.openai_stand_in.state import StandInState
from tests.integration.local_stack.openai_asking import (
    Served,
    asked,
    batch_lines,
    clients,
    free_port,
    results,
    upload,
    wait_for,
)


def test_a_restart_keeps_files_and_batches_and_pays_no_line_twice(serve: Callable[..., Served]) -> None:
    passed = [0.0]

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=passed[0])

    served = serve(batch_seconds=10_000, now=clock)
    file_id = upload(served, batch_lines(64))
    batch = served.client.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    passed[0] = 5_000
    served = serve(batch_seconds=10_000, now=clock)
    wait_for(lambda: served.client.batches.retrieve(batch.id).request_counts.completed >= 16)  # type: ignore[union-attr]
    assert served.client.batches.retrieve(batch.id).status == "in_progress"
    served = serve(batch_seconds=10_000, now=clock)
    served.http.post("/_control/batches/advance").raise_for_status()
    served = serve()
    done = served.client.batches.retrieve(batch.id)
    assert done.status == "completed" and len(results(served, done.output_file_id)) == 64
    paid = [entry["custom_id"] for entry in served.ledger() if entry["custom_id"]]
    assert len(paid) == len(set(paid)) == 64


def test_a_kill_leaves_a_ledger_that_goes_on_without_its_torn_line(tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "local_stack.openai_stand_in",
        f"--port={port}",
        f"--data-dir={tmp_path}",
    ]
    served = clients(None, port)  # type: ignore[arg-type]
    for start in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: answers(served.http), 30)
            asked(served, "quiz", f"글 {start}")
            assert [entry["seq"] for entry in served.ledger()] == list(range(1, start + 2))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            output, _ = process.communicate(timeout=10)
        assert output == b""
        with (tmp_path / "ledger.jsonl").open("ab") as ledger:
            ledger.write(b'{"seq": 99, "at"')
    served.client.close()
    served.http.close()


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/_control/health").is_success
    except httpx.TransportError:
        return False


def test_a_second_process_cannot_write_the_same_ledger(stand_in: Served, tmp_path: Path) -> None:
    with pytest.raises(LedgerInUse):
        StandInState(tmp_path / "data")


def test_a_reset_keeps_the_ledger_unless_it_is_asked_for(stand_in: Served) -> None:
    stand_in.fault(status=500)
    stand_in.http.post("/_control/reset", json={}).raise_for_status()
    asked(stand_in, "quiz", "글")
    assert stand_in.totals()["calls"] == 1
    stand_in.http.post("/_control/reset", json={"ledger": True}).raise_for_status()
    assert stand_in.totals()["calls"] == 0 and stand_in.ledger() == []
