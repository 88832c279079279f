"""Everything one stand-in remembers, in memory and in its data directory."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from local_stack.openai_stand_in.batch_pace import Pace
from local_stack.openai_stand_in.batch_store import BatchStore
from local_stack.openai_stand_in.faults import FaultTable
from local_stack.openai_stand_in.file_store import FileStore
from local_stack.openai_stand_in.ledger import Ledger


def _utc_now() -> datetime:
    return datetime.now(UTC)


class StandInState:
    """Ledger, faults, files and batches of one stand-in; one process per data directory.

    `latency_seconds` delays every chat and embedding answer, `batch_seconds` is how long a batch takes from
    its creation to its end, until `set_pace` says otherwise. `now` gives the present as an aware datetime in
    UTC.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        latency_seconds: float = 0.0,
        batch_seconds: float = 2.0,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """Opens the data directory, creating it; raises LedgerInUse if another process has it."""
        data_dir.mkdir(parents=True, exist_ok=True)
        self.now = now
        self.default_latency_seconds = latency_seconds
        self.latency_seconds = latency_seconds
        self.default_pace = Pace(seconds=batch_seconds)
        self.pace = self.default_pace
        self.faults = FaultTable()
        self.ledger = Ledger(data_dir / "ledger.jsonl", now)
        self.files = FileStore(data_dir / "files", now)
        self.batches = BatchStore(data_dir / "batches", now)
        self.prompt_cache: set[str] = set()
        self.batch_tasks: dict[str, asyncio.Task[None]] = {}

    def set_pace(self, pace: Pace) -> None:
        """From now on all batches go at this pace, those under way too."""
        self.pace = pace
        for batch in self.batches.open_batches():
            batch.way.look_around()

    def reset(self, *, ledger: bool = False, batches: bool = False) -> None:
        """Removes faults and changes of latency and pace; ledger, batches and files only when asked for."""
        self.faults.clear()
        self.prompt_cache.clear()
        self.latency_seconds = self.default_latency_seconds
        self.set_pace(self.default_pace)
        if ledger:
            self.ledger.clear()
        if batches:
            for task in self.batch_tasks.values():
                task.cancel()
            self.batches.clear()
            self.files.clear()

    def close(self) -> None:
        """Releases the data directory."""
        self.ledger.close()
