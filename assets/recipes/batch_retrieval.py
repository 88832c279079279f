"""Takes in what batches have answered: both files, line by line, into the job records and Postgres.

Whatever dies on the way is done again from the files, which are deleted last: a job takes one answer, because
a claim by batch finds it once, and the money is settled once, because its reservation is.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO

import psycopg

from assets.recipes import (
    batch_ending,
    batch_intents,
    batch_queue_store,
    batch_store,
    job_store,
    recipe_store,
    repair_store,
)
from assets.recipes.batch_ending import BatchLost
from assets.recipes.batch_intents import BatchContext
from assets.recipes.batch_kinds import INGREDIENT, BatchContent, Read
from assets.recipes.models import BatchIntent
from assets.recipes.rules import RecipeRules
from resources.alerts import AlertResource
from resources.api_failure import SUSPEND, ApiFailure
from resources.batch_answers import Answers
from resources.batch_lines import Body
from resources.batch_state import BatchState
from resources.batches import BatchApi, BatchResource
from resources.model_gate import ModelGate
from resources.model_table import Model, ModelPrice, model_named

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

log = logging.getLogger("granary.recipes")

CHUNK = 200
NOT_LOOKED_AT: Mapping[str, BatchState | None] = {}


@dataclass
class Retrieved:
    """What a run took in. `failed` lines count a retry, `sent_again` jobs do not; `batches` are over.

    `held`: batches that a dead run still has jobs of, for the next run. `reason`: the API's, where it failed.
    """

    batches: int = 0
    under_way: int = 0
    held: int = 0
    good: int = 0
    failed: int = 0
    sent_again: int = 0
    ingredients: int = 0
    unknown: int = 0
    doubled: int = 0
    unreadable: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reason: str | None = None


class Retriever:
    """Retrieves one partition's batches of one kind that are over."""

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
        self._outcome = Retrieved()

    def run(self, states: Mapping[str, BatchState | None] = NOT_LOOKED_AT) -> Retrieved:
        """Takes in what is over. `states` by batch id, as the API has shown them; others are looked at.

        What the API answers never raises: it is the outcome's `reason`, and shuts the gate where it hits
        everyone; only one that is shut for the key keeps results from being taken in. Raises ModelHasNoPrice,
        and the databases' errors, with what was claimed given back.
        """
        repair_store.release_dead(self._db, self._now())
        batch_store.settle_ended(self._db, self._now())
        if shut := self._gate.pass_(only="AUTH"):
            self._outcome.reason = shut.reason
            return self._outcome
        mine = [
            one for one in batch_store.open_batches(self._db, self._stages.kind) if one.run_id == self._run_id
        ]
        try:
            with self._batches.open() as api:
                run = self._context(api)
                batch_intents.delete_left_files(run)
                for intent in mine:
                    self._retrieve_or_report(run, intent, states)
        except ApiFailure as failure:
            self._gate.shut_for(failure)
            self._outcome.reason = failure.verdict.reason or failure.code
        self._gate.asked_nothing()
        return self._outcome

    def _context(self, api: BatchApi) -> BatchContext:
        return BatchContext(
            self._content,
            self._db,
            self._connection,
            api,
            self._gate,
            self._batches.priced_model.in_batch(),
            self._rules,
            self._run_id,
            self._claimed_by,
        )

    def _retrieve_or_report(
        self, run: BatchContext, intent: BatchIntent, states: Mapping[str, BatchState | None]
    ) -> None:
        """One batch; what fails for it alone leaves the others to be retrieved."""
        try:
            state = self._look(run, intent, states)
            if state is None or state.is_over:
                self._retrieve(run, intent, state)
            else:
                self._outcome.under_way += 1
        except ApiFailure as failure:
            if failure.verdict.effect == SUSPEND:
                raise
            self._outcome.reason = failure.code

    def _look(
        self, run: BatchContext, intent: BatchIntent, states: Mapping[str, BatchState | None]
    ) -> BatchState | None:
        batch_id = str(intent.batch_id)
        if batch_id in states:
            state = states[batch_id]
        else:
            state = run.api.look(batch_id)
            run.gate.answered()
        if state is not None and state.status != intent.last_status:
            batch_store.note_status(run.db, intent.id, state.status)
            if not state.is_known_status:
                log.warning("batch %s has the unknown status %s: taken as under way", batch_id, state.status)
        return state

    def _retrieve(self, run: BatchContext, intent: BatchIntent, state: BatchState | None) -> None:
        taken = batch_store.take(self._db, intent.id, self._claimed_by, self._now())
        if taken is None:
            return
        try:
            if state is not None and state.status != "failed":
                self._take_in(run, taken, state)
                return
            ended = (
                batch_ending.unknown(run, taken) if state is None else batch_ending.failed(run, taken, state)
            )
            self._outcome.failed += ended.failed
            self._outcome.sent_again += ended.sent_again
            self._outcome.batches += 1
        except BatchLost:
            self._outcome.held += 1
        except BaseException:
            batch_store.release_claims(self._db, self._claimed_by)
            raise

    def _take_in(self, run: BatchContext, intent: BatchIntent, state: BatchState) -> None:
        answers = Answers({*intent.job_ids, *(f"{INGREDIENT}{id_}" for id_ in intent.ingredient_ids)})
        with ExitStack() as stack:
            wanted = [one for one in (state.output_file_id, state.error_file_id) if one]
            files = [self._downloaded(run, file_id, stack) for file_id in wanted]
            for file in files:
                for bodies in _chunks(answers.read(file)) if file else ():
                    self._take_chunk(run, intent, bodies)
        self._fail_rest(run, intent, answers, "missing" if state.status == "completed" else state.status)
        self._outcome.unknown += answers.unknown
        self._outcome.doubled += answers.doubled
        self._outcome.unreadable += answers.unreadable
        if batch_ending.has_jobs(run, intent):
            # Of a run that died over them: they come back, and the files are still there.
            self._outcome.held += 1
            batch_store.release_claims(self._db, self._claimed_by)
            return
        if batch_ending.retrieved(run, intent, state, answers, self._model_of(intent), whole=all(files)):
            self._outcome.input_tokens += answers.usage.input_tokens
            self._outcome.cached_tokens += answers.usage.cached_tokens
            self._outcome.output_tokens += answers.usage.output_tokens
        self._outcome.batches += 1

    def _downloaded(self, run: BatchContext, file_id: str, stack: ExitStack) -> BinaryIO | None:
        """The file from its beginning, None where the API does not have it."""
        file: BinaryIO = stack.enter_context(TemporaryFile(prefix="granary-batch-"))  # noqa: SIM115
        is_there = run.api.download_to(file_id, file)
        run.gate.answered()
        file.seek(0)
        return file if is_there else None

    def _take_chunk(self, run: BatchContext, intent: BatchIntent, bodies: Mapping[str, Body]) -> None:
        batch_ending.renew(run, intent)
        of_jobs = {name: body for name, body in bodies.items() if not name.startswith(INGREDIENT)}
        of_ingredients = {
            int(name.removeprefix(INGREDIENT)): body for name, body in bodies.items() if name not in of_jobs
        }
        unusable = self._content.read_ingredients(intent, of_ingredients)
        self._outcome.ingredients += len(of_ingredients) - len(unusable)
        with batch_ending.claimed(run, intent, list(of_jobs)) as jobs:
            self._store(run, self._content.read(intent, jobs, of_jobs))

    def _store(self, run: BatchContext, read: Read) -> None:
        stages, now = self._stages, self._now()
        good = job_store.finish_each(
            self._db, read.good, stages.retrieving, stages.retrieved, self._claimed_by, now
        )
        if good:
            run.count("success", good, stages.retrieve_stage)
        self._outcome.good += good
        self._outcome.failed += batch_ending.fail_lines(run, read.unusable)
        self._outcome.sent_again += batch_queue_store.send_again(
            self._db, read.outdated, stages.retrieving, self._claimed_by
        )

    def _fail_rest(self, run: BatchContext, intent: BatchIntent, answers: Answers, reason: str) -> None:
        """Bad lines with their reasons, and what stands in neither file."""
        bad = iter(answers.bad)
        while ids := list(islice(bad, CHUNK)):
            batch_ending.renew(run, intent)
            with batch_ending.claimed(run, intent, ids) as jobs:
                reasons = {job.id: answers.bad[job.id] for job in jobs}
                self._outcome.failed += batch_ending.fail_lines(run, reasons)
        self._outcome.failed += batch_ending.fail_all(run, intent, reason)

    def _model_of(self, intent: BatchIntent) -> Model:
        """The batch's own model, at batch prices: the setting may name another by now."""
        prices = {
            name: ModelPrice.model_validate(price) for name, price in self._batches.model_prices.items()
        }
        return model_named(intent.model, prices).in_batch()

    def _now(self) -> datetime:
        return recipe_store.now(self._connection)


def _chunks(answers: Iterator[tuple[str, Body]]) -> Iterator[dict[str, Body]]:
    while chunk := dict(islice(answers, CHUNK)):
        yield chunk
