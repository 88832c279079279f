"""One batch from its plan to its id, so that none is sent twice whenever a run dies.

The intent is written down before anything reaches the provider, and the batch carries its id: whoever finds
an intent without a batch looks through the provider's list for it before anything is sent again.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

import psycopg

from assets.recipes import batch_queue_store, batch_store, job_store, recipe_store
from assets.recipes.batch_kinds import INGREDIENT, BatchContent, Line
from assets.recipes.batch_queue_store import QUEUE_FULL
from assets.recipes.batch_room import BUDGET
from assets.recipes.models import BatchIntent
from assets.recipes.rules import RecipeRules
from assets.recipes.statuses import LEASE_SECONDS
from resources import batch_spending
from resources.api_failure import FAIL, ApiFailure
from resources.batch_lines import Shard
from resources.batches import BatchApi, InputFileGone, QueueFull
from resources.counters import Counts
from resources.errors import SpendingCapReached
from resources.model_gate import ModelGate
from resources.model_table import Model
from resources.openai_api import ApiUnavailable

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

log = logging.getLogger("granary.recipes")

PIPELINE = "recipes"
METADATA_KEY = "granary_intent"
CLAIMS_LOST = "CLAIMS_LOST"


def file_name(intent_id: str) -> str:
    """What the intent's lines are called at the provider."""
    return f"granary-{intent_id}.jsonl"


@dataclass(frozen=True)
class BatchContext:
    """What a run sends and retrieves batches of one kind with. `model` at batch prices."""

    content: BatchContent
    db: "Mongo"
    connection: psycopg.Connection
    api: BatchApi
    gate: ModelGate
    model: Model
    rules: RecipeRules
    run_id: str
    claimed_by: str

    def count(self, outcome: str, jobs: int, stage: str) -> None:
        """Adds to the metric of a stage."""
        counts = Counts()
        counts.add("recipe_ingestion_stage_total", jobs, stage=stage, outcome=outcome)
        counts.write(self.connection)


def send(run: BatchContext, shard: Shard, lines: Sequence[Line], file: BinaryIO) -> str | None:
    """None if the shard is a batch now, else why not.

    Its jobs are free again then, but where nobody can tell yet whether there is a batch: see `settle_open`.
    """
    intent = _plan(run, shard, lines)
    if intent is None:
        return CLAIMS_LOST
    if reason := _reserve(run, intent, lines):
        return reason
    try:
        file.seek(0)
        file_id = run.api.upload(file, file_name(intent.id))
    except ApiFailure as failure:
        # After an answer that was lost the file may be there all the same.
        return _refused(run, intent, failure, file_name(intent.id) if _is_unknown(failure) else None)
    now = recipe_store.now(run.connection)
    if not batch_store.mark_uploaded(run.db, intent.id, run.claimed_by, file_id, now):
        delete_files(run, intent.id, [file_id])
        return CLAIMS_LOST
    return _create(run, intent, file_id)


def out_of_money(run: BatchContext, message: str) -> str:
    """BUDGET, as the reason to stop; shuts the gate, unless an open batch is yet to give money back."""
    if not batch_store.open_batches(run.db):
        run.gate.shut(BUDGET, message)
    return BUDGET


def settle_open(run: BatchContext) -> int:
    """How many intents of dead runs were settled: each is a batch that was found, or abandoned.

    One whose batch the provider may still be making stays open, and the caller's for a lease: then it is
    looked for again. Raises ApiFailure where the list cannot be read: then nothing may be sent, and all stay
    open.
    """
    db, now = run.db, recipe_store.now(run.connection)
    batch_store.settle_ended(db, now)
    waiting = batch_store.open_intents(db, run.run_id, run.content.stages.kind)
    mine = [taken for one in waiting if (taken := batch_store.take(db, one.id, run.claimed_by, now))]
    if not mine:
        return 0
    settled = 0
    try:
        since = min(intent.created_at for intent in mine)
        batches = {state.metadata.get(METADATA_KEY): state for state in run.api.created_since(since)}
        for intent in mine:
            if found := batches.get(intent.id):
                _record(run, intent, found.id, found.input_file_id)
            elif intent.uploaded_at and now - intent.uploaded_at < timedelta(seconds=LEASE_SECONDS):
                continue
            else:
                orphans = run.api.files_named(file_name(intent.id), intent.created_at)
                died = not batch_queue_store.was_unanswered(db, intent.id)
                _abandon(run, intent, "no batch was created", orphans, died=died)
            settled += 1
    except BaseException:
        batch_store.release_claims(db, run.claimed_by)
        raise
    return settled


def delete_files(run: BatchContext, intent_id: str, files: Sequence[str]) -> None:
    """Deletes the provider's files, by id or by name; those that it does not delete now are tried again."""
    batch_queue_store.leave_files(run.db, intent_id, files)
    delete_left_files(run, intent_id)


def delete_left_files(run: BatchContext, intent_id: str | None = None) -> None:
    """Deletes what was to be deleted, of one intent or of all. A failure is logged: no work waits for it."""
    now = recipe_store.now(run.connection)
    for intent, file, since, may_come in batch_queue_store.files_left(run.db, now):
        if intent_id not in (None, intent):
            continue
        try:
            is_gone = run.api.delete_left(file, since)
        except ApiFailure as failure:
            log.warning("a batch file is not deleted yet: %s", failure.code)
            return
        if is_gone or not may_come:
            batch_queue_store.file_deleted(run.db, intent, file)


def _plan(run: BatchContext, shard: Shard, lines: Sequence[Line]) -> BatchIntent | None:
    ingredients = [one.custom_id.removeprefix(INGREDIENT) for one in lines if _is_ingredient(one)]
    intent = BatchIntent(
        id=uuid4().hex,
        kind=run.content.stages.kind,
        run_id=run.run_id,
        shard=shard.number,
        lines_sha256=shard.sha256,
        line_count=len(lines),
        byte_count=shard.bytes,
        estimated_tokens=sum(line.queued_tokens for line in lines),
        model=run.model.name,
        created_at=recipe_store.now(run.connection),
        claimed_by=run.claimed_by,
        job_ids=tuple(line.custom_id for line in lines if not _is_ingredient(line)),
        ingredient_ids=tuple(int(id_) for id_ in ingredients),
    )
    if not batch_store.plan(run.db, intent):
        return None
    run.content.planned(intent, lines)
    return intent


def _is_ingredient(line: Line) -> bool:
    return line.custom_id.startswith(INGREDIENT)


def _reserve(run: BatchContext, intent: BatchIntent, lines: Sequence[Line]) -> str | None:
    try:
        batch_spending.reserve(
            run.connection,
            intent.id,
            PIPELINE,
            run.model,
            sum(line.most_input_tokens for line in lines),
            sum(line.most_output_tokens for line in lines),
            run.rules.cap_usd,
        )
    except SpendingCapReached as reached:
        _abandon(run, intent, BUDGET)
        return out_of_money(run, str(reached))
    return None


def _create(run: BatchContext, intent: BatchIntent, file_id: str) -> str | None:
    if not batch_store.renew(run.db, intent.id, run.claimed_by, recipe_store.now(run.connection)):
        delete_files(run, intent.id, [file_id])
        return CLAIMS_LOST
    try:
        batch = run.api.create(file_id, run.content.stages.endpoint, {METADATA_KEY: intent.id})
    except QueueFull:
        run.gate.answered()
        _abandon(run, intent, QUEUE_FULL, [file_id])
        return QUEUE_FULL
    except ApiFailure as failure:
        if not _is_unknown(failure):
            return _refused(run, intent, failure, file_id)
        # The batch may be there, or be there in a moment: the intent stays open until its lease has run out.
        batch_queue_store.note_unanswered(run.db, intent.id)
        return failure.code
    run.gate.answered()
    _record(run, intent, batch.id, file_id)
    return None


def _is_unknown(failure: ApiFailure) -> bool:
    """Whether the call may have had its effect: there was no answer, or the server broke over it."""
    if not isinstance(failure, ApiUnavailable):
        return False
    return failure.may_have_been_charged if failure.status is None else failure.status >= 500


def _refused(run: BatchContext, intent: BatchIntent, failure: ApiFailure, file: str | None) -> str:
    """The code to report: nothing was created. Only what the lines are at fault for counts for their jobs."""
    lines_at_fault = failure.verdict.effect == FAIL and not isinstance(failure, InputFileGone)
    _abandon(run, intent, failure.code, [file] if file else [], at_fault=lines_at_fault)
    run.gate.shut_for(failure)
    return failure.verdict.reason or failure.code


def _record(run: BatchContext, intent: BatchIntent, batch_id: str, file_id: str) -> None:
    """The intent is this batch, which is cancelled where another run has decided that there is none."""
    now = recipe_store.now(run.connection)
    if batch_store.mark_submitted(run.db, intent.id, run.claimed_by, batch_id, now, file_id):
        run.count("success", len(intent.job_ids), run.content.stages.submit_stage)
    else:
        standing = batch_store.get(run.db, intent.id)
        if standing is None or standing.batch_id != batch_id:
            run.api.cancel(batch_id)
            delete_files(run, intent.id, [file_id])
    batch_store.settle_jobs(run.db, intent.id, now)


def _abandon(
    run: BatchContext,
    intent: BatchIntent,
    reason: str,
    files: Sequence[str] = (),
    at_fault: bool = False,
    died: bool = False,
) -> None:
    """There is no batch: money, files and jobs go back. Nothing is touched where the intent is another run's.

    Whatever of it a crash leaves undone is done when the intent is settled again, or is free by itself.
    """
    now = recipe_store.now(run.connection)
    if not batch_store.renew(run.db, intent.id, run.claimed_by, now):
        return
    batch_queue_store.leave_files(run.db, intent.id, files)
    batch_spending.give_back(run.connection, intent.id)
    run.content.given_up(intent.id)
    if not batch_store.abandon(run.db, intent.id, run.claimed_by, reason, now, died):
        return
    if at_fault:
        errors = dict.fromkeys(intent.job_ids, reason)
        job_store.fail_lines(run.db, errors, run.content.stages.submitting, run.claimed_by, now)
        run.count("failed", len(errors), run.content.stages.submit_stage)
    batch_store.settle_jobs(run.db, intent.id, now)
    delete_left_files(run, intent.id)
