"""The batch stages in a process of their own: `python -m benchmarks.recipe_batches_process '{…}'`.

So that their time and memory are theirs alone. Prints one JSON line. The provider is inside the process: it
keeps its files on disk, answers at once, and what it takes is not counted.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

import psycopg
from pymongo import MongoClient

from assets.recipes import batch_store, fetch_store, job_store, recipe_store
from assets.recipes.batch_retrieval import Retriever
from assets.recipes.batch_submission import Submitter
from assets.recipes.models import FetchedRow
from assets.recipes.parse_batches import ParseContent
from assets.recipes.rules import RecipeRules
from local_stack.recipe_api.recipes import recipe_rows
from resources.alerts import AlertResource
from resources.batch_state import BatchState
from resources.batches import BatchApi, BatchResource

DAY, SOURCE, RUN = "2026-11-27", "bench", "bench:0"
MODEL = "gpt-4o-mini"

_INGREDIENT = {
    "name": "연두부",
    "canonical_name": "두부",
    "category": "콩류",
    "quantity": "3/4",
    "unit": "모",
}
_RECIPE = {
    "title": "새우 두부 계란찜",
    "description": "부드러운 두부에 새우를 얹어 찐 담백한 한 그릇이에요.",
    "category": "반찬",
    "servings": 2,
    "difficulty": 1,
    "cooking_time_minutes": 25,
    "tips": "약한 불에서 천천히 쪄 주세요.",
    "ingredients": [{**_INGREDIENT, "name": f"재료 {number}"} for number in range(8)],
    "parse_confidence": "high",
    "parse_issues": [],
}
_MESSAGE = {"role": "assistant", "content": json.dumps(_RECIPE, ensure_ascii=False), "refusal": None}
_BODY = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": _MESSAGE}],
    "usage": {"prompt_tokens": 2_000, "completion_tokens": 600, "total_tokens": 2_600},
}


@dataclass(frozen=True)
class Order:
    """How many jobs to take from their rows to what was read of them."""

    jobs: int
    database_url: str
    mongo_uri: str
    mongo_database: str


@dataclass
class InstantBatches:
    """A provider whose batches are completed when they are created. `seconds` are its own."""

    folder: Path
    seconds: float = 0.0
    states: dict[str, BatchState] = field(default_factory=dict)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started

    def upload(self, lines: BinaryIO, name: str) -> str:
        """Answers the lines as they come, so that the file itself need not be kept."""
        with self._at_work(), (self.folder / name).open("w", encoding="utf-8") as output:
            for line in lines:
                custom_id = json.loads(line)["custom_id"]
                response = {"status_code": 200, "request_id": custom_id, "body": _BODY}
                answer = {"id": custom_id, "custom_id": custom_id, "response": response, "error": None}
                output.write(json.dumps(answer, ensure_ascii=False) + "\n")
        return name

    def create(self, input_file_id: str, endpoint: str, metadata: Mapping[str, str]) -> BatchState:
        now = datetime.now(UTC)
        id_ = f"batch_{len(self.states)}"
        state = BatchState(id_, "completed", endpoint, input_file_id, input_file_id, None, now, metadata)
        self.states[state.id] = state
        return state

    def look(self, batch_id: str) -> BatchState | None:
        return self.states[batch_id]

    def created_since(self, _: datetime) -> Iterator[BatchState]:
        return iter(self.states.values())

    def download_to(self, file_id: str, target: BinaryIO) -> bool:
        with self._at_work(), (self.folder / file_id).open("rb") as source:
            while chunk := source.read(1 << 16):
                target.write(chunk)
        return True

    def delete_left(self, file: str, _: datetime) -> bool:
        (self.folder / file).unlink(missing_ok=True)
        return True


class InstantBatchResource(BatchResource):
    """Opens the provider that is inside the process."""

    folder: str
    opened: list[Any] = []  # noqa: RUF012 (pydantic copies it)

    @contextmanager
    def open(self) -> Iterator[BatchApi]:
        if not self.opened:
            self.opened.append(InstantBatches(Path(self.folder)))
        yield cast(BatchApi, self.opened[0])


def run(order: Order) -> dict[str, float]:
    """Seconds of each stage, without the provider's, CPU seconds, and `peak_bytes` of the whole process."""
    client: MongoClient[dict[str, Any]] = MongoClient(order.mongo_uri, tz_aware=True)
    db = client[order.mongo_database]
    job_store.ensure_indexes(db)
    batch_store.ensure_indexes(db)
    with (
        TemporaryDirectory(prefix="granary-bench-") as folder,
        psycopg.connect(order.database_url, autocommit=True) as connection,
    ):
        batches = InstantBatchResource(model=MODEL, api_key="sk-bench", folder=folder)
        rules = RecipeRules(daily_spending_cap_usd="", max_enqueued_tokens=10**12)
        parts = (
            ParseContent(db, connection, MODEL),
            db,
            connection,
            batches,
            AlertResource(),
            rules,
            DAY,
            RUN,
        )
        cpu = time.process_time()
        fetched = _timed(
            lambda: fetch_store.store_fetched(db, SOURCE, DAY, _rows(order.jobs), _now(connection))
        )
        submitted = _timed(lambda: Submitter(*parts).run(), batches)
        retrieved = _timed(lambda: Retriever(*parts).run(), batches)
        cpu = time.process_time() - cpu - batches.opened[0].seconds
    read = db[job_store.JOBS].count_documents({"status": "parse_retrieved"})
    client.drop_database(order.mongo_database)
    assert read == order.jobs, f"{read} of {order.jobs} jobs were read"
    return {
        "fetch_seconds": fetched,
        "submit_seconds": submitted,
        "retrieve_seconds": retrieved,
        "cpu_seconds": cpu,
        "batches": len(batches.opened[0].states),
        "peak_bytes": _peak_bytes(),
    }


def _timed(work: Any, batches: InstantBatchResource | None = None) -> float:
    before = batches.opened[0].seconds if batches and batches.opened else 0.0
    started = time.perf_counter()
    work()
    elsewhere = batches.opened[0].seconds - before if batches else 0.0
    return time.perf_counter() - started - elsewhere


def _rows(count: int) -> Iterator[FetchedRow]:
    """Rows of the stand-in's recipes, each under an id of its own."""
    recipes = recipe_rows()
    for number in range(count):
        row = {**recipes[number % len(recipes)], "RCP_SEQ": str(number)}
        yield FetchedRow(str(number), row, f"hash of {number}")


def _now(connection: psycopg.Connection) -> datetime:
    return recipe_store.now(connection)


def _peak_bytes() -> int:
    """The most memory this process held. Not getrusage's: that starts with what the parent held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(argument: str) -> None:
    arguments: dict[str, Any] = json.loads(argument)
    print(json.dumps(run(Order(**arguments))))


if __name__ == "__main__":
    main(sys.argv[1])
