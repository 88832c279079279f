"""What must hold after a storm over recipes, by MongoDB, Postgres and the accounts of provider and source."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
from pymongo import MongoClient

from assets.recipes import fetch_store
from assets.recipes.batch_store import BATCHES
from assets.recipes.fetch import SOURCE
from assets.recipes.job_store import JOBS
from assets.recipes.recipe_row import raw_hash
from local_stack.recipe_api.recipes import Row, recipe_rows
from tests.chaos import database
from tests.chaos.services import Addresses, stand_in
from tests.integration.recipes.batch_runs import created, files


class Judge:
    """Remembers the source's rows as they are now and why lines may be asked again; tells what is wrong."""

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self.rows: dict[str, Row] = {row["RCP_SEQ"]: row for row in recipe_rows()}
        self.edits: Counter[str] = Counter()
        self.requeued: Counter[str] = Counter()
        self.failures: list[str] = []

    def mistakes(self) -> list[str]:
        return [*self.failures, *self._wrong_recipes(), *self._wrong_batches(), *self._wrong_money()]

    def fetched(self) -> int:
        """How many rows of the source the cursor has passed."""
        with self._client() as client:
            return fetch_store.cursor(client[self._at.mongo_database], SOURCE)

    def wanted(self) -> list[str]:
        """The numbers of those rows."""
        return list(self.rows)[: self.fetched()]

    def lines_paid(self) -> Counter[tuple[str, str]]:
        """How often each line was answered in a batch, by endpoint and id."""
        entries = stand_in(self._at.openai).get("ledger")["entries"]
        return Counter(
            (one["endpoint"], one["custom_id"])
            for one in entries
            if one["custom_id"] is not None and one["status"] == 200
        )

    def _wrong_recipes(self) -> list[str]:
        """One job, one recipe and one vector for every row that the cursor has passed, as it is now."""
        wanted = {seq: self.rows[seq] for seq in self.wanted()}
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
        for (endpoint, custom_id), number in self.lines_paid().items():
            job_id = custom_id if custom_id in seqs else ""
            reasons = self.edits[seqs.get(job_id, "")] + self.requeued[job_id]
            if number > 1 + reasons:
                mistakes.append(f"the line {custom_id} was paid {number} times by {endpoint}")
        return mistakes + [f"file {name} is left at the provider" for name in files(self._at.openai)]

    def _wrong_money(self) -> Iterator[str]:
        """What batches cost is settled; what was asked at once may have been charged without an answer."""
        ((open_,),) = self._query("SELECT count(*) FROM granary.batch_reservation WHERE settled_at IS NULL")
        if open_:
            yield f"{open_} batches' money is not settled"
        yield from database.wrong_money(self._at.database_url, self._at.openai)

    def _client(self) -> "MongoClient[dict[str, Any]]":
        return MongoClient(self._at.mongo, tz_aware=True)

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._at.database_url, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()
