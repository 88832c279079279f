"""The keyword stage of contexts whose vector is there: candidates in memory, a judgement each, stored.

Threads ask; this thread makes every statement. No more is started than can be asked at once, so that
nothing that is claimed waits for its turn.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import psycopg

from assets.context_tags import embedding_store, keyword_store
from assets.context_tags.asking import Asking
from assets.context_tags.candidates import PresetMatrix, usable_vector
from assets.context_tags.judgement import UnusableAnswer, checked
from assets.context_tags.models import (
    Candidate,
    ContextRequest,
    ContextSettings,
    Judgement,
    KeywordResult,
    Outcome,
    PresetSnapshot,
)
from assets.context_tags.request_text import problem_of
from assets.context_tags.stage_rows import StageRows
from assets.context_tags.unstorable import Unstorable
from resources.api_failure import FAIL, SUSPEND, ApiFailure
from resources.openai_api import safe_code

if TYPE_CHECKING:
    from assets.context_tags.stage_rows import Pool

Vector = Sequence[float]
Checked = tuple[Judgement, Counter[str]]


class Judge(Protocol):
    """Says which candidates fit the text. Called from several threads. Raises ApiFailure, UnusableAnswer."""

    def select(self, text: str, candidates: Sequence[Candidate]) -> Judgement: ...


@dataclass(frozen=True)
class Question:
    """A context that is being judged; `token` is its claim."""

    context_id: int
    token: datetime


class KeywordStage:
    """Settles the keyword stage; what it did stands in `outcome`."""

    def __init__(
        self,
        rows: StageRows,
        pool: "Pool",
        judge: Judge,
        presets: PresetSnapshot,
        asking: Asking,
        settings: ContextSettings,
        outcome: Outcome,
    ) -> None:
        self._rows = rows
        self._pool = pool
        self._judge = judge
        self._presets = presets
        self._matrix = PresetMatrix(presets)
        self._asking = asking
        self._settings = settings
        self._outcome = outcome
        self._waiting: deque[ContextRequest] = deque()
        self._asked: dict[Future[Checked], Question] = {}
        self._fault: Exception | None = None

    def run(self, requests: Sequence[ContextRequest], vectors: Mapping[int, Vector]) -> None:
        """Judges them all; `vectors` are those at hand, by context id, of the settings' profile.

        Raises what a call raised that is no failure of a call (`Asking.ask`), once all that was under way is
        stored.
        """
        self._waiting = deque(requests)
        threads = ThreadPoolExecutor(self._settings.concurrency, thread_name_prefix="judge")
        try:
            self._fill(threads, vectors)
            while self._asked:
                done, _ = wait(self._asked, return_when=FIRST_COMPLETED)
                self._settle([(future, self._asked.pop(future)) for future in done])
                self._fill(threads, vectors)
        except BaseException:
            self._asking.stop()
            raise
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        self._outcome.left.update(request.context_id for request in self._waiting)
        if self._fault is not None:
            raise self._fault

    def _fill(self, threads: ThreadPoolExecutor, vectors: Mapping[int, Vector]) -> None:
        while self._waiting and not self._asking.is_stopped:
            free = self._settings.concurrency - len(self._asked)
            if free <= 0:
                return
            some = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
            self._begin(threads, some, vectors)

    def _begin(
        self, threads: ThreadPoolExecutor, some: Sequence[ContextRequest], vectors: Mapping[int, Vector]
    ) -> None:
        """Starts them, and asks about each that has a candidate."""
        ends_at = self._asking.deadline()
        tokens = self._rows.start([request.context_id for request in some])
        of_profile = self._vectors(tokens, vectors)
        failed: dict[int, str] = {}
        without_call: list[KeywordResult] = []
        for request in some:
            id_ = request.context_id
            if id_ not in tokens:
                continue
            vector = of_profile.get(id_)
            if reason := self._problem(id_ in of_profile, vector) or problem_of(request.text):
                failed[id_] = reason
            elif vector is None or not (near := self._candidates(vector)):
                without_call.append(KeywordResult(id_, tokens[id_], Judgement()))
            else:
                future = threads.submit(self._ask, request.text, near, ends_at)
                self._asked[future] = Question(id_, tokens[id_])
        self._rows.fail({id_: tokens[id_] for id_ in failed}, failed)
        self._store(without_call)

    def _vectors(self, tokens: Iterable[int], at_hand: Mapping[int, Vector]) -> dict[int, Vector | None]:
        """Vectors of the presets' profile; a context without one cannot be judged (rule 9)."""
        if self._presets.profile != self._settings.profile:
            return {}
        found: dict[int, Vector | None] = {id_: at_hand[id_] for id_ in tokens if id_ in at_hand}
        if missing := [id_ for id_ in tokens if id_ not in found]:
            with self._pool.connection() as connection:
                stored = embedding_store.vectors(connection, missing)
            found |= {id_: one for id_, (profile, one) in stored.items() if profile == self._presets.profile}
        return found

    def _problem(self, is_of_profile: bool, vector: Vector | None) -> str | None:
        if not is_of_profile:
            return "profile"
        if vector is None:
            return "no_vector"
        return "unusable_vector" if usable_vector(vector, self._settings.dimensions) else None

    def _candidates(self, vector: Vector) -> list[Candidate]:
        return self._matrix.candidates(vector, self._settings.most_candidates, self._settings.candidate_floor)

    def _ask(self, text: str, candidates: Sequence[Candidate], ends_at: float) -> Checked:
        def select() -> Checked:
            judgement = self._judge.select(text, candidates)
            try:
                return checked(judgement, candidates)
            except (TypeError, AttributeError, ValueError):
                raise UnusableAnswer("the judge gave no judgement") from None

        return self._asking.ask(select, ends_at)

    def _settle(self, done: Iterable[tuple[Future[Checked], Question]]) -> None:
        results: list[KeywordResult] = []
        failed: dict[int, tuple[datetime, str]] = {}
        dropped: Counter[str] = Counter()
        for future, question in done:
            try:
                judgement, unusable = future.result()
            except ApiFailure as failure:
                self._failed(question, failure, failed)
            except Exception as fault:
                self._stop_for(fault, question)
            else:
                dropped += unusable
                results.append(KeywordResult(question.context_id, question.token, judgement))
        self._rows.fail(
            {id_: token for id_, (token, _) in failed.items()},
            {id_: reason for id_, (_, reason) in failed.items()},
        )
        self._store(results, dropped)

    def _failed(
        self, question: Question, failure: ApiFailure, failed: dict[int, tuple[datetime, str]]
    ) -> None:
        id_, code = question.context_id, safe_code(failure.code)
        if failure.verdict.effect == FAIL:
            failed[id_] = (question.token, code)
        elif failure.verdict.effect == SUSPEND:
            self._outcome.stopped_by = self._outcome.stopped_by or failure
            self._outcome.left.add(id_)
            self._asking.stop()
        elif self._asking.is_stopped:  # its further attempts were cut off
            self._outcome.left.add(id_)
        else:
            self._rows.put_off([id_], code)

    def _stop_for(self, fault: Exception, question: Question) -> None:
        self._fault = self._fault or fault
        self._outcome.left.add(question.context_id)
        self._asking.stop()

    def _store(self, results: Sequence[KeywordResult], dropped: Mapping[str, int] | None = None) -> None:
        try:
            tagged = self._finish(results, dropped)
        except Unstorable:
            tagged = set().union(*map(self._finish_alone, results))
        self._outcome.tagged |= tagged
        self._outcome.without_keywords.update(
            one.context_id for one in results if one.context_id in tagged and not one.judgement.selected
        )

    def _finish_alone(self, result: KeywordResult) -> set[int]:
        """One that cannot be stored must not keep the others from it."""
        try:
            return self._finish([result], None)
        except Unstorable:
            id_ = result.context_id
            self._rows.fail({id_: result.token}, {id_: "cannot_be_stored"})
            return set()

    def _finish(self, results: Sequence[KeywordResult], dropped: Mapping[str, int] | None) -> set[int]:
        if not results:
            return set()

        def store(connection: psycopg.Connection) -> set[int]:
            return keyword_store.store(connection, results, self._presets.version)

        return self._rows.finish({one.context_id: one.token for one in results}, store, dropped)
