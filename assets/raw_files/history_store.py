"""The history of one raw file on a given connection, and what it waits for now. Reads only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.raw_files.keys import is_near_miss, marked_key, parse_raw_key
from assets.raw_files.retry_times import RETRY_DELAYS, next_pass
from resources.item_history import NOBODY, Event, ItemHistory, Needs, Wait, launch, shown
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
LOOKED_FOR = "the key of an object, as raw/country=kr/category=news/date=2026-01-30/raw_0001.json"
COST = "no model is asked for a raw file"
RETRY = "the sensor raw_files_retry, every 30 seconds"
NEEDS = frozenset({Needs.STARTING, Needs.BUCKET})

Row = dict[str, Any]


def file_history(connection: psycopg.Connection, identifier: str, catch_up_days: int) -> ItemHistory | None:
    """The file's history, also of a key that no look has seen yet; None for a key that is no raw file's."""
    key = identifier.strip().removeprefix("s3://")
    key = key[key.find("raw/") :] if "raw/" in key and not key.startswith("raw/") else key
    key = marked_key(key) or key
    now: datetime = connection.execute(SQL["now"]).fetchone()[0]  # type: ignore[index]
    parsed = parse_raw_key(key)
    if parsed is None:
        return _near_miss(key, now) if is_near_miss(key) else None
    source, day = f"{parsed.country}/{parsed.category}", parsed.date
    where = {"day": day, "source": source, "catch_up_days": catch_up_days}
    file = next(iter(_rows(connection, "file", {"key": key})), None)
    partition = next(iter(_rows(connection, "partition", where)), None)
    name = f"{day.isoformat()}|{source}"
    requests = _rows(connection, "requests", where)
    events = [
        *_pass_events(_rows(connection, "passes", where), file),
        *_request_events(requests, name),
        *_partition_events(partition, name),
        *_file_events(file),
        *_failure_events(_rows(connection, "failures", {"partition": name}), name),
    ]
    coming = next_pass(day, now, catch_up_days)
    wait = None if _is_done(file) else _wait(file, partition, requests, (day, source), coming, now)
    return ItemHistory(
        title=f"raw file {key}, partition {name}",
        events=tuple(events),
        waits=(wait,) if wait else (),
        as_of=now,
        cost=COST,
        notes=tuple(_notes(connection, key, file)),
    )


def _near_miss(key: str, now: datetime) -> ItemHistory:
    wait = Wait(
        "another name: the key nearly fits and is ignored",
        "whoever writes the bucket: name it as raw/country=kr/category=news/date=2026-01-30/raw_0001.json",
    )
    return ItemHistory(f"{shown(key)}, no raw file", (), (wait,), now, COST)


def _is_done(file: Row | None) -> bool:
    if file is None or file["status"] != "PROCESSED":
        return False
    return file["run_id"] is None or file["marked_etag"] == file["etag"]


def _wait(
    file: Row | None,
    partition: Row | None,
    requests: Sequence[Row],
    where: tuple[date, str],
    coming: datetime | None,
    now: datetime,
) -> Wait:
    """What a file that is not processed, or has no marker, waits for: always its partition's next attempt."""
    what, mended = _what(file)
    by_hand = _by_hand(*where) if file else _request(*where)
    status = partition["status"] if partition else None
    due = partition["due_at"] if partition else None
    if partition and status == "RUNNING":
        if due and due > now:
            return Wait(f"{what}: run {partition['run_id']} is at the partition", NOBODY, due)
        late = f"{what}: run {partition['run_id']} took longer than a run may, or died"
        return Wait(f"{late}; that counts as a failed attempt", RETRY, now, NEEDS, by_hand)
    if partition and status == "NEW" and due:
        asked = f"{what}: a run was asked for, and is asked for again if none has come by then"
        return Wait(asked, RETRY, due, NEEDS, by_hand)
    if partition and status == "FAILED" and due:
        tries = f"attempt {partition['failures']} failed, of {1 + len(RETRY_DELAYS)}"
        return Wait(f"{what}: {tries}: {shown(partition['error'] or '')}", RETRY, due, NEEDS, by_hand)
    if any(request["started_at"] is None for request in requests):
        who = "the sensor raw_files_requested, every 15 seconds"
        return Wait(f"{what}: a request for the partition waits", who, now, NEEDS, by_hand)
    why = ""
    if partition and status == "FAILED":
        stopped = "a person canceled it" if partition["error"] == "canceled" else "its tries are spent"
        why = f"; the partition FAILED and {stopped} ({shown(partition['error'] or '')})"
    first = f"the person on call: {mended}; " if mended else ""
    if coming is not None:
        name = "daily_raw_files" if coming.hour == 0 else "supplementary_raw_files"
        return Wait(
            f"{what}: the next look at its day{why}",
            f"{first}the schedule {name} looks then; at once: {by_hand}",
            coming,
            NEEDS,
            by_hand,
        )
    gone = f"{what}: a run by hand, since no look reaches back to its day any more (RAW_CATCH_UP_DAYS){why}"
    return Wait(gone, f"the person on call: {f'{mended}, then ' if mended else ''}{by_hand}", now)


def _what(file: Row | None) -> tuple[str, str]:
    """What is to be done with it, and what somebody has to mend first, if anything."""
    if file is None:
        return "to be seen (it is not in the ledger)", "see that it is in the bucket"
    if file["status"] == "PROCESSED":
        return "its .success marker to be written, for others to see; it is processed", ""
    if file["status"] == "FAILED":
        return f"to be processed again (FAILED: {shown(file['reason'])})", "have its content mended"
    return "to be processed", ""


def _by_hand(day: date, source: str) -> str:
    return launch("raw_files_partitions", partition=f"{day.isoformat()}|{source}")


def _request(day: date, source: str) -> str:
    """For a source that may never have been seen, of which no partition can be launched yet."""
    country, category = source.split("/")
    asked = json.dumps({"country": country, "category": category, "date": day.isoformat(), "force": False})
    return f"POST /api/v1/seeds/orchestrate {asked}, as assets/raw_files/README.md shows"


def _file_events(file: Row | None) -> Iterator[Event]:
    if file is None:
        return
    if file["modified_at"]:
        yield Event(
            file["modified_at"], f"written to the bucket, {file['size']} bytes, version {file['etag']}"
        )
    yield Event(file["seen_at"], "first seen, in this version")
    if file["processed_at"] and file["run_id"] is None:
        yield Event(file["processed_at"], "taken for processed: somebody else left a marker")
    elif file["processed_at"]:
        rows = f"{file['rows']} rows, {file['rejected']} rejected"
        yield Event(file["processed_at"], f"processed: {rows}", file["run_id"])


def _partition_events(partition: Row | None, name: str) -> Iterator[Event]:
    if partition is None:
        return
    if partition["asked_at"]:
        yield Event(partition["asked_at"], f"a run of {name} asked for")
    if partition["started_at"]:
        yield Event(partition["started_at"], f"last attempt at {name} started", partition["run_id"])
    if partition["finished_at"]:
        error = f": {shown(partition['error'])}" if partition["error"] else ""
        ended = f"last attempt at {name} ended: {partition['status']}{error}"
        yield Event(partition["finished_at"], ended, partition["run_id"])


def _request_events(requests: Sequence[Row], name: str) -> Iterator[Event]:
    for request in requests:
        force = " with force" if request["force"] else ""
        yield Event(request["requested_at"], f"{name} requested over HTTP{force} (request {request['id']})")
        if request["started_at"]:
            yield Event(request["started_at"], f"request {request['id']} started", request["run_id"])


def _failure_events(failures: Sequence[Row], name: str) -> Iterator[Event]:
    for one in failures:
        yield Event(
            one["timestamp"], f"attempt at {name} failed: {one['kind']}, {one['type']}", one["run_id"]
        )


def _pass_events(passes: Sequence[Row], file: Row | None) -> Iterator[Event]:
    """Of looks that succeeded only the last is worth a line, unless the file was in none of them."""
    done = [one for one in passes if one["scanned_at"]]
    for one in done[:1] if file else done[:3]:
        unseen = "" if file else ", without this file"
        yield Event(one["scanned_at"], f"the {one['kind']} pass looked at its day{unseen}")
    for one in passes:
        if one["scanned_at"] is None and one["error"]:
            yield Event(one["scheduled_at"], f"the {one['kind']} pass failed: {shown(one['error'])}")


def _notes(connection: psycopg.Connection, key: str, file: Row | None) -> Iterator[str]:
    if file is None:
        return
    if file["status"] == "FAILED":
        yield f"read in vain {file['attempts']} times in this version, the last by run {file['run_id']}"
    if file["status"] != "PROCESSED":
        return
    row = connection.execute(SQL["domains"], {"key": key}).fetchone()
    assert row is not None
    total, fetched, failed, next_try = row
    if total:
        later = f", again from {next_try:%Y-%m-%d %H:%M %Z}" if next_try else ""
        waiting = total - fetched - failed
        yield (
            f"it names {total} domains; front pages: {fetched} fetched, {failed} failed{later}, {waiting} "
            "not yet (metadata_sync fetches what is left)"
        )


def _rows(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[name], parameters).fetchall()
