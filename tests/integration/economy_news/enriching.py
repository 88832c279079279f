"""Runs over the SUMMARY jobs of a test, with hooks where their order must be fixed."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import psycopg
from pydantic import PrivateAttr

from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import Partition
from assets.economy_news.result_kinds import SUMMARY
from assets.economy_news.result_writing import Outcome
from assets.economy_news.rules import EnrichmentRules
from resources.alerts import AlertResource
from resources.chat import ChatAnswer, ChatResource, JsonSchema, Messages
from tests.integration.economy_news.factories import HERE, MODEL, rows
from tests.integration.recorded_alerts import RecordedAlerts
from tests.integration.stand_ins import StandIn


class WatchedChat(ChatResource):
    """The real client, with a hook before each reservation (in the run's thread) and before each call."""

    _before_reserving: Callable[[Messages], object] | None = PrivateAttr(default=None)
    _before_asking: Callable[[Messages], object] | None = PrivateAttr(default=None)

    def before_reserving(self, hook: Callable[[Messages], object]) -> "WatchedChat":
        self._before_reserving = hook
        return self

    def before_asking(self, hook: Callable[[Messages], object]) -> "WatchedChat":
        self._before_asking = hook
        return self

    def most_input_tokens(self, messages: Messages, schema: JsonSchema) -> int:
        if self._before_reserving is not None:
            self._before_reserving(messages)
        return super().most_input_tokens(messages, schema)

    def ask(self, messages: Messages, schema: JsonSchema) -> ChatAnswer:
        if self._before_asking is not None:
            self._before_asking(messages)
        return super().ask(messages, schema)


def a_chat(api: StandIn, **settings: Any) -> WatchedChat:
    """A client of the stand-in."""
    return WatchedChat(
        **{
            "model": MODEL,
            "base_url": f"{api.url}/v1",
            "api_key": "sk-tests",
            "timeout_ms": 10_000,
            **settings,
        }
    )


def enrich(
    connection: psycopg.Connection,
    chat: ChatResource,
    *,
    partitions: Sequence[Partition] = (HERE,),
    run_id: str = "run-1",
    alerts: AlertResource | None = None,
    **rules: Any,
) -> Outcome:
    """A run over the partitions' jobs; two calls at once unless `rules` say otherwise."""
    return Enricher(
        SUMMARY,
        partitions,
        run_id,
        connection,
        chat,
        EnrichmentRules(**{"concurrency": 2, "batch_size": 50, **rules}),
        alerts or RecordedAlerts(),
    ).run()


def calls(api: StandIn) -> list[dict[str, Any]]:
    """What the provider's account says of every call, oldest first."""
    entries: list[dict[str, Any]] = api.get("ledger")["entries"]
    return entries


def paid(api: StandIn) -> Decimal:
    """What the provider's account sums up to, in USD."""
    return sum((Decimal(str(call["cost_usd"])) for call in calls(api)), Decimal(0))


def spending(connection: psycopg.Connection) -> dict[str, Any]:
    """The one row of what was paid, with what is still reserved."""
    (row,) = rows(connection, "SELECT * FROM granary.spending JOIN granary.spending_day USING (day)")
    return row


def summaries(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every stored summary, by article."""
    return rows(
        connection,
        "SELECT * FROM news.summary JOIN news.ai_result AS result ON result.id = result_id "
        "ORDER BY summary.article_id",
    )
