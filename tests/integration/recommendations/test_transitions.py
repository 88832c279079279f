"""Every situation of an item and of a trigger met by every event, on the statements of production."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from assets.recommendations import erasure_store, queue_store, trigger_store, visit_store
from assets.recommendations.models import DueTrigger, GenerationType, QueueItem
from assets.recommendations.trigger_check import finalised
from tests.integration.recommendations.factories import (
    HOUR,
    MINUTE,
    NOON,
    a_set,
    a_trigger,
    an_item,
    items,
    recommended,
    trigger,
)

Connection = psycopg.Connection

ITEMS: dict[str, dict[str, Any]] = {
    "PENDING": {"status": "PENDING"},
    "PENDING, returned": {"status": "PENDING", "returns": 1},
    "RUNNING": {"status": "RUNNING"},
    "RUNNING, returned": {"status": "RUNNING", "returns": 1},
    "RUNNING, lease lost": {"status": "RUNNING", "lease_until": NOON - MINUTE},
    "RUNNING, returned, lease lost": {"status": "RUNNING", "returns": 1, "lease_until": NOON - MINUTE},
    "RUNNING, another's": {"status": "RUNNING", "claimed_by": "run-2"},
    "RUNNING, everybody's": {"status": "RUNNING", "wanted": "G0"},
    "SUCCEEDED": {"status": "SUCCEEDED"},
    "FAILED": {"status": "FAILED"},
}
RUNNING = [name for name in ITEMS if name.startswith("RUNNING")]
OURS = [name for name in RUNNING if name != "RUNNING, another's"]
LOST = {"RUNNING, lease lost": "PENDING", "RUNNING, returned, lease lost": "FAILED"}

# Each by run-1, which holds the item or believes so; the status of what it may move.
ITEM_EVENTS: dict[str, tuple[Callable[[Connection, QueueItem], object], dict[str, str]]] = {
    "pick": (
        lambda connection, item: queue_store.pick(connection, "run-1", 5, 300),
        dict.fromkeys(["PENDING", "PENDING, returned"], "RUNNING"),
    ),
    "renew": (
        lambda connection, item: queue_store.renew(connection, "run-1", [item.id], 900),
        dict.fromkeys(OURS, "RUNNING"),
    ),
    "succeed": (
        lambda connection, item: queue_store.succeed(connection, item, "run-1", a_set([1])),
        dict.fromkeys(OURS, "SUCCEEDED"),
    ),
    "fail": (
        lambda connection, item: queue_store.fail(connection, item, "run-1", "ValueError"),
        dict.fromkeys(OURS, "FAILED"),
    ),
    "return what is dead": (lambda connection, item: queue_store.return_dead(connection), LOST),
    "the run has ended": (
        lambda connection, item: queue_store.free_of_run(connection, "run-1"),
        {
            "RUNNING": "PENDING",
            "RUNNING, returned": "FAILED",
            "RUNNING, everybody's": "PENDING",
            **LOST,
        },
    ),
    "requeue": (lambda connection, item: queue_store.requeue_failed(connection), {"FAILED": "PENDING"}),
    "queue once more": (
        lambda connection, item: trigger_store.finalise(connection, [finalised(leased(connection), NOON)]),
        {},
    ),
    "opt out": (
        lambda connection, item: visit_store.opt_out(connection, 1),
        dict.fromkeys(
            [name for name in ITEMS if name.startswith(("PENDING", "RUNNING")) and "everybody" not in name],
            "PENDING",
        ),
    ),
    "erase": (
        lambda connection, item: erasure_store.erase_member(connection, 1),
        dict.fromkeys(ITEMS, "erased"),
    ),
}


def leased(connection: Connection) -> DueTrigger:
    """The same due time again, as a checker holds it that died after it had queued the item."""
    return a_trigger(connection, 1, NOON - HOUR, lease_until=NOON + MINUTE)


@pytest.mark.parametrize("event", ITEM_EVENTS)
def test_an_event_moves_the_items_that_it_may_move_and_changes_nothing_else(
    event: str, noon: Connection
) -> None:
    happen, legal = ITEM_EVENTS[event]
    moved = {}
    for name, columns in ITEMS.items():
        id_ = an_item(noon, 1, **columns)
        (before,) = items(noon)
        happen(noon, QueueItem(id_, 1, GenerationType(columns.get("wanted", "G2"))))
        after = items(noon)
        if after != [before]:
            moved[name] = after[0]["status"] if after else "erased"
        assert recommended(noon, 1) == ([1] if event == "succeed" and name in legal else [])
        erasure_store.erase_member(noon, 1)
    assert moved == legal


TRIGGERS: dict[str, dict[str, Any]] = {
    "not due": {"visited_at": NOON - MINUTE},
    "due": {},
    "due, leased by us": {"lease_until": NOON + MINUTE},
    "due, our lease lost": {"lease_until": NOON - MINUTE},
    "due, last time": {"visited_at": NOON - 168 * HOUR, "due_at": NOON},
    "due, last time, leased by us": {
        "visited_at": NOON - 168 * HOUR,
        "due_at": NOON,
        "lease_until": NOON + MINUTE,
    },
}
OLD = [name for name in TRIGGERS if name != "not due"]

# What has become of it: its columns that changed.
TRIGGER_EVENTS: dict[str, tuple[Callable[[Connection, DueTrigger], object], dict[str, str]]] = {
    "lease": (
        lambda connection, due: trigger_store.lease_due(connection, 5, 300),
        dict.fromkeys(["due", "due, our lease lost", "due, last time"], "leased"),
    ),
    "finish": (
        lambda connection, due: trigger_store.finalise(connection, [finalised(due, NOON)]),
        {
            "due, leased by us": "moved",
            "due, our lease lost": "moved",
            "due, last time, leased by us": "deleted",
        },
    ),
    "visit": (
        lambda connection, due: visit_store.visit(connection, 1, NOON + MINUTE),
        dict.fromkeys(OLD, "visited"),
    ),
    "late visit": (lambda connection, due: visit_store.visit(connection, 1, NOON - 900 * HOUR), {}),
    "erase": (
        lambda connection, due: erasure_store.erase_member(connection, 1),
        dict.fromkeys(TRIGGERS, "deleted"),
    ),
}


def change_of(before: dict[str, Any], after: dict[str, Any] | None) -> str | None:
    if after is None:
        return "deleted"
    if after["last_visited_at"] != before["last_visited_at"]:
        return "visited"
    if after["trigger_at"] != before["trigger_at"]:
        return "moved"
    return "leased" if after != before else None


@pytest.mark.parametrize("event", TRIGGER_EVENTS)
def test_an_event_changes_the_triggers_that_it_may_change_and_no_other(event: str, noon: Connection) -> None:
    happen, legal = TRIGGER_EVENTS[event]
    changed = {}
    for name, columns in TRIGGERS.items():
        due = a_trigger(noon, 1, **columns)
        before = trigger(noon)
        assert before is not None
        happen(noon, due)
        if change := change_of(before, trigger(noon)):
            changed[name] = change
        queued = event == "finish" and name in legal
        assert len(items(noon)) == (1 if queued else 0), name
        erasure_store.erase_member(noon, 1)
    assert changed == legal


def test_the_table_refuses_a_trigger_that_contradicts_itself(noon: Connection) -> None:
    a_trigger(noon)
    for change in (
        "lease_until = granary.now()",
        "lease_token = gen_random_uuid()",
        "trigger_at = last_visited_at",
        "member_id = 0",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            noon.execute(f"UPDATE rec.visit_trigger SET {change}".encode())  # noqa: S608
