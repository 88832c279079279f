"""What a step does with batches of its kind before it asks anything itself. Usable without Dagster.

First what earlier runs left open, then what the provider has answered, then new batches from what waits.
"""

import time
from collections.abc import Sequence
from datetime import date
from tempfile import TemporaryFile

import psycopg

from assets.economy_news import batch_store
from assets.economy_news.batch_run import BatchOutcome, BatchRun, log
from assets.economy_news.batch_sending import BatchSender, settle_open
from assets.economy_news.batch_taking_in import BatchLost, BatchTaker
from assets.economy_news.models import OpenBatch, Partition
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.rules import EnrichmentRules
from resources.alerts import AlertResource
from resources.api_failure import SUSPEND, ApiFailure
from resources.batch_lines import MAX_BYTES, MAX_LINES
from resources.batches import BatchApi, BatchResource
from resources.chat import ChatResource
from resources.model_gate import ModelGate
from resources.model_table import Model, ModelPrice, model_named


class BatchStep:
    """The batches of one kind and of the days of the partitions."""

    def __init__(
        self,
        kind: ResultKind,
        partitions: Sequence[Partition],
        run_id: str,
        connection: psycopg.Connection,
        chat: ChatResource,
        batches: BatchResource,
        rules: EnrichmentRules,
        alerts: AlertResource,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._kind = kind
        self._partitions = partitions
        self._run_id = run_id
        self._connection = connection
        self._chat = chat
        self._batches = batches
        self._rules = rules
        self._limits = (max_lines, max_bytes)
        self._gate = ModelGate(connection, batches.gate_key, alerts, rules.gate_probe_minutes)
        self._ends_at = time.monotonic() + rules.slice_seconds
        self._outcome = BatchOutcome()

    def run(self) -> BatchOutcome:
        """Takes in and sends; where there is nothing of either it asks the API nothing.

        What the API answers never raises: it is the outcome's `reason`, and shuts the gate where it hits
        everyone. One that is shut for the key keeps all; for another reason, only new batches. Raises
        ModelHasNoPrice, and psycopg's errors: what was under way then is found again by its plan.
        """
        days = sorted({partition.day for partition in self._partitions})
        open_ = batch_store.open_batches(self._connection, self._kind.job_type, days)
        if not self._rules.enabled or not (
            open_ or self._days_to_plan() or batch_store.files_left(self._connection)
        ):
            return self._outcome
        if shut := self._gate.pass_(only="AUTH"):
            self._outcome.reason = shut.reason
            return self._outcome
        try:
            with self._batches.open() as api:
                self._work(self._batch_run(api), [one for one in open_ if one.is_free])
        except ApiFailure as failure:
            self._gate.shut_for(failure)
            self._outcome.reason = failure.verdict.reason or failure.code
        self._gate.asked_nothing()
        return self._outcome

    def _batch_run(self, api: BatchApi) -> BatchRun:
        return BatchRun(
            self._kind,
            self._run_id,
            self._connection,
            api,
            self._gate,
            self._batches.gate_key.provider_key,
            self._batches.priced_model.in_batch(),
            self._chat,
            self._rules,
            self._outcome,
        )

    def _work(self, run: BatchRun, free: Sequence[OpenBatch]) -> None:
        run.delete_left_files()
        settle_open(run, [one for one in free if one.status == "PLANNED"])
        for batch in free:
            if batch.status == "SUBMITTED" and time.monotonic() < self._ends_at:
                self._take_or_report(run, batch)
        if shut := self._gate.pass_():
            self._outcome.reason = shut.reason
        else:
            self._send(run)

    def _take_or_report(self, run: BatchRun, batch: OpenBatch) -> None:
        """One batch; what fails for it alone leaves the others to be taken in."""
        try:
            self._take_in(run, batch)
        except BatchLost:
            pass
        except ApiFailure as failure:
            if failure.verdict.effect == SUSPEND:
                raise
            self._outcome.reason = failure.code

    def _take_in(self, run: BatchRun, batch: OpenBatch) -> None:
        state = run.api.look(str(batch.batch_id))
        run.gate.answered()
        if state is not None and not state.is_over:
            self._outcome.under_way += 1
            if not state.is_known_status:
                log.warning("batch %s is %s, taken as under way", batch.batch_id, state.status)
            return
        if not batch_store.take(self._connection, batch, self._run_id, self._rules.lease_seconds):
            return
        try:
            BatchTaker(run, batch, self._model_of(batch)).take_in(state)
        except BaseException:
            _release(self._connection, batch.plan, self._run_id)
            raise
        self._outcome.taken_in += 1

    def _send(self, run: BatchRun) -> None:
        sender = BatchSender(run, *self._limits)
        with TemporaryFile(prefix="granary-batch-", buffering=0) as file:
            for day, sections in self._days_to_plan():
                while time.monotonic() < self._ends_at and sender.reason is None:
                    planned = sender.plan(day, sections, file)
                    if planned is None:
                        break
                    # What did not fit waits for the next run; what did is sent.
                    stopped, sender.reason = sender.reason, None
                    sender.send(planned)
                    sender.reason = sender.reason or stopped
        self._outcome.reason = self._outcome.reason or sender.reason

    def _days_to_plan(self) -> list[tuple[date, list[str]]]:
        return batch_store.days_to_plan(self._connection, self._kind.job_type, self._partitions)

    def _model_of(self, batch: OpenBatch) -> Model:
        """The batch's own, at batch prices: the setting may name another by now."""
        prices = {
            name: ModelPrice.model_validate(price) for name, price in self._batches.model_prices.items()
        }
        return model_named(batch.model, prices).in_batch()


def _release(connection: psycopg.Connection, plan: str, run_id: str) -> None:
    """Where the database is gone too, the lease runs out."""
    try:
        batch_store.release(connection, plan, run_id)
    except psycopg.Error:
        return
