"""context_tags in the demo: 200 texts through the HTTP door, some deleted meanwhile, judged from outside."""

import json
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from local_stack.demo_context_tags_core import CONTEXTS, IDS, Core
from local_stack.demo_door import served_door
from local_stack.demo_report import PipelineReport
from local_stack.demo_runs import run_job

if TYPE_CHECKING:
    import httpx

    from local_stack.demo_economy_news import Steps

PIPELINE = "context_tags"
SOUGHT = "친구와 조용한 카페에서 커피를 마시며 오래 이야기했다"
QUERY = "조용한 카페에서 친구와 커피"
MOST_ROUNDS = 3
MOST_WAIT_SECONDS = 60

_STORED = """
SELECT (SELECT count(*) FROM granary.context_request WHERE context_id = ANY (%(ids)s)) AS accepted,
       count(*) FILTER (WHERE embedding_status = 'COMPLETED') AS embedded,
       count(*) FILTER (WHERE keyword_status = 'COMPLETED') AS tagged,
       count(*) FILTER (WHERE keyword_status = 'COMPLETED' AND NOT EXISTS (
           SELECT FROM ai.context_keyword AS keyword WHERE keyword.context_id = state.context_id
       )) AS without_keywords,
       count(*) FILTER (WHERE keyword_status = 'CANCELLED') AS cancelled,
       (SELECT count(*) FROM granary.context_request
        WHERE context_id = ANY (%(ids)s) AND (text IS NOT NULL OR place_meta IS NOT NULL)) AS texts_left
FROM ai.context_ai_state AS state WHERE context_id = ANY (%(ids)s)
"""
_MADE = """
SELECT (SELECT count(*) FROM ai.keyword_preset)
     + (SELECT count(*) FROM ai.context_embedding WHERE context_id = ANY (%(ids)s))
     + (SELECT count(*) FROM ai.context_keyword WHERE context_id = ANY (%(ids)s))
     + (SELECT count(*) FROM ai.context_keyword_analysis WHERE context_id = ANY (%(ids)s))
"""
_OF_CANCELLED = """
SELECT count(*) FROM ai.context_ai_state AS state
WHERE context_id = ANY (%(ids)s) AND 'CANCELLED' IN (embedding_status, keyword_status) AND (
    EXISTS (SELECT FROM ai.context_keyword AS keyword WHERE keyword.context_id = state.context_id)
    OR EXISTS (SELECT FROM ai.context_embedding AS embedding
               WHERE embedding.context_id = state.context_id AND NOT is_deleted))
"""
_DAYS = """
SELECT DISTINCT (requested_at AT TIME ZONE 'UTC')::date::text FROM granary.context_request
WHERE context_id = ANY (%(ids)s) AND (handled_at IS NULL OR handled_at < requested_at) ORDER BY 1
"""
_SPENT = """
SELECT coalesce(sum(input_tokens + output_tokens), 0)::int, coalesce(sum(cost_usd), 0)::float
FROM granary.spending WHERE pipeline = 'context_tags'
"""


@dataclass(frozen=True)
class Books:
    """The report's numbers, all rows made, what they cost, and the number of the ledger's last call."""

    rows: Mapping[str, int]
    made: int
    tokens: int
    cost_usd: float
    last_call: int


class ContextTagsDemo:
    """Posts, has both jobs run while contexts are deleted, and looks at what they left."""

    def __init__(self, external: Mapping[str, str]) -> None:
        self._database_url = os.environ["DATABASE_URL"]
        api = os.environ.get("OPENAI_BASE_URL", "").removesuffix("/v1")
        self._ledger = None if "openai_stand_in" in external else api
        self._core = Core(self._database_url)

    def tables_are_anothers(self) -> bool:
        """Whether an application keeps contexts in this database: then the demo has to stay away."""
        return self._core.is_anothers()

    def run(self, steps: "Steps") -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before = self._books()
        claims, days = {}, set[str]()
        with steps.step("context_tags_presets"):
            claims["the keywords are stored with their vectors"] = run_job("context_tags_presets")
        begun = self._last_call()
        with served_door() as door:
            self._core.create()
            waited = set(self._core.open())
            with steps.step(f"context_tags: {len(CONTEXTS)} texts posted"):
                claims["every text was accepted with 202"] = self._core.post(door, IDS)
            self._core.cancel_some()
            waited &= set(self._core.open())
            with steps.step("context_tags: embedded and tagged, while some are deleted"):
                claims["every run succeeded"] = self._follow(door, days)
            ended = self._books()
            claims |= self._claims(ended.rows)
            if self._ledger is not None:
                claims["no text was embedded twice or judged twice"] = self._asked_once(begun, waited)
            if ended.rows != before.rows:  # a search asks for one vector: not where nothing else is asked
                claims[f"a search for {QUERY!r} finds the record that fits"] = _is_found(door)
        after = self._books()
        return PipelineReport(
            PIPELINE,
            len(days),
            after.rows,
            after.tokens,
            after.cost_usd,
            time.monotonic() - started,
            _news(before, after),
            claims,
        )

    def _claims(self, rows: Mapping[str, int]) -> dict[str, bool]:
        with psycopg.connect(self._database_url) as connection:
            of_cancelled = connection.execute(_OF_CANCELLED, {"ids": IDS}).fetchone()
        return {
            "every text is embedded and tagged, or was deleted; none waits": (
                not self._core.open()
                and rows["accepted"] == len(CONTEXTS) == rows["tagged"] + rows["cancelled"]
                and rows["embedded"] == rows["tagged"]
            ),
            "some were deleted before the run and some in flight": self._core.cancelled_in_flight() > 0,
            "no deleted text has a keyword or a vector that counts": of_cancelled == (0,),
            "most texts have keywords and some fit none": 0 < rows["without_keywords"] < rows["tagged"] / 2,
            "no text is left in the inbox": rows["texts_left"] == 0,
        }

    def _follow(self, door: "httpx.Client", days: set[str]) -> bool:
        """Runs until no context waits; what a killed demo had begun comes back when its time is over."""
        for again in range(MOST_ROUNDS):
            if again:
                wait = self._core.expires_in(float(os.environ.get("CONTEXT_PROCESSING_EXPIRY_SECONDS", 600)))
                if wait > MOST_WAIT_SECONDS:
                    return False
                time.sleep(wait + 0.1)
                self._core.post(door, self._core.open())
            with self._core.cancelling_in_flight():
                for day in self._days_waiting():
                    days.add(day)
                    if not run_job("context_tags", day):
                        return False
            if not self._core.open():
                return True
        return False

    def _days_waiting(self) -> list[str]:
        with psycopg.connect(self._database_url) as connection:
            return [day for (day,) in connection.execute(_DAYS, {"ids": IDS})]

    def _asked_once(self, since: int, waited: set[int]) -> bool:
        """By the calls of this run: the stand-in tells what was judged, and how many tokens it embedded."""
        from local_stack.openai_stand_in.models import count_tokens

        answered = [one for one in self._calls(since) if one["status"] < 400]
        judged = Counter(one["request_sha256"] for one in answered if one["schema"] == "context_keywords")
        embedded = sum(one["prompt_tokens"] for one in answered if one["endpoint"] == "embeddings")
        most = sum(count_tokens(one.text) for one in CONTEXTS if one.context_id in waited)
        judged_once = len(judged) == judged.total() <= len(waited)
        return judged_once and embedded <= most

    def _books(self) -> Books:
        with psycopg.connect(self._database_url) as connection:
            cursor = connection.execute(_STORED, {"ids": IDS})
            names = [column.name for column in cursor.description or []]
            rows = dict(zip(names, cursor.fetchone() or (), strict=True))
            (made,) = connection.execute(_MADE, {"ids": IDS}).fetchone() or (0,)
            tokens, usd = connection.execute(_SPENT).fetchone() or (0, 0.0)
        return Books(rows, made, tokens, usd, self._last_call())

    def _last_call(self) -> int:
        return max((one["seq"] for one in self._calls(0)), default=0)

    def _calls(self, since: int) -> Sequence[Mapping[str, Any]]:
        if self._ledger is None:
            return []
        address = f"{self._ledger}/_control/ledger?since={since}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            entries: list[Mapping[str, Any]] = json.load(answer)["entries"]
        return entries


def _is_found(door: "httpx.Client") -> bool:
    from assets.context_tags.models import DEFAULT_PROFILE

    sought = next(one for one in CONTEXTS if one.text == SOUGHT)
    asked = {
        "userId": sought.user_id,
        "query": QUERY,
        "limit": 5,
        "embeddingProfile": os.environ.get("EMBEDDING_PROFILE") or DEFAULT_PROFILE,
    }
    answer = door.post("/internal/v1/search", json=asked)
    return answer.status_code == 200 and sought.record_id in [
        one["recordId"] for one in answer.json()["results"]
    ]


def _news(before: Books, after: Books) -> str:
    rows = sum(after.rows.values()) + after.made - sum(before.rows.values()) - before.made
    calls = after.last_call - before.last_call
    if rows == 0 and calls == 0 and before.tokens == after.tokens:
        return "nothing was new: no row added, no text embedded or judged"
    cost = after.cost_usd - before.cost_usd
    return f"this run added {rows} rows, {calls} calls made, and cost {cost:.4f} USD"
