"""What is asked of a quote: which pipeline, days and parts, and how it would be done. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

PIPELINES = ("economy_news", "raw_files", "recipes", "context_tags", "recommendations")
MODES = ("live", "batch")
REDOS = ("", "outdated", "all")
MOST_DAYS = 1_100
SECTIONS = ("FINANCE", "STOCK", "INDUSTRY", "VENTURE", "REALESTATE", "WORLD", "LIVING", "GENERAL")

# As the keys of the bucket have them (assets/raw_files/keys.py).
_SOURCE = re.compile(r"[a-z]{2}/[a-z]+")


class NotAQuestion(ValueError):
    """What was asked makes no sense; the message names what would, and quotes nothing."""


@dataclass(frozen=True)
class QuoteRequest:
    """A backfill that somebody may start. Days are of the pipeline's own zone, both included.

    `parts`: sections of economy_news or sources (`kr/news`) of raw_files; empty: all. `redo`: "" for what is
    missing alone.
    """

    pipeline: str
    first_day: date
    last_day: date
    parts: tuple[str, ...] = ()
    mode: str = "live"
    redo: str = ""

    @property
    def days(self) -> int:
        return (self.last_day - self.first_day).days + 1

    def title(self) -> str:
        """The question in a line."""
        how = [self.mode] if self.pipeline == "economy_news" else []
        how += [f"redo {self.redo}"] if self.redo else []
        days = f"{self.first_day} to {self.last_day}" if self.days > 1 else str(self.first_day)
        return ", ".join([self.pipeline, days, *self.parts, *how])


def read_request(
    pipeline: str,
    first_day: str,
    last_day: str,
    parts: Sequence[str] = (),
    mode: str = "live",
    redo: str = "",
) -> QuoteRequest:
    """The question from what a person wrote. Raises NotAQuestion."""
    _one_of("the pipeline", pipeline, PIPELINES)
    _one_of("the mode", mode, MODES)
    _one_of("redo", redo, REDOS)
    first, last = _day("the first day", first_day), _day("the last day", last_day)
    if not 0 <= (last - first).days < MOST_DAYS:
        raise NotAQuestion(f"the last day must not be before the first, and at most {MOST_DAYS} days in all")
    named = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if named and pipeline not in ("economy_news", "raw_files"):
        raise NotAQuestion(f"{pipeline} is partitioned by day alone: name no sections and no sources")
    for part in named:
        if pipeline == "economy_news":
            _one_of("a section", part, SECTIONS)
        elif not _SOURCE.fullmatch(part):
            raise NotAQuestion("a source must read country/category, such as kr/news")
    return QuoteRequest(pipeline, first, last, named, mode, redo)


def _day(what: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NotAQuestion(f"{what} must be a day as YYYY-MM-DD") from None


def _one_of(what: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        shown = ", ".join(one or "nothing" for one in allowed)
        raise NotAQuestion(f"{what} must be one of {shown}")
