"""What happened to the AI jobs of one article, and what each waits for (README.md). Reads only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.economy_news.models import JobType
from resources.item_history import NOBODY, Event, Needs, Wait, launch, shown
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
JOBS_DUE = "the sensor article_jobs_due, every 30 seconds"
BATCHES_OVER = "the sensor news_batches_over, every 60 seconds"
REMEDIES = {
    "QUOTA": "pay the provider's bill or raise its limit",
    "AUTH": "set a valid OPENAI_API_KEY",
    "MODEL": "set OPENAI_MODEL to one that the key may use",
}
MADE_FROM = {
    "TERM_CARDS": "SUMMARY",
    "INSIGHT": "SUMMARY",
    "QUIZ_CONTENT": "SUMMARY",
    "QUIZ_TERM": "TERM_CARDS",
}
# A batch is done within a day or expires; whoever takes it in may need a while.
BATCH_WINDOW = timedelta(hours=24)
STUCK_AFTER = timedelta(hours=26)
ASKED_BY_A_RUN = frozenset({Needs.STARTING, Needs.AI, Needs.CHAT})

Row = dict[str, Any]


@dataclass(frozen=True)
class NewsFacts:
    """What is set and asked for now; `prompt_versions` by kind."""

    prompt_versions: Mapping[JobType, str]
    model: str
    min_characters: int
    skip_duplicates: bool
    max_retries: int


@dataclass(frozen=True)
class JobHistory:
    """The jobs' part of an article's history. `waits`: what a person must mend comes first."""

    has_any: bool
    events: tuple[Event, ...]
    waits: tuple[Wait, ...]
    cost: str
    notes: tuple[str, ...]


def jobs_of_article(
    connection: psycopg.Connection, article_id: int, now: datetime, facts: NewsFacts
) -> JobHistory:
    """What became of the article's jobs of all five kinds; of each kind the job that counts may wait."""
    of = {"article_id": article_id}
    jobs = _rows(connection, "jobs", of)
    results = _rows(connection, "results", of)
    plans = sorted({job["batch_plan"] for job in jobs if job["batch_plan"]})
    batches = {batch["plan"]: batch for batch in _rows(connection, "batches", {"plans": plans})}
    counting: dict[str, Row] = {}
    for job in jobs:
        counting.setdefault(job["job_type"], job)
    waits = [
        (_urgency(job), job["id"], _wait(job, batches.get(job["batch_plan"]), now, facts.max_retries))
        for job in counting.values()
        if job["status"] != "SUCCESS"
    ]
    return JobHistory(
        has_any=bool(jobs),
        events=(*_batch_events(batches.values()), *_result_events(results), *_job_events(jobs)),
        waits=tuple(wait for _, _, wait in sorted(waits, key=lambda found: found[:2])),
        cost=_cost(results),
        notes=(*_later_kinds(counting), *_unpublishable(results), *_outdated(connection, article_id, facts)),
    )


def _urgency(job: Row) -> int:
    """A person's work first, then what a run does, then what only takes its time."""
    return ("FAILED", "SUSPENDED", "RUNNING", "SUBMITTED", "RETRY_WAIT", "PENDING").index(job["status"])


def _wait(job: Row, batch: Row | None, now: datetime, max_retries: int) -> Wait:
    name = f"{job['job_type']} (job {job['id']}, {job['status']})"
    match job["status"]:
        case "FAILED":
            return _failed(job, name, now)
        case "SUSPENDED":
            return Wait(
                f"{name} to be resumed: suspended for {job['suspend_reason']}, {_code(job)}",
                f"the person on call: {REMEDIES[job['suspend_reason']]}, then "
                + launch("economy_news_resume_suspended", "resume_suspended_jobs", job_ids=[job["id"]])
                + f" (or `reason: {job['suspend_reason']}` for all of them)",
                now,
            )
        case "RUNNING":
            return _running(job, name, now, max_retries)
        case "SUBMITTED":
            return _submitted(name, batch, now)
        case "RETRY_WAIT":
            what = f"{name} to be asked again: attempt {job['attempt']} ended with {_code(job)}"
            return _asked(job, what, job["next_run_at"])
        case _:
            how = "to be planned into a batch" if job["mode"] == "batch" else "to be asked"
            return _asked(job, f"{name} {how}", now)


def _asked(job: Row, what: str, due_at: datetime) -> Wait:
    """A run of the job's day asks it, started by the sensor once it is due."""
    by_hand = launch("economy_news_enrich", partition=f"{job['day']}|{job['section']}")
    room = {Needs.QUEUE} if job["mode"] == "batch" else set()
    return Wait(what, JOBS_DUE, due_at, ASKED_BY_A_RUN | room, by_hand)


def _failed(job: Row, name: str, now: datetime) -> Wait:
    what = f"{name} to be tried again: it failed for good, {_code(job)}"
    if job["error_code"] == "body_emptied":
        return Wait(what, f"{NOBODY}: its text is gone, no job can bring it back")
    requeue = launch("economy_news_requeue_failed", "requeue_failed_jobs", job_ids=[job["id"]])
    return Wait(what, f"the person on call: {_before_requeueing(job)}: {requeue}", now)


def _before_requeueing(job: Row) -> str:
    """What to think of before it is asked, and paid, once more."""
    code, message = job["error_code"], job["error_message"] or ""
    if code in ("content_filter", "refusal"):
        return "the model would not answer and may not again; leave it, or ask once more"
    if code == "lease_lost":
        return f"see in the UI why its run {job['claimed_by']} died, then ask again"
    if "broke a rule" in message:
        return "ask once more, or mend the prompt first (`granary rehearse`)"
    return "mend the cause, then ask again"


def _running(job: Row, name: str, now: datetime, max_retries: int) -> Wait:
    lease = job["lease_until"]
    if lease >= now:
        return Wait(
            f"{name} to be answered: run {job['claimed_by']} asks it, attempt {job['attempt']}", NOBODY, lease
        )
    what = f"{name} to be taken over: its run {job['claimed_by']} died, or could not renew its lease"
    if job["attempt"] > max_retries:
        what = f"{name} to be ended as FAILED: its run {job['claimed_by']} died, and no attempt is left"
    return _asked(job, what, lease)


def _submitted(name: str, batch: Row | None, now: datetime) -> Wait:
    """A job in a batch follows it: nobody asks it live."""
    if batch is None:
        return Wait(
            f"{name}, whose batch is not known", "the person on call: see the runbook, A batch is stuck", now
        )
    plan, lease = f"batch {batch['plan']}", batch["lease_until"]
    is_held = lease is not None and lease >= now
    needs = frozenset({Needs.STARTING, Needs.AI})
    if batch["status"] == "PLANNED" and is_held:
        return Wait(f"{name}: run {batch['claimed_by']} is sending its {plan}", NOBODY, lease)
    if batch["status"] == "PLANNED":
        what = f"{name}: the run that was sending its {plan} died; whether it exists is asked of the provider"
        return Wait(f"{what}, and it is sent again only if not", BATCHES_OVER, now, needs)
    if batch["status"] == "SUBMITTED" and is_held:
        return Wait(f"{name}: run {batch['claimed_by']} takes in its {plan}", NOBODY, lease)
    if batch["status"] == "SUBMITTED":
        what = f"{name}: the provider's {batch['batch_id']} ({plan}, {batch['jobs']} jobs) to be over"
        if now - batch["submitted_at"] > STUCK_AFTER:
            return Wait(
                f"{what}, which should have been",
                "the person on call: see the runbook, A batch is stuck",
                now,
            )
        who = f"{NOBODY}: the provider has until then; {BATCHES_OVER}, has it taken in as soon as it is over"
        return Wait(what, who, batch["submitted_at"] + BATCH_WINDOW, needs)
    what = f"{name} although its {plan} is {batch['status']} since {batch['ended_at']:%Y-%m-%d %H:%M %Z}"
    return Wait(what, "the person on call: see the runbook, A batch is stuck", now)


def _job_events(jobs: Iterable[Row]) -> Iterator[Event]:
    for job in jobs:
        name = f"{job['job_type']} (job {job['id']})"
        yield Event(job["created_at"], f"{name} made{', to go in a batch' if job['mode'] == 'batch' else ''}")
        if job["redo_number"]:
            yield Event(job["asked_at"], f"{name} asked for again, redo {job['redo_number']}")
        if job["status"] == "FAILED" and job["settled_at"]:
            yield Event(job["settled_at"], f"{name} FAILED: {_code(job)}", job["claimed_by"])


def _result_events(results: Iterable[Row]) -> Iterator[Event]:
    for one in results:
        what = f"{one['job_type']} stored (result {one['id']} of job {one['job_id']}): {one['model']}, "
        yield Event(
            one["created_at"], f"{what}{one['tokens']} tokens, {one['cost_usd']:.4f} USD", one["run_id"]
        )


def _batch_events(batches: Iterable[Row]) -> Iterator[Event]:
    for batch in batches:
        name = f"batch {batch['plan']} of {batch['jobs']} {batch['job_type']} jobs"
        yield Event(batch["planned_at"], f"{name} planned")
        if batch["submitted_at"]:
            yield Event(batch["submitted_at"], f"{name} at the provider as {batch['batch_id']}")
        if batch["ended_at"]:
            why = f": {shown(batch['reason'], 150)}" if batch["reason"] else ""
            yield Event(batch["ended_at"], f"{name} {batch['status']}{why}")


def _later_kinds(counting: Mapping[str, Row]) -> Iterator[str]:
    """The kinds that have no job yet, since what they are made from is not there."""
    later = [kind for kind in MADE_FROM if counting and kind not in counting]
    if later:
        yield "made afterwards: " + ", ".join(f"{kind} from {MADE_FROM[kind]}" for kind in later)


def _unpublishable(results: Sequence[Row]) -> Iterator[str]:
    summaries = [one for one in results if one["job_type"] == "SUMMARY"]
    newest = max(summaries, key=lambda one: (one["asked_at"], one["job_id"]), default=None)
    if newest is not None and newest["unsupported"]:
        yield (
            f"its summary (result {newest['id']}) has {newest['unsupported']} numbers that the article "
            "lacks: it is kept, and must not be published"
        )


def _outdated(connection: psycopg.Connection, article_id: int, facts: NewsFacts) -> Iterator[str]:
    parameters = {
        "article_id": article_id,
        "job_types": list(facts.prompt_versions),
        "prompt_versions": list(facts.prompt_versions.values()),
        "model": facts.model,
    }
    kinds = [row["job_type"] for row in _rows(connection, "outdated", parameters)]
    if kinds:
        yield (
            f"made by an earlier prompt, model or text: {', '.join(kinds)}; nothing redoes them by itself, "
            "`redo: outdated` in the run config of the partition's assets does"
        )


def _cost(results: Sequence[Row]) -> str:
    if not results:
        return "nothing that brought a result"
    usd, tokens = sum(one["cost_usd"] for one in results), sum(one["tokens"] for one in results)
    of = f"{usd:.4f} USD, {tokens} tokens, of the results that are kept ({len(results)})"
    return f"{of}; older ones, and calls that brought none, are in `granary costs` alone"


def _code(job: Row) -> str:
    message = f" ({shown(job['error_message'])})" if job["error_message"] else ""
    return f"{job['error_code']}{message}"


def _rows(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[name], parameters).fetchall()
