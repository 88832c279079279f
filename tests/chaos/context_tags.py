"""context_tags in a storm: an application posts, cancels, deletes, redoes and erases while runs work.

Nothing is freed when a run ends: what a dead one had begun comes back when it has expired, after ten minutes,
and the application has asked again. So most of p95 here is the contract's own wait, and a run begins ten
minutes after the one before: it takes over also what another that lives still has in hand.
"""

import random
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
from tests.chaos.context_tags_judging import CONCURRENCY, Judge, is_too_long
from tests.chaos.scene import Calls
from tests.chaos.services import Addresses, Service, stand_in
from tests.integration.context_tags.paid_runs import inbox_run, near_presets, text_of
from tests.integration.context_tags.random_kills import STEPS
from tests.integration.context_tags.scenes import Core
from tests.integration.fatal_calls import at_step
from tests.integration.late_imports import import_all
from tests.integration.openai_clients import chat_resource, embedding_resource

import_all()

NEEDS: tuple[Service, ...] = ("openai",)

MOST_STEPS = 250
NEW_A_RUN = 2
CONTEXTS_A_USER = 2
ANSWERS_AFTER_SECONDS = 0.5
ANSWERS_WITHIN_MS = 3_000

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


class ContextTags:
    """Contexts are numbered from 1. The judge remembers what the application did with each."""

    name = "context_tags"
    tick_seconds = 610.0
    starts_at: str | None = None

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._seed: int | None = None
        self._redone: set[int] = set()
        self._faults = 0
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            near_presets(Core(connection), at.openai)
        self._judge = Judge(at)
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
        lately = range(max(1, self._judge.contexts - 4 * NEW_A_RUN), self._judge.contexts + 1)
        known = [id_ for id_ in lately if id_ not in self._judge.erased]
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
            new = range(self._judge.contexts + 1, self._judge.contexts + 1 + NEW_A_RUN)
            self._judge.contexts += NEW_A_RUN
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
        latest = database.rows(self._at.database_url, _IN_HAND)
        mine = {row["context_id"] for row in latest if (row["status"], row["run"]) == ("PROCESSING", run_id)}
        return {f"context:{id_}" for id_ in mine}

    def release(self, run_id: str) -> None:
        """Nothing: what it had begun expires."""
        self._judge.ended_badly += 1

    def done(self, items: set[str]) -> set[str]:
        return items - {f"context:{id_}" for id_ in self._judge.open_contexts()}

    def waiting(self) -> list[str]:
        told = [f"context {id_}: {stages}" for id_, stages in self._judge.open_contexts().items()]
        with self._core() as core:
            told += [f"{count} requests of {day}" for day, count in request_store.days_waiting(core)]
        return told

    def judge(self) -> list[str]:
        with self._core() as core:
            request_store.forget(core)  # as the sensor would have done within a minute
        return self._judge.mistakes()

    def items(self) -> int:
        return self._judge.contexts

    def calls(self) -> Calls:
        totals = stand_in(self._at.openai).get("ledger/totals")
        return Calls(totals["calls"], self._faults, totals["repeated_requests"])

    def _cancel(self, core: psycopg.Connection, id_: int) -> None:
        """Deleted by its user while it is worked on; one that was redone has results of before."""
        if id_ in self._redone:
            return
        with core.transaction():
            if core.execute(_CANCEL, (id_,)).rowcount:
                core.execute(_DELETE, (id_,))
                self._judge.cancelled.add(id_)

    def _delete(self, core: psycopg.Connection, id_: int) -> None:
        """Without a cancel, so that a store which does not leave `is_deleted` alone brings it back."""
        if core.execute(_DELETE, (id_,)).rowcount and id_ not in self._judge.cancelled:
            self._judge.deleted.add(id_)

    def _redo(self, core: psycopg.Connection, draw: random.Random) -> None:
        """One that is done, now and then one that is deleted meanwhile."""
        done = [id_ for (id_,) in core.execute(_DONE).fetchall() if id_ not in self._judge.erased]
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
        self._judge.erased.update(
            id_ for id_ in range(1, self._judge.contexts + 1) if _user_of(id_) == user_id
        )

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


def _user_of(id_: int) -> int:
    return 1 + id_ // CONTEXTS_A_USER


def _post(core: psycopg.Connection, *ids: int) -> None:
    for id_ in ids:
        text = text_of(id_) + " " + "가" * (MOST_CHARACTERS if is_too_long(id_) else 0)
        request = ContextRequest(id_, _user_of(id_), id_, text)
        request_store.accept(core, request, None, keyed_hash(text, b"k" * 16), own_state=False)


SCENE = ContextTags
