"""Whatever visits, two runs, requeues, refusals and erasures do: triggers, queue and sets are the model's.

The model is `queue_model.py`. A run leases triggers or picks items, and ends what it took much later or
never; an end may show any lease or pick there ever was.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assets.recommendations import erasure_store, queue_store, trigger_store, visit_store
from assets.recommendations.models import DueTrigger, GenerationType, QueueItem
from assets.recommendations.queue_store import Returned
from assets.recommendations.trigger_check import finalised
from tests.integration.recommendations.factories import a_set
from tests.integration.recommendations.queue_model import LEASE, Item, Members
from tests.integration.state_models import NUMBERS, Clock, one_of, try_histories

TABLES = "rec.visit_trigger, rec.queue_item, rec.recommended_product, rec.member_opt_out"
TRIGGERS = (
    "SELECT member_id, last_visited_at, trigger_at, lease_until, lease_token::text FROM rec.visit_trigger"
)
ITEMS = """
SELECT id, member_id, last_visited_at, due_offset, candidate_generation_type, queued_at, status, claimed_by,
       lease_until, returns, error
FROM rec.queue_item
"""
SETS = """
SELECT member_id, queue_item_id, candidate_generation_type, array_agg(product_id ORDER BY rank)
FROM rec.recommended_product GROUP BY 1, 2, 3
"""

MEMBERS = st.integers(1, 2)
RUNS = st.sampled_from(["run-1", "run-2"])
HOUR = 3_600
SECONDS = st.sampled_from([0, 0, 0, 301, 301, HOUR + 60, HOUR + 60, 3 * HOUR, 170 * HOUR])
CHANGES = ["visit", "visit", "opt out", "opt out", "opt in", "erase", "requeue", "requeue", "run ends"]


class Leased(NamedTuple):
    """A due trigger that a run has, and believes to have."""

    run_id: str
    due: DueTrigger


class Picked(NamedTuple):
    """The same of a queue item."""

    run_id: str
    item: QueueItem


ACTS = st.one_of(
    st.tuples(st.just("take"), RUNS, SECONDS, st.sampled_from(["", "visit", "erase", "late", "late"])),
    st.tuples(
        st.just("finish"),
        NUMBERS,
        st.sampled_from(["profiled", "everybody's", "everybody's", "fail", "renew", "renew"]),
    ),
    st.tuples(st.just("change"), st.sampled_from(CHANGES), MEMBERS, RUNS),
)


class Queue(RuleBasedStateMachine):
    """Members beside the tables of `rec`; one session of the application and people, and one of each run."""

    def __init__(self, sessions: dict[str, psycopg.Connection], clock: Clock) -> None:
        super().__init__()
        self.sessions, self.core, self.clock = sessions, sessions["core"], clock
        self.members = Members()
        self.taken: list[Leased | Picked] = []

    @initialize(is_queued=st.booleans())
    def begin(self, is_queued: bool) -> None:
        """With two members who came, an hour ago where they are queued."""
        self.core.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")
        self.clock.restart()
        for member_id in (1, 2):
            self.visit(member_id)
        if is_queued:
            self.clock.move(HOUR)
            for lease in self.lease("run-1"):
                self.queue(lease)

    @property
    def now(self) -> datetime:
        return self.clock.now

    @rule(act=ACTS)
    def step(self, act: tuple[Any, ...]) -> None:
        """All acts are one rule: of several, Hypothesis leaves most out of most histories."""
        name, *given = act
        getattr(self, name)(*given)

    # What the application and people do, at any moment.

    def change(self, what: str, member_id: int, run_id: str) -> None:
        """One member, what one run has left, or all failed items."""
        acts: dict[str, Callable[[], None]] = {
            "visit": lambda: self.visit(member_id),
            "opt out": lambda: self.opt_out(member_id),
            "opt in": lambda: self.opt_in(member_id),
            "erase": lambda: self.erase(member_id),
            "requeue": self.requeue_failed,
            "run ends": lambda: self.run_ends(run_id),
        }
        acts[what]()

    def opt_out(self, member_id: int) -> None:
        assert visit_store.opt_out(self.core, member_id) is (member_id not in self.members.opted_out)
        self.members.opt_out(member_id)

    def opt_in(self, member_id: int) -> None:
        assert visit_store.opt_in(self.core, member_id) is (member_id in self.members.opted_out)
        self.members.opted_out.discard(member_id)

    def erase(self, member_id: int) -> None:
        erasure_store.erase_member(self.core, member_id)
        self.members.erase(member_id)

    def visit(self, member_id: int) -> None:
        assert visit_store.visit(self.core, member_id) is self.members.visit(member_id, self.now)

    def requeue_failed(self) -> None:
        back = self.members.to_requeue()
        assert queue_store.requeue_failed(self.core) == len(back)
        for item in back:
            item.wait_again()
            item.returns = 0

    # What runs do.

    def take(self, run_id: str, after: int, between: str) -> None:
        """What a run finds so many seconds later: triggers, which it queues now or late, and items."""
        self.clock.move(after)
        leases = self.lease(run_id)
        for lease in leases:
            if between in ("visit", "erase"):
                self.change(between, lease.due.member_id, run_id)
            if between != "late":
                self.queue(lease)
        self.return_dead(run_id)
        self.taken += [*(leases if between == "late" else []), *self.pick(run_id)]

    def lease(self, run_id: str) -> list[Leased]:
        expected = {id_ for id_, one in self.members.triggers.items() if one.is_due(self.now)}
        triggers = trigger_store.lease_due(self.sessions[run_id], 10, int(LEASE.total_seconds()))
        assert {one.member_id for one in triggers} == expected
        for one in triggers:
            known = self.members.triggers[one.member_id]
            assert (one.last_visited_at, one.trigger_at) == (known.last_visited_at, known.trigger_at)
            known.lease_until, known.token = self.now + LEASE, one.lease_token
        return [Leased(run_id, one) for one in triggers]

    def queue(self, lease: Leased) -> None:
        run_id, due = lease
        end = finalised(due, self.now)
        is_held = self.members.is_held(due)
        is_queued = is_held and self.members.may_queue(due, end.due_offset)
        counts = trigger_store.finalise(self.sessions[run_id], [end])
        assert (counts.queued, counts.queued + counts.already_queued) == (is_queued, is_held)
        if is_held:
            self.members.finalise(end)
        if is_queued:
            (id_,) = self.core.execute("SELECT max(id) FROM rec.queue_item").fetchone() or (0,)
            self.members.items[id_] = Item(
                *(id_, due.member_id, due.last_visited_at, end.due_offset, end.generation_type, self.now)
            )

    def return_dead(self, run_id: str) -> None:
        dead = [one for one in self.members.items.values() if one.is_dead(self.now)]
        returned = Returned(*self.members.note_dead(dead, "lease_lost"))
        assert queue_store.return_dead(self.sessions[run_id]) == returned

    def pick(self, run_id: str) -> list[Picked]:
        expected = self.members.waiting()
        items = queue_store.pick(self.sessions[run_id], run_id, 10, int(LEASE.total_seconds()))
        assert [(one.id, one.wanted) for one in items] == [(one.id, one.wanted) for one in expected]
        for one in expected:
            one.status, one.claimed_by, one.lease_until = "RUNNING", run_id, self.now + LEASE
        return [Picked(run_id, one) for one in items]

    def finish(self, number: int, how: str) -> None:
        if not self.taken:
            return
        taken = one_of(self.taken, number, self.is_held)
        if isinstance(taken, Leased):
            self.queue(taken)
        elif how == "fail":
            self.fail(*taken)
        elif how == "renew":
            self.renew(*taken)
        else:
            self.succeed(*taken, GenerationType.G2 if how == "profiled" else GenerationType.G0)

    def is_held(self, taken: Leased | Picked) -> bool:
        if isinstance(taken, Leased):
            return self.members.is_held(taken.due)
        return self.members.held_by(taken.item, taken.run_id) is not None

    def succeed(self, run_id: str, item: QueueItem, kind: GenerationType) -> None:
        known = self.members.held_by(item, run_id)
        refused = kind != "G0" and item.member_id in self.members.opted_out
        stored = queue_store.succeed(self.sessions[run_id], item, run_id, a_set([item.id], kind))
        assert stored is (known is not None and not refused)
        if known and stored:
            known.status, known.lease_until, known.error = "SUCCEEDED", None, None
            self.members.sets[item.member_id] = (item.id, kind)

    def fail(self, run_id: str, item: QueueItem) -> None:
        known = self.members.held_by(item, run_id)
        assert queue_store.fail(self.sessions[run_id], item, run_id, "ValueError") is (known is not None)
        if known:
            known.status, known.lease_until, known.error = "FAILED", None, "ValueError"

    def renew(self, run_id: str, item: QueueItem) -> None:
        """By run alone: its item may ask for another type by now."""
        known = self.members.items.get(item.id)
        is_ours = known is not None and (known.status, known.claimed_by) == ("RUNNING", run_id)
        renewed = queue_store.renew(self.sessions[run_id], run_id, [item.id], int(LEASE.total_seconds()))
        assert renewed == ({item.id} if is_ours else set())
        if known and is_ours:
            known.lease_until = self.now + LEASE

    def run_ends(self, run_id: str) -> None:
        dead = [
            one for one in self.members.items.values() if (one.status, one.claimed_by) == ("RUNNING", run_id)
        ]
        returned = Returned(*self.members.note_dead(dead, "run_ended"))
        assert queue_store.free_of_run(self.core, run_id) == returned

    # What must hold after every step.

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        model = self.members
        assert set(self.core.execute(TRIGGERS)) == {
            (id_, one.last_visited_at, one.trigger_at, one.lease_until, one.token)
            for id_, one in model.triggers.items()
        }
        assert set(self.core.execute(ITEMS)) == {tuple(vars(one).values()) for one in model.items.values()}
        assert [(id_, item, kind, products) for id_, item, kind, products in self.core.execute(SETS)] == [
            (id_, item, kind, [item]) for id_, (item, kind) in sorted(model.sets.items())
        ]

    @invariant()
    def a_member_has_one_open_item_at_most(self) -> None:
        waiting = [
            one.member_id for one in self.members.items.values() if one.status in ("PENDING", "RUNNING")
        ]
        assert len(waiting) == len(set(waiting))

    @invariant()
    def nobody_who_refused_has_a_profiled_set(self) -> None:
        assert not any(
            kind != "G0" for id_, (_, kind) in self.members.sets.items() if id_ in self.members.opted_out
        )


def test_whatever_happens_the_queue_is_that_of_the_model(connect: Callable[..., psycopg.Connection]) -> None:
    sessions = {name: connect() for name in ("core", "run-1", "run-2")}
    clock = Clock(*sessions.values())
    try_histories(lambda: Queue(sessions, clock))
