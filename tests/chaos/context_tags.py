"""context_tags in a storm: an application posts, cancels, deletes, redoes and erases while runs work.

Nothing is freed when a run ends: what a dead one had begun comes back when it has expired, after ten minutes,
and the application has asked again. So most of p95 here is the contract's own wait, and a run begins ten
minutes after the one before: it takes over also what another that lives still has in hand.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from assets.context_tags import request_store
from assets.context_tags.erasure_store import erase_user
from assets.context_tags.models import ContextRequest
from assets.context_tags.paid_calls import PaidEmbeddings, PaidJudge
from assets.context_tags.request_text import MOST_CHARACTERS, keyed_hash
from resources.alerts import AlertResource
from resources.model_gate import ModelGate
from tests.chaos import database, openai_faults
from tests.chaos.services import Addresses, Service, stand_in
from tests.chaos.storm import Calls
from tests.integration.context_tags.killed_run import import_all
from tests.integration.context_tags.paid_runs import (
    chat_resource,
    embedding_resource,
    inbox_run,
    near_presets,
    text_of,
)
from tests.integration.context_tags.random_kills import STEPS
from tests.integration.context_tags.scenes import Core
from tests.integration.fatal_calls import at_step

import_all()

NEEDS: tuple[Service, ...] = ("openai",)

MOST_STEPS = 250
NEW_A_RUN = 2
CONTEXTS_A_USER = 2
CONCURRENCY = 2
ANSWERS_AFTER_SECONDS = 0.5
ANSWERS_WITHIN_MS = 3_000
TOO_LONG_EVERY = 11
FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

# Whoever writes a status, and which: in the order of the writes, since each holds the lock of the row.
AUDIT = """
CREATE TABLE noted (id bigserial, context_id bigint, stage text, status text, run text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted (context_id, stage, status, run)
    VALUES (new.context_id, tg_argv[0], to_jsonb(new) ->> tg_argv[0], current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_embedding AFTER UPDATE OF embedding_status ON ai.context_ai_state
    FOR EACH ROW EXECUTE FUNCTION note('embedding_status');
CREATE TRIGGER note_keyword AFTER UPDATE OF keyword_status ON ai.context_ai_state
    FOR EACH ROW EXECUTE FUNCTION note('keyword_status');
"""
_STATES = """
SELECT state.context_id AS id, embedding_status AS embedding, keyword_status AS keyword,
       is_deleted, vector.context_id IS NOT NULL AS has_vector, analysis.context_id IS NOT NULL AS is_judged,
       EXISTS (SELECT FROM ai.context_keyword AS one WHERE one.context_id = state.context_id) AS has_keywords,
       request.context_id IS NOT NULL AS is_known, request.text IS NOT NULL AS has_text
FROM ai.context_ai_state AS state
LEFT JOIN ai.context_embedding AS vector USING (context_id)
LEFT JOIN ai.context_keyword_analysis AS analysis USING (context_id)
LEFT JOIN granary.context_request AS request USING (context_id)
ORDER BY state.context_id
"""
_OPEN = """
SELECT context_id FROM ai.context_ai_state
WHERE (embedding_status IN ('PENDING', 'PROCESSING') OR keyword_status IN ('PENDING', 'PROCESSING'))
  AND updated_at < granary.now() - CASE WHEN 'PROCESSING' IN (embedding_status, keyword_status)
                                        THEN interval '10 minutes' ELSE interval '5 minutes' END
"""
_END = """
UPDATE ai.context_ai_state SET keyword_status = 'FAILED', updated_at = granary.now()
WHERE embedding_status = 'FAILED' AND keyword_status = 'PENDING'
"""
_CANCEL = """
UPDATE ai.context_ai_state
SET embedding_status = 'CANCELLED', keyword_status = 'CANCELLED', updated_at = granary.now()
WHERE context_id = %s
  AND (embedding_status IN ('PENDING', 'PROCESSING')
       OR embedding_status = 'COMPLETED' AND keyword_status IN ('PENDING', 'PROCESSING'))
"""
_DONE = """
SELECT context_id FROM ai.context_ai_state
WHERE embedding_status = 'COMPLETED' AND keyword_status = 'COMPLETED' ORDER BY context_id
"""
_REDO = """
UPDATE ai.context_ai_state
SET embedding_status = 'PENDING', keyword_status = 'PENDING', updated_at = granary.now() WHERE context_id = %s
"""
_DELETE = "UPDATE ai.context_embedding SET is_deleted = true WHERE context_id = %s"
_IN_HAND = """
SELECT DISTINCT ON (context_id, stage) context_id, stage, status, run FROM noted
ORDER BY context_id, stage, id DESC
"""
_IN_ORDER = """
SELECT context_id, stage, status, run, lag(status) OVER writes AS before, lag(run) OVER writes AS run_before
FROM noted WINDOW writes AS (PARTITION BY context_id, stage ORDER BY id)
"""


class ContextTags:
    """Contexts are numbered from 1. The supervisor remembers what the application did with each."""

    name = "context_tags"
    tick_seconds = 610.0
    starts_at: str | None = None

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._seed: int | None = None
        self._contexts = 0
        self._cancelled: set[int] = set()
        self._deleted: set[int] = set()
        self._erased: set[int] = set()
        self._redone: set[int] = set()
        self._faults = 0
        self._ended_badly = 0
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            near_presets(Core(connection), at.openai)
            connection.execute(AUDIT)
        stand_in(at.openai).post("reset", ledger=True)

    def blow(self, seed: int) -> None:
        self._seed = seed
        stand_in(self._at.openai).post("latency", seconds=ANSWERS_AFTER_SECONDS)

    def calm(self) -> None:
        self._faults += openai_faults.disarm(stand_in(self._at.openai))
        stand_in(self._at.openai).post("latency", seconds=0)
        self._seed = None

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        self._faults += openai_faults.arm(stand_in(self._at.openai), f"{self._seed}/{number}")
        lately = range(max(1, self._contexts - 4 * NEW_A_RUN), self._contexts + 1)
        known = [id_ for id_ in lately if id_ not in self._erased]
        with self._core() as core:
            request_store.forget(core)
            self._rescan(core)
            if known and draw.random() < 0.5:
                self._cancel(core, draw.choice(known))
            if known and draw.random() < 0.3:
                self._delete(core, draw.choice(known))
            if draw.random() < 0.4:
                self._redo(core, draw)
            if known and draw.random() < 0.15:
                self._erase(core, _user_of(draw.choice(known)))
            new = range(self._contexts + 1, self._contexts + 1 + NEW_A_RUN)
            self._contexts += NEW_A_RUN
            for id_ in new:
                core.execute(
                    "INSERT INTO ai.context_ai_state (context_id, updated_at) VALUES (%s, granary.now())",
                    (id_,),
                )
            _post(core, *new)

    def arm(self, seed: int) -> None:
        at_step(STEPS, random.Random(seed).randint(1, MOST_STEPS))

    def work(self, run_id: str, number: int) -> None:
        if number == 0:  # nothing new comes any more, but the application goes on asking
            with self._core() as core:
                request_store.forget(core)
                self._rescan(core)
        session: dict[str, Any] = {"autocommit": True, "application_name": run_id}
        embeddings = embedding_resource(self._at.openai, timeout_ms=ANSWERS_WITHIN_MS)
        chat = chat_resource(self._at.openai, timeout_ms=ANSWERS_WITHIN_MS)
        with (
            psycopg.connect(self._at.database_url, **session) as connection,
            ConnectionPool(self._at.database_url, kwargs=session, min_size=0, max_size=2, timeout=10) as pool,
        ):
            gates = [ModelGate(connection, one.gate_key, AlertResource(), 10) for one in (embeddings, chat)]
            inbox_run(
                pool,
                PaidEmbeddings(connection, embeddings, gates[0], None),
                PaidJudge(connection, chat, gates[1], None),
                settings={"concurrency": CONCURRENCY, "claimed_at_once": 4, "attempts": 2},
            ).run()

    def may_fail_with(self, error: BaseException) -> bool:
        return False

    def held(self, run_id: str) -> set[str]:
        latest = self._rows(_IN_HAND)
        mine = {row["context_id"] for row in latest if (row["status"], row["run"]) == ("PROCESSING", run_id)}
        return {f"context:{id_}" for id_ in mine}

    def release(self, run_id: str) -> None:
        """Nothing: what it had begun expires."""
        self._ended_badly += 1

    def done(self, items: set[str]) -> set[str]:
        open_ = {f"context:{row['id']}" for row in self._rows(_STATES) if not _is_final(row)}
        return items - open_

    def waiting(self) -> list[str]:
        told = [
            f"context {row['id']}: {row['embedding']}, {row['keyword']}"
            for row in self._rows(_STATES)
            if not _is_final(row)
        ]
        with self._core() as core:
            told += [f"{count} requests of {day}" for day, count in request_store.days_waiting(core)]
        return told

    def judge(self) -> list[str]:
        with self._core() as core:
            request_store.forget(core)  # as the sensor would have done within a minute
        states = self._rows(_STATES)
        mistakes = [mistake for row in states for mistake in self._wrong_context(row)]
        if len(states) != self._contexts:
            mistakes.append(f"{len(states)} states of {self._contexts} contexts")
        return [*mistakes, *self._wrong_writes(), *self._wrong_calls()]

    def items(self) -> int:
        return self._contexts

    def calls(self) -> Calls:
        totals = stand_in(self._at.openai).get("ledger/totals")
        return Calls(totals["calls"], self._faults, totals["repeated_requests"])

    def _wrong_context(self, row: dict[str, Any]) -> Iterator[str]:
        id_, stages = row["id"], (row["embedding"], row["keyword"])
        if row["has_text"]:
            yield f"context {id_}: its text is still kept"
        if id_ in self._erased:
            if not _is_final(row):
                yield f"context {id_} was erased and is {stages}"
            if row["has_vector"] or row["is_judged"] or row["has_keywords"] or row["is_known"]:
                yield f"context {id_} came back after its user was erased"
            return
        if id_ in self._cancelled:
            if stages != ("CANCELLED", "CANCELLED"):
                yield f"context {id_} was cancelled and is {stages}"
            if row["is_judged"] or row["has_keywords"] or (row["has_vector"] and not row["is_deleted"]):
                yield f"context {id_} came back after it was cancelled"
            return
        wanted = ("FAILED", "FAILED") if _is_too_long(id_) else ("COMPLETED", "COMPLETED")
        if stages != wanted:
            yield f"context {id_} is {stages}, not {wanted}"
        if (row["has_vector"], row["is_judged"]) != (not _is_too_long(id_),) * 2:
            yield f"context {id_} is {stages}: vector {row['has_vector']}, analysis {row['is_judged']}"
        if bool(row["is_deleted"]) != (id_ in self._deleted):
            yield f"context {id_}: deleted {row['is_deleted']}, which the application did not write"

    def _wrong_writes(self) -> Iterator[str]:
        """A stage is ended once, by the run that has begun it last; nothing follows a cancel."""
        for row in self._rows(_IN_ORDER):
            what = f"context {row['context_id']}, {row['stage']}: {row['status']} by {row['run']}"
            begun = (row["before"], row["run_before"])
            if row["before"] == "CANCELLED":
                yield f"{what} after it was cancelled"
            is_end = row["status"] in ("COMPLETED", "FAILED") and row["run"] != "core"
            if is_end and begun != ("PROCESSING", row["run"]):
                yield f"{what} after {begun[0]} by {begun[1]}"

    def _wrong_calls(self) -> Iterator[str]:
        """Charged is booked or still reserved; no judgement was paid again but for one that was lost."""
        yield from database.wrong_money(self._at.database_url, self._at.openai)
        ledger = stand_in(self._at.openai).get("ledger")["entries"]
        paid = sum(one["endpoint"] == "chat/completions" and one["status"] == 200 for one in ledger)
        written = Counter((row["stage"], row["status"]) for row in self._rows(_IN_ORDER))
        stored = written["keyword_status", "COMPLETED"]
        dead = CONCURRENCY * self._ended_badly
        lost = self._counted("openai_api_requests_total", status="none")
        discarded = self._counted("context_stage_total", stage="keyword", outcome="discarded")
        if not stored <= paid <= stored + dead + lost + discarded:
            yield (
                f"{paid} judgements were paid, {stored} stored: more than {dead} of dead runs, "
                f"{lost} unanswered and {discarded} discarded ones explain"
            )

    def _counted(self, name: str, **labels: str) -> int:
        found = self._rows("SELECT labels, value FROM granary.counter WHERE name = %s", name)
        return sum(int(row["value"]) for row in found if labels.items() <= row["labels"].items())

    def _cancel(self, core: psycopg.Connection, id_: int) -> None:
        """Deleted by its user while it is worked on; one that was redone has results of before."""
        if id_ in self._redone:
            return
        with core.transaction():
            if core.execute(_CANCEL, (id_,)).rowcount:
                core.execute(_DELETE, (id_,))
                self._cancelled.add(id_)

    def _delete(self, core: psycopg.Connection, id_: int) -> None:
        """Without a cancel, so that a store which does not leave `is_deleted` alone brings it back."""
        if core.execute(_DELETE, (id_,)).rowcount and id_ not in self._cancelled:
            self._deleted.add(id_)

    def _redo(self, core: psycopg.Connection, draw: random.Random) -> None:
        """One that is done, now and then one that is deleted meanwhile."""
        done = [id_ for (id_,) in core.execute(_DONE).fetchall() if id_ not in self._erased]
        if not done:
            return
        id_ = draw.choice(done)
        core.execute(_REDO, (id_,))
        self._redone.add(id_)
        _post(core, id_)
        if draw.random() < 0.5:
            self._delete(core, id_)

    def _erase(self, core: psycopg.Connection, user_id: int) -> None:
        erase_user(core, user_id)
        self._erased.update(id_ for id_ in range(1, self._contexts + 1) if _user_of(id_) == user_id)

    def _rescan(self, core: psycopg.Connection) -> None:
        """As the contract has the application do it, but that it never gives a context up."""
        core.execute(_END)
        _post(core, *(id_ for (id_,) in core.execute(_OPEN).fetchall()))

    @contextmanager
    def _core(self) -> Iterator[psycopg.Connection]:
        """The application, which alone may write what `scenes.LAW` forbids others."""
        with psycopg.connect(
            self._at.database_url, autocommit=True, application_name="core", options="-c test.core=yes"
        ) as connection:
            yield connection

    def _rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters or None)


def _user_of(id_: int) -> int:
    return 1 + id_ // CONTEXTS_A_USER


def _is_too_long(id_: int) -> bool:
    """Posted all the same: such a text fails for good, and no other."""
    return id_ % TOO_LONG_EVERY == 0


def _is_final(row: dict[str, Any]) -> bool:
    return {row["embedding"], row["keyword"]} <= FINAL


def _post(core: psycopg.Connection, *ids: int) -> None:
    for id_ in ids:
        text = text_of(id_) + " " + "가" * (MOST_CHARACTERS if _is_too_long(id_) else 0)
        request = ContextRequest(id_, _user_of(id_), id_, text)
        request_store.accept(core, request, None, keyed_hash(text, b"k" * 16), own_state=False)


SCENE = ContextTags
