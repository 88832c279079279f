"""The history of one context on a given connection, and what it waits for now. Reads only, and no text.

The rules of who acts are those of README.md: the application sends again, and ends what is spent, unless
CONTEXT_OWN_STATE has us do it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from assets.context_tags import preset_store
from resources.item_history import NOBODY, Event, ItemHistory, Needs, Wait, launch
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "history.sql")
LOOKED_FOR = "a context's id, a positive number"
COST = "not kept for each context: `granary costs` has the day's, by model"
WAITING = "the sensor context_requests_waiting, every 5 seconds"
MOST_RETRIES = 3
STUCK_PENDING, STUCK_PROCESSING, ASKED_LATELY = (
    timedelta(minutes=5),
    timedelta(minutes=10),
    timedelta(minutes=4),
)
TEXT_KEPT = timedelta(hours=24)
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

Row = dict[str, Any]


@dataclass(frozen=True)
class ContextFacts:
    """What is set: the vector space, after how long PROCESSING may be taken up, and who keeps the states."""

    profile: str
    expiry_seconds: float
    own_state: bool

    @property
    def application(self) -> str:
        return "whoever posts contexts" if self.own_state else "the application"


def context_history(
    connection: psycopg.Connection, identifier: str, facts: ContextFacts
) -> ItemHistory | None:
    """The context's history; None where it was never posted and has no state, as long after an erasure."""
    text = identifier.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < 2**63):
        return None
    of = {"context_id": int(text)}
    context = _row(connection, "context", of)
    assert context is not None
    embedding, analysis = _row(connection, "embedding", of), _row(connection, "analysis", of)
    if not (context["is_requested"] or context["embedding_status"] or embedding or analysis):
        return None
    retries = 0
    if facts.own_state and (counted := _row(connection, "retries", of)):
        retries = counted["retry_count"]
    waits = list(_waits(context, facts, retries))
    if waits and not preset_store.can_judge(connection, facts.profile):
        waits.insert(0, _keywords_first(facts, context["now"]))
    return ItemHistory(
        title=f"context {int(text)}: {_states(context)}",
        events=tuple(_events(context, embedding, analysis)),
        waits=tuple(waits),
        as_of=context["now"],
        cost=COST,
        notes=tuple(_notes(context, embedding, analysis, facts, retries)),
    )


def _states(context: Row) -> str:
    if context["embedding_status"] is None:
        return "no state row"
    return f"embedding {context['embedding_status']}, keywords {context['keyword_status']}"


def _is_waiting(context: Row) -> bool:
    handled, requested = context["handled_at"], context["requested_at"]
    return requested is not None and context["has_text"] and (handled is None or handled < requested)


def _waits(context: Row, facts: ContextFacts, retries: int) -> Iterator[Wait]:
    embedding, keyword, now = context["embedding_status"], context["keyword_status"], context["now"]
    if embedding is None:
        yield _without_state(context, facts)
    elif embedding == "FAILED" and keyword == "PENDING":
        yield _never_tagged(context, facts)
    elif "FAILED" in (embedding, keyword):
        stage = "embedding" if embedding == "FAILED" else "keyword"
        yield Wait(
            f"nothing of ours: the {stage} stage is FAILED, which is final here",
            f"{facts.application}, if it is to be done again: set the stage to PENDING and post the text",
        )
    elif embedding in ("PENDING", "PROCESSING"):
        yield _stage("embedding", embedding, context, facts, retries)
    elif embedding == "COMPLETED" and keyword in ("PENDING", "PROCESSING"):
        yield _stage("keyword", keyword, context, facts, retries)
    if {embedding, keyword} <= ENDED and _is_waiting(context):
        what = "its request to be ticked off: both stages have ended"
        yield Wait(what, WAITING, now, _needs(), _by_hand(context))


def _stage(stage: str, status: str, context: Row, facts: ContextFacts, retries: int) -> Wait:
    """What a stage waits for that has not ended and may start or go on."""
    now, name = context["now"], f"the {stage} stage ({status})"
    expires = context["updated_at"] + timedelta(seconds=facts.expiry_seconds)
    if status == "PROCESSING" and expires > now:
        then = "; the request waits as well, and is taken up then" if _is_waiting(context) else ""
        return Wait(f"{name} to end: a run is at it, or it expires then{then}", NOBODY, expires)
    if _is_waiting(context):
        what = f"{name} to be started by a run of {context['day']}"
        return Wait(what, WAITING, context["requested_at"], _needs(), _by_hand(context))
    if not facts.own_state:
        why = _why_not_waiting(context)
        return Wait(
            f"{name}: the context to be posted again, since {why}", "the application: its rescan posts it"
        )
    if status == "PENDING":
        due = context["updated_at"] + STUCK_PENDING
    else:
        due = context["updated_at"] + STUCK_PROCESSING
    if context["requested_at"]:
        due = max(due, context["requested_at"] + ASKED_LATELY)
    what = f"{name} to be sent again, {retries} of {MOST_RETRIES} times so far"
    if retries >= MOST_RETRIES:
        what = f"{name} to be ended as FAILED: it was sent again {retries} times"
    elif not context["has_text"]:
        what += "; its text is forgotten, so nothing can come of that before somebody posts it again"
    return Wait(
        what, _rescan(), _next_five_minutes(max(due, now)), frozenset({Needs.STARTING}), _rescan_by_hand()
    )


def _without_state(context: Row, facts: ContextFacts) -> Wait:
    if facts.own_state:
        return Wait("a state row, which the door makes", "whoever posts contexts: post it again")
    return Wait(
        "a row of ai.context_ai_state: without one a run leaves the request alone",
        "the application: makes the row, then posts the context again",
    )


def _never_tagged(context: Row, facts: ContextFacts) -> Wait:
    what = "the keyword stage (PENDING) to be ended: it can never start, since the embedding is FAILED"
    if facts.own_state:
        due = _next_five_minutes(context["now"])
        return Wait(what, _rescan(), due, frozenset({Needs.STARTING}), _rescan_by_hand())
    return Wait(
        what, "the application: ends it as FAILED, or sets the embedding back to PENDING and posts it"
    )


def _keywords_first(facts: ContextFacts, now: datetime) -> Wait:
    what = f"keywords of the profile {facts.profile} to be stored: without any no run begins"
    needs = frozenset({Needs.STARTING, Needs.EMBEDDING})
    return Wait(
        what, "the sensor preset_file_changed, every 30 seconds", now, needs, launch("context_tags_presets")
    )


def _why_not_waiting(context: Row) -> str:
    if context["requested_at"] is None:
        return "no request for it is here"
    return "its last request is over" if context["has_text"] else "its text is forgotten here"


def _needs() -> frozenset[Needs]:
    return frozenset({Needs.STARTING, Needs.EMBEDDING, Needs.CHAT})


def _by_hand(context: Row) -> str:
    return launch("context_tags", partition=context["day"].isoformat())


def _rescan() -> str:
    return "the schedule context_rescan, every five minutes"


def _rescan_by_hand() -> str:
    return launch("context_tags_rescan")


def _next_five_minutes(at: datetime) -> datetime:
    return datetime.fromtimestamp(-(-at.timestamp() // 300) * 300, at.tzinfo)


def _events(context: Row, embedding: Row | None, analysis: Row | None) -> Iterator[Event]:
    if context["text_since"]:
        yield Event(context["text_since"], "posted with its text")
    if context["requested_at"] and context["requested_at"] != context["text_since"]:
        yield Event(context["requested_at"], "asked for again")
    if context["handled_at"]:
        yield Event(context["handled_at"], "its request was dealt with by a run")
    if embedding:
        yield Event(embedding["updated_at"], f"vector stored, {embedding['embedding_profile']}")
    if analysis:
        what = f"keywords stored: {analysis['keywords']}, by presets {analysis['preset_version']}"
        yield Event(analysis["updated_at"], f"{what}, {analysis['model_profile'] or 'no model asked'}")
    if context["updated_at"]:
        yield Event(context["updated_at"], f"state last changed: {_states(context)}")


def _notes(
    context: Row, embedding: Row | None, analysis: Row | None, facts: ContextFacts, retries: int
) -> Iterator[str]:
    states = (context["embedding_status"], context["keyword_status"])
    if context["has_text"]:
        yield f"its text is here until {context['text_since'] + TEXT_KEPT:%Y-%m-%d %H:%M %Z} at the latest"
    if "CANCELLED" in states:
        yield "CANCELLED by the application or by an erasure: nothing is made of it any more"
    if "FAILED" in states and embedding and embedding["embedding_profile"] != facts.profile:
        yield f"its vector is of {embedding['embedding_profile']}, so it is not judged with {facts.profile}"
    elif "FAILED" in states and retries < MOST_RETRIES:
        yield (
            f"why it failed is told by the runs of {context['day'] or 'its day'} alone: look for its id "
            "in their logs"
        )
    if embedding and embedding["is_deleted"]:
        yield "the application has deleted it: no search finds it"
    if analysis and analysis["version_now"] and analysis["version_now"] > analysis["preset_version"]:
        before, now = analysis["preset_version"], analysis["version_now"]
        yield f"judged with presets {before}, now there are {now}: we never redo that by ourselves"


def _row(connection: psycopg.Connection, name: str, parameters: Mapping[str, object]) -> Row | None:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL[name], parameters).fetchone()
