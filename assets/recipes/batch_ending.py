"""How a batch ends: its money settled and counted once, its jobs moved on, its files deleted last."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from assets.recipes import batch_intents, batch_queue_store, batch_store, job_store, recipe_store
from assets.recipes.batch_intents import PIPELINE, BatchContext
from assets.recipes.batch_queue_store import QUEUE_FULL
from assets.recipes.models import BatchIntent, BatchKind, Job
from resources import batch_spending
from resources.batch_answers import Answers
from resources.batch_state import BatchState
from resources.counters import Counts
from resources.model_table import Model
from resources.spending import Usage

CHUNK = 500


class BatchLost(Exception):
    """The batch is another run's by now, which retrieves it in our place."""


class Ended(NamedTuple):
    """Jobs of a batch without results: `failed` lines count a retry, `sent_again` ones do not."""

    failed: int = 0
    sent_again: int = 0


def renew(run: BatchContext, intent: BatchIntent) -> None:
    """The caller's lease counts from now. Raises BatchLost."""
    if not batch_store.renew(run.db, intent.id, run.claimed_by, recipe_store.now(run.connection)):
        raise BatchLost


@contextmanager
def claimed(
    run: BatchContext, intent: BatchIntent, job_ids: Sequence[str] | None = None
) -> Iterator[list[Job]]:
    """The batch's jobs that wait for its results, or those of them, a chunk at most.

    Where the block fails, those that are not finished in it wait again.
    """
    stages, now = run.content.stages, recipe_store.now(run.connection)
    jobs = job_store.claim(
        run.db,
        None,
        stages.submitted,
        stages.retrieving,
        run.claimed_by,
        now,
        limit=CHUNK if job_ids is None else len(job_ids),
        job_ids=job_ids,
        batch_id=intent.batch_id,
    )
    try:
        yield jobs
    except BaseException:
        ids = [job.id for job in jobs]
        job_store.give_back(run.db, ids, stages.retrieving, stages.submitted, run.claimed_by)
        raise


def fail_lines(run: BatchContext, errors: Mapping[str, str]) -> int:
    """How many claimed jobs have one more retry counted."""
    if not errors:
        return 0
    stages, now = run.content.stages, recipe_store.now(run.connection)
    failed = sum(job_store.fail_lines(run.db, errors, stages.retrieving, run.claimed_by, now))
    run.count("failed", failed, stages.retrieve_stage)
    return failed


def fail_all(run: BatchContext, intent: BatchIntent, reason: str) -> int:
    """How many of the batch's jobs still waited for its results, and are failed for the reason."""
    return _for_all(run, intent, lambda ids: fail_lines(run, dict.fromkeys(ids, reason)))


def has_jobs(run: BatchContext, intent: BatchIntent) -> bool:
    """Whether jobs still wait for this batch's results, whoever holds them."""
    stages = run.content.stages
    return any(
        job.status in (stages.submitted, stages.retrieving) and stages.batch_of(job) == intent.batch_id
        for job in job_store.jobs(run.db, intent.job_ids)
    )


def retrieved(
    run: BatchContext,
    intent: BatchIntent,
    state: BatchState,
    answers: Answers,
    model: Model,
    whole: bool,
) -> bool:
    """True where the tokens were counted now, False where another run had counted them before it died.

    Where not all files were there, what they cost is not known, and stays reserved until the day ends.
    """
    counted = whole and _settle(run, intent, _usage(answers, model))
    tokens = {
        "input": answers.usage.input_tokens,
        "cached": answers.usage.cached_tokens,
        "output": answers.usage.output_tokens,
    }
    run.content.given_up(intent.id)
    _leave_files(run, intent, state)
    now = recipe_store.now(run.connection)
    batch_store.mark_retrieved(run.db, intent.id, run.claimed_by, now, state.status, answers.counts(), tokens)
    batch_intents.delete_left_files(run, intent.id)
    return counted


def failed(run: BatchContext, intent: BatchIntent, state: BatchState) -> Ended:
    """The batch was refused as a whole, and cost nothing.

    That counts against its jobs, but not where the account's queue was full, or its key or quota refused.
    """
    code = next((error.code for error in state.errors), "failed")
    if state.queue_was_full:
        ended, error = Ended(sent_again=_send_again(run, intent)), QUEUE_FULL
    elif reason := state.suspend_reason:
        run.gate.shut(reason, f"a batch failed: {code}")
        ended, error = Ended(sent_again=_send_again(run, intent)), code
    else:
        ended, error = Ended(failed=fail_all(run, intent, f"batch:{code}")), code
    if has_jobs(run, intent):
        batch_store.release_claims(run.db, run.claimed_by)
        return ended
    batch_spending.give_back(run.connection, intent.id)
    _mark_failed(run, intent, error, state)
    return ended


def unknown(run: BatchContext, intent: BatchIntent) -> Ended:
    """The API does not know the batch: its jobs are to be sent again. Its money stays reserved."""
    ended = Ended(failed=fail_all(run, intent, "batch:unknown"))
    if has_jobs(run, intent):
        batch_store.release_claims(run.db, run.claimed_by)
        return ended
    _mark_failed(run, intent, "unknown", None)
    return ended


def _mark_failed(run: BatchContext, intent: BatchIntent, error: str, state: BatchState | None) -> None:
    run.content.given_up(intent.id)
    _leave_files(run, intent, state)
    now = recipe_store.now(run.connection)
    batch_store.mark_failed(
        run.db, intent.id, run.claimed_by, error, now, last_status=state.status if state else None
    )
    batch_intents.delete_left_files(run, intent.id)


def _send_again(run: BatchContext, intent: BatchIntent) -> int:
    retrieving = run.content.stages.retrieving
    return _for_all(
        run, intent, lambda ids: batch_queue_store.send_again(run.db, ids, retrieving, run.claimed_by)
    )


def _for_all(run: BatchContext, intent: BatchIntent, move: Callable[[list[str]], int]) -> int:
    """Claims and moves what waits for the batch's results, a chunk at a time; how many were moved."""
    moved = 0
    while True:
        renew(run, intent)
        with claimed(run, intent) as jobs:
            if not jobs:
                return moved
            moved += move([job.id for job in jobs])


def _settle(run: BatchContext, intent: BatchIntent, usage: Usage) -> bool:
    """The money and the counters of tokens in one transaction, once."""
    with run.connection.transaction():
        if not batch_spending.settle(run.connection, intent.id, usage):
            return False
        counts = Counts()
        counts.add("ai_cost_usd_total", float(usage.cost_usd), pipeline=PIPELINE, model=intent.model)
        if intent.kind == BatchKind.PARSE:  # an embedding model is none that writes
            total = usage.input_tokens + usage.output_tokens
            by_type = {"input": usage.input_tokens, "output": usage.output_tokens, "total": total}
            for token_type, tokens in by_type.items():
                counts.add("recipe_ingestion_llm_tokens_total", tokens, token_type=token_type)
        counts.write(run.connection)
    return True


def _usage(answers: Answers, model: Model) -> Usage:
    used = answers.usage
    cached = min(used.cached_tokens, used.input_tokens)
    cost = model.cost_usd(used.input_tokens, cached, used.output_tokens)
    return Usage(answers.calls, used.input_tokens, cached, used.output_tokens, cost)


def _leave_files(run: BatchContext, intent: BatchIntent, state: BatchState | None) -> None:
    files = [intent.input_file_id]
    files += [state.output_file_id, state.error_file_id] if state else []
    batch_queue_store.leave_files(run.db, intent.id, [one for one in files if one])
