"""The pipeline's code location against the test's database and the OpenAI stand-in, at noon of one day."""

from datetime import datetime, timedelta
from typing import Any

import psycopg

from orchestration.settings import Settings
from resources.embeddings import EmbeddingResource
from resources.postgres import PostgresResource
from tests.integration.job_runs import NOON, JobRuns, clocked
from tests.integration.recommendations.factories import a_product, a_trigger, an_event, an_item
from tests.integration.resources.asking import KEY
from tests.integration.stand_ins import StandIn

MEMBERS_JOB, PRODUCTS_JOB = "recommendations", "recommendations_products"
PRODUCTS, QUEUE, RECOMMENDED = "product_embeddings", "recommendation_queue", "recommended_products"
HOUR, ONE_DAY = timedelta(hours=1), timedelta(days=1)


class RecommendationRuns(JobRuns):
    """Runs at NOON, unless told another time."""

    def __init__(self, database_url: str, openai: StandIn, at: datetime = NOON, **settings: Any) -> None:
        resources = {
            "postgres": PostgresResource(database_url=clocked(database_url, at)),
            "embeddings": EmbeddingResource(
                model="text-embedding-3-small",
                base_url=f"{openai.url}/v1",
                api_key=KEY,
                timeout_ms=20_000,
            ),
        }
        super().__init__(resources, Settings(**settings))


def products(connection: psycopg.Connection, amount: int) -> None:
    """Products 1 and up, of which the first has been bought by somebody."""
    for id_ in range(1, amount + 1):
        a_product(connection, id_)
    an_event(connection, 999, 1, "purchase", occurred_at=NOON - HOUR)


def due(connection: psycopg.Connection, *members: int) -> None:
    """Members whose last visit was an hour before noon."""
    for member_id in members:
        a_trigger(connection, member_id, visited_at=NOON - HOUR)


def queued(connection: psycopg.Connection, member_id: int, status: str = "PENDING", **columns: Any) -> int:
    """The id of an item that was queued at noon, or at `queued_at`."""
    at_noon = {"queued_at": NOON, "visited_at": NOON - HOUR, "lease_until": NOON + HOUR}
    return an_item(connection, member_id, status, **{**at_noon, **columns})


def statuses(connection: psycopg.Connection) -> dict[int, str]:
    """The status of each member's item."""
    return dict(connection.execute("SELECT member_id, status FROM rec.queue_item").fetchall())
