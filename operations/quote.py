"""What a backfill will take, before it is started: `quote`. Nothing is written, no call is made."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import psycopg

from operations import (
    quote_context_tags,
    quote_economy_news,
    quote_raw_files,
    quote_recipes,
    quote_recommendations,
    quote_store,
)
from operations.quote_answer import Quote, Room
from operations.quote_parts import Parts
from operations.quote_request import NotAQuestion, QuoteRequest
from orchestration.settings import Settings
from resources import gate
from resources.errors import ServiceNotConfigured
from resources.openai_api import OpenAiResource

if TYPE_CHECKING:
    from pymongo.database import Database

SEOUL = ZoneInfo("Asia/Seoul")
DAYS_IN_SEOUL = ("economy_news", "recipes")


def quote(
    connection: psycopg.Connection,
    mongo: "Database[dict[str, Any]] | None",
    settings: Settings,
    request: QuoteRequest,
) -> Quote:
    """The quote by what is stored now, read in one snapshot that Postgres keeps from being written in.

    `connection` in autocommit mode; `mongo` is needed for recipes alone. Raises NotAQuestion for a day that
    has not begun, ServiceNotConfigured for recipes without a MongoDB, ModelHasNoPrice.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        clock = quote_store.clock(connection)
        today = clock.seoul_day if request.pipeline in DAYS_IN_SEOUL else clock.utc_day
        if request.last_day > today:
            raise NotAQuestion(f"the last day must have begun: today is {today}, not {request.last_day}")
        parts = _parts(connection, mongo, settings, request, clock)
        cap = settings.daily_spending_cap_usd
        return Quote(
            request=request,
            asked_at=clock.now.astimezone(SEOUL),
            works=parts.works,
            hosts=parts.hosts,
            room=Room(cap, None if cap is None else cap - quote_store.spent_today(connection)),
            gates=_shut_gates(connection, settings, parts.models),
            notes=parts.notes,
        )


def _parts(
    connection: psycopg.Connection,
    mongo: "Database[dict[str, Any]] | None",
    settings: Settings,
    request: QuoteRequest,
    clock: quote_store.Clock,
) -> Parts:
    match request.pipeline:
        case "economy_news":
            return quote_economy_news.parts_of(connection, settings, request, clock)
        case "raw_files":
            return quote_raw_files.parts_of(connection, settings, request)
        case "context_tags":
            return quote_context_tags.parts_of(connection, settings, request)
        case "recommendations":
            return quote_recommendations.parts_of(connection, settings, request)
    if mongo is None:
        raise ServiceNotConfigured("MONGODB_URI is not set: the job records of recipes are there")
    return quote_recipes.parts_of(mongo, settings, request, clock)


def _shut_gates(connection: psycopg.Connection, settings: Settings, models: Sequence[str]) -> list[str]:
    """A sentence for each model that is not asked now."""
    told = []
    for model in dict.fromkeys(models):
        key = OpenAiResource(model=model, base_url=settings.openai_base_url).gate_key
        shut = gate.read(connection, key)
        if shut is not None:
            told.append(f"{model}: {shut.explain()}")
    return told
