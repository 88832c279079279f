"""One batch from its plan to its id, so that no line is sent twice whenever a run dies.

The plan is one transaction: claims, lines, money and its row. It is there before anything reaches the
provider, and the batch carries its id: whoever finds a plan without a batch looks through the provider's list
for it before anything is sent again.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import BinaryIO, NamedTuple
from uuid import uuid4

from assets.economy_news import batch_store
from assets.economy_news.batch_room import BUDGET, Room, room_now
from assets.economy_news.batch_run import METADATA_KEY, QUEUE_FULL, BatchRun
from assets.economy_news.models import BatchLine, Claim, OpenBatch
from assets.economy_news.settlement import PIPELINE
from assets.economy_news.store import input_hash
from resources import batch_spending
from resources.api_failure import FAIL, ApiFailure
from resources.batch_lines import MAX_BYTES, MAX_LINES, Shard, emptied, request_line, write_shards
from resources.batches import Endpoint, InputFileGone, QueueFull
from resources.chat import JsonSchema
from resources.counters import Counts
from resources.errors import SpendingCapReached
from resources.openai_api import ApiUnavailable

ENDPOINT: Endpoint = "/v1/chat/completions"
LOST = "LEASE_LOST"
PLANNED_AT_ONCE = 200
"""Jobs whose texts are in memory together."""


class Planned(NamedTuple):
    """A batch that is planned and not sent, with the file of its lines."""

    batch: OpenBatch
    lines: int
    file: BinaryIO


def file_name(plan: str) -> str:
    """What the plan's lines are called at the provider."""
    return f"granary-{plan}.jsonl"


class BatchSender:
    """Plans and sends batches of one kind. `reason` says why nothing more is to be sent, once it is set."""

    def __init__(self, run: BatchRun, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self._run = run
        self._connection = run.connection
        self._schema = JsonSchema(run.kind.prompt.schema_name, run.kind.prompt.schema)
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._refused: dict[int, str] = {}
        self.reason: str | None = None

    def plan(self, day: date, sections: Sequence[str], file: BinaryIO) -> Planned | None:
        """The next batch of the day's jobs, as many as there is room for; None where none is to be sent."""
        run, plan = self._run, uuid4().hex
        self._refused = {}
        lines: dict[int, BatchLine] = {}
        try:
            with self._connection.transaction():
                batch_store.lock_planning(self._connection, run.model.name)
                room = room_now(self._connection, run.model, run.chat.max_output_tokens, run.rules)
                written = self._lines(plan, day, sections, room, lines)
                shards = write_shards(written, lambda _: emptied(file), self._max_lines, self._max_bytes)
                shard = next(shards, None)
                self._write_refused()
                if shard is not None:
                    self._keep(plan, day, shard, [lines[int(job_id)] for job_id in shard.custom_ids])
        except SpendingCapReached:
            self.reason, shard = BUDGET, None
        if self.reason == BUDGET and shard is None:
            self._out_of_money()
        if shard is None:
            return None
        (batch,) = [one for one in batch_store.open_batches(self._connection) if one.plan == plan]
        return Planned(batch, len(shard.custom_ids), file)

    def send(self, planned: Planned) -> None:
        """Makes the plan a batch. Where it is none its jobs are free again, unless nobody can tell yet."""
        run, batch = self._run, planned.batch
        name = file_name(batch.plan)
        try:
            run.gate.asks()
            planned.file.seek(0)
            file_id = run.api.upload(planned.file, name)
        except ApiFailure as failure:
            # After an answer that was lost the file may be there all the same.
            self._refuse(batch, failure, name if _is_unknown(failure) else None)
            return
        if not batch_store.mark_uploaded(
            self._connection, batch.plan, run.run_id, file_id, run.rules.lease_seconds
        ):
            run.api.delete_file(file_id)
            self.reason = LOST
            return
        try:
            state = run.api.create(file_id, ENDPOINT, {METADATA_KEY: batch.plan})
        except QueueFull:
            run.gate.answered()
            run.abandon(batch, QUEUE_FULL, [file_id], later=True)
            self.reason = QUEUE_FULL
        except ApiFailure as failure:
            if _is_unknown(failure):
                # There may be a batch, or be one in a moment: the plan is left until its lease has run out.
                self.reason = failure.code
            else:
                self._refuse(batch, failure, file_id)
        else:
            run.gate.answered()
            record(run, batch, state.id, file_id)
            run.outcome.sent += 1
            run.outcome.lines += planned.lines

    def _lines(
        self, plan: str, day: date, sections: Sequence[str], room: Room, lines: dict[int, BatchLine]
    ) -> Iterator[tuple[str, bytes]]:
        """The lines that there is room for, in the order of their jobs, a portion of texts at a time."""
        after = 0
        while jobs := self._jobs(plan, day, sections, after):
            for job in jobs:
                after = job.job_id
                line, data = self._line(job)
                if code := self._never_fits(line, room):
                    self._refused[job.job_id] = code
                    continue
                self.reason = (None if lines else room.waits_for()) or room.refuses(line)
                if self.reason:
                    return
                lines[job.job_id] = line
                yield str(job.job_id), data

    def _jobs(self, plan: str, day: date, sections: Sequence[str], after: int) -> list[Claim]:
        run = self._run
        return batch_store.jobs_to_plan(
            self._connection,
            run.kind.job_type,
            day,
            sections,
            plan=plan,
            run_id=run.run_id,
            after=after,
            limit=PLANNED_AT_ONCE,
            model=run.model.name,
            provider_key=run.provider_key,
            is_probe=run.gate.is_probe,
        )

    def _line(self, job: Claim) -> tuple[BatchLine, bytes]:
        messages = self._run.kind.prompt.messages(self._run.kind.texts(job))
        body = self._run.chat.request_body(messages, self._schema)
        data = request_line(str(job.job_id), ENDPOINT, body)
        most = self._run.chat.most_input_tokens(messages, self._schema)
        return BatchLine(job.job_id, input_hash(job.title, job.text), len(data), most), data

    def _never_fits(self, line: BatchLine, room: Room) -> str | None:
        cap = self._run.rules.cap_usd
        if cap and room.most_of_one_usd(line) > cap:
            return "costs_more_than_the_cap"
        return "too_long_for_a_batch" if line.bytes > self._max_bytes else None

    def _write_refused(self) -> None:
        counts = Counts()
        for code in sorted(set(self._refused.values())):
            ids = [job_id for job_id, reason in self._refused.items() if reason == code]
            batch_store.refuse_jobs(self._connection, ids, self._run.run_id, code, "no batch can take it")
            job_type = self._run.kind.job_type
            counts.add("ai_jobs_processed_total", len(ids), type=job_type, result="failed", error_code=code)
            self._run.outcome.jobs.failed += len(ids)
        counts.write(self._connection)

    def _keep(self, plan: str, day: date, shard: Shard, lines: Sequence[BatchLine]) -> None:
        """The plan, in the transaction that has locked its jobs; the rows that all runs write come last."""
        run = self._run
        batch_store.plan_batch(
            self._connection,
            plan,
            run.kind.job_type,
            day,
            lines,
            run_id=run.run_id,
            lease_seconds=run.rules.lease_seconds,
            prompt_version=run.kind.prompt.version,
            model=run.model.name,
            lines_sha256=shard.sha256,
        )
        batch_spending.reserve(
            self._connection,
            plan,
            PIPELINE,
            run.model,
            sum(line.most_input_tokens for line in lines),
            len(lines) * run.chat.max_output_tokens,
            run.rules.cap_usd,
        )
        counts = Counts()
        counts.add("ai_jobs_events_total", len(lines), type=run.kind.job_type, event="claimed")
        counts.write(self._connection)

    def _out_of_money(self) -> None:
        """Shuts the gate, unless an open batch is yet to give money back."""
        if not batch_store.open_batches(self._connection):
            self._run.gate.shut(BUDGET, "the day's cap DAILY_SPENDING_CAP_USD has no room for a batch")

    def _refuse(self, batch: OpenBatch, failure: ApiFailure, file: str | None) -> None:
        """Nothing was created. Only what the lines are at fault for counts for their jobs."""
        files = [file] if file else []
        if failure.verdict.effect == FAIL and not isinstance(failure, InputFileGone):
            self._run.abandon_at_fault(batch, failure.code, files)
        else:
            self._run.abandon(batch, failure.code, files)
        self._run.gate.shut_for(failure)
        self.reason = failure.verdict.reason or failure.code


def settle_open(run: BatchRun, plans: Sequence[OpenBatch]) -> None:
    """Settles plans whose lease ran out before they had a batch: each is one that was found, or abandoned.

    Raises ApiFailure where the provider's list cannot be read: the plans are then tried by a later run.
    """
    mine = [
        one for one in plans if batch_store.take(run.connection, one, run.run_id, run.rules.lease_seconds)
    ]
    if not mine:
        return
    since = min(batch.planned_at for batch in mine)
    found = {state.metadata.get(METADATA_KEY): state for state in run.api.created_since(since)}
    run.gate.answered()
    for batch in mine:
        if state := found.get(batch.plan):
            record(run, batch, state.id, state.input_file_id)
        else:
            # By name too: after a lost answer nobody knows the file's id.
            run.abandon(batch, "no batch was created", [file_name(batch.plan)])
        run.outcome.settled += 1


def record(run: BatchRun, batch: OpenBatch, batch_id: str, file_id: str) -> None:
    """The plan is this batch, which is cancelled where another run has decided that there is none."""
    if batch_store.mark_submitted(run.connection, batch.plan, run.run_id, batch_id, file_id):
        return
    if batch_store.standing_batch_id(run.connection, batch.plan) != batch_id:
        run.api.cancel(batch_id)
        run.api.delete_file(file_id)


def _is_unknown(failure: ApiFailure) -> bool:
    """Whether the call may have had its effect: there was no answer, or the server broke over it."""
    if not isinstance(failure, ApiUnavailable):
        return False
    return failure.may_have_been_charged if failure.status is None else failure.status >= 500
