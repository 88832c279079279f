"""From the POST of a context to the end of both its stages, with a model of one second.

Door, queue, sensor, launcher and run are the running system's, with what ships. The application's part, the
row of states before the POST, is played here by SQL. Embedding and judgement are two calls one after the
other, so two seconds are the model's.
"""

import time
from collections.abc import Sequence
from statistics import median

import httpx
import psycopg

from benchmarks.bench import Bench
from benchmarks.rounds import percentile
from benchmarks.row import Row, row
from benchmarks.running_dagster import RunningDagster
from benchmarks.running_door import Door, running_door
from local_stack.context_texts import FITTING

PRESETS_JOB, TAGS_JOB = "context_tags_presets", "context_tags"
SENSOR, SENSOR_SECONDS = "context_requests_waiting", 5
RATE = 2
PATIENCE_SECONDS = 120

_CREATE = "INSERT INTO ai.context_ai_state (context_id) VALUES (%s)"
# A stage's end is stamped with the start of the transaction that stores it: some milliseconds early.
_ENDS = """
SELECT context_id, extract(epoch FROM updated_at)::float,
       embedding_status = 'COMPLETED' AND keyword_status = 'COMPLETED'
FROM ai.context_ai_state
WHERE context_id = ANY(%s) AND embedding_status <> ALL('{PENDING,PROCESSING}')
  AND keyword_status <> ALL('{PENDING,PROCESSING}')
"""
_LIVE_RUNS = """
query ($job: String!) {
  runsOrError(filter: {
    pipelineName: $job, statuses: [QUEUED, NOT_STARTED, MANAGED, STARTING, STARTED, CANCELING]
  }) { ... on Runs { results { runId } } }
}
"""


def measure(bench: Bench) -> list[Row]:
    """First one context at a time, each when no run lives; then two a second, met by the last one's run."""
    trials, seconds = bench.size(8, 2), bench.size(120, 10)
    dagster, environ = bench.dagster, bench.stack.process_environment()
    bench.control("OPENAI_BASE_URL", "latency", seconds=1)
    loaded = dagster.wait(dagster.launch(PRESETS_JOB, {}), PATIENCE_SECONDS)
    if loaded.status != "SUCCESS":
        raise RuntimeError(f"the run that loads the keywords ended {loaded.status}")
    dagster.turn_on(SENSOR)
    from_rest: list[float] = []
    try:
        with (
            running_door(environ, bench.folder / "latency_door.log") as door,
            _client(door) as http,
            psycopg.connect(environ["DATABASE_URL"], autocommit=True) as connection,
        ):
            core = Core(connection, http)
            for number in range(trials):
                _wait_for_rest(dagster)
                # So that they meet the sensor at different moments.
                time.sleep(SENSOR_SECONDS * number / trials)
                from_rest += core.seconds_to_end(1)
            bench.say(f"from rest, {', '.join(f'{one:.1f}' for one in from_rest)} s; now {RATE} a second")
            steady = core.seconds_to_end(RATE * seconds)
    finally:
        dagster.turn_off(SENSOR)
        bench.control("OPENAI_BASE_URL", "reset")
    name = "context_latency: POST to both stages' end"
    return [
        row(f"{name}, from rest, median", median(from_rest), "s", at_most=10),
        row(f"{name}, from rest, p95", percentile(from_rest, 95), "s", at_most=30),
        row(f"{name}, under {RATE} a second, p95", percentile(steady, 95), "s", at_most=10),
        row(f"{name}, under {RATE} a second, median", median(steady), "s"),
    ]


class Core:
    """The application: creates the states, posts the texts, and reads the states."""

    def __init__(self, connection: psycopg.Connection, http: httpx.Client) -> None:
        self._connection = connection
        self._http = http
        self._last_context = 0

    def seconds_to_end(self, contexts: int) -> list[float]:
        """From each one's POST, at RATE a second, to the end of its second stage, once all have ended.

        Raises TimeoutError, and RuntimeError where a stage ended without its result.
        """
        posted_at: dict[int, float] = {}
        started = time.monotonic()
        for number in range(contexts):
            time.sleep(max(0.0, started + number / RATE - time.monotonic()))
            self._last_context += 1
            posted_at[self._last_context] = self._post(self._last_context)
        ended_at = self._ends(list(posted_at))
        return [ended_at[context_id] - moment for context_id, moment in posted_at.items()]

    def _post(self, context_id: int) -> float:
        """When it was sent (seconds since the epoch)."""
        self._connection.execute(_CREATE, [context_id])
        posted = {
            "contextId": context_id,
            "userId": context_id,
            "recordId": context_id,
            "text": FITTING[context_id % len(FITTING)],
            "placeMeta": {"name": "골목 카페"},
        }
        moment = time.time()
        answer = self._http.post("/internal/v1/context/process", json=posted)
        if answer.status_code != httpx.codes.ACCEPTED:
            raise RuntimeError(f"the door answered {answer.status_code}")
        return moment

    def _ends(self, context_ids: Sequence[int]) -> dict[int, float]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            rows = self._connection.execute(_ENDS, [context_ids]).fetchall()
            if len(rows) == len(context_ids):
                if not all(is_completed for _, _, is_completed in rows):
                    raise RuntimeError("a context ended without its vector or without its keywords")
                return {context_id: moment for context_id, moment, _ in rows}
            time.sleep(0.2)
        raise TimeoutError(f"{len(rows)} of {len(context_ids)} had ended after {PATIENCE_SECONDS} s")


def _client(door: Door) -> httpx.Client:
    shown = {"Authorization": f"Bearer {door.token}"}
    return httpx.Client(base_url=door.address, headers=shown, timeout=30, trust_env=False)


def _wait_for_rest(dagster: RunningDagster) -> None:
    """Until no run of the job lives. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if not dagster.ask(_LIVE_RUNS, job=TAGS_JOB)["runsOrError"]["results"]:
            return
        time.sleep(0.5)
    raise TimeoutError(f"a run of {TAGS_JOB} still lives after {PATIENCE_SECONDS} s")
