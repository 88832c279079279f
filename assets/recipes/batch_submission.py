"""Sends a partition's jobs as batches: claimed, written into files, cut where money, queue or limits end.

However many jobs there are, the lines of one claim are in memory at a time. What a batch goes through from
its plan on is in `batch_intents.py`.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import psycopg

from assets.recipes import (
    batch_intents,
    batch_queue_store,
    batch_store,
    job_store,
    recipe_store,
    repair_store,
)
from assets.recipes.batch_intents import BatchContext
from assets.recipes.batch_kinds import BatchContent, Line, Stages
from assets.recipes.batch_queue_store import QUEUE_FULL
from assets.recipes.batch_room import BUDGET, QUEUE_LIMIT, Peekable, Room
from assets.recipes.models import Job
from assets.recipes.rules import RecipeRules
from assets.recipes.statuses import LEASE_SECONDS
from resources.alerts import AlertResource
from resources.api_failure import ApiFailure
from resources.batch_lines import MAX_BYTES, MAX_LINES, emptied, write_shards
from resources.batches import BatchApi, BatchResource
from resources.model_gate import ModelGate
from resources.model_table import Model

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

CLAIM_SIZE = 500
WAITS = (QUEUE_FULL, QUEUE_LIMIT, BUDGET)
LARGE_LINE_BYTES = 20_000
"""More than almost every line has: where there is no room for one, nothing is claimed."""


@dataclass
class Submitted:
    """What a run sent. `reason`: why it stopped before the end, None where nothing is left to send."""

    batches: int = 0
    lines: int = 0
    skipped: int = 0
    unusable: int = 0
    settled: int = 0
    given_back: int = 0
    reason: str | None = None


def waits_for(
    db: "Mongo",
    connection: psycopg.Connection,
    stages: Stages,
    model: Model,
    rules: RecipeRules,
    now: datetime,
) -> str | None:
    """What a batch would have to wait for now: QUEUE_FULL, MAX_ENQUEUED_TOKENS, BUDGET, or None.

    A sensor asks the same before it starts a run. `model` at batch prices.
    """
    if batch_queue_store.is_queue_full(db, model.name, now):
        return QUEUE_FULL
    queued = batch_store.enqueued_tokens(db, model.name)
    if queued and rules.max_enqueued_tokens - queued < LARGE_LINE_BYTES // 3:
        return QUEUE_LIMIT
    room = recipe_store.room_today(connection, rules.cap_usd)
    if room is not None and room < model.most_it_can_cost_usd(LARGE_LINE_BYTES, stages.most_output_tokens):
        return BUDGET
    return None


class Submitter:
    """Sends what waits in one partition for batches of one kind, or of `job_ids` alone."""

    def __init__(
        self,
        content: BatchContent,
        db: "Mongo",
        connection: psycopg.Connection,
        batches: BatchResource,
        alerts: AlertResource,
        rules: RecipeRules,
        run_id: str,
        claimed_by: str,
        job_ids: Sequence[str] | None = None,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._content = content
        self._stages = content.stages
        self._db = db
        self._connection = connection
        self._batches = batches
        self._gate = ModelGate(connection, batches.gate_key, alerts, rules.gate_probe_minutes)
        self._rules = rules
        self._run_id = run_id
        self._claimed_by = claimed_by
        self._job_ids = job_ids
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._held: dict[str, bool] = {}
        self._unusable: dict[str, str] = {}
        self._renewed_at = time.monotonic()
        self._outcome = Submitted()

    def run(self) -> Submitted:
        """Sends until nothing waits, or there is no room; nothing to send is no error.

        What the API answers never raises: it is the outcome's `reason`, and shuts the gate where it hits
        everyone. Raises ModelHasNoPrice before anything is claimed, and the databases' errors with what was
        claimed given back.
        """
        model = self._batches.priced_model.in_batch()
        repair_store.release_dead(self._db, self._now())
        shut = self._gate.pass_()
        self._outcome.reason = shut.reason if shut else None
        try:
            with self._batches.open() as api:
                run = self._context(api, model)
                if shut is None or shut.reason != "AUTH":
                    self._outcome.settled = batch_intents.settle_open(run)
                if shut is None:
                    self._send_all(run)
        except ApiFailure as failure:
            self._gate.shut_for(failure)
            self._outcome.reason = failure.verdict.reason or failure.code
        finally:
            self._give_back()
        if self._outcome.reason in (None, *WAITS):
            self._gate.asked_nothing()
        return self._outcome

    def _context(self, api: BatchApi, model: Model) -> BatchContext:
        return BatchContext(
            self._content,
            self._db,
            self._connection,
            api,
            self._gate,
            model,
            self._rules,
            self._run_id,
            self._claimed_by,
        )

    def _send_all(self, run: BatchContext) -> None:
        batch_intents.delete_left_files(run)
        lines = Peekable(self._lines(run))
        with TemporaryFile(prefix="granary-batch-", buffering=0) as file:
            while not self._must_wait(run, lines) and lines.peek() is not None:
                self._send_part(run, lines, file)
        self._fail_unusable(run)

    def _must_wait(self, run: BatchContext, lines: Peekable) -> bool:
        """Looked at before the first claim; later, and for the gate, only where something is left to send."""
        if self._outcome.reason is not None:
            return True
        if self._outcome.batches and lines.peek() is None:
            return False
        reason = waits_for(self._db, self._connection, self._stages, run.model, self._rules, self._now())
        if reason == BUDGET:
            if lines.peek() is None:
                return False
            batch_intents.out_of_money(run, "the day's cap has no room for a line")
        self._outcome.reason = reason
        return reason is not None

    def _send_part(self, run: BatchContext, lines: Peekable, file: BinaryIO) -> None:
        """Sends as many of the lines as the money and the queue have room for now, in as many batches."""
        queued = batch_store.enqueued_tokens(self._db, run.model.name)
        room = Room(
            run.model,
            recipe_store.room_today(self._connection, self._rules.cap_usd),
            self._rules.max_enqueued_tokens - queued,
            is_empty=not queued,
        )
        taken: dict[str, Line] = {}
        part = room.fill(lines, taken)
        for shard in write_shards(part, lambda _: emptied(file), self._max_lines, self._max_bytes):
            self._renew_claims()
            sent = [taken.pop(custom_id) for custom_id in shard.custom_ids]
            # From here on its jobs follow the intent, whatever becomes of this run.
            ids = [one for one in shard.custom_ids if self._held.pop(one, False)]
            if reason := batch_intents.send(run, shard, sent, file):
                self._outcome.reason = reason
                self._count_free(ids)
                return
            self._outcome.batches += 1
            self._outcome.lines += len(sent)
        if room.refused_the_first:
            self._outcome.reason = room.refused_the_first
            if room.refused_the_first == BUDGET:
                batch_intents.out_of_money(run, "the day's cap has no room for a line")

    def _lines(self, run: BatchContext) -> Iterator[tuple[Line, bytes]]:
        """The lines of what waits, a claim at a time."""
        while jobs := self._claim():
            written = self._content.write(jobs, self._claimed_by)
            too_long = {line.custom_id for line, _ in written.lines if line.bytes > self._max_bytes}
            self._unusable |= written.unusable | dict.fromkeys(too_long, "too long for a batch file")
            self._finish_skipped(run, written.skipped)
            yield from (pair for pair in written.lines if pair[0].custom_id not in too_long)

    def _claim(self) -> Sequence[Job]:
        if time.monotonic() - self._renewed_at > LEASE_SECONDS / 3:
            self._renew_claims()
        jobs = job_store.claim(
            self._db,
            self._run_id,
            self._stages.waiting,
            self._stages.submitting,
            self._claimed_by,
            self._now(),
            limit=CLAIM_SIZE,
            job_ids=self._job_ids,
        )
        self._held.update((job.id, True) for job in jobs)
        return jobs

    def _finish_skipped(self, run: BatchContext, skipped: Sequence[str]) -> None:
        stages = self._stages
        if not skipped:
            return
        job_store.finish(
            self._db, skipped, stages.submitting, stages.retrieved, self._claimed_by, {}, self._now()
        )
        run.count("skipped", len(skipped), stages.submit_stage)
        self._outcome.skipped += len(skipped)
        for job_id in skipped:
            self._held.pop(job_id, None)

    def _fail_unusable(self, run: BatchContext) -> None:
        """At the end only: a job that is free again would be claimed again by this very run."""
        if self._unusable:
            job_store.fail_lines(
                self._db, self._unusable, self._stages.submitting, self._claimed_by, self._now()
            )
            run.count("failed", len(self._unusable), self._stages.submit_stage)
            self._outcome.unusable += len(self._unusable)
            for job_id in self._unusable:
                self._held.pop(job_id, None)

    def _renew_claims(self) -> None:
        self._renewed_at = time.monotonic()
        job_store.renew(self._db, list(self._held), self._claimed_by, self._now())

    def _give_back(self) -> None:
        """Frees what was claimed and not planned."""
        self._content.given_up(self._claimed_by)
        stages, ids = self._stages, list(self._held)
        job_store.give_back(self._db, ids, stages.submitting, stages.waiting, self._claimed_by)
        self._count_free(ids)

    def _count_free(self, ids: Sequence[str]) -> None:
        free = [job for job in job_store.jobs(self._db, ids) if job.status == self._stages.waiting]
        self._outcome.given_back += len(free)

    def _now(self) -> datetime:
        return recipe_store.now(self._connection)
