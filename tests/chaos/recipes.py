"""recipes in a storm: all six stages in one run, on Postgres and MongoDB, in batches that lose lines.

Recipes appear at the source and are edited there, also while they are in a batch.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import psycopg
from pymongo import MongoClient

from assets.recipes import batch_store, fetch, fetch_store, job_store, recipe_store, repair_store
from assets.recipes.batch_kinds import BatchContent
from assets.recipes.batch_retrieval import Retriever
from assets.recipes.batch_store import BATCHES
from assets.recipes.batch_submission import Submitter
from assets.recipes.embed_batches import EmbedContent
from assets.recipes.embedding_calls import NotEmbedded, embed_names
from assets.recipes.fetch import SOURCE, api_failures
from assets.recipes.job_store import JOBS
from assets.recipes.parse_batches import ParseContent
from assets.recipes.persist import persist
from assets.recipes.recipe_row import raw_hash
from assets.recipes.rules import RecipeRules
from assets.recipes.statuses import MOST_RETRIES, Status
from local_stack.recipe_api.recipes import Row, recipe_rows
from local_stack.recipe_api.state import KEY as SOURCE_KEY
from resources.alerts import AlertResource
from resources.batches import BatchResource
from resources.embeddings import EmbeddingResource
from resources.errors import FetchFailed, ServiceError, ServiceNotConfigured, ServiceUnavailable
from resources.model_gate import ModelGate
from resources.recipe_api import RecipeApiResource
from tests.chaos import database, openai_faults
from tests.chaos.services import Addresses, Service, fired, stand_in
from tests.chaos.storm import Calls
from tests.integration.recipes.batch_runs import CHAT_MODEL, EMBEDDING_MODEL, created, files, resource_at
from tests.integration.recipes.job_records import DAY, Mongo
from tests.integration.recipes.killed_run import import_all
from tests.integration.recipes.random_kills import die_at_random
from tests.integration.resources.asking import KEY

NEEDS: tuple[Service, ...] = ("openai", "recipe_api", "mongo")

RULES = RecipeRules(daily_spending_cap_usd="1000")
FETCHED_A_RUN = 2
SWEEP_EVERY = 3
LINES_A_BATCH = 3
BATCH_SECONDS = 0.5
ANSWERS_WITHIN_MS, CALM_ANSWERS_WITHIN_MS = 500, 10_000

_SOURCE_FAULTS: tuple[dict[str, Any], ...] = (
    {"status": 503},
    {"code": "ERROR-500"},
    {"truncate_bytes": 500},
    {"drop_connection": True},
    {"hang": True},
    {"body": "<html>점검 중</html>"},
)

import_all()  # before the forks, once for all


class Recipes:
    """What the supervisor remembers: the source's rows as they are now, and the faults of runs before."""

    name = "recipes"
    tick_seconds = 20.0
    starts_at: str | None = "2026-03-02T08:00:00+09:00"

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._rows = {row["RCP_SEQ"]: row for row in recipe_rows()}
        self._edits: Counter[str] = Counter()
        self._requeued: Counter[str] = Counter()
        self._mistakes: list[str] = []
        self._faults = 0
        self._seed: int | None = None

    def blow(self, seed: int) -> None:
        self._seed = seed
        stand_in(self._at.openai).post("batches/pace", seconds=BATCH_SECONDS)

    def calm(self) -> None:
        self._seed = None
        self._arm_faults(0)
        self._requeue()

    def add_work(self, number: int) -> None:
        draw = random.Random(f"{self._seed}/{number}")
        if draw.random() < 0.25:
            fetched = list(self._rows)[: self._fetched()]
            self._edit(draw.choice(fetched or list(self._rows)), number)
        if self._fetched() + 4 * FETCHED_A_RUN > len(self._rows):
            for place in range(4 * FETCHED_A_RUN):
                self._append(draw.choice(list(self._rows.values())), f"{number}-{place}")
        self._arm_faults(number)

    def arm(self, seed: int) -> None:
        die_at_random(seed)

    def work(self, run_id: str, number: int) -> None:
        with (
            psycopg.connect(self._at.database_url, autocommit=True) as connection,
            self._client() as client,
        ):
            db, within_ms = client[self._at.mongo_database], _within_ms(number)
            _Run(self._at, db, connection, f"{run_id}:0", within_ms).all_stages(number)

    def may_fail_with(self, error: BaseException) -> bool:
        return False

    def held(self, run_id: str) -> set[str]:
        mine = {"claimed_by": f"{run_id}:0"}
        with self._client() as client:
            jobs = client[self._at.mongo_database][JOBS].find(mine, {"status": 1})
            return {f"{job['status']}:{job['_id']}" for job in jobs}

    def release(self, run_id: str) -> None:
        claims = f"{run_id}:"
        with (
            psycopg.connect(self._at.database_url, autocommit=True) as connection,
            self._client() as client,
        ):
            db = client[self._at.mongo_database]
            repair_store.release_dead(db, recipe_store.now(connection), claimed_by_prefix=claims)
            batch_store.release_claims(db, claims)

    def done(self, items: set[str]) -> set[str]:
        """What has come further than the stage that the dead run was at, or failed for good."""
        order = list(Status)
        ids = [item.partition(":")[2] for item in items]
        with self._client() as client:
            jobs = client[self._at.mongo_database][JOBS].find({"_id": {"$in": ids}}, {"status": 1})
            stands = {job["_id"]: order.index(Status(job["status"])) for job in jobs}
        return {item for item in items if stands[item.partition(":")[2]] > _place(item)}

    def waiting(self) -> list[str]:
        with self._client() as client:
            db = client[self._at.mongo_database]
            jobs = Counter(job["status"] for job in db[JOBS].find({}, {"status": 1}))
            batches = Counter(one["state"] for one in db[BATCHES].find({}) if _is_open(one))
            hashes = {job["source_id"]: job["raw_hash"] for job in db[JOBS].find({})}
        jobs.pop(Status.EMBED_RETRIEVED.value, None)
        wanted = list(self._rows)[: self._fetched()]
        old = [seq for seq in wanted if hashes.get(seq) != raw_hash(self._rows[seq])]
        told = [f"{number} jobs {status}" for status, number in sorted(jobs.items())]
        told += [f"{number} batches {state}" for state, number in sorted(batches.items())]
        return told + ([f"recipes {', '.join(old[:5])} as they are now ({len(old)})"] if old else [])

    def judge(self) -> list[str]:
        return [*self._mistakes, *self._wrong_recipes(), *self._wrong_batches(), *self._wrong_money()]

    def items(self) -> int:
        with self._client() as client:
            return client[self._at.mongo_database][JOBS].count_documents({})

    def calls(self) -> Calls:
        api, source = stand_in(self._at.openai), stand_in(self._at.recipe_api)
        entries = api.get("ledger")["entries"]
        asked = sum(one["custom_id"] is None for one in entries) + source.get("requests")["count"]
        faults = self._faults + openai_faults.applied(api) + fired(source.get("fault"))
        lines = self._lines_paid()
        repeated = sum(number - 1 for number in lines.values())
        return Calls(asked, faults, repeated)

    def _wrong_recipes(self) -> list[str]:
        """One job, one recipe and one vector for every row that the cursor has passed, as it is now."""
        wanted = {seq: self._rows[seq] for seq in list(self._rows)[: self._fetched()]}
        with self._client() as client:
            found = list(client[self._at.mongo_database][JOBS].find({}))
        jobs = Counter(job["source_id"] for job in found)
        read = {
            job["source_id"]: len((job.get("retrieved_data") or {}).get("ingredients", [])) for job in found
        }
        stored = self._query(
            "SELECT source_recipe_id, raw_hash, title, document_text, "
            "(SELECT count(*) FROM recipe.recipe_ingredient WHERE recipe_id = recipe.id) "
            "FROM recipe.recipe LEFT JOIN recipe.recipe_embedding ON recipe_id = recipe.id"
        )
        mistakes = [f"recipe {seq} has {n} jobs" for seq, n in jobs.items() if n != 1 or seq not in wanted]
        mistakes += [f"recipe {seq} is lost" for seq in set(wanted) - {row[0] for row in stored}]
        for seq, hash_, title, document, ingredients in stored:
            if seq not in wanted or hash_ != raw_hash(wanted[seq]):
                mistakes.append(f"recipe {seq} is not as it is at the source")
            if not document or title not in document:
                mistakes.append(f"the vector of recipe {seq} is missing, or of another text")
            if ingredients != read[seq]:
                mistakes.append(f"recipe {seq} has {ingredients} ingredients, and {read[seq]} were read")
        unknown = self._query(
            "SELECT DISTINCT ingredient_id FROM recipe.recipe_ingredient "
            "LEFT JOIN recipe.ingredient_embedding USING (ingredient_id) "
            "WHERE ingredient_id IS NOT NULL AND embedding IS NULL"
        )
        return mistakes + [f"ingredient {id_} has no vector" for (id_,) in unknown]

    def _wrong_batches(self) -> list[str]:
        """Every batch at the provider is ours and over; a line is asked again only for a reason."""
        api = stand_in(self._at.openai)
        with self._client() as client:
            db = client[self._at.mongo_database]
            known = {one.get("batch_id") for one in db[BATCHES].find({})}
            seqs = {job["_id"]: job["source_id"] for job in db[JOBS].find({})}
        entries = api.get("ledger")["entries"]
        cancelled = {one["batch_id"] for one in entries if one["endpoint"] == "batches/cancel"}
        strange = set(created(api)) - known - cancelled
        mistakes = [f"batch {one} is at the provider, and nobody knows it" for one in sorted(strange)]
        for (endpoint, custom_id), number in self._lines_paid().items():
            job_id = custom_id if custom_id in seqs else ""
            reasons = self._edits[seqs.get(job_id, "")] + self._requeued[job_id]
            if number > 1 + reasons:
                mistakes.append(f"the line {custom_id} was paid {number} times by {endpoint}")
        return mistakes + [f"file {name} is left at the provider" for name in files(self._at.openai)]

    def _wrong_money(self) -> Iterator[str]:
        """What batches cost is settled; what was asked at once may have been charged without an answer."""
        ((open_,),) = self._query("SELECT count(*) FROM granary.batch_reservation WHERE settled_at IS NULL")
        if open_:
            yield f"{open_} batches' money is not settled"
        yield from database.wrong_money(self._at.database_url, self._at.openai)

    def _lines_paid(self) -> Counter[tuple[str, str]]:
        entries = stand_in(self._at.openai).get("ledger")["entries"]
        return Counter(
            (one["endpoint"], one["custom_id"])
            for one in entries
            if one["custom_id"] is not None and one["status"] == 200
        )

    def _requeue(self) -> None:
        """As a person does with what failed for good; with retries left it should not have."""
        with self._client() as client:
            db = client[self._at.mongo_database]
            failed = list(db[JOBS].find({"status": Status.FAILED.value}))
            self._mistakes += [
                f"job {job['_id']} failed with {job['retry_count']} retries: {job.get('error_message')}"
                for job in failed
                if job["retry_count"] < MOST_RETRIES
            ]
            self._requeued.update(job["_id"] for job in failed)
            repair_store.requeue_failed(db)

    def _edit(self, seq: str, number: int) -> None:
        title = self._rows[seq]["RCP_NM"].partition(" 제")[0]
        self._change(seq, {"RCP_NM": f"{title} 제{number}판"})
        self._edits[seq] += 1

    def _append(self, like: Row, number: str) -> None:
        title = like["RCP_NM"].partition(" 제")[0]
        self._change(f"storm-{number}", {**like, "RCP_NM": f"{title} 제{number}안"})

    def _change(self, seq: str, fields: Row) -> None:
        given = {name: value for name, value in fields.items() if name != "RCP_SEQ"}
        self._rows[seq] = stand_in(self._at.recipe_api).post("edit", seq=seq, fields=given)

    def _fetched(self) -> int:
        with self._client() as client:
            return fetch_store.cursor(client[self._at.mongo_database], SOURCE)

    def _arm_faults(self, number: int) -> None:
        """Anew for each run, since the same request meets the same fault; none once it is calm."""
        api, source = stand_in(self._at.openai), stand_in(self._at.recipe_api)
        self._faults += openai_faults.disarm(api) + fired(source.get("fault"))
        httpx.delete(f"{self._at.recipe_api}/_control/fault", verify=False).raise_for_status()
        if self._seed is None:
            return
        openai_faults.arm(api, f"{self._seed}/{number}")
        draw = random.Random(f"{self._seed}/{number}/source")
        if draw.random() < 0.3:
            source.post("fault", **draw.choice(_SOURCE_FAULTS), times=1, skip=draw.randint(0, 1))

    def _client(self) -> "MongoClient[dict[str, Any]]":
        return MongoClient(self._at.mongo, tz_aware=True)

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()


class _Run:
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


def _within_ms(number: int) -> int:
    """Short, so that a fault is soon over; long in an undisturbed run, which a busy machine must not fail."""
    return ANSWERS_WITHIN_MS if number else CALM_ANSWERS_WITHIN_MS


def _place(item: str) -> int:
    return list(Status).index(Status(item.partition(":")[0]))


def _is_open(batch: dict[str, Any]) -> bool:
    return batch["state"] in ("intended", "uploaded", "submitted") or bool(batch.get("files_left"))


SCENE = Recipes
