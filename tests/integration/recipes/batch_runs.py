"""Runs of the batch stages as tests make them, and what they leave behind."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import PrivateAttr

from assets.recipes import recipe_store
from assets.recipes.batch_kinds import BatchContent
from assets.recipes.batch_retrieval import Retrieved, Retriever
from assets.recipes.batch_store import BATCHES
from assets.recipes.batch_submission import Submitted, Submitter
from assets.recipes.embed_batches import EmbedContent
from assets.recipes.job_store import JOBS
from assets.recipes.merge import Recipe
from assets.recipes.parse_batches import ParseContent
from assets.recipes.parsed_recipe import ParsedIngredient
from assets.recipes.recipe_row import Step
from assets.recipes.recipe_store import MatchedIngredient
from assets.recipes.rules import RecipeRules
from assets.recipes.statuses import Status
from local_stack.recipe_api.recipes import recipe_rows
from resources.alerts import AlertResource
from resources.batches import BatchApi, BatchResource
from resources.gate import GateKey
from tests.integration.recipes.job_records import DAY, SOURCE, Mongo, put_jobs
from tests.integration.resources.asking import KEY
from tests.integration.stand_ins import StandIn

CHAT_MODEL, EMBEDDING_MODEL = "gpt-4o-mini", "text-embedding-3-small"
ROWS = recipe_rows()


@contextmanager
def no_batches(openai_api: StandIn) -> Iterator[StandIn]:
    """The stand-in without batches, where one ends only on command."""
    openai_api.post("reset", ledger=True, batches=True)
    openai_api.post("batches/pace")
    try:
        yield openai_api
    finally:
        # Otherwise the next reset would let them go on, into the ledger of another test.
        openai_api.post("reset", batches=True)


class OneClient(BatchResource):
    """Opens one client for all runs of a process: reading its certificates costs more than most runs."""

    _opened: BatchApi | None = PrivateAttr(default=None)

    @contextmanager
    def open(self) -> Iterator[BatchApi]:
        if self._opened is None:
            self._opened = BatchApi(self._new_client(), self._failures)
        yield self._opened


@cache
def resource_at(url: str, kind: str, timeout_ms: int, api_key: str) -> BatchResource:
    """The provider for batches of a kind."""
    model = CHAT_MODEL if kind == "parse" else EMBEDDING_MODEL
    return OneClient(model=model, base_url=f"{url}/v1", timeout_ms=timeout_ms, api_key=api_key)


class Runs:
    """The batch stages against one stand-in, one Postgres and one MongoDB."""

    def __init__(self, db: Mongo, connection: psycopg.Connection, url: str) -> None:
        self.db = db
        self.connection = connection
        self._url = url

    def submit(
        self,
        kind: str = "parse",
        run: str = "run-1:0",
        limits: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Submitted:
        """What a run sends; `changes` of rules, of the API's resource, or `connection`."""
        return Submitter(*self._parts(kind, run, changes), **(limits or {})).run()

    def retrieve(
        self, kind: str = "parse", run: str = "run-1:0", connection: psycopg.Connection | None = None
    ) -> Retrieved:
        """What a run takes in."""
        return Retriever(*self._parts(kind, run, {}, connection)).run()

    def resource(self, kind: str = "parse") -> BatchResource:
        """The provider as the runs reach it."""
        return resource_at(self._url, kind, 10_000, KEY)

    def gate_key(self) -> GateKey:
        """The gate of parse batches."""
        return self.resource().gate_key

    def _parts(
        self, kind: str, run: str, changes: dict[str, Any], connection: psycopg.Connection | None = None
    ) -> tuple[Any, ...]:
        connection = connection or changes.pop("connection", self.connection)
        timeout_ms, api_key = changes.pop("timeout_ms", 10_000), changes.pop("api_key", KEY)
        batches = resource_at(self._url, kind, timeout_ms, api_key)
        content: BatchContent = ParseContent(self.db, connection, batches.model)
        if kind == "embed":
            content = EmbedContent(self.db, connection, batches.model)
        rules = RecipeRules(**changes)
        return content, self.db, connection, batches, AlertResource(), rules, DAY, run


def fetched(db: Mongo, count: int) -> list[str]:
    """The ids of the first so many jobs, fetched where they are new; the same in every test."""
    ids = [f"job-{number:03}" for number in range(1, count + 1)]
    known = {job["_id"] for job in db[JOBS].find({}, {"_id": 1})}
    for place, job_id in enumerate(ids):
        if job_id not in known:
            row = {**ROWS[place % len(ROWS)], "RCP_SEQ": job_id}
            put_jobs(db, [job_id], Status.FETCHED, raw_data=row)
    return ids


def persisted(db: Mongo, connection: psycopg.Connection, *titles: str) -> list[str]:
    """The ids of jobs whose recipes are stored; each has one ingredient of its own, which is new."""
    ids = fetched(db, len(titles))
    for job_id, title in zip(ids, titles, strict=True):
        ingredient_id = store_recipe(connection, job_id, title)
        change = {"status": Status.PERSISTED.value, "new_ingredient_ids": [ingredient_id]}
        db[JOBS].update_one({"_id": job_id}, {"$set": change})
    return ids


def store_recipe(connection: psycopg.Connection, source_id: str, title: str) -> int:
    """Stores the recipe; its ingredient's id."""
    recipe = Recipe(
        title=title,
        description=f"{title}이에요",
        category="반찬",
        servings=2,
        difficulty=1,
        cooking_time_minutes=20,
        cooking_method="찌기",
        nutrition={"kcal": 220.0},
        image_url=None,
        tips=None,
        steps=(Step(f"{title} 재료를 찐다.", None),),
        ingredients=(ParsedIngredient(name=title),),
        parse_confidence="high",
        parse_issues=(),
    )
    with connection.transaction():
        recipe_id = recipe_store.upsert_recipe(connection, SOURCE, source_id, DAY, "h", recipe)
        ingredient_id, _ = recipe_store.add_ingredient(connection, title, title, None)
        line = MatchedIngredient(title, "1/2", "모", False, None, ingredient_id, None, "new", 0.0)
        recipe_store.replace_ingredients(connection, recipe_id, [line])
    return ingredient_id


def states(db: Mongo) -> Counter[str]:
    """How many jobs are in each status."""
    return Counter(job["status"] for job in db[JOBS].find({}, {"status": 1}))


def jobs_of(db: Mongo) -> list[dict[str, Any]]:
    return list(db[JOBS].find().sort("_id", 1))


def intents(db: Mongo) -> list[dict[str, Any]]:
    return list(db[BATCHES].find().sort([("created_at", 1), ("shard", 1)]))


def ledger(openai_api: StandIn, endpoint: str) -> list[dict[str, Any]]:
    """The calls to an endpoint."""
    entries: list[dict[str, Any]] = openai_api.get("ledger")["entries"]
    return [one for one in entries if one["endpoint"] == endpoint]


def created(openai_api: StandIn) -> list[str]:
    """The ids of the batches that there are, over all runs."""
    return [one["batch_id"] for one in ledger(openai_api, "batches/create") if one["status"] == 200]


def files(url: str) -> list[str]:
    """The names of the files at the provider."""
    return [one["filename"] for one in _ask(url, "files", order="desc").json()["data"]]


def uploaded(url: str) -> list[bytes]:
    """The contents of the input files, oldest first."""
    listed = _ask(url, "files", purpose="batch", order="asc").json()["data"]
    return [_ask(url, f"files/{one['id']}/content").content for one in listed]


def _ask(url: str, what: str, **query: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(verify=False, headers=headers) as http:
        return http.get(f"{url}/v1/{what}", params=query).raise_for_status()


def money(connection: psycopg.Connection) -> dict[str, Any]:
    """What is reserved and spent, of all days: a test's clock may be ahead of midnight."""
    both = "SELECT sum(reserved_usd), sum(spent_usd) FROM granary.spending_day HAVING count(*) > 0"
    row = connection.execute(both).fetchone()
    return dict(zip(("reserved", "spent"), row or (0, 0), strict=True))


def counter(connection: psycopg.Connection, name: str, **labels: str) -> float:
    row = connection.execute(
        "SELECT coalesce(sum(value), 0) FROM granary.counter WHERE name = %s AND labels @> %s::jsonb",
        (name, json.dumps(labels)),
    ).fetchone()
    return float(row[0]) if row else 0.0


def stage_total(connection: psycopg.Connection, stage: str, outcome: str) -> float:
    return counter(connection, "recipe_ingestion_stage_total", stage=stage, outcome=outcome)


def batch_id_of(jobs: Sequence[dict[str, Any]], field: str = "parse_batch_id") -> set[str]:
    return {job[field] for job in jobs if field in job}


def assert_settled(connection: psycopg.Connection, openai_api: StandIn) -> None:
    """Nothing is reserved any more, and what was spent and counted is what the provider has charged, once."""
    charged = [one for one in openai_api.get("ledger")["entries"] if one["custom_id"]]
    booked = money(connection)
    assert booked["reserved"] == 0
    assert float(booked["spent"]) == pytest.approx(sum(one["cost_usd"] for one in charged), abs=1e-8)
    written = [one for one in charged if one["endpoint"] == "chat/completions"]
    name = "recipe_ingestion_llm_tokens_total"
    used = [counter(connection, name, token_type=one) for one in ("input", "output", "total")]
    given = sum(one["prompt_tokens"] for one in written)
    output = sum(one["completion_tokens"] for one in written)
    assert used == [given, output, given + output]
