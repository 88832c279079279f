"""What keeps work from being done, whichever item waits for it: gates, the cap, paused hosts, switches.

Settings are those of the environment in which it is asked; where Dagster runs they may be others.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import class_row

from orchestration.settings import Settings
from resources import gate, host_pace
from resources.gate import GateKey, ShutGate
from resources.item_history import NOBODY, Needs, Wait, in_zone, launch, shown
from resources.named_sql import read_statements

if TYPE_CHECKING:
    from pymongo.database import Database

SQL = read_statements(Path(__file__).parent / "sql" / "obstacles.sql")
REMEDIES = {
    "QUOTA": "pay the provider's bill or raise its limit",
    "AUTH": "set a valid OPENAI_API_KEY",
    "MODEL": "set a model that the key may use",
}
LATE = timedelta(minutes=10)


@dataclass(frozen=True)
class Obstacle:
    """Why it cannot be done now, who must act, and when it may be over (None: not before somebody acts)."""

    what: str
    who: str
    due_at: datetime | None = None


class Obstacles:
    """Looks them up on one connection, in settings, and for recipes in MongoDB."""

    def __init__(
        self,
        connection: psycopg.Connection,
        settings: Settings,
        pipeline: str,
        as_of: datetime,
        zone: str,
        mongo_db: "Database[dict[str, Any]] | None" = None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._pipeline = pipeline
        self._as_of = as_of
        self._zone = zone
        self._db = mongo_db

    def put_before(self, waits: Iterable[Wait]) -> tuple[Wait, ...]:
        """The waits, each behind what stands in its way."""
        return tuple(self._held_up(wait) for wait in waits)

    def _held_up(self, wait: Wait) -> Wait:
        found = self._of(wait)
        if not found:
            return self._overdue(wait)
        # One that somebody must clear comes first: the others pass.
        found.sort(key=lambda obstacle: obstacle.who.startswith(NOBODY))
        dues = [obstacle.due_at for obstacle in found]
        known = [due for due in (*dues, wait.due_at) if due is not None]
        return replace(
            wait,
            waits_for=f"{'; and '.join(obstacle.what for obstacle in found)}. Then {wait.waits_for}",
            who="; and ".join(dict.fromkeys(obstacle.who for obstacle in found)),
            due_at=None if None in dues else max(known, default=None),
        )

    def _overdue(self, wait: Wait) -> Wait:
        """Says where to look when what should have happened by itself long ago has not."""
        starts_by_itself = wait.who.startswith(("the sensor", "the schedule"))
        if not starts_by_itself or wait.due_at is None or self._as_of - wait.due_at < LATE:
            return wait
        look = "it is late: the person on call looks at its ticks and at the queue of runs in the UI"
        by_hand = f"; by hand: {wait.by_hand}" if wait.by_hand else ""
        return replace(wait, who=f"{wait.who}; {look}{by_hand}")

    def _of(self, wait: Wait) -> list[Obstacle]:
        looks: dict[Needs, Callable[[Wait], Obstacle | None]] = {
            Needs.STARTING: self._is_off,
            Needs.AI: self._ai_is_off,
            Needs.SITE: self._site,
            Needs.BUCKET: self._bucket,
            Needs.QUEUE: self._queue,
        }
        found = [looks[need](wait) for need in looks if need in wait.needs]
        models = [model for need, model in self._models() if need in wait.needs]
        found += [self._gate(model) for model in dict.fromkeys(models)]
        if models and not any(found):
            found.append(self._cap())
        return [obstacle for obstacle in found if obstacle is not None]

    def _models(self) -> list[tuple[Needs, str]]:
        settings = self._settings
        return [
            (Needs.CHAT, settings.openai_model),
            (Needs.PARSING, settings.openai_batch_model),
            (Needs.EMBEDDING, settings.openai_embedding_model),
        ]

    def _is_off(self, wait: Wait) -> Obstacle | None:
        if self._pipeline in self._settings.granary_pipelines:
            return None
        by_hand = f", or start it by hand: {wait.by_hand}" if wait.by_hand else ""
        return Obstacle(
            f"{self._pipeline} to be switched on: GRANARY_PIPELINES does not name it, so that none of its "
            "schedules and sensors runs by itself",
            f"the person on call: add {self._pipeline} to GRANARY_PIPELINES, start Dagster again{by_hand}",
        )

    def _ai_is_off(self, wait: Wait) -> Obstacle | None:
        if self._settings.ai_enabled:
            return None
        return Obstacle("AI to be switched on (AI_ENABLED=false)", "the person on call: set AI_ENABLED=true")

    def _site(self, wait: Wait) -> Obstacle | None:
        if not self._settings.crawl_enabled:
            what = "crawling to be switched on (CRAWL_ENABLED=false)"
            return Obstacle(what, "the person on call: set CRAWL_ENABLED=true")
        if not self._settings.naver_base_url:
            return Obstacle("a site to crawl", "the person on call: set NAVER_BASE_URL")
        host = host_of(self._settings.naver_base_url)
        paused = host_pace.paused_until(self._connection, host)
        if paused is None:
            return None
        until, reason = paused
        what = f"{host}, which is left alone until {in_zone(until, self._zone)}: {shown(reason)}"
        who = f"{NOBODY}: it is asked again then; if it refuses again, the person on call asks its publisher"
        return Obstacle(what, who, until)

    def _bucket(self, wait: Wait) -> Obstacle | None:
        if self._settings.s3_endpoint_url:
            return None
        return Obstacle("a bucket to list", "the person on call: set S3_ENDPOINT_URL and its keys")

    def _gate(self, model: str) -> Obstacle | None:
        shut = self._shut(model)
        if shut is None:
            return None
        told = f"the gate of {model}, shut since {in_zone(shut.since, self._zone)} for {shut.reason}"
        what = f"{told}: {shown(shut.message)}"
        opens = self._opens(model)
        if shut.reason == "BUDGET":
            who = f"{NOBODY}: it opens at midnight in Seoul; to go on today, the person on call raises "
            return Obstacle(what, f"{who}DAILY_SPENDING_CAP_USD{opens}", shut.next_probe_at)
        who = f"the person on call: {REMEDIES[shut.reason]}{opens}; a probe opens it too"
        return Obstacle(what, who, shut.next_probe_at)

    def _shut(self, model: str) -> ShutGate | None:
        from resources.chat import ChatResource

        if os.environ.get("OPENAI_API_KEY"):
            of_provider = ChatResource(model=model, base_url=self._settings.openai_base_url).gate_key
            return gate.read(self._connection, GateKey(of_provider.provider_key, model))
        with self._connection.cursor(row_factory=class_row(ShutGate)) as cursor:
            return cursor.execute(SQL["gates_of_model"], {"model": model}).fetchone()

    def _opens(self, model: str) -> str:
        """Which job opens the gate by hand; none does where the model is another pipeline's alone."""
        if model == self._settings.openai_model:
            return f", then {launch('economy_news_resume_suspended')}"
        if model == self._settings.openai_embedding_model:
            return f", then {launch('context_tags_resume_suspended')}"
        return ""

    def _cap(self) -> Obstacle | None:
        cap = self._settings.daily_spending_cap_usd
        if cap is None:
            return None
        if cap == 0:
            what = "money: DAILY_SPENDING_CAP_USD=0, so that no call is made"
            return Obstacle(what, "the person on call: raise DAILY_SPENDING_CAP_USD")
        row = self._connection.execute(SQL["spending_today"]).fetchone()
        assert row is not None
        used, midnight = row
        if used < cap:
            return None
        what = (
            f"the next day in Seoul: {used:.4f} of {cap} USD are spent or reserved (DAILY_SPENDING_CAP_USD)"
        )
        return Obstacle(what, f"{NOBODY}; to go on today, the person on call raises the cap", midnight)

    def _queue(self, wait: Wait) -> Obstacle | None:
        """Whether the provider's queue of batches has no room; in tokens, as `granary quote` has them."""
        queued, most = self._queued(wait), self._settings.max_enqueued_tokens
        if queued is None:
            what = "the provider's queue of batches, which was full"
        elif queued >= most:
            what = f"room among batches: {queued} tokens wait of {most} (MAX_ENQUEUED_TOKENS)"
        else:
            return None
        return Obstacle(what, f"{NOBODY}: batches that are over make room; the sensor sends it then")

    def _queued(self, wait: Wait) -> int | None:
        """Tokens in open batches of the model; None where the provider has said that its queue is full."""
        model = next(model for need, model in self._models() if need in wait.needs)
        if self._db is None:
            row = self._connection.execute(SQL["news_tokens_queued"], {"model": model}).fetchone()
            assert row is not None
            return int(row[0])
        from assets.recipes import batch_queue_store, batch_store

        if batch_queue_store.is_queue_full(self._db, model, self._as_of):
            return None
        return batch_store.enqueued_tokens(self._db, model)


def host_of(base_url: str) -> str:
    """The host of a site, by which its pace is kept."""
    from urllib.parse import urlsplit

    return urlsplit(base_url).netloc
