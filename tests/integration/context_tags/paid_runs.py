"""Runs over the inbox with the real clients, money and gates, against the OpenAI stand-in."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psycopg

from assets.context_tags import preset_store, request_store
from assets.context_tags.inbox_run import InboxRun
from assets.context_tags.models import DEFAULT_PROFILE
from assets.context_tags.paid_calls import PaidEmbeddings, PaidJudge
from assets.context_tags.process import ContextRequest, ContextSettings, Outcome
from assets.context_tags.request_text import keyed_hash
from resources.model_gate import ModelGate
from tests.integration.context_tags.scenes import PRESETS, Core, Pool
from tests.integration.openai_clients import chat_resource, embedding_resource
from tests.integration.recorded_alerts import RecordedAlerts

SUBJECTS = ("친구와 카페에서 커피를 마셨다", "혼자 공원을 천천히 걸었다", "가족과 저녁을 먹었다")


def text_of(id_: int) -> str:
    return f"{SUBJECTS[id_ % len(SUBJECTS)]} {id_}번째"


def near_presets(core: Core, url: str) -> None:
    """Presets that lie at the subjects of the tests' texts."""
    # The first call of all has the stand-in load its encoder.
    vectors, _ = embedding_resource(url, timeout_ms=60_000).embed(SUBJECTS)
    for preset, vector in zip(PRESETS, vectors, strict=True):
        core.connection.execute(
            "UPDATE ai.keyword_preset SET embedding = %s::vector WHERE id = %s", (str(vector), preset.id)
        )


def post(connection: psycopg.Connection, *ids: int, text: str | None = None) -> None:
    """What the application posts: each is one attempt."""
    for id_ in ids:
        said = text or text_of(id_)
        request = ContextRequest(id_, 1, 1, said)
        request_store.accept(connection, request, None, keyed_hash(said, b"k" * 16), False)


class Paid:
    """What one run asks with."""

    def __init__(
        self, connection: psycopg.Connection, url: str, cap_usd: Decimal | None = None, **chat: Any
    ) -> None:
        self.alerts = RecordedAlerts()
        embeddings, model = embedding_resource(url), chat_resource(url, **chat)
        self.gates = [
            ModelGate(connection, resource.gate_key, self.alerts, 10) for resource in (embeddings, model)
        ]
        self.embeddings = PaidEmbeddings(connection, embeddings, self.gates[0], cap_usd)
        self.judge = PaidJudge(connection, model, self.gates[1], cap_usd)


def inbox_run(pool: Pool, embeddings: Any, judge: Any, linger_seconds: float = 0, **more: Any) -> InboxRun:
    """A run over all days; it waits for nothing between attempts."""
    settings = ContextSettings(**more.pop("settings", {}))
    with pool.connection() as connection:
        presets = preset_store.snapshot(connection, DEFAULT_PROFILE)
    more = {"wait": lambda seconds: None, "days": None, **more}
    return InboxRun(pool, embeddings, judge, presets, settings, linger_seconds=linger_seconds, **more)


def whole_run(connection: psycopg.Connection, pool: Pool, url: str, **settings: Any) -> Outcome:
    paid = Paid(connection, url)
    return inbox_run(pool, paid.embeddings, paid.judge, settings=settings).run()


def asked(ledger: Sequence[dict[str, Any]], endpoint: str) -> list[dict[str, Any]]:
    return [entry for entry in ledger if entry["endpoint"] == endpoint]


def assert_states_and_rows_agree(core: Core) -> None:
    """A vector where the embedding is COMPLETED and nowhere else; an analysis where the keywords are."""
    states = core.states()
    assert set(core.vectors()) == {id_ for id_, state in states.items() if state[0] == "COMPLETED"}
    assert set(core.keywords()) == {id_ for id_, state in states.items() if state[1] == "COMPLETED"}
