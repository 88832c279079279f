"""`/metrics`, in Prometheus' text: all counters, the queues of all pipelines, money, gates and alarms.

It wants the token of internal routes on loopback too: a proxy in front makes every caller one from loopback.
"""

import logging
import os
from datetime import datetime

from fastapi import Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from api.answers import Answers, internal_router
from api.database import Connections
from api.metric_families import counters, families
from operations import queue_store
from operations.queue_store import Queue
from orchestration.settings import Settings
from resources.chat import ChatResource
from resources.exposition import counter_families, exposition
from resources.mongo import MongoResource

logger = logging.getLogger("granary.api")

MONGO_SECONDS = 0.5
"""For all that is asked of it, connecting too: whoever scrapes waits for the rest."""

internal_routes = internal_router()

_AS_TEXT: Answers = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@internal_routes.get("/metrics", response_class=Response, responses=_AS_TEXT)
def metrics(request: Request, pool: Connections) -> Response:
    """Everything that is counted and measured; without MONGODB_URI nothing of the recipes' queue.

    What cannot be read is left out, and named by `granary_scrape_failed`.
    """
    settings: Settings = request.app.state.settings
    chat: ChatResource = request.app.state.chat
    with pool.connection() as connection:
        # A key that is not known here cannot tell its gates from those of earlier keys.
        provider_key = chat.gate_key.provider_key if os.environ.get("OPENAI_API_KEY") else None
        figures = queue_store.figures(connection, provider_key)
    recipes, failed = None, dict(figures.failed)
    if os.environ.get("MONGODB_URI", "").strip():
        recipes = _recipes(settings.mongodb_database, figures.now)
        failed["recipes"] = recipes is None
    told = families(figures, recipes, failed, settings.daily_spending_cap_usd)
    text = exposition([*counter_families(counters(figures)), *told])
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _recipes(database: str, now: datetime) -> Queue | None:
    """The recipes' queue; None where MongoDB does not answer in time, whatever the reason."""
    import pymongo

    try:
        with pymongo.timeout(MONGO_SECONDS), MongoResource(database=database).connect() as db:
            return queue_store.recipes_queue(db, now)
    except Exception as error:  # the other figures are all the more wanted then
        logger.warning("the recipes' queue is unknown: %s", type(error).__name__)
        return None
