"""Five articles of the demo meet a fault each, so that it shows where the contract has them end."""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from local_stack.demo_economy_news_books import get

LEAST_CHARACTERS = 1_000


@dataclass(frozen=True)
class Fault:
    """What an article's job meets, and where the contract says that it ends; `calls` it makes in all."""

    article: Mapping[str, Any]
    what: str
    effect: Mapping[str, Any]
    job_type: str
    ends: str
    error_code: str | None
    calls: int
    marks_unpublishable: bool = False


class Faults:
    """The faults of the demo, armed while the block runs; none where the API or the site is a real one."""

    def __init__(self, site_url: str | None, ledger_url: str | None, day: date) -> None:
        self._site_url = site_url
        self._ledger_url = ledger_url
        self._day = day

    def __enter__(self) -> None:
        self._send("DELETE", None)
        for fault in self.planted:
            self._send("POST", {"contains": fault.article["title"], **fault.effect})

    def __exit__(self, *_: object) -> None:
        self._send("DELETE", None)

    @cached_property
    def published(self) -> list[dict[str, Any]]:
        """The site's articles of the day as it knows them."""
        if self._site_url is None:
            return []
        manifest = get(f"{self._site_url}/_control/manifest?date={self._day.isoformat()}")
        articles: list[dict[str, Any]] = manifest["articles"]
        return articles

    @cached_property
    def planted(self) -> list[Fault]:
        """One article for each fault: plain ones, long enough, of one press only."""
        plain = [
            article
            for article in self.published
            if article["kind"] == "current"
            and article["duplicate_group"] is None
            and len(article["cleaned_body"]) >= LEAST_CHARACTERS
        ]
        if self._ledger_url is None or len(plain) < 5:
            return []
        unavailable = {"schema": "article_insights", "status": 503, "times": 1}
        broken = {"schema": "term_cards", "content": "broken_highlight", "times": 1}
        filtered = {"schema": "article_summary", "status": 400, "code": "content_filter"}
        return [
            Fault(plain[0], "content filter", filtered, "SUMMARY", "FAILED", "content_filter", 1),
            Fault(plain[1], "503, once", unavailable, "INSIGHT", "SUCCESS", None, 2),
            Fault(plain[2], "a highlight of its own, once", broken, "TERM_CARDS", "SUCCESS", None, 2),
            Fault(
                plain[3],
                "no JSON, twice",
                {"schema": "content_quiz", "content": "not_json"},
                "QUIZ_CONTENT",
                "FAILED",
                "invalid_output",
                2,
            ),
            Fault(
                plain[4],
                "a number of its own",
                {"schema": "article_summary", "content": "wrong_number"},
                "SUMMARY",
                "SUCCESS",
                None,
                1,
                marks_unpublishable=True,
            ),
        ]

    def _send(self, method: str, body: Mapping[str, Any] | None) -> None:
        if self._ledger_url is None:
            return
        request = urllib.request.Request(
            f"{self._ledger_url}/_control/faults",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
