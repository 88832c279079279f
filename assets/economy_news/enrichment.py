"""Settles the AI jobs of one kind: claim, reserve, ask, check, store. Usable without Dagster.

All statements run on the caller's one connection, in its thread; only the calls themselves run in
others. Claims and finishes are batched; every finish shows the claim's token (`settlement.py`).
"""

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import psycopg

from assets.economy_news import job_store
from assets.economy_news.models import Claim, JobMode, Partition
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.result_writing import Outcome
from assets.economy_news.rules import EnrichmentRules
from assets.economy_news.settlement import Asking, Question, Settlement
from resources import gate, spending
from resources.alerts import AlertResource
from resources.api_failure import ApiFailure
from resources.chat import ChatAnswer, ChatResource, JsonSchema
from resources.errors import SpendingCapReached


class Enricher:
    """Settles what one run finds to do of one kind in its partitions."""

    def __init__(
        self,
        kind: ResultKind,
        partitions: Sequence[Partition],
        run_id: str,
        connection: psycopg.Connection,
        chat: ChatResource,
        rules: EnrichmentRules,
        alerts: AlertResource,
    ) -> None:
        self._kind = kind
        self._partitions = partitions
        self._run_id = run_id
        self._connection = connection
        self._chat = chat
        self._rules = rules
        self._alerts = alerts
        self._schema = JsonSchema(kind.prompt.schema_name, kind.prompt.schema)
        self._settlement = Settlement(kind, run_id, connection, chat, rules)
        self._waiting: deque[Claim] = deque()
        self._repairs: deque[Question] = deque()
        self._ends_at = time.monotonic() + rules.slice_seconds
        self._asked: dict[Future[ChatAnswer], Asking] = {}
        self._may_claim = True
        self._is_probe = False
        self._renewed_at = time.monotonic()

    def ask_again(
        self, everything: bool, tries_again: Sequence[str] = (), mode: JobMode = JobMode.live
    ) -> int:
        """How many results of the partitions were made jobs again: the outdated ones, or all.

        What the runs named in `tries_again` have made already is left alone.
        """
        return job_store.redo_results(
            self._connection,
            self._kind.job_type,
            self._partitions,
            prompt_version=self._kind.prompt.version,
            model=self._chat.model,
            run_ids=[self._run_id, *tries_again],
            everything=everything,
            mode=mode,
        )

    def run(self) -> Outcome:
        """Claims and settles until nothing is left that this run may take, or its slice of time is over.

        An API error never raises: it settles its job. A database that fails raises psycopg's errors;
        what was claimed then comes back when its lease runs out, or sooner when the run has ended.
        Raises ModelHasNoPrice before it claims anything: a setting must cost no job an attempt.
        """
        _ = self._chat.priced_model
        if not self._rules.enabled or not self._pass_gate():
            return self._settlement.outcome
        with self._connection.transaction():
            job_store.expire_leases_of_run(self._connection, self._kind.job_type, self._run_id)
            job_store.fail_spent_leases(self._connection, self._kind.job_type, self._rules.max_retries)
        pool = ThreadPoolExecutor(self._rules.concurrency, thread_name_prefix="ask")
        try:
            self._fill(pool)
            while self._asked:
                done, _ = wait(self._asked, self._rules.lease_seconds / 3, FIRST_COMPLETED)
                self._settle([(future, self._asked.pop(future)) for future in done])
                self._renew_leases()
                self._fill(pool)
        except BaseException:
            self._give_back()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return self._settlement.outcome

    def _pass_gate(self) -> bool:
        """True if this run may ask: the gate is open, or this run holds its probe."""
        key = self._chat.gate_key
        if gate.end_budget(self._connection, key):
            self._alerts.clear(self._connection, f"gate:{key.model}")
        shut = gate.read(self._connection, key)
        self._settlement.outcome.shut = shut
        if shut is None:
            return True
        self._is_probe = shut.probe_is_due and gate.claim_probe(
            self._connection, key, self._rules.gate_probe_minutes
        )
        return self._is_probe

    def _fill(self, pool: ThreadPoolExecutor) -> None:
        """Keeps as many calls under way as allowed, until there is no room, no work or no time."""
        if time.monotonic() > self._ends_at:
            self._stop()
        while len(self._asked) < (1 if self._is_probe else self._rules.concurrency):
            if self._repairs:
                question = self._repairs.popleft()
            elif self._waiting or self._claim():
                claim = self._waiting.popleft()
                question = Question(claim, self._kind.prompt.messages(self._kind.texts(claim)))
            else:
                return
            if not self._ask(pool, question):
                return

    def _claim(self) -> bool:
        """True if there is something to ask now."""
        if not self._may_claim:
            return False
        limit = 1 if self._is_probe else self._rules.batch_size
        with self._connection.transaction():
            claims = job_store.claim_jobs(
                self._connection,
                self._kind.job_type,
                self._partitions,
                run_id=self._run_id,
                limit=limit,
                lease_seconds=self._rules.lease_seconds,
                model=self._chat.model,
                provider_key=self._chat.gate_key.provider_key,
                is_probe=self._is_probe,
            )
            self._settlement.count_claims(claims)
        self._may_claim = len(claims) == limit and not self._is_probe
        if self._is_probe and not claims:
            gate.return_probe(self._connection, self._chat.gate_key)
        self._waiting.extend(claims)
        return bool(claims)

    def _ask(self, pool: ThreadPoolExecutor, question: Question) -> bool:
        """False where the day's money leaves no room now: what is under way may give some back."""
        try:
            reservation = spending.reserve(
                self._connection,
                self._chat.priced_model,
                self._chat.most_input_tokens(question.messages, self._schema),
                self._chat.max_output_tokens,
                self._rules.cap_usd,
            )
        except SpendingCapReached as error:
            if error.by_this_call_alone:
                self._settlement.refuse(question.claim, "costs_more_than_the_cap", str(error))
                self._write()
                return True
            self._repairs.appendleft(question)
            if not self._asked:
                self._settlement.shut_gate("BUDGET", str(error))
                self._stop()
            return False
        future = pool.submit(self._chat.ask, question.messages, self._schema)
        self._asked[future] = Asking(question, reservation, self._is_probe)
        return True

    def _settle(self, done: Sequence[tuple[Future[ChatAnswer], Asking]]) -> None:
        """Writes down what came back, in one transaction; what must be asked once more is next in line."""
        settlement = self._settlement
        for future, asking in done:
            try:
                repair = settlement.answered(asking, future.result())
            except ApiFailure as failure:
                settlement.failed(asking, failure)
            else:
                self._repairs.extend([repair] if repair else [])
        self._write()
        if settlement.outcome.shut is not None and not self._is_probe:
            self._stop()
        elif self._is_probe and settlement.outcome.shut is None:
            self._is_probe, self._may_claim = False, True

    def _write(self) -> None:
        with self._connection.transaction():
            self._settlement.write()
        self._tell()

    def _renew_leases(self) -> None:
        """Renews every lease of this run once a third of its time has gone; forgets what is lost."""
        if time.monotonic() - self._renewed_at < self._rules.lease_seconds / 3:
            return
        self._renewed_at = time.monotonic()
        mine = [claim.job_id for claim in self._waiting]
        mine += [question.claim.job_id for question in self._repairs]
        mine += [asking.question.claim.job_id for asking in self._asked.values()]
        kept = job_store.renew_leases(self._connection, self._run_id, mine, self._rules.lease_seconds)
        self._waiting = deque(claim for claim in self._waiting if claim.job_id in kept)

    def _stop(self) -> None:
        """Asks nothing more. Claims that were not asked go back; an answer to be mended waits a minute."""
        self._may_claim = False
        unasked = [*self._waiting, *(question.claim for question in self._repairs if question.number == 1)]
        job_store.release_claims(self._connection, self._run_id, unasked)
        for question in self._repairs:
            if question.number > 1:
                self._settlement.put_off(question.claim, "asking_stopped", seconds=60)
        self._waiting.clear()
        self._repairs.clear()
        self._write()

    def _give_back(self) -> None:
        """An interrupted run leaves nothing leased; where the database is gone, the leases run out."""
        try:
            with self._connection.transaction():
                job_store.release_claims(self._connection, self._run_id, list(self._waiting))
                job_store.free_jobs_of_run(self._connection, self._run_id, delay_seconds=0)
        except psycopg.Error:
            return

    def _tell(self) -> None:
        """Alarms go out after the transaction that they speak of."""
        for cause, message in self._settlement.take_alarms():
            if message is None:
                self._alerts.clear(self._connection, cause)
            else:
                self._alerts.raise_(self._connection, cause, message)
