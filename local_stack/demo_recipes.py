"""recipes in the demo: everything that the open API has, through both batches, judged from outside."""

import json
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import psycopg

from local_stack.demo_report import PipelineReport
from local_stack.demo_runs import definitions, run_job, tick_context

if TYPE_CHECKING:
    from local_stack.demo_economy_news import Steps

PIPELINE = "recipes"
DEMO_DAY = date(2026, 11, 27)
QUERY = "두부로 만드는 아침"
WAITS_FOR_A_BATCH_SECONDS = 120

_STORED = """
SELECT count(*) AS persisted, count(*) FILTER (WHERE is_published) AS published,
       count(embedding.recipe_id) AS embedded
FROM recipe.recipe LEFT JOIN recipe.recipe_embedding AS embedding ON embedding.recipe_id = recipe.id
"""
_METHODS = "SELECT match_method, count(*) FROM recipe.recipe_ingredient GROUP BY 1 ORDER BY 1"
_SPENT = """
SELECT coalesce(sum(input_tokens + output_tokens), 0)::int AS tokens, coalesce(sum(cost_usd), 0)::float AS usd
FROM granary.spending WHERE pipeline = 'recipes'
"""


@dataclass(frozen=True)
class Books:
    """What is stored, what it cost, and how often the API was asked for each line (None: not ours)."""

    rows: Mapping[str, int]
    match_methods: Mapping[str, int]
    tokens: int
    cost_usd: float
    asked: Mapping[str, int] | None


class RecipesDemo:
    """Fetches, then lets the sensor decide what comes next, until nothing is open and nothing waits."""

    def __init__(self, external: Mapping[str, str]) -> None:
        self._database_url = os.environ["DATABASE_URL"]
        api = os.environ.get("OPENAI_BASE_URL", "").removesuffix("/v1")
        self._ledger = None if "openai_stand_in" in external else api

    def run(self, steps: "Steps") -> PipelineReport:
        """The report. A job that fails is a false claim, not an exception."""
        started = time.monotonic()
        before = self._books()
        claims = {}
        with steps.step(f"recipes_fetch, {DEMO_DAY}"):
            claims["the fetch succeeded"] = run_job("recipes_fetch", DEMO_DAY.isoformat())
        with steps.step("recipes: parsed, stored and embedded in two batches"):
            claims["every run that the sensor asked for succeeded"] = self._follow()
        after = self._books()
        claims |= self._claims(before, after)
        return PipelineReport(
            PIPELINE,
            1,
            after.rows,
            after.tokens,
            after.cost_usd,
            time.monotonic() - started,
            _news(before, after),
            claims,
            {"match_methods": dict(after.match_methods)},
        )

    def _claims(self, before: Books, after: Books) -> dict[str, bool]:
        from local_stack.recipe_api.recipes import recipe_rows

        rows, all_there = after.rows, len(recipe_rows())
        claims = {
            "every recipe of the source is fetched, parsed, stored and embedded": (
                {rows[name] for name in ("fetched", "parsed", "persisted", "embedded")} == {all_there}
            ),
            "some are published, and none without high confidence": 0 < rows["published"] < rows["persisted"],
            "ingredients are recognised by more than one way": len(after.match_methods) > 1,
        }
        if rows != before.rows:  # a search asks for one vector: not where nothing else is asked
            with_tofu = [title for title in self._search()[:3] if "두부" in title]
            claims[f"a search for {QUERY!r} finds recipes with 두부"] = len(with_tofu) >= 2
        if after.asked is not None:
            claims["no line of a batch was asked twice"] = set(after.asked.values()) == {1}
        return claims

    def _follow(self) -> bool:
        """What the sensor asks for, run after run, while batches are open or records wait."""
        succeeded = True
        end = time.monotonic() + WAITS_FOR_A_BATCH_SECONDS
        while time.monotonic() < end:
            requests, nothing_open = self._tick()
            for job, partition in requests:
                succeeded = run_job(job, partition) and succeeded
            if nothing_open:
                return succeeded
            if not requests:
                time.sleep(0.2)
        return False

    def _tick(self) -> tuple[list[tuple[str, str]], bool]:
        """The runs that the sensor asks for, and whether nothing is open or waits."""
        import dagster as dg

        with tick_context() as given:
            sensor = definitions().resolve_sensor_def("recipe_batches")
            tick = sensor.evaluate_tick(dg.build_sensor_context(**given))
        requests = [(str(one.job_name), str(one.partition_key)) for one in tick.run_requests or []]
        return requests, not requests and (tick.skip_message or "").startswith("0 batches")

    def _search(self) -> list[str]:
        from assets.recipes.embedding_calls import recipes_similar_to

        with psycopg.connect(self._database_url, autocommit=True) as connection:
            embeddings = (definitions().resources or {})["embeddings"]
            found = recipes_similar_to(connection, embeddings, QUERY, 5, None)
        return [recipe.title for recipe in found]

    def _books(self) -> Books:
        from pymongo import MongoClient

        client: MongoClient[dict[str, Any]] = MongoClient(os.environ["MONGODB_URI"])
        with client, psycopg.connect(self._database_url) as connection:
            jobs = client[os.environ.get("MONGODB_DATABASE", "granary")]["recipe_ingestion_jobs"]
            persisted, published, embedded = connection.execute(_STORED).fetchone() or (0, 0, 0)
            tokens, usd = connection.execute(_SPENT).fetchone() or (0, 0.0)
            return Books(
                {
                    "fetched": jobs.count_documents({}),
                    "parsed": jobs.count_documents({"parse_retrieved_at": {"$ne": None}}),
                    "persisted": persisted,
                    "published": published,
                    "embedded": embedded,
                },
                dict(connection.execute(_METHODS).fetchall()),
                tokens,
                usd,
                self._asked(),
            )

    def _asked(self) -> Mapping[str, int] | None:
        if self._ledger is None:
            return None
        with urllib.request.urlopen(f"{self._ledger}/_control/ledger", timeout=10) as answer:
            entries = json.load(answer)["entries"]
        return Counter(f"{one['endpoint']} {one['custom_id']}" for one in entries if one["custom_id"])


def _news(before: Books, after: Books) -> str:
    rows = sum(after.rows.values()) - sum(before.rows.values())
    if rows == 0 and before.asked == after.asked:
        return "nothing was new: no row added, no line asked"
    cost = after.cost_usd - before.cost_usd
    return f"this run added {rows} rows and cost {cost:.4f} USD at batch prices"
