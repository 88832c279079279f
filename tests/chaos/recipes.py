"""recipes in a storm: all six stages in one run, on Postgres and MongoDB, in batches that lose lines.

Recipes appear at the source and are edited there, also while they are in a batch.
"""

import random
from collections import Counter
from typing import Any

import psycopg
from pymongo import MongoClient

from assets.recipes import batch_store, recipe_store, repair_store
from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from assets.recipes.recipe_row import raw_hash
from assets.recipes.statuses import MOST_RETRIES, Status
from local_stack.recipe_api.recipes import Row
from tests.chaos import openai_faults
from tests.chaos.recipes_judging import Judge
from tests.chaos.recipes_run import FETCHED_A_RUN, Run
from tests.chaos.scene import Calls
from tests.chaos.services import Addresses, Service, fired, stand_in
from tests.integration.late_imports import import_all
from tests.integration.recipes.random_kills import die_at_random

NEEDS: tuple[Service, ...] = ("openai", "recipe_api", "mongo")

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
    """The supervisor remembers the faults of runs before, its judge the source's rows as they are now."""

    name = "recipes"
    tick_seconds = 20.0
    starts_at: str | None = "2026-03-02T08:00:00+09:00"

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self._judge = Judge(at)
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
        draw, rows = random.Random(f"{self._seed}/{number}"), self._judge.rows
        if draw.random() < 0.25:
            self._edit(draw.choice(self._judge.wanted() or list(rows)), number)
        if self._judge.fetched() + 4 * FETCHED_A_RUN > len(rows):
            for place in range(4 * FETCHED_A_RUN):
                self._append(draw.choice(list(rows.values())), f"{number}-{place}")
        self._arm_faults(number)

    def arm(self, seed: int) -> None:
        die_at_random(seed)

    def work(self, run_id: str, number: int) -> None:
        with (
            psycopg.connect(self._at.database_url, autocommit=True) as connection,
            self._client() as client,
        ):
            db, within_ms = client[self._at.mongo_database], _within_ms(number)
            Run(self._at, db, connection, f"{run_id}:0", within_ms).all_stages(number)

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
        rows = self._judge.rows
        old = [seq for seq in self._judge.wanted() if hashes.get(seq) != raw_hash(rows[seq])]
        told = [f"{number} jobs {status}" for status, number in sorted(jobs.items())]
        told += [f"{number} batches {state}" for state, number in sorted(batches.items())]
        return told + ([f"recipes {', '.join(old[:5])} as they are now ({len(old)})"] if old else [])

    def judge(self) -> list[str]:
        return self._judge.mistakes()

    def items(self) -> int:
        with self._client() as client:
            return client[self._at.mongo_database][JOBS].count_documents({})

    def calls(self) -> Calls:
        api, source = stand_in(self._at.openai), stand_in(self._at.recipe_api)
        entries = api.get("ledger")["entries"]
        asked = sum(one["custom_id"] is None for one in entries) + source.get("requests")["count"]
        faults = self._faults + openai_faults.applied(api) + fired(source.get("fault"))
        repeated = sum(number - 1 for number in self._judge.lines_paid().values())
        return Calls(asked, faults, repeated)

    def _requeue(self) -> None:
        """As a person does with what failed for good; with retries left it should not have."""
        with self._client() as client:
            db = client[self._at.mongo_database]
            failed = list(db[JOBS].find({"status": Status.FAILED.value}))
            self._judge.failures += [
                f"job {job['_id']} failed with {job['retry_count']} retries: {job.get('error_message')}"
                for job in failed
                if job["retry_count"] < MOST_RETRIES
            ]
            self._judge.requeued.update(job["_id"] for job in failed)
            repair_store.requeue_failed(db)

    def _edit(self, seq: str, number: int) -> None:
        title = self._judge.rows[seq]["RCP_NM"].partition(" 제")[0]
        self._change(seq, {"RCP_NM": f"{title} 제{number}판"})
        self._judge.edits[seq] += 1

    def _append(self, like: Row, number: str) -> None:
        title = like["RCP_NM"].partition(" 제")[0]
        self._change(f"storm-{number}", {**like, "RCP_NM": f"{title} 제{number}안"})

    def _change(self, seq: str, fields: Row) -> None:
        given = {name: value for name, value in fields.items() if name != "RCP_SEQ"}
        self._judge.rows[seq] = stand_in(self._at.recipe_api).post("edit", seq=seq, fields=given)

    def _arm_faults(self, number: int) -> None:
        """Anew for each run, since the same request meets the same fault; none once it is calm."""
        api, source = stand_in(self._at.openai), stand_in(self._at.recipe_api)
        self._faults += fired(source.get("fault"))
        source.delete("fault")
        if self._seed is None:
            self._faults += openai_faults.disarm(api)
            return
        self._faults += openai_faults.arm(api, f"{self._seed}/{number}")
        draw = random.Random(f"{self._seed}/{number}/source")
        if draw.random() < 0.3:
            source.post("fault", **draw.choice(_SOURCE_FAULTS), times=1, skip=draw.randint(0, 1))

    def _client(self) -> "MongoClient[dict[str, Any]]":
        return MongoClient(self._at.mongo, tz_aware=True)


def _within_ms(number: int) -> int:
    """Short, so that a fault is soon over; long in an undisturbed run, which a busy machine must not fail."""
    return ANSWERS_WITHIN_MS if number else CALM_ANSWERS_WITHIN_MS


def _place(item: str) -> int:
    return list(Status).index(Status(item.partition(":")[0]))


def _is_open(batch: dict[str, Any]) -> bool:
    return batch["state"] in ("intended", "uploaded", "submitted") or bool(batch.get("files_left"))


SCENE = Recipes
