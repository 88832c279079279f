"""The embedding stage of contexts that were looked at: started at once, asked for in few requests, stored."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Sized
from datetime import datetime
from itertools import islice
from typing import Protocol, cast

import psycopg

from assets.context_tags import embedding_store
from assets.context_tags.asking import Asking
from assets.context_tags.candidates import usable_vector
from assets.context_tags.models import ContextRequest, ContextSettings, Outcome, StoredVector
from assets.context_tags.request_text import problem_of
from assets.context_tags.stage_rows import StageRows
from assets.context_tags.unstorable import Unstorable
from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict
from resources.embeddings import EmbeddingResource
from resources.openai_api import safe_code

Vector = Sequence[float]


class Embeddings(Protocol):
    """Makes vectors, one a text in their order. Raises ApiFailure."""

    def embed(self, texts: list[str]) -> list[list[float]]: ...


class EmbeddingStage:
    """Settles the embedding stage; what it did stands in `outcome`."""

    def __init__(
        self,
        rows: StageRows,
        embeddings: Embeddings,
        asking: Asking,
        settings: ContextSettings,
        outcome: Outcome,
    ) -> None:
        self._rows = rows
        self._embeddings = embeddings
        self._asking = asking
        self._settings = settings
        self._outcome = outcome
        self._tokens: dict[int, datetime] = {}

    def run(self, requests: Sequence[ContextRequest]) -> dict[int, Vector]:
        """The vectors that were stored, by context id."""
        if not requests:
            return {}
        ends_at = self._asking.deadline()
        self._tokens = self._rows.start([request.context_id for request in requests])
        started = [request for request in requests if request.context_id in self._tokens]
        problems = {one.context_id: reason for one in started if (reason := problem_of(one.text))}
        self._fail(problems)
        waiting = deque(_in_parts([one for one in started if one.context_id not in problems]))
        stored: dict[int, Vector] = {}
        while waiting:
            part = waiting.popleft()
            try:
                vectors = self._ask(part, ends_at)
            except ApiFailure as failure:
                waiting.extendleft(reversed(self._failed(part, failure)))
                if self._asking.is_stopped:
                    break
            else:
                stored |= self._store(part, vectors)
        for part in waiting:
            self._outcome.left.update(_ids(part))
        return stored

    def _ask(self, part: Sequence[ContextRequest], ends_at: float) -> list[list[float]]:
        texts = [request.text for request in part]

        def embed() -> list[list[float]]:
            self._outcome.embedding_requests += 1
            vectors = self._embeddings.embed(list(texts))
            if not _is_one_each(vectors, len(texts)):
                raise ApiFailure(Verdict(RETRY), "unreadable_answer", "not one vector for each text")
            return vectors

        return self._asking.ask(embed, ends_at)

    def _failed(self, part: Sequence[ContextRequest], failure: ApiFailure) -> list[Sequence[ContextRequest]]:
        """What must be asked in its place: both halves, until the guilty text stands alone (rule 15)."""
        if failure.verdict.effect == SUSPEND:
            self._outcome.stopped_by = failure
            self._outcome.left.update(_ids(part))
            self._asking.stop()
        elif failure.verdict.effect != FAIL:
            self._rows.put_off(_ids(part), safe_code(failure.code))
        elif len(part) > 1:
            middle = len(part) // 2
            return [part[:middle], part[middle:]]
        else:
            self._fail(dict.fromkeys(_ids(part), safe_code(failure.code)))
        return []

    def _store(self, part: Sequence[ContextRequest], vectors: Sequence[Vector]) -> dict[int, Vector]:
        problems: dict[int, str] = {}
        usable: dict[int, StoredVector] = {}
        for request, vector in zip(part, vectors, strict=True):
            id_ = request.context_id
            if reason := usable_vector(vector, self._settings.dimensions):
                problems[id_] = reason
            else:
                usable[id_] = StoredVector(request, self._tokens[id_], vector)
        self._fail(problems)
        try:
            stored = self._finish(usable)
        except Unstorable:
            stored = set().union(*(self._finish_alone(one) for one in usable.values()))
        self._outcome.embedded |= stored
        return {id_: usable[id_].vector for id_ in stored}

    def _finish_alone(self, vector: StoredVector) -> set[int]:
        """One that cannot be stored must not keep the others from it."""
        id_ = vector.request.context_id
        try:
            return self._finish({id_: vector})
        except Unstorable:
            self._fail({id_: "cannot_be_stored"})
            return set()

    def _finish(self, vectors: Mapping[int, StoredVector]) -> set[int]:
        if not vectors:
            return set()

        def store(connection: psycopg.Connection) -> set[int]:
            return embedding_store.store(connection, list(vectors.values()), self._settings.profile)

        return self._rows.finish({id_: self._tokens[id_] for id_ in vectors}, store)

    def _fail(self, reasons: Mapping[int, str]) -> None:
        self._rows.fail({id_: self._tokens[id_] for id_ in reasons}, reasons)


def _in_parts(requests: Sequence[ContextRequest]) -> Iterator[Sequence[ContextRequest]]:
    """The requests in their order, as many together as one call takes."""
    left = iter(requests)
    for texts in EmbeddingResource.requests_of([request.text for request in requests]):
        yield list(islice(left, len(texts)))


def _is_one_each(vectors: object, count: int) -> bool:
    """Whether these are as many lists of something; what is in them is another question (rule 8)."""
    return _length(vectors) == count and all(
        _length(one) is not None for one in cast(Sequence[object], vectors)
    )


def _length(value: object) -> int | None:
    """Of a list, a tuple or an array; None for anything else."""
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__getitem__"):
        return None
    try:
        return len(cast(Sized, value))
    except TypeError:  # An array without dimensions.
        return None


def _ids(requests: Sequence[ContextRequest]) -> list[int]:
    return [request.context_id for request in requests]
