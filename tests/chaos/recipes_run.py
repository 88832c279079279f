"""A run over all six stages of recipes, one after the other, as the assets run them."""

from collections.abc import Sequence

import psycopg

from assets.recipes import batch_store, fetch, job_store, recipe_store
from assets.recipes.batch_kinds import BatchContent
from assets.recipes.batch_retrieval import Retriever
from assets.recipes.batch_submission import Submitter
from assets.recipes.embed_batches import EmbedContent
from assets.recipes.embedding_calls import NotEmbedded, embed_names
from assets.recipes.fetch import api_failures
from assets.recipes.parse_batches import ParseContent
from assets.recipes.persist import persist
from assets.recipes.rules import RecipeRules
from local_stack.recipe_api.state import KEY as SOURCE_KEY
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.embeddings import EmbeddingResource
from resources.errors import FetchFailed, ServiceError, ServiceNotConfigured, ServiceUnavailable
from resources.model_gate import ModelGate
from resources.recipe_api import RecipeApiResource
from tests.chaos.services import Addresses
from tests.integration.recipes.batch_runs import CHAT_MODEL, EMBEDDING_MODEL, resource_at
from tests.integration.recipes.job_records import DAY, Mongo
from tests.integration.resources.asking import KEY

RULES = RecipeRules(daily_spending_cap_usd="1000")
FETCHED_A_RUN = 2
SWEEP_EVERY = 3
LINES_A_BATCH = 3


class Run:
    """The six stages as the assets run them, one after the other."""

    def __init__(
        self, at: Addresses, db: Mongo, connection: psycopg.Connection, claimed_by: str, within_ms: int
    ) -> None:
        self._at = at
        self._within_ms = within_ms
        self._db = db
        self._connection = connection
        self._claimed_by = claimed_by

    def all_stages(self, number: int) -> None:
        job_store.ensure_indexes(self._db)
        batch_store.ensure_indexes(self._db)
        parse = ParseContent(self._db, self._connection, CHAT_MODEL)
        embed = EmbedContent(self._db, self._connection, EMBEDDING_MODEL)
        self._fetch(FETCHED_A_RUN if number else 0, is_sweep=number % SWEEP_EVERY == 0)
        self._retrieve(parse)
        self._submit(parse)
        self._persist()
        self._retrieve(embed)
        self._submit(embed)

    def _fetch(self, limit: int, is_sweep: bool) -> None:
        """In production a run of its own, which fails and is tried again."""
        now = recipe_store.now(self._connection)
        try:
            with api_failures():
                fetch.fetch(self._db, self._source, DAY, limit, now, sweep=is_sweep)
        except (FetchFailed, ServiceError, ServiceUnavailable, ServiceNotConfigured):
            return

    def _persist(self) -> None:
        embeddings = EmbeddingResource(
            model=EMBEDDING_MODEL,
            base_url=f"{self._at.openai}/v1",
            timeout_ms=self._within_ms,
            api_key=KEY,
        )
        gate = ModelGate(self._connection, embeddings.gate_key, AlertResource(), RULES.gate_probe_minutes)

        def embed(names: Sequence[str]) -> dict[str, recipe_store.Vector]:
            return embed_names(self._db, self._connection, embeddings, gate, names, RULES.cap_usd)

        origin, claimed_by = self._source.origin, self._claimed_by
        try:
            persist(self._db, self._connection, DAY, claimed_by, origin, EMBEDDING_MODEL, embed)
        except NotEmbedded:
            return

    def _submit(self, content: BatchContent) -> None:
        Submitter(*self._parts(content), max_lines=LINES_A_BATCH).run()

    def _retrieve(self, content: BatchContent) -> None:
        Retriever(*self._parts(content)).run()

    def _parts(
        self, content: BatchContent
    ) -> tuple[BatchContent, Mongo, psycopg.Connection, BatchResource, AlertResource, RecipeRules, str, str]:
        batches = resource_at(self._at.openai, content.stages.kind, self._within_ms, KEY)
        return content, self._db, self._connection, batches, AlertResource(), RULES, DAY, self._claimed_by

    @property
    def _source(self) -> RecipeApiResource:
        return RecipeApiResource(base_url=self._at.recipe_api, api_key=SOURCE_KEY, timeout_ms=self._within_ms)
