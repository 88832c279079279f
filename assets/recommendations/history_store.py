"""The history of one member on a given connection, and what comes next for it. Reads only."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.recommendations.schedule import due_offset, generation_type
from resources.item_history import NOBODY, Event, ItemHistory, Needs, Wait, launch, shown
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
LOOKED_FOR = "a member's id, a positive number"
MOST_SHOWN = 30
MEMBERS_DUE = "the sensor members_due, every 30 seconds"
NEEDS = frozenset({Needs.STARTING})
COST = "no model is asked for a member: products are embedded once for all"

Row = dict[str, Any]


def member_history(connection: psycopg.Connection, identifier: str) -> ItemHistory | None:
    """The member's history; None where no row speaks of it, as after an erasure."""
    text = identifier.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < 2**63):
        return None
    of = {"member_id": int(text), "limit": MOST_SHOWN}
    (member,) = _rows(connection, "member", of)
    trigger = next(iter(_rows(connection, "trigger", of)), None)
    visits, items = _rows(connection, "visits", of), _rows(connection, "items", of)
    recommended = _rows(connection, "recommended", of)
    if not (trigger or visits or items or recommended or member["opted_out_at"] or member["events"]):
        return None
    now = member["now"]
    events = [*_visit_events(trigger, visits), *_item_events(items), *_set_events(recommended)]
    if member["opted_out_at"]:
        events.append(Event(member["opted_out_at"], "opted out of profiling"))
    waits = [*_failed(items, now), *_open_item(items, now), *_new_visits(visits, now), *_due(trigger, now)]
    return ItemHistory(
        title=f"member {int(text)}",
        events=tuple(events),
        waits=tuple(waits),
        as_of=now,
        cost=COST,
        notes=tuple(_notes(member, trigger, items, recommended)),
        done="a visit: no time is due any more",
    )


def _failed(items: Sequence[Row], now: datetime) -> Iterator[Wait]:
    """The newest item, if it failed: whoever came after it has the member's set renewed anyway."""
    if items and items[0]["status"] == "FAILED":
        item = items[0]
        requeue = launch("recommendations_requeue_failed", "requeue_failed_members", item_ids=[item["id"]])
        yield Wait(
            f"queue item {item['id']} to be tried again: it FAILED ({shown(item['error'] or 'no reason')}), "
            "and the set of before stays until then, or until the member is due next",
            f"the person on call: mend the cause, then {requeue}",
            now,
        )


def _open_item(items: Sequence[Row], now: datetime) -> Iterator[Wait]:
    item = next((one for one in items if one["status"] in ("PENDING", "RUNNING")), None)
    if item is None:
        return
    name = f"queue item {item['id']} ({item['wanted']}, {item['status']})"
    by_hand = launch("recommendations", partition=item["queued_at"].astimezone(UTC).date().isoformat())
    if item["status"] == "PENDING":
        yield Wait(f"{name} to be picked by a run", MEMBERS_DUE, now, NEEDS, by_hand)
    elif item["lease_until"] >= now:
        yield Wait(f"{name} to be ranked: run {item['claimed_by']} is at it", NOBODY, item["lease_until"])
    else:
        then = "ended as FAILED, since a run had died over it before" if item["returns"] else "put back once"
        what = f"{name} to be {then}: run {item['claimed_by']} let its lease run out"
        yield Wait(what, MEMBERS_DUE, item["lease_until"], NEEDS, by_hand)


def _new_visits(visits: Sequence[Row], now: datetime) -> Iterator[Wait]:
    waiting = [visit for visit in visits if visit["consumed_at"] is None]
    if waiting:
        what = (
            f"{len(waiting)} visits of rec.member_visit to be taken in (the first is id {waiting[-1]['id']})"
        )
        yield Wait(what, MEMBERS_DUE, now, NEEDS, launch("recommendations", partition=_day(now)))


def _due(trigger: Row | None, now: datetime) -> Iterator[Wait]:
    if trigger is None:
        return
    due, visited = trigger["trigger_at"], trigger["last_visited_at"]
    hours = due_offset(visited, due).total_seconds() / 3600
    what = f"the time {hours:.0f} h after the last visit, to be queued for {generation_type(visited, due)}"
    if trigger["lease_until"] and trigger["lease_until"] >= now and due <= now:
        yield Wait(f"{what}: a run has it", NOBODY, trigger["lease_until"])
        return
    yield Wait(what, MEMBERS_DUE, due, NEEDS, launch("recommendations", partition=_day(max(due, now))))


def _visit_events(trigger: Row | None, visits: Sequence[Row]) -> Iterator[Event]:
    if trigger:
        yield Event(trigger["last_visited_at"], "last visit that counts")
    for visit in visits:
        if visit["consumed_at"]:
            what = f"the visit of {visit['occurred_at']} taken in (rec.member_visit {visit['id']})"
            yield Event(visit["consumed_at"], what)


def _item_events(items: Sequence[Row]) -> Iterator[Event]:
    for item in items:
        name = f"queue item {item['id']}"
        visited = item["last_visited_at"].astimezone(UTC)
        at = f"{item['hours']:.0f} h after the visit of {visited:%m-%d %H:%M %Z}"
        yield Event(item["queued_at"], f"{name} queued, {at}, for {item['wanted']}")
        if item["picked_at"]:
            yield Event(item["picked_at"], f"{name} picked", item["claimed_by"])
        if item["finished_at"]:
            error = f": {shown(item['error'])}" if item["error"] else ""
            yield Event(item["finished_at"], f"{name} {item['status']}{error}", item["claimed_by"])


def _set_events(recommended: Sequence[Row]) -> Iterator[Event]:
    for one in recommended:
        what = f"{one['products']} products recommended by queue item {one['queue_item_id']}, {one['types']}"
        yield Event(one["created_at"], what)


def _notes(
    member: Row, trigger: Row | None, items: Sequence[Row], recommended: Sequence[Row]
) -> Iterator[str]:
    if member["opted_out_at"]:
        yield "the member refused profiling: what is popular with everybody (G0) is recommended"
    if member["events"]:
        last = member["last_event_at"]
        when = f", the last of {last.astimezone(UTC):%Y-%m-%d %H:%M %Z}" if last else ""
        yield f"{member['events']} events known (views, likes, purchases){when}"
    else:
        yield "no events known: what is popular with everybody (G0) is recommended"
    if trigger is None and not items:
        yield "no visit has been taken in"
    if not recommended:
        yield "nothing is recommended now"
    if len(items) == MOST_SHOWN:
        yield f"only the newest {MOST_SHOWN} queue items are shown"


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()


def _rows(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[name], parameters).fetchall()
