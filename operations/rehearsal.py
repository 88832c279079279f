"""A new prompt asked about stored articles: nothing of the pipeline is written, only what its calls cost.

The gate and the day's cap hold for it as for a run, but it neither shuts the gate nor probes it: it may ask
a model that no run asks, whose gate nobody would open again.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import psycopg

from assets.economy_news.answers import InvalidOutput
from assets.economy_news.models import JobType
from assets.economy_news.prompts import Prompt, read_prompt
from assets.economy_news.result_kinds import KINDS, ResultKind, Row
from operations import rehearsal_store
from operations.rehearsal_store import StoredResult
from resources import gate, spending
from resources.api_failure import SUSPEND, ApiFailure
from resources.chat import ChatAnswer, ChatResource, JsonSchema
from resources.counters import Counts
from resources.errors import ServiceError, SpendingCapReached
from resources.spending import Reservation, Usage

PIPELINE = "economy_news"
CONCURRENCY = 4

_REMEDIES = {
    "QUOTA": "pay the provider's bill or raise its limit",
    "AUTH": "set a valid OPENAI_API_KEY",
    "MODEL": "name a model that the key may use (--model, OPENAI_MODEL)",
}


class CannotRehearse(ServiceError):
    """Permanent: the message says what must change before anything is asked."""


@dataclass(frozen=True)
class Plan:
    """What will be asked, and what it costs in USD: about, by the old results, and at most.

    `room_usd` is what the day's cap has left, None without a cap. `outdated` results would be made again if
    prompt and model were in force; in a batch they would cost `batch_share` of the price.
    """

    kind: ResultKind
    prompt: Prompt
    model: str
    stored: list[StoredResult]
    about_usd: Decimal
    at_most_usd: Decimal
    room_usd: Decimal | None
    outdated: int
    batch_share: Decimal


@dataclass(frozen=True)
class Rehearsed:
    """What came of one article. Without `rows` there is no valid result, and `problem` says why.

    `broke_a_rule`: a run would ask it a second time. `usage` None: what the call cost is not known.
    """

    stored: StoredResult
    rows: list[Row]
    usage: Usage | None
    problem: str | None = None
    broke_a_rule: bool = False


@dataclass(frozen=True)
class RedoneKind:
    """Results of one kind that a redo makes again at most, and what they cost; None where nothing tells."""

    job_type: JobType
    results: int
    usd: Decimal | None


@dataclass
class Rehearsal:
    """Asks one prompt on one connection in autocommit mode, `CONCURRENCY` calls at once, each article once.

    Raises ModelHasNoPrice before anything is asked. `stopped_by` says why it ended early, if it did.
    """

    connection: psycopg.Connection
    kind: ResultKind
    prompt: Prompt
    chat: ChatResource
    cap_usd: Decimal | None
    stopped_by: str | None = None
    _asked: dict[Future[ChatAnswer], tuple[StoredResult, Reservation]] = field(default_factory=dict)

    def plan(self, articles: int) -> Plan:
        """Which stored articles will be asked about, at most so many, and what that costs."""
        stored = rehearsal_store.articles_to_rehearse(self.connection, self.kind.job_type, articles)
        model = self.chat.priced_model
        at_most = sum(
            (
                model.most_it_can_cost_usd(self._most_tokens(one), self.chat.max_output_tokens)
                for one in stored
            ),
            Decimal(0),
        )
        about = sum((model.cost_usd(one.input_tokens, 0, one.output_tokens) for one in stored), Decimal(0))
        taken = rehearsal_store.taken_today_usd(self.connection)
        return Plan(
            kind=self.kind,
            prompt=self.prompt,
            model=self.chat.model,
            stored=stored,
            about_usd=min(about, at_most),
            at_most_usd=at_most,
            room_usd=None if self.cap_usd is None else max(self.cap_usd - taken, Decimal(0)),
            outdated=rehearsal_store.count_outdated(
                self.connection, self.kind.job_type, self.prompt.version, self.chat.model
            ),
            batch_share=model.price.batch_share,
        )

    def ask(self, stored: Sequence[StoredResult], is_stopped: Callable[[], bool]) -> Iterator[Rehearsed]:
        """Each article's outcome as it comes, its money settled.

        Once `is_stopped` nothing more is asked, and what is under way is still taken in.
        """
        waiting = deque(stored)
        pool = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="rehearse")
        try:
            while True:
                if not is_stopped():
                    self._fill(pool, waiting)
                if not self._asked:
                    return
                done, _ = wait(self._asked, return_when=FIRST_COMPLETED)
                for future in done:
                    yield self._settle(future)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def redo(self, plan: Plan, rehearsed: Sequence[Rehearsed]) -> list[RedoneKind]:
        """What it takes to make all again: the kind at this rehearsal's price, then what follows from it.

        Results follow at most once for each; those whose input stays the same are not made again.
        """
        paid = [one for one in rehearsed if one.usage is not None and one.usage.calls]
        price = None
        if paid:
            once = sum((one.usage.cost_usd for one in paid if one.usage), Decimal(0)) / len(paid)
            price = once * (len(paid) + sum(one.broke_a_rule for one in paid)) / len(paid)
        kinds = [RedoneKind(self.kind.job_type, plan.outdated, _times(plan.outdated, price))]
        following = list(_following(self.kind))
        tokens = rehearsal_store.usual_tokens(self.connection, following)
        for job_type in following:
            usual = tokens.get(job_type)
            usd = None if usual is None else self.chat.priced_model.cost_usd(*usual)
            kinds.append(RedoneKind(job_type, plan.outdated, _times(plan.outdated, usd)))
        return kinds

    @property
    def _schema(self) -> JsonSchema:
        return JsonSchema(self.prompt.schema_name, self.prompt.schema)

    def _messages(self, stored: StoredResult) -> list[dict[str, str]]:
        return self.prompt.messages(self.kind.texts(stored.claim))

    def _most_tokens(self, stored: StoredResult) -> int:
        return self.chat.most_input_tokens(self._messages(stored), self._schema)

    def _fill(self, pool: ThreadPoolExecutor, waiting: deque[StoredResult]) -> None:
        """Keeps as many calls under way as allowed, until there is no article, no money or no open gate."""
        while waiting and self.stopped_by is None and len(self._asked) < CONCURRENCY:
            shut = gate.read(self.connection, self.chat.gate_key)
            if shut is not None:
                self.stopped_by = shut.explain()
                return
            messages = self._messages(waiting[0])
            most_tokens = self.chat.most_input_tokens(messages, self._schema)
            try:
                reservation = spending.reserve(
                    self.connection,
                    self.chat.priced_model,
                    most_tokens,
                    self.chat.max_output_tokens,
                    self.cap_usd,
                )
            except SpendingCapReached as reached:
                if reached.by_this_call_alone or not self._asked:  # else what is under way may give some back
                    self.stopped_by = str(reached)
                return
            future = pool.submit(self.chat.ask, messages, self._schema)
            self._asked[future] = waiting.popleft(), reservation

    def _settle(self, future: Future[ChatAnswer]) -> Rehearsed:
        """The outcome, its money and its counters written in one transaction."""
        stored, reservation = self._asked.pop(future)
        counts = Counts()
        labels = {"model": self.chat.model, "schema": self.prompt.schema_name}
        try:
            answer = future.result()
        except ApiFailure as failure:
            if failure.verdict.effect == SUSPEND:
                remedy = _REMEDIES.get(failure.verdict.reason or "", "")
                self.stopped_by = f"the provider refuses every call ({failure}): {remedy}"
            status = str(failure.status or "none")
            counts.add("openai_api_requests_total", error_code=failure.code, status=status, **labels)
            usage = None if failure.may_have_been_charged else Usage()
            rehearsed = Rehearsed(stored, [], usage, f"no answer ({failure})")
        else:
            counts.add("openai_api_requests_total", error_code="none", status="ok", **labels)
            cost = float(answer.usage.cost_usd)
            counts.add("ai_cost_usd_total", cost, pipeline=PIPELINE, model=self.chat.model)
            usage = answer.usage
            rehearsed = self._read(stored, answer)
        with self.connection.transaction():
            if usage is not None:  # else it may have been charged, and stays reserved until the day ends
                spending.settle(self.connection, PIPELINE, self.chat.model, reservation, usage)
            counts.write(self.connection)
        return rehearsed

    def _read(self, stored: StoredResult, answer: ChatAnswer) -> Rehearsed:
        """The answer by the kind's own rules."""
        if answer.refusal:
            return Rehearsed(stored, [], answer.usage, f"the model would not answer ({answer.refusal})")
        if answer.was_cut:
            return Rehearsed(stored, [], answer.usage, "the answer was cut (OPENAI_MAX_OUTPUT_TOKENS)", True)
        try:
            result = self.kind.read(answer.content, stored.claim)
        except InvalidOutput as invalid:
            problem = f"the answer breaks a rule ({invalid.code}): {invalid}"
            return Rehearsed(stored, [], answer.usage, problem, True)
        return Rehearsed(stored, self.kind.rows(result, stored.claim), answer.usage)


def kind_of(file: Path, name: str | None) -> ResultKind:
    """The kind that is named, else the one that the file's name names. Raises CannotRehearse."""
    if not os.path.isfile(file):  # Path.is_file raises for a name that is too long
        raise CannotRehearse(
            f"{file} is no file: name a prompt, such as a changed copy of prompts/summary.md"
        )
    wanted = (name or file.stem).upper()
    if wanted not in JobType.__members__:
        known = ", ".join(JobType)
        raise CannotRehearse(f"{wanted} is no kind of result: name one with --kind ({known})")
    return KINDS[JobType[wanted]]


def read_rehearsed(kind: ResultKind, file: Path) -> Prompt:
    """The prompt in the file, versioned as if it were the kind's in force. Raises CannotRehearse."""
    if file.suffix != ".md":
        raise CannotRehearse(f"{file}: a prompt is a file that ends in .md")
    try:
        # An absolute path takes the place of the folder that prompts are kept in.
        named = str(file.absolute().with_suffix(""))
        prompt = read_prompt(named, kind.prompt.schema_name, kind.prompt.schema)
    except OSError as error:
        raise CannotRehearse(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CannotRehearse(f"{file} is no UTF-8 text") from None
    except UnicodeEncodeError:
        raise CannotRehearse(f"{file} is no name of a file") from None
    if not prompt.instructions:
        raise CannotRehearse(f"{file} is empty: a prompt needs instructions")
    return prompt


def _following(kind: ResultKind) -> Iterator[JobType]:
    """The kinds that are made from this one, and from those."""
    for job_type in kind.followed_by:
        yield job_type
        yield from _following(KINDS[job_type])


def _times(count: int, usd: Decimal | None) -> Decimal | None:
    return None if usd is None else count * usd
