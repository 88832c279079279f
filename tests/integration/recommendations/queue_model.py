"""What should be stored of members: the contract's rules over plain data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from assets.recommendations.models import DueTrigger, Finalised, QueueItem
from assets.recommendations.schedule import OFFSETS
from assets.recommendations.visit_store import SESSION_TIMEOUT

LEASE = timedelta(minutes=5)
OPEN = ("PENDING", "RUNNING")


@dataclass
class Trigger:
    """When a member is due next, and whose the trigger is."""

    last_visited_at: datetime
    trigger_at: datetime
    lease_until: datetime | None = None
    token: str | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether a run may lease it."""
        return self.trigger_at <= now and (self.lease_until is None or self.lease_until < now)


@dataclass
class Item:
    """A queue item."""

    id: int
    member_id: int
    last_visited_at: datetime
    due_offset: timedelta
    wanted: str
    queued_at: datetime
    status: str = "PENDING"
    claimed_by: str | None = None
    lease_until: datetime | None = None
    returns: int = 0
    error: str | None = None

    def is_dead(self, now: datetime) -> bool:
        """Whether its lease has run out."""
        return self.lease_until is not None and self.lease_until < now

    def wait_again(self) -> None:
        """Nobody's, and as if it had not been picked."""
        self.status, self.claimed_by, self.lease_until, self.error = "PENDING", None, None, None

    def come_back(self, error: str) -> None:
        """Its run died: once it waits again."""
        if self.returns:
            self.status, self.claimed_by, self.lease_until, self.error = "FAILED", None, None, error
        else:
            self.wait_again()
        self.returns = 1


@dataclass
class Members:
    """Triggers, queue and sets. `sets`: of a member, the item that it is of, and whether it is profiled."""

    triggers: dict[int, Trigger] = field(default_factory=dict)
    items: dict[int, Item] = field(default_factory=dict)
    sets: dict[int, tuple[int, str]] = field(default_factory=dict)
    opted_out: set[int] = field(default_factory=set)

    def visit(self, member_id: int, now: datetime) -> bool:
        """Whether the visit begins a session: then all times are set anew, and a lease is left alone."""
        known = self.triggers.get(member_id)
        if known is not None and known.last_visited_at >= now - SESSION_TIMEOUT:
            return False
        lease = (known.lease_until, known.token) if known else (None, None)
        self.triggers[member_id] = Trigger(now, now + OFFSETS[0], *lease)
        return True

    def has_open_item(self, member_id: int) -> bool:
        return any(one.member_id == member_id and one.status in OPEN for one in self.items.values())

    def may_queue(self, due: DueTrigger, offset: timedelta) -> bool:
        """Whether the due time was not queued before, and no item of the member is open."""
        of_this_time = (due.member_id, due.last_visited_at, offset)
        queued = [(one.member_id, one.last_visited_at, one.due_offset) for one in self.items.values()]
        return of_this_time not in queued and not self.has_open_item(due.member_id)

    def is_held(self, due: DueTrigger) -> bool:
        """Whether the lease is the one of now."""
        known = self.triggers.get(due.member_id)
        return known is not None and known.token == due.lease_token

    def finalise(self, end: Finalised) -> None:
        """Moves or deletes a trigger that is held; one that a visit has changed keeps its new times."""
        due = end.trigger
        known = self.triggers[due.member_id]
        is_as_read = (known.last_visited_at, known.trigger_at) == (due.last_visited_at, due.trigger_at)
        known.lease_until = known.token = None
        if is_as_read and end.next_trigger_at is None:
            del self.triggers[due.member_id]
        elif is_as_read and end.next_trigger_at is not None:
            known.trigger_at = end.next_trigger_at

    def waiting(self) -> list[Item]:
        """What a run may pick, the oldest first."""
        return sorted(
            (one for one in self.items.values() if one.status == "PENDING"),
            key=lambda one: (one.queued_at, one.id),
        )

    def held_by(self, item: QueueItem, run_id: str) -> Item | None:
        """The item, if it is still the run's and asks for the same type."""
        known = self.items.get(item.id)
        token = ("RUNNING", run_id, item.wanted)
        return known if known and (known.status, known.claimed_by, known.wanted) == token else None

    def to_requeue(self) -> list[Item]:
        """The newest failed item of each member who has none open."""
        newest: dict[int, Item] = {}
        for one in sorted(self.items.values(), key=lambda one: (one.queued_at, one.id)):
            if one.status == "FAILED" and not self.has_open_item(one.member_id):
                newest[one.member_id] = one
        return list(newest.values())

    def opt_out(self, member_id: int) -> None:
        """What was made of the member's profile is gone, and what is open asks for what everybody gets."""
        self.opted_out.add(member_id)
        if self.sets.get(member_id, (0, "G0"))[1] != "G0":
            del self.sets[member_id]
        for one in self.items.values():
            if one.member_id == member_id and one.status in OPEN and one.wanted != "G0":
                one.wanted = "G0"
                one.wait_again()

    def erase(self, member_id: int) -> None:
        """Nothing of the member is left."""
        self.triggers.pop(member_id, None)
        self.sets.pop(member_id, None)
        self.opted_out.discard(member_id)
        self.items = {id_: one for id_, one in self.items.items() if one.member_id != member_id}

    def note_dead(self, dead: Iterable[Item], error: str) -> tuple[int, int]:
        """Takes items back; how many wait again, and how many have failed."""
        found = list(dead)
        for one in found:
            one.come_back(error)
        returned = sum(one.status == "PENDING" for one in found)
        return returned, len(found) - returned
