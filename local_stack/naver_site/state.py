"""What a running site remembers: clock, robots.txt, published articles, faults and the requests it saw."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

from local_stack.naver_site.articles import SEOUL, Article
from local_stack.naver_site.days import FIRST_PUBLISHED_INDEX, articles_of, aside_of, day_of_aid
from local_stack.naver_site.faults import FaultBook

ROBOTS_ALLOWING_ALL = "User-agent: *\nAllow: /\n"


@dataclass
class SeenRequest:
    """One request outside `/_control`; `status` stays None where no answer was begun."""

    n: int
    at_monotonic: float
    at: str
    method: str
    path: str
    user_agent: str
    status: int | None = None


class SiteState:
    """Everything that changes while the site runs. Not for use from several threads."""

    def __init__(self, delay_seconds: float = 0.0, clock: Callable[[], datetime] | None = None) -> None:
        self.delay_seconds = delay_seconds
        self._real_clock = clock or (lambda: datetime.now(SEOUL))
        self.reset()

    def reset(self) -> None:
        """As after the start; only the delay of every page stays."""
        self.fixed_now: datetime | None = None
        self.robots_text, self.robots_status = ROBOTS_ALLOWING_ALL, 200
        self.faults = FaultBook()
        self._requests: list[SeenRequest] = []
        self._published: dict[date, dict[tuple[str, str], Article | None]] = {}

    def now(self) -> datetime:
        return self.fixed_now or self._real_clock()

    def today(self) -> date:
        return self.now().astimezone(SEOUL).date()

    def articles(self, day: date) -> list[Article]:
        """All articles of a day, those of later hours included, in section order."""
        published = self._published.get(day, {})
        of_the_day = {(article.oid, article.aid): article for article in articles_of(day)}
        merged = {**of_the_day, **published}
        return [article for article in merged.values() if article is not None]

    def listed(self, section: str, day: date, until: datetime | None = None) -> list[Article]:
        """What the section's list shows of a day, newest first; with `until`, as of then instead of now."""
        moment = until or self.now()
        shown = [one for one in self.articles(day) if section in one.sections and one.listed_at <= moment]
        return sorted(shown, key=lambda article: article.list_key, reverse=True)

    def aside(self, section: str, day: date) -> tuple[Article, ...]:
        """Articles in no list, for the other blocks of a section's page; never later than today's."""
        return aside_of(min(day, self.today()))[section]

    def find(self, oid: str, aid: str) -> Article | None:
        """The article with this page, None where there is none (yet)."""
        for published in self._published.values():
            if (oid, aid) in published:
                return self._if_out(published[oid, aid])
        day = day_of_aid(aid) if aid.isdecimal() else None
        if day is None or day > self.today():
            return None
        for article in (*articles_of(day), *(one for group in aside_of(day).values() for one in group)):
            if (article.oid, article.aid) == (oid, aid):
                return self._if_out(article)
        return None

    def _if_out(self, article: Article | None) -> Article | None:
        return article if article is not None and article.listed_at <= self.now() else None

    def publish(self, day: date, article: Article) -> None:
        """Adds an article to a day, or replaces the one with its ids."""
        self._published.setdefault(day, {})[article.oid, article.aid] = article

    def withdraw(self, day: date, article: Article) -> None:
        """Takes an article out of its lists; its page answers 404."""
        self._published.setdefault(day, {})[article.oid, article.aid] = None

    def next_index(self, day: date) -> int:
        """A number within the day that no article has had."""
        return FIRST_PUBLISHED_INDEX + len(self._published.get(day, {}))

    def note_request(self, method: str, path: str, user_agent: str) -> SeenRequest:
        seen = SeenRequest(
            n=len(self._requests) + 1,
            at_monotonic=time.monotonic(),
            at=datetime.now(SEOUL).isoformat(),
            method=method,
            path=path,
            user_agent=user_agent,
        )
        self._requests.append(seen)
        return seen

    def requests_since(self, n: int) -> list[dict[str, Any]]:
        return [asdict(seen) for seen in self._requests[n:]]
