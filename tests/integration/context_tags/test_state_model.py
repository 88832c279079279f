"""Whatever the application, two runs, a rescan and erasures do to contexts: the tables are the model's.

The model is `context_model.py`. A run starts a stage of some contexts and comes to an end much later or
never; an end may show any token ever given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assets.context_tags import (
    embedding_store,
    erasure_store,
    keyword_store,
    request_store,
    rescan_store,
    state_store,
)
from assets.context_tags.models import (
    DEFAULT_PROFILE,
    ContextRequest,
    Judgement,
    KeywordResult,
    Selection,
    Stage,
    StoredVector,
)
from tests.integration.context_tags.context_model import EXPIRY, Contexts, State
from tests.integration.context_tags.store_rows import ask, put_preset, put_state, vector
from tests.integration.state_models import NUMBERS, Clock, one_of, try_histories

PRESETS = (101, 102)
TABLES = (
    "granary.context_request, ai.context_ai_state, ai.context_embedding, ai.context_keyword,"
    " ai.context_keyword_analysis"
)
REQUESTS = """
SELECT context_id, user_id, text, text_hmac, requested_at, text_since, handled_at FROM granary.context_request
"""
STATES = (
    "SELECT context_id, embedding_status, keyword_status, retry_count, updated_at FROM ai.context_ai_state"
)
VECTORS = "SELECT context_id, user_id, (embedding::real[])[1], is_deleted FROM ai.context_embedding"
KEYWORDS = "SELECT context_id, keyword_id FROM ai.context_keyword"
ANALYSES = "SELECT context_id, unmatched_concepts ->> 0 FROM ai.context_keyword_analysis"

# As the application writes: one column a statement.
SET = {
    Stage.EMBEDDING: "UPDATE ai.context_ai_state SET embedding_status = %s, updated_at = granary.now()"
    " WHERE context_id = %s",
    Stage.KEYWORD: "UPDATE ai.context_ai_state SET keyword_status = %s, updated_at = granary.now()"
    " WHERE context_id = %s",
}

RUNS = st.sampled_from(["run-1", "run-2"])
# Who posts again, and what.
POSTS = {"post": (7, "글"), "post another text": (7, "고친 글"), "post for another": (8, "글")}
REDO = {"redo embedding": Stage.EMBEDDING, "redo keywords": Stage.KEYWORD}
CANCEL = {"cancel": tuple(Stage), "cancel keywords": (Stage.KEYWORD,)}
CHANGES = [
    "add",
    "delete",
    "delete",
    "erase",
    "rescan",
    "rescan",
    "rescan",
    "forget",
    *CANCEL,
    *REDO,
    *REDO,
    *POSTS,
]


@dataclass(frozen=True)
class Held:
    """A stage that a run has started, and believes to hold."""

    run_id: str
    stage: Stage
    request: ContextRequest
    token: datetime


ACTS = st.one_of(
    st.tuples(st.just("start"), RUNS, st.sampled_from([0, 0, 301, 601])),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(["store", "fail"]), st.booleans()),
    st.tuples(st.just("change"), st.sampled_from(CHANGES), st.integers(0, 1)),
)


class ContextStages(RuleBasedStateMachine):
    """Contexts beside the tables; one session of the application and the door, and one of each run."""

    def __init__(self, sessions: dict[str, psycopg.Connection], clock: Clock) -> None:
        super().__init__()
        self.sessions, self.core, self.clock = sessions, sessions["core"], clock
        self.contexts = Contexts()
        self.held: list[Held] = []
        self.made = 0

    @initialize(is_done=st.booleans())
    def begin(self, is_done: bool) -> None:
        """With two contexts, whose results are made or still to be made."""
        self.core.execute(f"TRUNCATE {TABLES}")
        self.clock.restart()
        self.add(7)
        self.add(8)
        for stage in Stage if is_done else ():
            for claim in self.start_stage("run-1", stage, self.read_the_inbox("run-1")):
                self.store(claim)

    def now(self) -> datetime:
        """Each change has a time of its own: the time is the token."""
        self.clock.move(0.001)
        return self.clock.now

    @rule(act=ACTS)
    def step(self, act: tuple[Any, ...]) -> None:
        """All acts are one rule: of several, Hypothesis leaves most out of most histories."""
        name, *given = act
        getattr(self, name)(*given)

    # What the application, a rescan and the clearing up do, at any moment.

    def change(self, what: str, which: int) -> None:
        """One of the two newest contexts, or all of what it concerns."""
        id_ = len(self.contexts.states) - which
        if what in REDO:
            self.redo(id_, REDO[what])
        elif what in POSTS:
            self.post(id_, *POSTS[what])
        elif what in CANCEL:
            self.write(id_, CANCEL[what], "CANCELLED")
        elif what == "delete":
            self.delete_vector(id_)
        else:
            acts: dict[str, Callable[[], None]] = {
                "add": lambda: self.add(7 + which),
                "erase": lambda: self.erase(7 + which),
                "rescan": lambda: self.rescan(301 + which * 300),
                "forget": lambda: self.forget(which * 86_401),
            }
            acts[what]()

    def add(self, user_id: int) -> None:
        """A context of its own id, as an edited one has too."""
        id_ = len(self.contexts.states) + 1
        self.contexts.states[id_] = State(self.now())
        put_state(self.core, id_)
        self.post(id_, user_id, "글")

    def redo(self, id_: int, stage: Stage) -> None:
        """Of what is COMPLETED."""
        if self.contexts.states[id_].of(stage) == "COMPLETED":
            self.write(id_, [stage], "PENDING")

    def delete_vector(self, id_: int) -> None:
        self.core.execute("UPDATE ai.context_embedding SET is_deleted = true WHERE context_id = %s", (id_,))
        if id_ in self.contexts.vectors:
            self.contexts.vectors[id_] = (*self.contexts.vectors[id_][:2], True)

    def post(self, id_: int, user_id: int, text: str) -> None:
        now = self.now()
        accepted = request_store.accept(self.core, ask(id_, text, user_id), {"place": "집"}, text, False)
        assert accepted.text_was_taken is self.contexts.post(id_, user_id, text, now)

    def erase(self, user_id: int) -> None:
        now = self.now()
        erasure_store.erase_user(self.core, user_id)
        self.contexts.erase(user_id, now)

    def rescan(self, after: int) -> None:
        """Every five minutes, where the application leaves it to us."""
        self.clock.move(after)
        now = self.now()
        is_due = rescan_store.is_due(self.core)
        given_up = self.contexts.give_up(now)
        assert rescan_store.finalise(self.core) == given_up
        again = self.contexts.send_again(now)
        assert rescan_store.resend(self.core) == again
        assert is_due is bool(given_up or again)

    def forget(self, after: int) -> None:
        self.clock.move(after)
        texts = self.contexts.forgettable(self.now())
        assert request_store.forget(self.core) == len(texts)
        for request in texts:
            request.text = None
        assert request_store.overdue_texts(self.core) == 0

    # What runs do.

    def start(self, run_id: str, after: int) -> None:
        """What a run begins so many seconds later, with the requests that wait then."""
        self.clock.move(after)
        requests = self.read_the_inbox(run_id)
        for stage in Stage:
            self.start_stage(run_id, stage, requests)

    def start_stage(self, run_id: str, stage: Stage, requests: dict[int, ContextRequest]) -> list[Held]:
        now, states = self.now(), self.contexts.states
        expected = {id_ for id_ in states if self.contexts.is_startable(id_, stage, now)}
        expired = {id_ for id_ in expected if states[id_].of(stage) == "PROCESSING"}
        started = state_store.start(self.sessions[run_id], stage, list(states), EXPIRY.total_seconds())
        assert started.keys() == expected
        assert {id_ for id_, one in started.items() if one.was_expired} == expired
        for id_ in expected:
            states[id_].become(stage, "PROCESSING", now)
        held = [Held(run_id, stage, requests.get(id_, ask(id_)), one.token) for id_, one in started.items()]
        self.held += held
        return held

    def read_the_inbox(self, run_id: str) -> dict[int, ContextRequest]:
        requests = request_store.waiting(self.sessions[run_id], None, 100)
        assert {(one.context_id, one.user_id, one.text) for one in requests} == {
            (id_, one.user_id, one.text)
            for id_, one in self.contexts.requests.items()
            if one.waits and one.text
        }
        return {one.context_id: one for one in requests}

    def finish(self, number: int, how: str, ends: bool) -> None:
        """Stores a result or fails; and says that the attempt is over."""
        if not self.held:
            return
        claim = one_of(self.held, number, self.may_store)
        if how == "store":
            self.store(claim)
        else:
            self.fail(claim)
        if ends:
            self.end_attempt(claim)

    def store(self, claim: Held) -> None:
        now = self.now()
        self.made += 1
        is_ours = self.may_store(claim)
        store = self.store_vector if claim.stage is Stage.EMBEDDING else self.store_keywords
        assert store(claim) == ({claim.request.context_id} if is_ours else set())
        if is_ours:
            self.note_stored(claim, now)

    def fail(self, claim: Held) -> None:
        now = self.now()
        id_ = claim.request.context_id
        is_ours = self.contexts.is_held(id_, claim.stage, claim.token)
        failed = state_store.fail(self.sessions[claim.run_id], claim.stage, {id_: claim.token})
        assert failed == ({id_} if is_ours else set())
        if is_ours:
            self.contexts.states[id_].become(claim.stage, "FAILED", now)

    def end_attempt(self, claim: Held) -> None:
        now = self.now()
        request = self.contexts.requests.get(claim.request.context_id)
        is_this = request is not None and request.requested_at == claim.request.requested_at
        assert request_store.handled(self.sessions[claim.run_id], [claim.request]) == is_this
        if request and is_this:
            request.handled_at = max(now, request.requested_at)
            if self.contexts.has_final_state(claim.request.context_id):
                request.text = None

    # What is done on both sides.

    def write(self, id_: int, stages: Sequence[Stage], status: str) -> None:
        now = self.now()
        for stage in stages:
            self.core.execute(SET[stage], (status, id_))
            self.contexts.states[id_].become(stage, status, now)

    def may_store(self, claim: Held) -> bool:
        id_ = claim.request.context_id
        if not self.contexts.is_held(id_, claim.stage, claim.token):
            return False
        return claim.stage is Stage.EMBEDDING or self.contexts.states[id_].embedding == "COMPLETED"

    def store_vector(self, claim: Held) -> set[int]:
        made = StoredVector(claim.request, claim.token, vector(float(self.made)))
        return embedding_store.store(self.sessions[claim.run_id], [made], DEFAULT_PROFILE)

    def store_keywords(self, claim: Held) -> set[int]:
        judgement = Judgement((Selection(self.keyword, 0.5),), (str(self.made),), "gpt-test")
        made = KeywordResult(claim.request.context_id, claim.token, judgement)
        return keyword_store.store(self.sessions[claim.run_id], [made], 1)

    @property
    def keyword(self) -> int:
        """What the model answers this time."""
        return PRESETS[self.made % 2]

    def note_stored(self, claim: Held, now: datetime) -> None:
        """A vector that the application deleted stays deleted."""
        id_ = claim.request.context_id
        self.contexts.states[id_].become(claim.stage, "COMPLETED", now)
        if claim.stage is Stage.KEYWORD:
            self.contexts.keywords[id_], self.contexts.analyses[id_] = self.keyword, str(self.made)
        else:
            is_deleted = id_ in self.contexts.vectors and self.contexts.vectors[id_][2]
            self.contexts.vectors[id_] = (claim.request.user_id, float(self.made), is_deleted)

    # What must hold after every step.

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        model = self.contexts
        assert set(self.core.execute(REQUESTS)) == {
            (id_, one.user_id, one.text, one.known, one.requested_at, one.text_since, one.handled_at)
            for id_, one in model.requests.items()
        }
        assert set(self.core.execute(STATES)) == {
            (id_, one.embedding, one.keyword, one.retries, one.updated_at)
            for id_, one in model.states.items()
        }
        assert set(self.core.execute(VECTORS)) == {(id_, *one) for id_, one in model.vectors.items()}
        assert self.core.execute(KEYWORDS + " ORDER BY 1").fetchall() == sorted(model.keywords.items())
        assert self.core.execute(ANALYSES + " ORDER BY 1").fetchall() == sorted(model.analyses.items())


def test_whatever_happens_contexts_are_those_of_the_model(connect: Callable[..., psycopg.Connection]) -> None:
    sessions = {name: connect() for name in ("core", "run-1", "run-2")}
    put_preset(sessions["core"], *PRESETS)
    clock = Clock(*sessions.values())
    try_histories(lambda: ContextStages(sessions, clock))
