"""What a run sends batches of one kind and takes them in with, and what both do to them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from assets.economy_news import batch_store
from assets.economy_news.models import JobMode, OpenBatch
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.result_writing import Asked, Outcome, ResultWriter
from assets.economy_news.rules import EnrichmentRules
from resources import batch_spending
from resources.api_failure import ApiFailure
from resources.batches import BatchApi
from resources.chat import ChatResource
from resources.model_gate import ModelGate
from resources.model_table import Model

log = logging.getLogger("granary.economy_news")

METADATA_KEY = "granary_plan"
CHUNK = 500
QUEUE_FULL = "token_limit_exceeded"
ASK_AGAIN_SECONDS = 600
"""After these a queue that was full may have room again."""


@dataclass
class BatchOutcome:
    """What a run did with batches of one kind. `reason`: why it stopped sending, or what the API answered."""

    jobs: Outcome = field(default_factory=Outcome)
    settled: int = 0
    sent: int = 0
    lines: int = 0
    taken_in: int = 0
    under_way: int = 0
    returned: int = 0
    reason: str | None = None

    def summed_up(self) -> str:
        """For the run's log; empty where there was nothing to do."""
        numbers = (self.settled, self.sent, self.taken_in, self.under_way, self.returned)
        if not any(numbers) and self.reason is None:
            return ""
        told = (
            f"{self.sent} sent with {self.lines} jobs, {self.taken_in} taken in ({self.jobs.summed_up()}, "
            f"{self.returned} wait again), {self.under_way} under way"
        )
        return f"{told}; stopped by {self.reason}" if self.reason else told


@dataclass(frozen=True)
class BatchRun:
    """`model` is that of new batches, at batch prices. All statements run on the one connection."""

    kind: ResultKind
    run_id: str
    connection: psycopg.Connection
    api: BatchApi
    gate: ModelGate
    provider_key: str
    model: Model
    chat: ChatResource
    rules: EnrichmentRules
    outcome: BatchOutcome

    def writer(self, batch: OpenBatch) -> ResultWriter:
        """Ends jobs of the batch, which was asked with its own prompt and model."""
        asked = Asked(batch.prompt_version, batch.model, self.chat.model, JobMode.batch)
        return ResultWriter(
            self.kind, self.run_id, self.connection, self.rules.retry_times, asked, self.outcome.jobs
        )

    def abandon(self, batch: OpenBatch, reason: str, files: Sequence[str] = (), later: bool = False) -> bool:
        """There is no batch: its money and its jobs go back, as if they had not been asked.

        `later`: they are due in ten minutes. False, and nothing changed, where the batch is another run's.
        """
        with self.connection.transaction():
            if not batch_store.end(self.connection, batch.plan, self.run_id, "ABANDONED", reason, files):
                return False
            self.outcome.returned += batch_store.return_jobs(
                self.connection,
                batch.plan,
                delay_seconds=ASK_AGAIN_SECONDS if later else None,
                error_code=reason if later else None,
            )
            batch_spending.give_back(self.connection, batch.plan)
        self.delete_left_files()
        return True

    def abandon_at_fault(
        self, batch: OpenBatch, code: str, files: Sequence[str] = (), may_have_cost: bool = False
    ) -> bool:
        """The same where the lines are at fault: their attempt counts, and each is tried again by its own.

        What it may have cost stays reserved until the day ends.
        """
        writer = self.writer(batch)
        with self.connection.transaction():
            # First, so that the row is ours until the end: a late run changes no job of another's batch.
            if not batch_store.end(self.connection, batch.plan, self.run_id, "ABANDONED", code, files):
                return False
            while ids := batch_store.submitted_jobs(self.connection, batch.plan, CHUNK):
                for job in batch_store.lock_submitted(self.connection, batch.plan, self.run_id, ids):
                    writer.try_again(job.claim, code, "its batch was refused")
                writer.write()
            if not may_have_cost:
                batch_spending.give_back(self.connection, batch.plan)
            writer.counts.write(self.connection)
        self.delete_left_files()
        return True

    def delete_left_files(self) -> None:
        """Deletes files at the provider that nobody needs. A failure is logged: no work waits for it."""
        for plan, file, since, may_come in batch_store.files_left(self.connection):
            try:
                is_gone = self.api.delete_left(file, since)
            except ApiFailure as failure:
                log.warning("a batch file is not deleted yet: %s", failure.code)
                return
            if is_gone or not may_come:
                batch_store.file_deleted(self.connection, plan, file)
