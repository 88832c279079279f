"""The history of one recipe: its job record and batches, what came of it in Postgres. Reads only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import BATCH_FIELDS, JOBS
from assets.recipes.statuses import (
    LEASE_SECONDS,
    MOST_RETRIES,
    RELEASED_TO,
    STABLE_BEFORE,
    TIMESTAMPS,
    Status,
)
from resources.item_history import NOBODY, Event, ItemHistory, Needs, Wait, launch, shown
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
ZONE = "Asia/Seoul"
LOOKED_FOR = "a recipe's id at its source (RCP_SEQ), or the _id of its job record"
SENSOR = "the sensor recipe_batches, every 60 seconds"
BATCH_WINDOW, STUCK_AFTER = timedelta(hours=24), timedelta(hours=26)
STARTS = {
    Status.FETCHED: ("to be sent to be parsed", "recipes_parse_submit", Needs.PARSING),
    Status.PARSE_SUBMITTED: ("what was parsed to be taken in", "recipes_parsed", Needs.PARSING),
    Status.PARSE_RETRIEVED: ("to be stored as a recipe", "recipes_parsed", Needs.EMBEDDING),
    Status.PERSISTED: ("to be sent to be embedded", "recipes_parsed", Needs.EMBEDDING),
    Status.EMBED_SUBMITTED: ("its vector to be taken in", "recipes_embedded", Needs.EMBEDDING),
}
"""What comes next in a stable status, which job does it, and which model's gate may be in its way."""
_DONE = {"parse": "parsed", "embed": "embedded"}
_LIGHT = {"raw_data": 0, "retrieved_data": 0}

Row = Mapping[str, Any]
Price = Callable[[str, Mapping[str, int]], Decimal | None]
"""What a batch's tokens cost in USD, by its model and `usage`; None where the model has no price."""


def recipe_history(
    db: "Mongo", connection: psycopg.Connection, identifier: str, price: Price
) -> ItemHistory | None:
    """The recipe's history; None where no fetch brought it. With an id of several sources the newest."""
    job = _job(db, identifier.strip())
    if job is None:
        return None
    now: datetime = connection.execute(SQL["now"]).fetchone()[0]  # type: ignore[index]
    batches = _batches(db, job)
    of = {"source": job["source"], "source_id": job["source_id"]}
    recipe = next(iter(_rows(connection, "recipe", of)), None)
    reviews = [] if recipe is None else _rows(connection, "reviews", {"recipe_id": recipe["id"]})
    waits = [*_waits(job, batches, now), *_reviews(reviews, now)]
    name = f": {shown(recipe['title'], 100)}" if recipe else ""
    return ItemHistory(
        title=f"recipe {job['source_id']} of {job['source']}{name} "
        f"(job record {job['_id']}, {job['run_id']}, {job['status']})",
        events=(*_batch_events(batches), *_recipe_events(recipe), *_job_events(job)),
        waits=tuple(waits),
        as_of=now,
        cost=_cost(batches, price),
        notes=tuple(_notes(job, recipe)),
        zone=ZONE,
    )


def _job(db: "Mongo", identifier: str) -> Row | None:
    found = db[JOBS].find_one({"_id": identifier}, _LIGHT)
    if found is None:
        # The sources are few: this walks the index of source and source_id.
        sources = db[JOBS].distinct("source")
        where = {"source": {"$in": sources}, "source_id": identifier}
        found = db[JOBS].find_one(where, _LIGHT, sort=[("fetched_at", -1)])
    return found


def _batches(db: "Mongo", job: Row) -> list[Row]:
    """The batches that the record names, without their lists of jobs, oldest first."""
    named = [job[field] for field in BATCH_FIELDS.values() if job.get(field)]
    where = {"$or": [{"batch_id": {"$in": named}}, {"_id": job.get("intent_id")}]}
    found = db[BATCHES].find(where, {"job_ids": 0, "ingredient_ids": 0})
    return sorted(found, key=lambda batch: batch["created_at"])


def _waits(job: Row, batches: Sequence[Row], now: datetime) -> Iterator[Wait]:
    status = Status(job["status"])
    again = f", retry {job['retry_count']} of {MOST_RETRIES}" if job["retry_count"] else ""
    if status == Status.FAILED:
        requeue = launch("recipes_requeue_failed", "requeue_failed_recipe_jobs", job_ids=[job["_id"]])
        why = shown(job.get("error_message") or "no reason kept")
        what = f"to be tried again: it failed {job['retry_count']} times, the last for: {why}"
        yield Wait(what, f"the person on call: mend the cause, then {requeue}", now)
    elif status in (Status.PARSE_SUBMITTED, Status.EMBED_SUBMITTED):
        yield _in_batch(job, status, batches, now)
    elif status in RELEASED_TO:
        yield _claimed(job, status, batches, now)
    elif status in STARTS:
        what, job_name, needs = STARTS[status]
        yield _run(f"{what}{again}", job, job_name, now, needs)


def _run(what: str, job: Row, job_name: str, due: datetime, needs: Needs) -> Wait:
    who = f"{SENSOR}, starts {job_name}"
    by_hand = launch(job_name, partition=job["run_id"])
    room = {Needs.QUEUE} if what.startswith("to be sent") else set()
    return Wait(what, who, due, frozenset({Needs.STARTING, needs, *room}), by_hand)


def _in_batch(job: Row, status: Status, batches: Sequence[Row], now: datetime) -> Wait:
    stage = status.split("_")[0]
    what, job_name, needs = STARTS[status]
    batch = next((one for one in batches if one.get("batch_id") == job.get(BATCH_FIELDS[stage])), None)
    if batch is None or batch["state"] != "submitted":
        ended = f"is {batch['state']}" if batch else "is not known"
        back = f"to be asked again: its batch {ended}, and the record goes back to {STABLE_BEFORE[status]}"
        return _run(back, job, "recipes_parse_submit" if stage == "parse" else "recipes_parsed", now, needs)
    name = f"the provider's {batch['batch_id']} ({batch['line_count']} lines)"
    if _is_held(batch, now):
        return Wait(f"{what}: {_run_of(batch)} is at {name}", NOBODY, _lease_end(batch))
    said = f", last {batch['last_status']}" if batch.get("last_status") else ""
    if now - batch["submitted_at"] > STUCK_AFTER:
        late = f"{name} to be {_DONE[stage]}{said}; that should have been long ago"
        return Wait(late, "the person on call: see the runbook, A batch is stuck", now)
    who = f"{NOBODY}: the provider has until then; {SENSOR}, starts {job_name} as soon as it is over"
    by_hand = launch(job_name, partition=job["run_id"])
    return Wait(
        f"{name} to be {_DONE[stage]}{said}",
        who,
        batch["submitted_at"] + BATCH_WINDOW,
        frozenset({Needs.STARTING}),
        by_hand,
    )


def _claimed(job: Row, status: Status, batches: Sequence[Row], now: datetime) -> Wait:
    """A run has it; in a planned batch it follows that, not its run."""
    intent = next((one for one in batches if one["_id"] == job.get("intent_id")), None)
    holder = intent or job
    if _is_held(holder, now):
        plan = f" and its batch {intent['_id']} ({intent['state']})" if intent else ""
        return Wait(f"{_run_of(holder)} to go on: it holds the record{plan}", NOBODY, _lease_end(holder))
    back = RELEASED_TO[status]
    _, job_name, needs = STARTS[back]
    if intent:
        what = f"its batch {intent['_id']} ({intent['state']}) to be looked for at the provider: its run died"
        return _run(f"{what}, and nothing is sent twice", job, job_name, now, needs)
    return _run(f"to be freed, back to {back}: {_run_of(job)} died", job, job_name, now, needs)


def _reviews(reviews: Sequence[Row], now: datetime) -> Iterator[Wait]:
    if reviews:
        ids = [review["id"] for review in reviews]
        decide = launch("recipes_decide_review", "decide_ingredient_reviews", approve=ids[:1])
        yield Wait(
            f"a decision what names of its ingredients mean (reviews {', '.join(map(str, ids))}); until then "
            "it has the names alone",
            f"the person on call: {launch('recipes_decide_review')} lists them; then {decide}, or reject",
            now,
        )


def _is_held(row: Row, now: datetime) -> bool:
    return bool(row.get("claimed_by") and row.get("claimed_at")) and _lease_end(row) >= now


def _lease_end(row: Row) -> datetime:
    end: datetime = row["claimed_at"] + timedelta(seconds=LEASE_SECONDS)
    return end


def _run_of(row: Row) -> str:
    """The run of a claim, `run id:number of the step's try`."""
    return f"run {str(row.get('claimed_by') or 'unknown').split(':')[0]}"


def _job_events(job: Row) -> Iterator[Event]:
    said = {
        Status.FETCHED: f"fetched for {job['run_id']}, new or edited at its source",
        Status.PARSE_SUBMITTED: "in a batch to be parsed",
        Status.PARSE_RETRIEVED: "parsed, its answer taken in",
        Status.PERSISTED: "stored as a recipe",
        Status.EMBED_SUBMITTED: "in a batch to be embedded",
        Status.EMBED_RETRIEVED: "done: its vector is stored",
        Status.FAILED: f"failed: {shown(job.get('error_message') or 'no reason kept')}",
    }
    for status, stamp in TIMESTAMPS.items():
        if job.get(stamp):
            yield Event(job[stamp], said[status])


def _batch_events(batches: Sequence[Row]) -> Iterator[Event]:
    for batch in batches:
        name = f"{batch['kind']} batch {batch['_id']} of {batch['line_count']} lines"
        yield Event(batch["created_at"], f"{name} planned, {batch['model']}")
        if batch.get("submitted_at"):
            yield Event(batch["submitted_at"], f"{name} at the provider as {batch['batch_id']}")
        if batch.get("ended_at"):
            why = f": {shown(batch['error'])}" if batch.get("error") else ""
            yield Event(batch["ended_at"], f"{name} {batch['state']}{why}")


def _recipe_events(recipe: Row | None) -> Iterator[Event]:
    if recipe is None:
        return
    yield Event(recipe["created_at"], f"recipe.recipe {recipe['id']} first stored")
    if recipe["updated_at"] != recipe["created_at"]:
        yield Event(recipe["updated_at"], f"recipe.recipe {recipe['id']} stored anew")
    if recipe["embedded_at"]:
        yield Event(recipe["embedded_at"], f"vector stored, version {recipe['version']}")


def _notes(job: Row, recipe: Row | None) -> Iterator[str]:
    if job.get("error_message") and job["status"] != Status.FAILED:
        spent = f"{job['retry_count']} of {MOST_RETRIES} retries spent"
        yield f"{spent}, the last for: {shown(job['error_message'])}"
    if job.get("releases"):
        yield f"{job['releases']} of its runs died over it"
    if recipe is None:
        yield "not searchable: it is not stored yet"
    elif not recipe["is_published"]:
        issues = f" ({shown('; '.join(recipe['parse_issues']))})" if recipe["parse_issues"] else ""
        yield (
            f"stored and not published: read with {recipe['parse_confidence']} confidence{issues}, and only "
            "high is published. It is read again where its source edits it, or with `force: true` in "
            "recipe_jobs"
        )


def _cost(batches: Sequence[Row], price: Price) -> str:
    """A batch is paid as a whole: the share of one of its lines."""
    paid = [(batch, price(batch["model"], batch["usage"])) for batch in batches if batch.get("usage")]
    known = [(batch, usd) for batch, usd in paid if usd is not None]
    if not known:
        return "nothing that is known yet: a batch is paid when its results are taken in"
    usd = sum((usd / batch["line_count"] for batch, usd in known), Decimal(0))
    whole = "; ".join(
        f"{batch['kind']} {usd:.4f} USD for {batch['line_count']} lines" for batch, usd in known
    )
    return f"{usd:.6f} USD, a line's share of its batches ({whole})"


def _rows(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return list(cursor.execute(SQL[name], parameters).fetchall())
