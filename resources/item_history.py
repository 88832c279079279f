"""What happened to one item, and what it waits for now, as the person on call reads it. Knows no pipeline.

A pipeline's `history_store.py` fills it in from the item's own rows; what stands in the way of everything (a
shut gate, a pipeline that is off) is put before it by `operations/obstacles.py`. No text of a user and no
body of an article may get in; titles may.
"""

import json
import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

NOBODY = "nobody"
NOTHING = "nothing"
SHOWN_CHARACTERS = 200
_WORTH_A_WORD = timedelta(minutes=1)

_LINK_STARTS = re.compile(r"(?<=://)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"


class Needs(StrEnum):
    """What has to be there before a run does what is waited for."""

    STARTING = "starting"
    """That the pipeline's schedules and sensors run by themselves."""
    AI = "AI_ENABLED"
    CHAT = "OPENAI_MODEL"
    PARSING = "OPENAI_BATCH_MODEL"
    EMBEDDING = "OPENAI_EMBEDDING_MODEL"
    SITE = "NAVER_BASE_URL"
    BUCKET = "S3_ENDPOINT_URL"
    QUEUE = "MAX_ENQUEUED_TOKENS"
    """Room in the provider's queue of batches, of the model that is named beside it."""


@dataclass(frozen=True)
class Event:
    """Something that happened to the item. `at` is aware; `run_id` the Dagster run that did it."""

    at: datetime
    what: str
    run_id: str | None = None


@dataclass(frozen=True)
class Wait:
    """One thing that is waited for, who brings it, and when it is due (aware; None: at no known time).

    A `due_at` in the past: since then. `needs` has to be there for it; `by_hand` is the command that does it
    where nothing starts by itself.
    """

    waits_for: str
    who: str
    due_at: datetime | None = None
    needs: frozenset[Needs] = frozenset()
    by_hand: str = ""


@dataclass(frozen=True)
class ItemHistory:
    """An item as it stood `as_of` (the database's clock), its events oldest first.

    `waits` are in the order in which somebody must look at them; none: it is done. Times are shown in `zone`.
    """

    title: str
    events: tuple[Event, ...]
    waits: tuple[Wait, ...]
    as_of: datetime
    cost: str
    notes: tuple[str, ...] = ()
    zone: str = "UTC"
    done: str = field(default=NOTHING)
    """What to say where nothing is waited for."""

    @property
    def waits_for(self) -> str:
        return self.waits[0].waits_for if self.waits else self.done

    @property
    def who(self) -> str:
        """Who must act: nobody, a sensor or schedule, the person on call (and how), or the application."""
        return self.waits[0].who if self.waits else NOBODY

    @property
    def due_at(self) -> datetime | None:
        return self.waits[0].due_at if self.waits else None

    def lines(self) -> list[str]:
        """The history for a terminal; control characters of titles are gone."""
        return [
            shown(self.title),
            "",
            *(f"{self._time(event.at)}  {_with_run(event)}" for event in self._sorted()),
            *([""] if self.events else []),
            *(f"{name:<10} {shown(text, 2_000)}" for name, text in self._answers()),
        ]

    def markdown(self) -> str:
        """The same for the metadata of a run; whatever could be markup or a link is escaped."""
        rows = [
            f"| {_cell(self._time(event.at))} | {_cell(event.what)} | {_cell(event.run_id or '')} |"
            for event in self._sorted()
        ]
        table = ["| when | what | run |", "|---|---|---|", *rows, ""] if rows else []
        answers = (f"- **{name}** {_cell(text)}" for name, text in self._answers())
        return "\n".join([f"**{_cell(self.title)}**", "", *table, *answers])

    def as_json(self) -> dict[str, Any]:
        """For a program: times as ISO 8601 in the history's zone, `due_now` where that time has come."""
        return {
            "title": shown(self.title),
            "as_of": self._iso(self.as_of),
            "events": [
                {"at": self._iso(event.at), "what": shown(event.what), "run_id": event.run_id}
                for event in self._sorted()
            ],
            "waits_for": self.waits_for,
            "who": self.who,
            "due_at": self._iso(self.due_at),
            "due_now": self.due_at is not None and self.due_at <= self.as_of,
            "also": [
                {"waits_for": wait.waits_for, "who": wait.who, "due_at": self._iso(wait.due_at)}
                for wait in self.waits[1:]
            ],
            "cost": self.cost,
            "notes": list(self.notes),
        }

    def _sorted(self) -> list[Event]:
        return sorted(self.events, key=lambda event: event.at)

    def _answers(self) -> list[tuple[str, str]]:
        found = [("as of", self._time(self.as_of)), ("waits for", self.waits_for)]
        found += [("who", self.who), ("due", self._due(self.due_at))]
        for wait in self.waits[1:]:
            found.append(("also", f"{wait.waits_for}. Who: {wait.who}. Due: {self._due(wait.due_at)}"))
        return [*found, ("cost", self.cost), *(("note", note) for note in self.notes)]

    def _due(self, at: datetime | None) -> str:
        if at is None:
            return "at no set time" if self.waits else "never"
        if at > self.as_of:
            return self._time(at)
        return f"now, since {self._time(at)}" if self.as_of - at >= _WORTH_A_WORD else "now"

    def _time(self, at: datetime) -> str:
        return in_zone(at, self.zone)

    def _iso(self, at: datetime | None) -> str | None:
        return None if at is None else at.astimezone(ZoneInfo(self.zone)).isoformat(timespec="seconds")


def in_zone(at: datetime, zone: str) -> str:
    """As `2026-11-30 21:04:05 KST`."""
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M:%S %Z}"


def launch(job: str, op: str = "", partition: str = "", **config: object) -> str:
    """The shell command that starts a job, with the run config of one of its ops."""
    command = f"dg launch --job {job}"
    if partition:
        command += f" --partition '{partition}'"
    if op:
        given = json.dumps({"ops": {op: {"config": config}}}, separators=(",", ":"))
        command += f" --config-json '{given}'"
    return command


def shown(text: str, most: int = SHOWN_CHARACTERS) -> str:
    """`text` on one line of at most `most` characters, without control and other invisible characters."""
    visible = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text[: most * 10])
    line = " ".join(visible.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _with_run(event: Event) -> str:
    what = shown(event.what, 500)
    return f"{what}  [run {event.run_id}]" if event.run_id else what


def _cell(text: str) -> str:
    # Renderers make links of bare addresses after entities are decoded, so an address is broken up.
    line = _LINK_STARTS.sub(_ZERO_WIDTH_SPACE, shown(text, 2_000))
    return "".join(
        one if one.isalnum() or one in " .,_-;'" + _ZERO_WIDTH_SPACE else f"&#{ord(one)};" for one in line
    ).replace("_", "&#95;")
