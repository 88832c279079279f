"""The pipeline's code location against the test's database and the OpenAI stand-in."""

from collections.abc import Callable
from datetime import date
from typing import Any

import dagster as dg
import psycopg

from orchestration.settings import Settings
from resources.postgres import PostgresResource
from tests.integration.context_tags.store_rows import all_rows
from tests.integration.job_runs import DAY, JobRuns, clocked
from tests.integration.openai_clients import chat_resource, embedding_resource
from tests.integration.stand_ins import StandIn

Connect = Callable[..., psycopg.Connection]

PRESETS_JOB, TAGS_JOB = "context_tags_presets", "context_tags"
EMBEDDINGS, KEYWORDS = "context_embeddings", "context_keywords"


class ContextRuns(JobRuns):
    """Runs that linger for nothing, unless the settings say so."""

    def __init__(self, database_url: str, openai: StandIn, **settings: Any) -> None:
        resources = {
            "postgres": PostgresResource(database_url=clocked(database_url)),
            "embeddings": embedding_resource(openai.url),
            "chat": chat_resource(openai.url),
        }
        super().__init__(resources, Settings(**{"context_linger_seconds": 0, **settings}))

    def load(self) -> dg.ExecuteInProcessResult:
        """A run that loads the keywords."""
        return self.run(PRESETS_JOB)

    def tag(self, *days: date) -> dg.ExecuteInProcessResult:
        """A run over the days, or over DAY."""
        return self.run(TAGS_JOB, *(days or (DAY,)))


def presets(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    """Every stored keyword."""
    return all_rows(connection, "ai.keyword_preset")


def calls(openai: StandIn, endpoint: str) -> int:
    """How often the API was asked."""
    return sum(entry["endpoint"] == endpoint for entry in openai.get("ledger")["entries"])
