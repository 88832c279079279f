"""The application ("core") as the demo plays it: it posts texts, and creates and cancels states by SQL."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from assets.context_tags.models import ContextRequest
from local_stack.context_texts import ALL, FITTING

if TYPE_CHECKING:
    import httpx

# Far above any key that an application's sequence is likely to have given out.
_FIRST = 9_100_000_000
_USERS = 8
CONTEXTS = tuple(
    ContextRequest(_FIRST + number, _FIRST + number % _USERS, _FIRST + number // 2, text)
    for number, text in enumerate(ALL)
)
IDS = [context.context_id for context in CONTEXTS]
_CANCELLED_BEFORE = IDS[5 : len(FITTING) : 18]
_MAY_BE_CANCELLED = [number for number in IDS[3 : len(FITTING) : 4] if number not in _CANCELLED_BEFORE]
_CANCELLED_IN_FLIGHT = 10
_LOOKS_EVERY_SECONDS = 0.004

_IS_ANOTHERS = """
SELECT pg_get_userbyid(class.relowner) <> current_user
       OR EXISTS (SELECT FROM ai.context_ai_state WHERE context_id <> ALL (%(ids)s))
FROM pg_catalog.pg_class AS class WHERE class.oid = to_regclass('ai.context_ai_state')
"""
_CREATE = (
    "INSERT INTO ai.context_ai_state (context_id) SELECT unnest(%(ids)s::bigint[]) ON CONFLICT DO NOTHING"
)
_CANCEL = """
UPDATE ai.context_ai_state
SET embedding_status = 'CANCELLED', keyword_status = 'CANCELLED', updated_at = now()
WHERE context_id = %(id)s AND embedding_status = ANY (%(embedding)s) AND keyword_status = ANY (%(keyword)s)
"""
_DELETE = "UPDATE ai.context_embedding SET is_deleted = true, updated_at = now() WHERE context_id = %(id)s"
_FIND = """
SELECT context_id FROM ai.context_ai_state
WHERE context_id = ANY (%(ids)s)
  AND embedding_status = ANY (%(embedding)s) AND keyword_status = ANY (%(keyword)s)
ORDER BY context_id LIMIT 1
"""
_IN_FLIGHT_SO_FAR = """
SELECT count(*) FROM ai.context_ai_state
WHERE context_id = ANY (%(ids)s) AND context_id <> ALL (%(before)s) AND keyword_status = 'CANCELLED'
"""
_OPEN = """
SELECT context_id FROM ai.context_ai_state WHERE context_id = ANY (%(ids)s)
  AND (embedding_status IN ('PENDING', 'PROCESSING') OR keyword_status IN ('PENDING', 'PROCESSING'))
ORDER BY context_id
"""
_EXPIRES_IN = """
SELECT extract(epoch FROM max(updated_at) - granary.now())::float + %(expiry)s FROM ai.context_ai_state
WHERE context_id = ANY (%(ids)s) AND 'PROCESSING' IN (embedding_status, keyword_status)
"""


@dataclass(frozen=True)
class _Moment:
    """Where both stages of a context stand when its user deletes it."""

    embedding: tuple[str, ...]
    keyword: tuple[str, ...]


_NOT_BEGUN = _Moment(("PENDING",), ("PENDING",))
_IN_FLIGHT = (
    _Moment(("PROCESSING",), ("PENDING",)),
    _Moment(("COMPLETED",), ("PENDING", "PROCESSING")),
    _Moment(("COMPLETED",), ("PROCESSING",)),
)


class Core:
    """What an application does with the contexts of the demo; a second round finds it done."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    def is_anothers(self) -> bool:
        """Whether the tables are an application's own: then nobody else may play it."""
        with self._connection() as connection:
            row = connection.execute(_IS_ANOTHERS, {"ids": IDS}).fetchone()
        return row is None or bool(row[0])

    def create(self) -> None:
        """A state for each context that has none."""
        with self._connection() as connection:
            connection.execute(_CREATE, {"ids": IDS})

    def post(self, door: "httpx.Client", ids: Sequence[int]) -> bool:
        """Whether each of their texts was accepted with an empty 202."""
        answers = [
            door.post(
                "/internal/v1/context/process",
                json={
                    "contextId": context.context_id,
                    "userId": context.user_id,
                    "recordId": context.record_id,
                    "text": context.text,
                    "placeMeta": {"name": f"가게 {context.record_id - _FIRST}", "floor": 1},
                },
            )
            for context in CONTEXTS
            if context.context_id in set(ids)
        ]
        return all(answer.status_code == 202 and not answer.content for answer in answers)

    def cancel_some(self) -> None:
        """Deletes ten contexts before anything has begun."""
        with self._connection() as connection:
            for number in _CANCELLED_BEFORE:
                _cancel(connection, number, _NOT_BEGUN)

    @contextmanager
    def cancelling_in_flight(self) -> Iterator[None]:
        """Meanwhile a thread deletes ten more: before their vector is stored, after it, and when judged."""
        ended = threading.Event()
        thread = threading.Thread(target=self._cancel_in_flight, args=(ended,), name="core", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def open(self) -> list[int]:
        """The contexts that wait for something."""
        with self._connection() as connection:
            return [number for (number,) in connection.execute(_OPEN, {"ids": IDS})]

    def expires_in(self, expiry_seconds: float) -> float:
        """Seconds until what a dead run had begun may be taken again; 0 where there is none."""
        with self._connection() as connection:
            row = connection.execute(_EXPIRES_IN, {"ids": IDS, "expiry": expiry_seconds}).fetchone()
        return max(0.0, row[0] or 0.0) if row else 0.0

    def cancelled_in_flight(self) -> int:
        """How many of the cancelled ones are not those of before."""
        with self._connection() as connection:
            row = connection.execute(_IN_FLIGHT_SO_FAR, {"ids": IDS, "before": _CANCELLED_BEFORE}).fetchone()
        return row[0] if row else 0

    def _cancel_in_flight(self, ended: threading.Event) -> None:
        with self._connection() as connection:
            wanted = _CANCELLED_IN_FLIGHT - self.cancelled_in_flight()
            moments = [_IN_FLIGHT[place % len(_IN_FLIGHT)] for place in range(wanted)]
            while moments and not ended.wait(_LOOKS_EVERY_SECONDS):
                for moment in set(moments):
                    if _cancel_one(connection, moment):
                        moments.remove(moment)

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(self._database_url, autocommit=True, application_name="granary demo, as core")


def _cancel_one(connection: psycopg.Connection, moment: _Moment) -> bool:
    """Whether one of those that may be cancelled stood there and is cancelled now."""
    found = connection.execute(_FIND, {"ids": _MAY_BE_CANCELLED, **_stages(moment)}).fetchone()
    return found is not None and _cancel(connection, found[0], moment)


def _cancel(connection: psycopg.Connection, context_id: int, moment: _Moment) -> bool:
    # One context a transaction, as its user deletes it: several could deadlock with a store.
    with connection.transaction():
        cancelled = connection.execute(_CANCEL, {"id": context_id, **_stages(moment)}).rowcount == 1
        if cancelled:
            connection.execute(_DELETE, {"id": context_id})
    return cancelled


def _stages(moment: _Moment) -> dict[str, list[str]]:
    return {"embedding": list(moment.embedding), "keyword": list(moment.keyword)}
