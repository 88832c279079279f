"""Takes in what a batch has answered: both files, line by line, into results, retries and failures.

Whatever dies on the way is done again from the files, which are deleted last: a job takes one answer, because
it takes any only while it is SUBMITTED by this plan, and the money is settled once, because its reservation
is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

from assets.economy_news import batch_store
from assets.economy_news.answers import BROKEN_RULES, InvalidOutput
from assets.economy_news.batch_line_verdicts import BadLine, Effect, bad_line
from assets.economy_news.batch_run import CHUNK, QUEUE_FULL, BatchRun
from assets.economy_news.models import OpenBatch, SubmittedJob
from assets.economy_news.result_writing import BROKE_A_RULE_TWICE
from assets.economy_news.settlement import PIPELINE
from assets.economy_news.store import input_hash
from resources import batch_spending
from resources.batch_answers import Answers
from resources.batch_lines import Body, content_of
from resources.batch_state import BatchState
from resources.batches import line_usage
from resources.counters import Counts
from resources.model_table import Model
from resources.spending import Usage

_T = TypeVar("_T")


class BatchLost(Exception):
    """The batch is another run's by now, which takes it in in our place."""


class BatchTaker:
    """Takes in one batch that the run holds. `model` is the batch's own, at batch prices."""

    def __init__(self, run: BatchRun, batch: OpenBatch, model: Model) -> None:
        self._run = run
        self._batch = batch
        self._model = model
        self._connection = run.connection
        self._writer = run.writer(batch)
        self._suspended: str | None = None

    def take_in(self, state: BatchState | None) -> None:
        """Ends the batch as the API shows it, None where it does not know it. Raises BatchLost."""
        if state is None:
            # It may have been carried out and charged: only its money is not given back.
            self._run.abandon_at_fault(self._batch, "batch_unknown", self._files(None), may_have_cost=True)
        elif state.status == "failed":
            self._fail(state)
        else:
            self._take_answers(state)

    def _fail(self, state: BatchState) -> None:
        """Refused as a whole, at no cost: the jobs' fault, but where the queue, key or quota was it."""
        run, files = self._run, self._files(state)
        code = next((error.code for error in state.errors), "failed")
        if state.queue_was_full:
            run.abandon(self._batch, QUEUE_FULL, files, later=True)
        elif reason := state.suspend_reason:
            run.abandon(self._batch, code, files)
            run.gate.shut(reason, f"a batch failed: {code}")
        else:
            run.abandon_at_fault(self._batch, f"batch_{code}", files)

    def _take_answers(self, state: BatchState) -> None:
        jobs = batch_store.jobs_of_batch(self._connection, self._batch.plan)
        answers = Answers({str(job_id) for job_id in jobs})
        with ExitStack() as stack:
            wanted = [one for one in (state.output_file_id, state.error_file_id) if one]
            files = [self._downloaded(file_id, stack) for file_id in wanted]
            for file in files:
                for bodies in _chunks(answers.read(file)) if file else ():
                    self._take_bodies(dict(bodies))
        bad = {int(name): bad_line(why, answers.codes.get(name, "")) for name, why in answers.bad.items()}
        for chunk in _chunks(bad.items()):
            self._take_bad_lines(dict(chunk))
        self._finish(state, answers, bad.values(), whole=all(files))
        if self._suspended is not None:
            self._run.gate.shut(self._suspended, "lines of a batch were refused")

    def _downloaded(self, file_id: str, stack: ExitStack) -> BinaryIO | None:
        """The file from its beginning, None where the API does not have it."""
        file: BinaryIO = stack.enter_context(TemporaryFile(prefix="granary-batch-"))  # noqa: SIM115
        is_there = self._run.api.download_to(file_id, file)
        self._run.gate.answered()
        file.seek(0)
        return file if is_there else None

    def _take_bodies(self, bodies: Mapping[str, Body]) -> None:
        self._end_jobs(
            [int(name) for name in bodies],
            lambda job: self._answered(job, bodies[str(job.claim.job_id)]),
        )

    def _take_bad_lines(self, bad: Mapping[int, BadLine]) -> None:
        self._end_jobs(list(bad), lambda job: self._unanswered(job, bad[job.claim.job_id]))

    def _end_jobs(self, job_ids: Sequence[int], end: Callable[[SubmittedJob], None]) -> None:
        """Ends those that still wait for this batch, in one transaction; the lease is renewed by it."""
        with self._connection.transaction():
            self._hold()
            for job in batch_store.lock_submitted(
                self._connection, self._batch.plan, self._run.run_id, job_ids
            ):
                end(job)
            self._writer.write()
            self._writer.counts.write(self._connection)

    def _hold(self) -> None:
        lease = self._run.rules.lease_seconds
        if not batch_store.renew(self._connection, self._batch.plan, self._run.run_id, lease):
            raise BatchLost

    def _answered(self, job: SubmittedJob, body: Body) -> None:
        claim = job.claim
        usage = line_usage(body, self._model)
        self._run.outcome.jobs.add_usage(claim, usage)
        if job.has_lost_its_text:
            self._writer.fail(claim, "body_emptied", "the body was emptied (ARTICLE_RETENTION_DAYS)")
        elif job.asked_hash != input_hash(claim.title, claim.text):
            self._text_has_changed(job)
        else:
            try:
                result = self._run.kind.read(content_of(body), claim)
            except InvalidOutput as invalid:
                self._broke_a_rule(job, invalid.code)
            except ValueError:  # a body of another endpoint
                self._broke_a_rule(job, "invalid_output")
            else:
                self._writer.succeed(claim, result, usage)

    def _text_has_changed(self, job: SubmittedJob) -> None:
        """The answer cannot be checked against the text that it was made from, which is gone."""
        if job.is_superseded:
            self._writer.fail(job.claim, "superseded", "its successor asks about the text as it is now")
        else:
            self._writer.put_off(job.claim, "input_changed", 0, "its text changed while it was in a batch")

    def _broke_a_rule(self, job: SubmittedJob, code: str) -> None:
        """Asked once more with the next batch; without the complaint, since the bad answer is not kept."""
        if job.error_code in BROKEN_RULES:
            self._writer.fail(job.claim, code, BROKE_A_RULE_TWICE)
        else:
            self._writer.counts.add("ai_jobs_events_total", type=self._run.kind.job_type, event="asked_again")
            self._writer.put_off(job.claim, code, 0, "the answer broke a rule")

    def _unanswered(self, job: SubmittedJob, line: BadLine) -> None:
        claim = job.claim
        self._suspended = self._suspended or line.suspend_reason
        if line.effect is Effect.UNASKED:
            ids = [claim.job_id]
            self._run.outcome.returned += batch_store.return_jobs(self._connection, self._batch.plan, ids)
        elif line.effect is Effect.BROKE_A_RULE:
            self._broke_a_rule(job, line.code)
        elif line.effect is Effect.RETRY:
            self._writer.try_again(claim, line.code, "its line in a batch failed")
        else:
            self._writer.fail(claim, line.code, "its line in a batch failed")

    def _finish(self, state: BatchState, answers: Answers, bad: Iterable[BadLine], whole: bool) -> None:
        """What stands in neither file waits again; the money, the counters and the end go together.

        Where not all files were there, what they cost is not known, and stays reserved until the day ends.
        """
        kept = {**answers.counts(), "input_tokens": answers.usage.input_tokens}
        kept |= {"cached_tokens": answers.usage.cached_tokens, "output_tokens": answers.usage.output_tokens}
        with self._connection.transaction():
            self._hold()
            self._run.outcome.returned += batch_store.return_jobs(self._connection, self._batch.plan)
            usage = self._usage(answers)
            if whole and batch_spending.settle(self._connection, self._batch.plan, usage):
                self._count_calls(usage, answers.counts()["good"], bad)
            batch_store.end(
                self._connection,
                self._batch.plan,
                self._run.run_id,
                "TAKEN_IN",
                None if state.status == "completed" else state.status,
                self._files(state),
                kept,
            )
            self._writer.counts.write(self._connection)
        self._run.delete_left_files()

    def _usage(self, answers: Answers) -> Usage:
        used = answers.usage
        cached = min(used.cached_tokens, used.input_tokens)
        cost = self._model.cost_usd(used.input_tokens, cached, used.output_tokens)
        return Usage(answers.calls, used.input_tokens, cached, used.output_tokens, cost)

    def _count_calls(self, usage: Usage, good: int, bad: Iterable[BadLine]) -> None:
        """As calls are counted that are made one by one."""
        counts: Counts = self._writer.counts
        counts.add("ai_cost_usd_total", float(usage.cost_usd), pipeline=PIPELINE, model=self._batch.model)
        calls = Counter({("ok", "none"): good})
        for line in bad:
            if line.status is not None:
                calls[line.status, "none" if line.status == "ok" else line.code] += 1
        for (status, code), number in calls.items():
            counts.add(
                "openai_api_requests_total",
                number,
                model=self._batch.model,
                schema=self._run.kind.prompt.schema_name,
                status=status,
                error_code=code,
            )

    def _files(self, state: BatchState | None) -> list[str]:
        files = [self._batch.input_file_id]
        files += [state.output_file_id, state.error_file_id] if state else []
        return [one for one in files if one]


def _chunks(entries: Iterable[_T]) -> Iterator[list[_T]]:
    waiting = iter(entries)
    while chunk := list(islice(waiting, CHUNK)):
        yield chunk
